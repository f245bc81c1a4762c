//! Whether what lies in the place of a medium that is to be mended is that medium. Its disk may not be mounted, or another one over it,
//! and what lies there an older state of it, or a copy: what the medium has would be missed there, and written to the wrong disk.

use capstan_address::Address;
use capstan_medium::OpenMedium;

use crate::Cell;
use crate::error::Result;

impl Cell {
    /// How a medium that is to be mended differs from what was last written, which is noted. Refused as a backup is, where damage does not
    /// explain the difference, unless somebody says that the medium is the one that was written: `as_it_is`. On a tape whose end is
    /// another one nothing is written anyway.
    pub(super) fn changed_to_mend(
        &self,
        address: &Address,
        medium: &OpenMedium,
        as_it_is: bool,
    ) -> Result<Option<String>> {
        if !as_it_is && !address.is_sequential() {
            self.refuse_other_state(address, medium)?;
        }
        self.note_changed(address, medium)
    }
}
