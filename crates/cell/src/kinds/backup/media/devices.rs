//! The media that a session writes to: the device and its mirrors, opened together.

use capstan_address::Address;
use capstan_medium::HeldMedium;
use capstan_port::media::write::members::Member;

use super::away::is_unavailable;
use super::lost::{say_lost, say_not_begun};
use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::drives::robots::Booked;
use crate::error::{BackupRefusal, CellError, Result, chain};
use crate::observe::Observer;
use crate::request::BackupRequest;
use crate::session::SessionLog;
use crate::session::waited::is_ours;
use crate::supply::Wanted;
use crate::supply::tapes::by_hand::Choice;
use crate::supply::unfit::PassedOver;

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

/// By what a session opens its device and the mirrors.
struct Opening<'r> {
    request: &'r BackupRequest,
    choice: Choice,
    observer: &'r dyn Observer,
}

/// The device and the mirrors, as far as they are open.
struct Begun<'d> {
    members: Vec<Member>,
    held: Vec<HeldMedium>,
    /// Those that the others do without.
    failed: Vec<(&'d Address, CellError)>,
    /// All have the same, from the first one on.
    block_size: Option<u32>,
}

impl Begun<'_> {
    fn with_blocks_of(block_size: Option<u32>) -> Self {
        Self { members: Vec::new(), held: Vec::new(), failed: Vec::new(), block_size }
    }
}

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
        let block_size = self.foresee_devices(request)?;
        let devices: Vec<&Address> =
            std::iter::once(&request.device).chain(&request.mirrors).collect();
        // An array gets all its drives at once, or none; mirrors one after the other.
        let booked = match request.mirrors.is_empty() {
            true => Vec::new(),
            false => self.book_drives_of(&devices)?,
        };
        let (devices, away) = self.without_away(request, devices)?;
        for of in &away {
            of.say(log);
        }
        let choice = Choice { pool: request.pool.clone(), passed: avoid.to_vec(), asks: true };
        let opening = Opening { request, choice, observer };
        let Begun { members, held, failed, .. } =
            self.open_or_wait(&opening, &devices, block_size)?;
        let mut lost = 0;
        if members.is_empty() {
            if let Some((_, e)) = failed.into_iter().next() {
                return Err(e);
            }
        } else {
            say_failed(&failed, avoid.is_empty(), log);
            lost = (failed.len() + away.iter().filter(|of| !of.on_purpose).count()) as u64;
        }
        Ok(Opened { members, lost, held, avoid: avoid.to_vec(), booked })
    }

    /// Opens all of them; where one is waited for, all are opened anew.
    fn open_or_wait<'d>(
        &self,
        opening: &Opening<'_>,
        devices: &[&'d Address],
        block_size: Option<u32>,
    ) -> Result<Begun<'d>> {
        let (mut wait, mut is_patient) = (self.devices.queue().wait(), true);
        loop {
            let mut begun = Begun::with_blocks_of(block_size);
            let Some(busy) = self.open_each(opening, devices, is_patient, &mut begun)? else {
                return Ok(begun);
            };
            drop(begun);
            is_patient = wait.again(&busy);
        }
    }

    /// Opens one after the other. Returns the error of one that others have, if it is to be waited for with none open.
    fn open_each<'d>(
        &self,
        opening: &Opening<'_>,
        devices: &[&'d Address],
        is_patient: bool,
        begun: &mut Begun<'d>,
    ) -> Result<Option<CellError>> {
        for address in devices.iter().copied() {
            // Drives are booked before: nobody who waits for one has what another such waits for.
            let at_once = !begun.members.is_empty() && !address.is_tape();
            match self.open_with(opening, address, begun.block_size, at_once) {
                Ok((member, held)) => {
                    let member = self.take_beside(opening.request, address, member, begun)?;
                    begun.block_size = Some(member.medium.block_size);
                    begun.members.push(member);
                    begun.held.extend(held);
                }
                Err(e) if at_once && is_patient && e.is_busy() && !is_ours(&e) => {
                    return Ok(Some(e));
                }
                Err(e) if is_done_without(opening.request, &e) => {
                    self.note_passed_over(&address.to_string(), None, &e);
                    begun.failed.push((address, e));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }

    /// Opens one of them, with blocks of that size; `at_once` it does not wait for who has it.
    fn open_with(
        &self,
        opening: &Opening<'_>,
        address: &Address,
        block_size: Option<u32>,
        at_once: bool,
    ) -> Result<(Member, Option<HeldMedium>)> {
        let Opening { request, choice, observer } = opening;
        let hold = request.keep.lock_until_us.is_some();
        let wanted = Wanted {
            block_size,
            by_drive: ByDrive::of_backup(request.encrypt),
            new_medium: request.new_medium,
            as_it_is: false,
        };
        match at_once {
            true => self.open_held_now(address, &wanted, hold, choice, *observer),
            false => self.open_held(address, &wanted, hold, choice, *observer),
        }
    }

    /// Takes a medium that was opened. Refuses one that its pool does not give, or that is open already.
    fn take_beside(
        &self,
        request: &BackupRequest,
        address: &Address,
        mut member: Member,
        begun: &Begun<'_>,
    ) -> Result<Member> {
        let is_of_pool = request.pool.is_some() && std::ptr::eq(address, &request.device);
        if let Some(pool) = request.pool.as_ref().filter(|_| is_of_pool) {
            self.refuse_not_chosen(pool, address, &member.medium)?;
        }
        member.goes_on = is_of_pool || address.names_no_medium();
        let id = member.medium.medium;
        match begun.members.iter().any(|m| m.medium.medium == id) {
            true => Err(BackupRefusal::WrittenAlready { device: address.clone() }.into()),
            false => Ok(member),
        }
    }
}

/// Whether the others do without a device that cannot be opened so. They do without one for which there is no tape, or none any more.
fn is_done_without(request: &BackupRequest, e: &CellError) -> bool {
    !request.mirrors.is_empty() && (is_unavailable(e) || matches!(e, CellError::NoTape(_)))
}

/// Says of which mirrors nothing is written, from the beginning of a session or from where it goes on.
fn say_failed(failed: &[(&Address, CellError)], is_beginning: bool, log: &SessionLog<'_>) {
    for (address, e) in failed {
        let (address, why) = (address.to_string(), chain(e));
        match is_beginning {
            true => say_not_begun(&address, &why, log),
            false => say_lost(&address, &why, log),
        }
    }
}
