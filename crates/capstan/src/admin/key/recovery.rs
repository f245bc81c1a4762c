//! Recovery sheets, which are printed and locked away.

use capstan_cell::CellError;
use capstan_cell::keyring;
use capstan_format::keys::{KeyRing, RecoveryCode, Scope, SheetInfo, recovery_sheet};
use jiff::Zoned;

use crate::admin::key::openers::Opener;
use crate::admin::key::{Keys, draw};
use crate::args::SecretArgs;
use crate::exit::Failure;

impl Keys {
    pub(super) fn recovery(&self, name: Option<&str>, secret: &SecretArgs) -> Result<(), Failure> {
        let _lock = keyring::lock(&self.home)?;
        let mut ring = self.ring()?;
        let unlocked = self.unlock(&ring, secret)?;
        let code = Opener::Code(draw(|rng| Ok(RecoveryCode::draw(rng)))?);
        let id =
            draw(|rng| ring.add_lock(&unlocked, &code.lock(Scope::All, "recovery sheet"), rng))?;
        self.print_sheets(&ring, &[code], name)?;
        keyring::save(&self.home, &ring)?;
        self.notes.say(&format!("lock {id} is added; print the sheet and lock it away"));
        self.note_locks(&[id]);
        Ok(())
    }

    /// Prints a sheet for each recovery code.
    pub(super) fn print_sheets(
        &self,
        ring: &KeyRing,
        openers: &[Opener],
        name: Option<&str>,
    ) -> Result<(), Failure> {
        let host = capstan_cell::system_host();
        let date = Zoned::now().strftime("%Y-%m-%d").to_string();
        let steps = [
            "Install capstan and attach a medium, say at /mnt/backup.",
            "export CAPSTAN_RECOVERY_CODE='the four lines above'",
            "capstan import /mnt/backup",
            "capstan sessions                (lists what there is, by name)",
            "capstan restore NAME --into /restored",
        ];
        let info = SheetInfo { name: name.unwrap_or(&host), date: &date, steps: &steps };
        for opener in openers {
            if let Opener::Code(code) = opener {
                self.print(&recovery_sheet(ring, code, &info).map_err(CellError::from)?)?;
            }
        }
        Ok(())
    }
}
