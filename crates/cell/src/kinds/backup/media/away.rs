//! A device and mirrors of which some are not there: the others are written.

use capstan_address::{Address, TapeAddress};
use capstan_engine::message::{Code, shell_word};
use capstan_engine::problem::Explain;
use capstan_idb::Medium;
use capstan_medium::DeviceError;
use capstan_medium::tape::TapeError;

use crate::Cell;
use crate::error::{BackupRefusal, CellError, Result};
use crate::media::libraries::libraries_of;
use crate::request::BackupRequest;
use crate::session::SessionLog;

/// A device or mirror whose medium is not there, while others are.
pub(in crate::kinds::backup) struct AwayMirror<'d> {
    address: &'d Address,
    /// In words.
    why: String,
    /// Whether somebody recorded that it left the house.
    pub(super) on_purpose: bool,
}

impl AwayMirror<'_> {
    pub(super) fn say(&self, log: &SessionLog<'_>) {
        let Self { address, why, on_purpose } = self;
        let text = match on_purpose {
            true => format!(
                "{why}, so this mirror is left out, and the others are written; `capstan media import {}` takes it back when it \
                 is there, and `capstan copy` brings it up to date; --new-medium makes another one in its place",
                shell_word(address)
            ),
            false => format!(
                "this mirror is left out, and the others are written: {why}; `capstan copy` brings it up to date when it is back"
            ),
        };
        log.say(Code::MirrorAway, "cell", &address.to_string(), text);
    }
}

impl Cell {
    /// Of a device and its mirrors those that are to be written: one of which the medium left the house is away on purpose, and one that
    /// is not where it was is not made anew, as long as another is there. Returns the others with what is known of them.
    pub(in crate::kinds::backup) fn without_away<'d>(
        &self,
        request: &BackupRequest,
        devices: Vec<&'d Address>,
    ) -> Result<(Vec<&'d Address>, Vec<AwayMirror<'d>>)> {
        let (mut written, mut away) = (Vec::new(), Vec::new());
        if devices.len() < 2 {
            return Ok((devices, away));
        }
        for address in devices.iter().copied() {
            if let Some(why) = self.exported_from(address, request.new_medium)? {
                away.push(AwayMirror { address, why, on_purpose: true });
                continue;
            }
            let taken = match address.is_tape() {
                // No tape is loaded before all devices are known to be as they should.
                true => self.refuse_library_away(address),
                false => self.refuse_taken(address, request.new_medium),
            };
            match taken {
                Ok(()) => written.push(address),
                Err(e) if e.refusal().is_some() => {
                    away.push(AwayMirror { address, why: e.to_string(), on_purpose: false });
                }
                Err(e) => return Err(e),
            }
        }
        // Where nothing is left, who opens them says why.
        Ok(if written.is_empty() { (devices, Vec::new()) } else { (written, away) })
    }

    /// Refuses tapes of a library that is not there, while media are known that lie in it. Of an array that names its tapes, some may lack.
    fn refuse_library_away(&self, device: &Address) -> Result<()> {
        if device.as_array().is_some() && !device.names_no_medium() {
            return Ok(());
        }
        for TapeAddress { library, .. } in libraries_of(device) {
            let Err(e) = self.devices.library(&library) else { continue };
            let is_there =
                |medium: &Medium| medium.device.tapes().iter().any(|tape| tape.library == library);
            if !e.is_busy() && self.idb.media()?.iter().any(is_there) {
                // What would help a library that was never there does not help here.
                return Err(BackupRefusal::LibraryAway(DeviceError::from(e).sentence()).into());
            }
        }
        Ok(())
    }
}

/// Whether it is the device that is not there now, rather than a mistake of who named it.
pub(in crate::kinds::backup) fn is_unavailable(error: &CellError) -> bool {
    match error {
        CellError::Device(e) => {
            matches!(
                e,
                DeviceError::Io { .. }
                    | DeviceError::Spool { .. }
                    | DeviceError::NoRoom { .. }
                    | DeviceError::MediumFull { .. }
                    | DeviceError::Busy { .. }
                    | DeviceError::HostLost(_)
                    | DeviceError::ArrayBroken { .. }
            ) || e.of_tape().is_some_and(|e| e.blames_tape() || matches!(e, TapeError::Away { .. }))
        }
        CellError::Io { .. }
        | CellError::Changed(_)
        | CellError::Unreadable { .. }
        | CellError::Away { .. } => true,
        _ => false,
    }
}
