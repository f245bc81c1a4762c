//! What a device host does for a cell: the traits of [`capstan_medium::host`], each in a module.

mod arrays;
mod media;
mod stores;
mod tapes;
