//! The media that a session writes to: opened, or made where there is none.

use std::path::Path;

use capstan_address::{Address, TapeAddress};
use capstan_devices::medium::{HeldMedium, OpenMedium};
use capstan_devices::null::NullDevice;
use capstan_devices::rait::open::null_device;
use capstan_devices::{Device, DeviceError};
use capstan_engine::message::{Code, shell_word};
use capstan_format::id::{MediumId, SegmentNumber, VersionId};
use capstan_format::record::Follows;
use capstan_idb::Medium;
use capstan_media_agent::write::mirror::{LostMirrors, LostPart, Member};
use capstan_tape::TapeError;

use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::drives::robots::Booked;
use crate::error::{CellError, Result, chain};
use crate::kinds::backup::plan::SEGMENT_SIZE;
use crate::media::libraries::{is_of, libraries_of};
use crate::media::{BLOCK_SIZE, LEAST_SPACE, free_bytes};
use crate::observe::{Observer, Silent};
use crate::request::BackupRequest;
use crate::session::waited::is_ours;
use crate::session::{SessionLog, now_us};
use crate::supply::Wanted;
use crate::supply::tapes::arrays::is_of_libraries;
use crate::supply::tapes::by_hand::Choice;
use crate::supply::unfit::PassedOver;

impl Cell {
    /// Opens the device and its mirrors. One that is not there does not keep the others from being written: it is said,
    /// and left. One that others have is waited for; what was opened before it is let go meanwhile.
    pub(in crate::kinds::backup) fn open_devices(
        &self,
        request: &BackupRequest,
        avoid: &[PassedOver],
        observer: &dyn Observer,
        log: &SessionLog<'_>,
    ) -> Result<Opened> {
        let mut size = self.foresee_devices(request)?;
        let devices: Vec<&Address> =
            std::iter::once(&request.device).chain(&request.mirrors).collect();
        // An array gets all its drives at once, or none; mirrors one after the other.
        let booked = match request.mirrors.is_empty() {
            true => Vec::new(),
            false => self.book_drives_of(&devices)?,
        };
        let mut opened = Opened {
            members: Vec::new(),
            lost: 0,
            held: Vec::new(),
            avoid: avoid.to_vec(),
            booked,
        };
        let (devices, away) = self.without_away(request, devices)?;
        for of in &away {
            of.say(log);
        }
        let mut failed = Vec::new();
        let by_drive = ByDrive::of_backup(request.encrypt);
        let choice = Choice { pool: request.pool.clone(), passed: avoid.to_vec(), asks: true };
        let (asked_size, mut wait, mut is_patient) = (size, self.devices.queue().wait(), true);
        'all: loop {
            for address in devices.iter().copied() {
                let hold = request.keep.lock_until_us.is_some();
                let wanted = Wanted {
                    block_size: size,
                    by_drive,
                    new_medium: request.new_medium,
                    as_it_is: false,
                };
                // Drives are booked before: nobody who waits for one has what another such waits for.
                let at_once = !opened.members.is_empty() && !address.is_tape();
                let member = match at_once {
                    true => self.open_held_now(address, &wanted, hold, &choice, observer),
                    false => self.open_held(address, &wanted, hold, &choice, observer),
                };
                match member {
                    Ok((mut member, held)) => {
                        let is_of_pool =
                            request.pool.is_some() && std::ptr::eq(address, &request.device);
                        if let Some(pool) = request.pool.as_ref().filter(|_| is_of_pool) {
                            self.refuse_not_chosen(pool, address, &member.medium)?;
                        }
                        member.goes_on = is_of_pool || address.names_no_medium();
                        let id = member.medium.medium;
                        if opened.members.iter().any(|m| m.medium.medium == id) {
                            return Err(CellError::BadInput(format!(
                                "{address} holds the medium that is written already; name another as its mirror"
                            )));
                        }
                        // All have the same blocks.
                        size = Some(member.medium.block_size);
                        opened.members.push(member);
                        opened.held.extend(held);
                    }
                    Err(e) if at_once && is_patient && e.is_busy() && !is_ours(&e) => {
                        opened.members.clear();
                        opened.held.clear();
                        failed.clear();
                        size = asked_size;
                        is_patient = wait.again(&e);
                        continue 'all;
                    }
                    // The others do without the one for which there is no tape, or none any more.
                    Err(e)
                        if !request.mirrors.is_empty()
                            && (is_unavailable(&e) || matches!(e, CellError::NoTape(_))) =>
                    {
                        self.note_passed_over(&address.to_string(), None, &e);
                        failed.push((address, e));
                    }
                    Err(e) => return Err(e),
                }
            }
            break;
        }
        if opened.members.is_empty() {
            let first = failed.into_iter().next().map(|f| f.1);
            return first.map_or(Ok(opened), Err);
        }
        for (address, e) in &failed {
            let (address, why) = (address.to_string(), chain(e));
            match avoid.is_empty() {
                true => say_not_begun(&address, &why, log),
                false => say_lost(&address, &why, log),
            }
        }
        opened.lost = (failed.len() + away.iter().filter(|of| !of.on_purpose).count()) as u64;
        Ok(opened)
    }

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
                Err(CellError::BadInput(why)) => {
                    away.push(AwayMirror { address, why, on_purpose: false });
                }
                Err(e) => return Err(e),
            }
        }
        // Where nothing is left, who opens them says why.
        Ok(if written.is_empty() { (devices, Vec::new()) } else { (written, away) })
    }

    /// Refuses tapes of a library that is not there, while media are known that lie in it. Of an array that names its tapes, some may lack.
    fn refuse_library_away(&self, device: &Address) -> Result<()> {
        if matches!(device, Address::Array(_)) && !device.names_no_medium() {
            return Ok(());
        }
        for TapeAddress { library, .. } in libraries_of(device) {
            let Err(e) = self.devices.library(&library) else { continue };
            let is_there =
                |medium: &Medium| medium.device.tapes().iter().any(|tape| tape.library == library);
            if !e.is_busy() && self.idb.media()?.iter().any(is_there) {
                // What would help a library that was never there does not help here.
                let why = chain(&DeviceError::from(e));
                return Err(CellError::BadInput(why.split("; ").next().unwrap_or_default().into()));
            }
        }
        Ok(())
    }

    /// Opens a device to write to, or makes a medium there.
    pub(crate) fn open_device(
        &self,
        address: &Address,
        wanted: &Wanted,
        observer: &dyn Observer,
    ) -> Result<Member> {
        Ok(self.open_held(address, wanted, false, &Choice::default(), observer)?.0)
    }

    /// The same; where the device has several tapes, one of that choice.
    pub(crate) fn open_chosen(
        &self,
        address: &Address,
        wanted: &Wanted,
        choice: &Choice,
    ) -> Result<Member> {
        Ok(self.open_held(address, wanted, false, choice, &Silent)?.0)
    }

    /// Opens one of several media that would do, which is on trial: nothing is waited for.
    pub(crate) fn open_on_trial(&self, address: &Address, wanted: &Wanted) -> Result<Member> {
        Ok(self.open_held_now(address, wanted, false, &Choice::default(), &Silent)?.0)
    }

    /// Opens one of several media that would do: who has it, or all drives, is not waited for, and where it will not do, its drive is
    /// given back. If `hold`, with the medium held on beyond the life of the device.
    fn try_held(
        &self,
        address: &Address,
        wanted: &Wanted,
        hold: bool,
        choice: &Choice,
        observer: &dyn Observer,
    ) -> Result<(Member, Option<HeldMedium>)> {
        let trial = self.devices.trial(address);
        let opened = self.open_held_now(address, wanted, hold, choice, observer)?;
        trial.keep();
        Ok(opened)
    }

    /// The same of a medium that was named, whose device others may have: that is waited for. Of a pool another medium may do.
    fn open_held(
        &self,
        address: &Address,
        wanted: &Wanted,
        hold: bool,
        choice: &Choice,
        observer: &dyn Observer,
    ) -> Result<(Member, Option<HeldMedium>)> {
        let has_all = || {
            address.tapes().iter().any(|tape| self.devices.has_all_drives(&tape.resolved().library))
        };
        if choice.pool.is_some() {
            return self.try_held(address, wanted, hold, choice, observer);
        }
        // Another thread of this process may have a tape, which is soon done with it.
        let is_ours_to_hold = |e: &CellError| !address.is_tape() && is_ours(e);
        let mut wait = self.devices.queue().wait();
        loop {
            match self.open_held_now(address, wanted, hold, choice, observer) {
                Err(e) if e.is_busy() && !has_all() && !is_ours_to_hold(&e) => {
                    // Nobody waits for what this process has and does not use.
                    self.devices.release_idle();
                    if !wait.again(&e) {
                        return Err(e);
                    }
                }
                opened => return opened,
            }
        }
    }

    fn open_held_now(
        &self,
        address: &Address,
        wanted: &Wanted,
        hold: bool,
        choice: &Choice,
        observer: &dyn Observer,
    ) -> Result<(Member, Option<HeldMedium>)> {
        let of_libraries = match address {
            Address::Array(array) => is_of_libraries(&self.devices, array)
                .map_err(|e| self.lacks_library(address, &e))?,
            _ => false,
        };
        match address {
            Address::Tape(tape) if tape.tape.is_none() => match self.devices.is_by_hand(tape)? {
                true => self.open_by_hand(tape, choice, &mut || {
                    self.open_named(address, wanted, hold, observer)
                }),
                false => {
                    let mut open = || self.open_tape_of(tape, wanted, &choice.passed);
                    let opened = match choice.asks {
                        true => self.open_when_brought(
                            std::slice::from_ref(&tape.library),
                            &choice.wanted(),
                            &mut open,
                        ),
                        false => open(),
                    };
                    Ok((opened?, None))
                }
            },
            Address::Array(array) if of_libraries => {
                wanted.by_drive.refuse_no_tape(address)?;
                let mut open = || self.open_array_of(array, wanted, hold, &choice.passed);
                if !choice.asks {
                    return open();
                }
                let libraries: Vec<_> =
                    libraries_of(address).into_iter().map(|of| of.library).collect();
                let tapes = format!(
                    "blank tapes for an array of {}, or the tapes of one of this cell that takes more",
                    array.layout.members()
                );
                self.open_when_brought(&libraries, &tapes, &mut open)
            }
            // Their tapes are changed by hand, which nobody is asked for.
            _ if address.names_no_medium() && !choice.passed.is_empty() => {
                Err(CellError::BadInput(format!(
                    "the tapes of {address} are full or failed, and a session does not change tapes of an array in drives that \
                     stand alone; put blank ones into all of them and run it again with --resume"
                )))
            }
            _ => self.open_named(address, wanted, hold, observer),
        }
    }

    /// The error where a library is away from which a session is to choose tapes of an array.
    fn lacks_library(&self, array: &Address, why: &CellError) -> CellError {
        let known = self.idb.media().unwrap_or_default();
        let of_these = |m: &&Medium| is_of(&m.device, array);
        let named = known.iter().filter(of_these).max_by_key(|m| m.created_us);
        let without = named.map_or(String::new(), |m| {
            format!(", or name the tapes of an array that can do without it: {}", m.device)
        });
        // What would help a library that was never there does not help here.
        let why = crate::error::chain(why);
        let why = why.split("; ").next().unwrap_or_default();
        CellError::BadInput(format!(
            "no tapes can be chosen for {array}: {why}; bring the library back{without}"
        ))
    }

    /// Opens what is on a device that has one medium.
    pub(crate) fn open_named(
        &self,
        address: &Address,
        wanted: &Wanted,
        hold: bool,
        observer: &dyn Observer,
    ) -> Result<(Member, Option<HeldMedium>)> {
        let new_size = wanted.block_size.unwrap_or(BLOCK_SIZE);
        wanted.by_drive.refuse_no_tape(address)?;
        match address {
            Address::Null { rate } => {
                let header = self
                    .new_medium("null", new_size)
                    .map_err(CellError::io("read", "/dev/urandom"))?;
                Ok((Member::new(Box::new(NullDevice::new(*rate)), header), None))
            }
            Address::Array(array) if address.keeps_nothing() => {
                let header = self
                    .new_medium("null", new_size)
                    .map_err(CellError::io("read", "/dev/urandom"))?;
                let device = null_device(array, header.block_size)?;
                Ok((Member::new(Box::new(device), header), None))
            }
            // What this program does not know is refused where it is opened.
            _ => {
                let empty = self.empty_on_tape(address)?;
                let label = || match address {
                    Address::Tape(TapeAddress { tape: None, .. }) => self.next_label(),
                    // It gets a header again.
                    _ => empty
                        .as_ref()
                        .map_or_else(|| self.new_label(address), |of| Ok(of.label.clone())),
                };
                let new = || {
                    let label = label().map_err(|e| std::io::Error::other(chain(&e)))?;
                    self.new_medium_by(wanted.by_drive, &label, new_size)
                };
                match address {
                    Address::File(path) => check_space(path)?,
                    // A member without room is not there yet when the array is made: then all are looked at.
                    Address::Array(_) if self.devices.medium(address).is_err() => {
                        address.directories().iter().try_for_each(|path| check_space(path))?;
                    }
                    _ => {}
                }
                let mut there = match self.refuse_others(address) {
                    // Somebody made the tape blank, and it is to become another medium.
                    Err(CellError::Changed(_))
                        if wanted.new_medium
                            && address.is_tape()
                            && self.devices.is_blank(address).unwrap_or(false) =>
                    {
                        None
                    }
                    there => there?,
                };
                match there {
                    Some(id) if address.is_tape() => self.refuse_poor(id)?,
                    Some(_) => {}
                    None => self.refuse_taken(address, wanted.new_medium)?,
                }
                if let Address::Array(array) = address {
                    match self.end_making(array, wanted.new_medium, observer) {
                        // It does without what cannot be made.
                        Err(e) if there.is_some() && !e.is_busy() => {}
                        made => there = made?.or(there),
                    }
                }
                // One that went away since must not become another one.
                let new = || match there {
                    Some(_) => Err(std::io::Error::other(
                        "the medium there is gone since it was looked at",
                    )),
                    None => new(),
                };
                // What is mended is mended on all members.
                let known = match wanted.as_it_is {
                    true => self.known_members().even_unfit(),
                    false => self.known_members(),
                };
                let opened = self.devices.writable_known(address, new, wanted.block_size, &known);
                let opened = opened.map_err(|e| self.note_ended(address, there, e))?;
                let device = self.judged(address, opened)?;
                if address.is_tape() {
                    self.refuse_poor(device.medium().header().medium)?;
                }
                let device = self.as_wanted(device, address, wanted.by_drive)?;
                let mut header = device.medium().header().clone();
                self.refuse_behind_cut(device.medium())?;
                if !wanted.as_it_is {
                    let changed = self.refuse_changed(&device.address(address), device.medium());
                    changed.map_err(|e| self.unread_at_end(header.medium, e))?;
                }
                // By the label that it has here: its own may be another medium's.
                header.label = self.put_medium_of(&device.placed(address), &header)?.label;
                if matches!(address, Address::Array(_)) && address.is_sequential() {
                    self.note_not_written(header.medium, device.lost_members())?;
                }
                let recorded = self.record_unknown(device.medium(), &SessionLog::new(observer));
                recorded.map_err(|e| self.unread_at_end(header.medium, e))?;
                let held = hold.then(|| device.hold()).transpose()?;
                let mut device = device.into_device()?;
                if !address.is_sequential() {
                    self.pass_recorded(&mut *device, header.medium)?;
                }
                Ok((Member::new(device, header), held))
            }
        }
    }

    /// The error of a tape that cannot be opened to write. One that is WORM and ends in what a session left is full from now on: no
    /// session loads it again in vain.
    fn note_ended(&self, address: &Address, there: Option<MediumId>, e: DeviceError) -> CellError {
        let is_ended = address.is_tape() && matches!(e.of_tape(), Some(TapeError::Worm { .. }));
        let Some(medium) = there.filter(|_| is_ended) else { return e.into() };
        match self.idb.medium(medium) {
            Ok(Some(_)) => self.idb.set_medium_full(medium, now_us()).err().map(CellError::from),
            _ => None,
        }
        .unwrap_or_else(|| e.into())
    }

    /// Lets the next segment have a number that none has that is recorded: where that one is gone from the medium, another one in its
    /// place would be taken for it.
    fn pass_recorded(&self, device: &mut dyn Device, medium: MediumId) -> Result<()> {
        if let Some(last) = self.idb.last_segment_number(medium)?
            && device.next_number() <= last
        {
            device.advance(SegmentNumber(last.0.saturating_add(1)));
        }
        Ok(())
    }
}

impl Cell {
    /// The medium that has the last segment of a version that is gone on with, where it is none of those that are written now.
    pub(in crate::kinds::backup) fn left_behind(
        &self,
        version: VersionId,
        now: &[MediumId],
    ) -> Result<Option<Follows>> {
        let segments = self.idb.segments_of_version(version)?;
        let places = || segments.iter().map(|(segment, _)| segment);
        let Some(last) = places().max_by_key(|s| s.committed_us) else { return Ok(None) };
        if places().any(|s| s.id == last.id && now.contains(&s.medium)) {
            return Ok(None);
        }
        let medium = self.idb.medium(last.medium)?;
        Ok(medium.map(|medium| Follows { medium: medium.id, label: medium.label }))
    }
}

/// A device or mirror whose medium is not there, while others are.
pub(in crate::kinds::backup) struct AwayMirror<'d> {
    address: &'d Address,
    /// In words.
    why: String,
    /// Whether somebody recorded that it left the house.
    on_purpose: bool,
}

impl AwayMirror<'_> {
    fn say(&self, log: &SessionLog<'_>) {
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

/// The media that a session writes to.
pub(in crate::kinds::backup) struct Opened {
    pub members: Vec<Member>,
    /// Mirrors that could not be opened.
    pub lost: u64,
    /// The media, held until their version is locked, if it is to be.
    pub held: Vec<HeldMedium>,
    /// Media that the session is not to go on on: they failed in it.
    pub avoid: Vec<PassedOver>,
    /// Drives that are booked as long as the media are written.
    pub booked: Vec<Booked>,
}

/// Fewer blocks than these make a segment of nothing but its catalog.
const BLOCKS_LEAST: u64 = 16;

/// Bytes of a segment: what was asked for, else what suits the device.
pub(in crate::kinds::backup) fn segment_size(request: &BackupRequest, members: &[Member]) -> u64 {
    let of_device = || device_segment_size(members);
    request.segment_size.or_else(of_device).unwrap_or(SEGMENT_SIZE)
}

/// Bytes of a segment that suit the device, where it matters there.
pub(crate) fn device_segment_size(members: &[Member]) -> Option<u64> {
    let device = members.iter().find_map(|m| Some((m.device.segment_size()?, m)));
    device.map(|(size, m)| size.max(BLOCKS_LEAST * u64::from(m.medium.block_size)))
}

/// Says that a mirror is not written at all.
fn say_not_begun(what: &str, why: &str, log: &SessionLog<'_>) {
    let text = format!("this mirror is left out, and the others are written: {why}");
    log.say(Code::MirrorFailed, "media agent", what, text);
}

/// Says that a mirror is not written any more.
pub(in crate::kinds::backup) fn say_lost(what: &str, error: &str, log: &SessionLog<'_>) {
    let text = format!("this mirror is not written any more, the others are: {error}");
    log.say(Code::MirrorFailed, "media agent", what, text);
}

/// Says which mirrors, members of arrays and spools were lost since it was asked; returns how many that backups lie on.
pub(crate) fn say_all_lost(cell: &Cell, lost: &LostMirrors, log: &SessionLog<'_>) -> u64 {
    let lost = std::mem::take(&mut *lost.lock());
    for m in &lost {
        let error = &m.error;
        match &m.part {
            LostPart::Member(of) => {
                // Where that cannot be recorded, it is found again.
                let _ = cell.note_failed_member(m.medium, of.clone());
                let text = format!("this member is not written any more, the others are: {error}");
                log.say(Code::MemberLost, "media agent", &m.label, text);
            }
            LostPart::Mirror => say_lost(&m.label, error, log),
            LostPart::Segments => {
                let text = format!(
                    "{error}, which it had no room for and the others have; `capstan copy` brings them to another tape there"
                );
                log.say(Code::MirrorBehind, "media agent", &m.label, text);
            }
            LostPart::Spool => {
                let text = format!("the tape is written without its spool from here on: {error}");
                log.say(Code::SpoolLost, "media agent", &m.label, text);
            }
        }
    }
    lost.iter().filter(|m| m.part != LostPart::Spool).count() as u64
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

/// Refuses a destination without room before anything is made there.
fn check_space(path: &Path) -> Result<()> {
    let existing = path.ancestors().find(|p| p.exists()).unwrap_or(Path::new("."));
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    // File systems that store nothing (proc, sysfs) count no blocks; they refuse for themselves.
    if free_bytes(existing).is_none_or(|free| free >= LEAST_SPACE) {
        return Ok(());
    }
    let least_mib = LEAST_SPACE >> 20;
    let there = OpenMedium::open(path).map(|medium| medium.header().label.clone());
    let path = path.display().to_string();
    Err(match there {
        Ok(label) => DeviceError::MediumFull { label, path, least_mib },
        Err(_) => DeviceError::NoRoom { path, least_mib },
    }
    .into())
}
