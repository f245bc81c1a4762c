//! Commands that look after the cell: keys, the internal database, what is kept, and test data.

pub mod assess;
pub mod idb;
pub mod key;
pub mod protect;
