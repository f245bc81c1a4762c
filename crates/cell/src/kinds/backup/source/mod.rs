//! What of a source is not as the object's last version had it: disks that are not mounted, links, paths and rules that leave.

pub(in crate::kinds::backup) mod first;
pub(in crate::kinds::backup) mod leaves;
pub(in crate::kinds::backup) mod linked;
pub(crate) mod mount_points;
pub(in crate::kinds::backup) mod no_match;
pub(in crate::kinds::backup) mod switched;
