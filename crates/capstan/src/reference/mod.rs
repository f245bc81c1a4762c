//! Documents made from the program: man pages, the reference of options and of messages.

#[cfg(test)]
pub mod docs;
pub mod manual;
