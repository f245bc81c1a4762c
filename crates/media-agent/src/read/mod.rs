//! Reading segments back: records and catalogs ([`segment`]), single frames by their place ([`frames`]), or all there is, trusting nothing
//! ([`scan`]).

mod frame_check;
pub mod frames;
pub mod scan;
pub mod segment;
