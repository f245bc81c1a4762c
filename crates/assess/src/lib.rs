//! Performance assessment: what `capstan assess` measures with, as a library.
//!
//! Each module is one tool. The command line only turns arguments into the options of a module
//! and prints its summary.
//!
//! - [`create_data`]: deterministic test data of a given compressibility, size distribution and
//!   directory shape.

pub mod create_data;
