//! Capstan.
fn main() {}
