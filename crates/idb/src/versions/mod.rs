//! What was backed up: objects, their versions in the order of their commits, who reads and who keeps them, and how they go.

pub(crate) mod bare;
pub(crate) mod leases;
pub(crate) mod objects;
pub(crate) mod order;
pub(crate) mod protection;
pub(crate) mod pruning;
pub(crate) mod used;
