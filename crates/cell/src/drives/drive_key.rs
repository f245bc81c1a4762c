//! Tapes that their drives encrypt: which ones a session takes, where their keys come from, and what opens them.
//!
//! A tape is encrypted by its drive as a whole or not at all. Its key lies wrapped in its header and in the database, as a key
//! record whose id is the medium's. Who reads or appends has to open it; who makes a new tape needs public keys only.

use std::collections::HashSet;

use capstan_address::Address;
use capstan_catalog::keys::VersionKeys;
use capstan_engine::message::Code;
use capstan_engine::problem::{Explain, Problem};
use capstan_format::id::MediumId;
use capstan_format::keys::{KeyRecord, KeyRing, PairId, Purpose, draw_drive_key, drive_record_id};
use capstan_format::record::MediumHeader;
use capstan_idb::Medium;
use capstan_medium::DeviceError;
use capstan_medium::host::{DeviceHost, Writable};

use crate::Cell;
use crate::error::{CellError, DriveRefusal, KeyRefusal, Result, chain};
use crate::keys::keyring::{self, Secrets};
use crate::media::libraries::is_of;
use crate::media::{MediumInfo, MediumState};
use crate::reading::version::VersionView;
use crate::request::{BackupRequest, Encrypt};
use crate::session::SessionLog;

/// Whether the tapes that a session takes are encrypted by their drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ByDrive {
    /// All are. One that holds nothing is made so.
    Yes,
    /// None is. One that holds nothing is made so.
    No,
    /// Each stays as it is: what is written there need not be secret, or is encrypted already.
    #[default]
    AsItIs,
}

impl ByDrive {
    /// Of a backup.
    pub fn of_backup(encrypt: Option<Encrypt>) -> Self {
        if encrypt == Some(Encrypt::Drive) { Self::Yes } else { Self::No }
    }

    /// Of a session that writes what others wrote.
    pub fn of_copy(encrypt: Option<Encrypt>) -> Self {
        if encrypt == Some(Encrypt::Drive) { Self::Yes } else { Self::AsItIs }
    }

    /// Of what goes on where that medium ends: on one of the same kind.
    pub fn going_on(self, from: &MediumHeader) -> Self {
        match self {
            Self::AsItIs if from.is_drive_encrypted() => Self::Yes,
            Self::AsItIs => Self::No,
            asked => asked,
        }
    }

    /// Why a medium of that kind is not what is wanted, if so.
    fn unlike(self, encrypted: bool) -> Option<&'static str> {
        match (self, encrypted) {
            (Self::Yes, false) => Some("is not encrypted by its drive"),
            (Self::No, true) => Some("is encrypted by its drive"),
            _ => None,
        }
    }

    /// Refuses a device that is no tape, where drives are to encrypt.
    pub fn refuse_no_tape(self, address: &Address) -> Result<()> {
        match address {
            _ if self != Self::Yes || address.is_tape() => Ok(()),
            other => Err(DriveRefusal::NoTapeToEncrypt { device: other.clone() }.into()),
        }
    }
}

impl Cell {
    /// Refuses what cannot be encrypted as it is asked for, before anything is touched.
    pub(crate) fn check_encryption(&self, request: &BackupRequest) -> Result<()> {
        if request.encrypt == Some(Encrypt::Software) {
            self.ring_to_encrypt(Encrypt::Software)?;
        }
        if request.encrypt == Some(Encrypt::Off) && keyring::load(&self.home)?.is_some() {
            return Err(KeyRefusal::RingEncryptsAll { home: self.home.clone() }.into());
        }
        // The media of a pool are not known yet; those that are no tapes are passed over.
        let device = request.pool.is_none().then_some(&request.device);
        let devices = device.into_iter().chain(&request.mirrors);
        self.check_by_drive(ByDrive::of_backup(request.encrypt), devices)
    }

    /// Refuses devices whose drives are to encrypt and cannot, and a home without a key ring.
    pub(crate) fn check_by_drive<'a>(
        &self,
        by_drive: ByDrive,
        devices: impl IntoIterator<Item = &'a Address>,
    ) -> Result<()> {
        if by_drive != ByDrive::Yes {
            return Ok(());
        }
        self.ring_to_encrypt(Encrypt::Drive)?;
        devices.into_iter().try_for_each(|device| by_drive.refuse_no_tape(device))
    }

    /// The home's key ring, for whom everything is encrypted.
    fn ring_to_encrypt(&self, encrypt: Encrypt) -> Result<KeyRing> {
        keyring::load(&self.home)?.ok_or_else(|| {
            CellError::from(KeyRefusal::NoRing {
                encrypt: encrypt.to_string(),
                home: self.home.clone(),
            })
        })
    }

    /// The header of a new medium, which its drive encrypts if that is wanted, with a key of its own.
    pub(crate) fn new_medium_by(
        &self,
        by_drive: ByDrive,
        label: &str,
        block_size: u32,
    ) -> std::io::Result<MediumHeader> {
        let header = self.new_medium(label, block_size)?;
        if by_drive != ByDrive::Yes {
            return Ok(header);
        }
        let encrypted = || -> Result<MediumHeader> {
            let ring = self.ring_to_encrypt(Encrypt::Drive)?;
            let (record, contents) = keyring::with_randomness(&self.entropy, |rng| {
                draw_drive_key(header.medium, &ring, rng)
            })?;
            self.devices.open_key(header.medium, contents);
            Ok(header.drive_encrypted(&record)?)
        };
        encrypted().map_err(|e| std::io::Error::other(chain(&e)))
    }

    /// A device whose medium is encrypted by its drive or not, as it is wanted: a tape that holds nothing is made so, under a
    /// new identity. What is encrypted already is opened.
    pub(crate) fn as_wanted(
        &self,
        device: Box<dyn Writable>,
        address: &Address,
        by_drive: ByDrive,
    ) -> Result<Box<dyn Writable>> {
        let header = device.medium().header().clone();
        let Some(unlike) = by_drive.unlike(header.is_drive_encrypted()) else {
            device.check_drive()?;
            self.open_drive_key(&header)?;
            return Ok(device);
        };
        let holds_data = !device.medium().segments()?.is_empty()
            || self.idb.last_segment_number(header.medium)?.is_some();
        if holds_data || !address.is_tape() {
            let option = match by_drive {
                ByDrive::Yes => "without --encrypt drive",
                _ => "with --encrypt drive",
            };
            return Err(
                DriveRefusal::EncryptedOtherwise { label: header.label, unlike, option }.into()
            );
        }
        let new = self
            .new_medium_by(by_drive, &header.label, header.block_size)
            .map_err(CellError::io("make a new medium on", address))?;
        device.begin_anew(&new)?;
        if let Some(old) = self.idb.medium(header.medium)? {
            let row = Medium { id: new.medium, created_us: new.created_us, ..old };
            self.idb.replace_medium(header.medium, &row)?;
        }
        let nobody = || Err(std::io::ErrorKind::NotFound.into());
        let opened = self.devices.writable(address, &nobody, Some(new.block_size), &())?;
        opened.judged(|medium, _| match medium.header().medium == new.medium {
            true => Ok(()),
            false => Err(DriveRefusal::NewMediumGone {
                device: address.clone(),
                label: new.label.clone(),
            }
            .into()),
        })
    }

    /// Why a session that wants its tapes so passes over a medium, if so. Only what is appended to is of one kind or the other.
    pub(crate) fn passed_over(&self, by_drive: ByDrive, m: &MediumInfo) -> Result<Option<String>> {
        let is_tape = m.medium.device.is_tape();
        if by_drive == ByDrive::Yes && !is_tape {
            return Ok(Some("is no tape".to_owned()));
        }
        if let Some(why) = no_drive_writes(&*self.devices, m)? {
            return Ok(Some(why));
        }
        if m.state != MediumState::Appendable {
            return Ok(None);
        }
        let encrypted = m.drive_key.is_some();
        if let Some(why) = by_drive.unlike(encrypted) {
            return Ok(Some(why.to_owned()));
        }
        // Nobody is asked for a secret, as other tapes will do.
        Ok((!self.opens(m.medium.id)?).then(|| {
            "is encrypted by its drive, and no secret is given that opens its key".to_owned()
        }))
    }

    /// Says it where a backup begins a new tape, as it was given no secret that opens one that takes more.
    pub(crate) fn say_closed(
        &self,
        request: &BackupRequest,
        taken: &[MediumHeader],
        log: &SessionLog<'_>,
    ) -> Result<()> {
        let begun =
            |m: &MediumHeader| self.idb.last_segment_number(m.medium).is_ok_and(|n| n.is_none());
        if request.encrypt != Some(Encrypt::Drive) || !taken.iter().any(begun) {
            return Ok(());
        }
        let library = match (&request.pool, &request.device) {
            (Some(_), _) => None,
            (None, device) if device.names_no_medium() => Some(device),
            // Nothing was passed over.
            _ => return Ok(()),
        };
        for info in self.media_list(request.pool.as_deref())? {
            let device = &info.medium.device;
            let here = device.is_tape() && library.is_none_or(|library| is_of(device, library));
            let apart = request.pool.is_none() && info.management.pool.is_some();
            let fits = here && !apart && info.state == MediumState::Appendable;
            if fits && info.absent.is_none() && !self.opens(info.medium.id)? {
                let text = format!(
                    "it takes more, and a new tape was begun, as no secret is given that opens its key; \
                     set {} for sessions that append",
                    keyring::ENV_KEY_FILE
                );
                log.say(Code::Sealed, "cell", &info.medium.label, text);
            }
        }
        Ok(())
    }

    /// Whether all media of a version are open, or their keys open without asking anybody.
    pub(crate) fn opens_unasked(&self, view: &VersionView<'_>) -> Result<bool> {
        for (_, medium, _) in view.segments.iter().flat_map(|s| s.places()) {
            if !self.opens(medium)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn opens(&self, medium: MediumId) -> Result<bool> {
        if self.devices.has_key(medium) || self.idb.key(drive_record_id(medium))?.is_none() {
            return Ok(true);
        }
        if !self.secrets.are_given() {
            return Ok(false);
        }
        match self.open_drive_key_of(medium) {
            Err(e) if e.is_of_keys() => Ok(false),
            opened => opened.map(|()| true),
        }
    }

    /// Opens the key of a medium, where its drive encrypts it: it can be read and appended to from now on.
    pub(crate) fn open_drive_key(&self, header: &MediumHeader) -> Result<()> {
        let Some(on_tape) = header.drive_key_record() else { return Ok(()) };
        // The database's may have been wrapped anew since the tape was made.
        let record = match self.drive_key_record(header.medium)? {
            Some(known) => known,
            None => on_tape.map_err(|e| closed(&header.label, e.into()))?,
        };
        self.open_record(header.medium, &header.label, &record)
    }

    /// The same of a medium that the database knows. Its tape is not loaded.
    pub(crate) fn open_drive_key_of(&self, medium: MediumId) -> Result<()> {
        let Some(record) = self.drive_key_record(medium)? else { return Ok(()) };
        let label = self.idb.medium(medium)?.map_or_else(|| medium.short(), |row| row.label);
        self.open_record(medium, &label, &record)
    }

    /// Opens the keys of the media that a version is read from, one for each segment, before anything is done.
    pub(crate) fn open_drive_keys(&self, view: &VersionView<'_>) -> Result<()> {
        let mut opened: HashSet<MediumId> = HashSet::new();
        for segment in &view.segments {
            let mut failed = None;
            for (_, medium, _) in segment.places() {
                let open = || self.open_drive_key_of(medium);
                match if opened.contains(&medium) { Ok(()) } else { open() } {
                    Ok(()) => {
                        opened.insert(medium);
                        failed = None;
                        break;
                    }
                    Err(e) => failed = failed.or(Some(e)),
                }
            }
            if let Some(e) = failed {
                return Err(e);
            }
        }
        Ok(())
    }

    /// The wrapped key of a medium that the database knows to be encrypted by its drive.
    pub(crate) fn drive_key_record(&self, medium: MediumId) -> Result<Option<KeyRecord>> {
        let row = self.idb.key(drive_record_id(medium))?;
        row.map(|row| Ok(KeyRecord::from_json(row.record.as_bytes())?)).transpose()
    }

    /// The key pairs that open the key of a medium that the database knows to be encrypted by its drive.
    pub(crate) fn drive_key_pairs(&self, medium: MediumId) -> Result<Option<Vec<PairId>>> {
        let Some(row) = self.idb.key(drive_record_id(medium))? else { return Ok(None) };
        // One that cannot be read is named when it is needed.
        let record = KeyRecord::from_json(row.record.as_bytes());
        Ok(Some(record.map_or_else(|_| Vec::new(), |r| r.recipients(Purpose::Contents).collect())))
    }

    /// Records the wrapped key of a medium that its drive encrypts. One that cannot be read is named when it is needed.
    pub(crate) fn put_drive_key(&self, header: &MediumHeader) -> Result<()> {
        let (Some(Ok(record)), Some(json)) = (header.drive_key_record(), &header.drive_key) else {
            return Ok(());
        };
        let key = capstan_idb::KeyRecord { id: record.id(), record: json.to_string() };
        Ok(self.idb.import_key(&key)?)
    }

    fn open_record(&self, medium: MediumId, label: &str, record: &KeyRecord) -> Result<()> {
        if self.devices.has_key(medium) {
            return Ok(());
        }
        let mut keys = VersionKeys::default();
        self.open_key(record, true, &mut keys).map_err(|e| closed(label, e))?;
        let Some(contents) = keys.key(Purpose::Contents, record.id()) else { return Ok(()) };
        self.devices.open_key(medium, contents.clone());
        Ok(())
    }

    /// Says it where what only lies on tapes that their drives encrypt is copied to a medium that nobody encrypts.
    pub(crate) fn warn_in_clear<'a>(
        &self,
        target: &MediumHeader,
        views: impl IntoIterator<Item = &'a VersionView<'a>>,
        name: &str,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        if target.is_drive_encrypted() {
            return Ok(());
        }
        for view in views.into_iter().filter(|view| !view.encrypted) {
            let Some(segment) = view.segments.first() else { continue };
            let others = segment.places().into_iter().map(|(_, medium, _)| medium);
            let others: Vec<_> = others.filter(|medium| *medium != target.medium).collect();
            let by_drive = |medium: &MediumId| Ok(self.drive_key_record(*medium)?.is_some());
            let by_drive = others.iter().map(by_drive).collect::<Result<Vec<bool>>>()?;
            if !by_drive.is_empty() && by_drive.iter().all(|yes| *yes) {
                let text = format!(
                    "it is encrypted by the tape drive alone, and lies in clear on medium '{}'",
                    target.label
                );
                log.say(Code::NotEncrypted, "cell", name, text);
                break;
            }
        }
        Ok(())
    }
}

/// Who encrypted what a session wrote as it found it, where the tape's drive did.
pub(crate) fn of_target(medium: &MediumHeader) -> Option<Encrypt> {
    medium.is_drive_encrypted().then_some(Encrypt::Drive)
}

/// Opens the key of a medium that its drive encrypts where there is no database yet.
pub(crate) fn open_with(
    devices: &dyn DeviceHost,
    header: &MediumHeader,
    secrets: &Secrets,
) -> Result<()> {
    let Some(record) = header.drive_key_record() else { return Ok(()) };
    let open = || -> Result<()> {
        let record = record?;
        let unlocked = keyring::unlock(record.ring(), secrets)?;
        let contents = record.unwrap_contents(&unlocked)?;
        devices.open_key(header.medium, contents);
        Ok(())
    };
    open().map_err(|e| closed(&header.label, e))
}

/// The error for a tape whose key does not open.
fn closed(label: &str, why: CellError) -> CellError {
    if !why.is_of_keys() {
        return why;
    }
    let Problem { sentence, hint } = why.problem();
    let sentence =
        format!("tape '{label}' is encrypted by its drive, and its key does not open: {sentence}");
    CellError::NoKey(Problem { sentence, hint })
}

/// Why a tape cannot be written where it is, as no drive there writes its generation. One whose library is away says so itself.
fn no_drive_writes(devices: &dyn DeviceHost, m: &MediumInfo) -> Result<Option<String>> {
    if m.absent.is_some() {
        return Ok(None);
    }
    let device = &m.medium.device;
    for of in device.tapes() {
        let Some(barcode) = &of.tape else { continue };
        let why = devices.why_not_written(&of.library, barcode).map_err(DeviceError::from)?;
        if why.is_some() {
            return Ok(why);
        }
    }
    Ok(None)
}
