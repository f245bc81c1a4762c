//! What is restored of a version: the paths that are chosen, the batches that can have something of them, a drill's sample.

pub(in crate::kinds::restore) mod chosen;
pub(crate) mod sample_arc;
pub(in crate::kinds::restore) mod scope;
