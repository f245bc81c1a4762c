//! What can go wrong with a device, in words an administrator can act on.

use std::borrow::Cow;
use std::io;

use capstan_address::{Address, AddressError};
use capstan_engine::message::shell_word;
use capstan_engine::problem::{Explain, Problem, then};
use capstan_engine::threads::NoThread;
use capstan_format::FormatError;
use capstan_format::id::SegmentNumber;
use serde::{Deserialize, Serialize};

use crate::names::HEADER_NAME;
use crate::os_errors::{is_far, is_of_disk, is_refused};
use crate::tape::TapeError;

/// Why a device or medium cannot be used.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum DeviceError {
    /// The kernel has no more threads.
    #[error(transparent)]
    NoThread(#[from] NoThread),
    /// The device's name cannot be understood.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}{then}", then = own_hint(action, .source))]
    Io {
        /// What was tried.
        action: Cow<'static, str>,
        /// On what.
        path: String,
        /// Why not.
        #[source]
        #[serde(with = "crate::os_form")]
        source: io::Error,
    },
    /// The directory has other things in it.
    #[error("{0} is not empty and not a Capstan medium{then}", then = then(self.hint()))]
    NotOurs(String),
    /// Something is on a device that is to be blank.
    #[error("{0} is not blank{then}", then = then(self.hint()))]
    NotBlank(String),
    /// The directory holds no medium.
    #[error("{0} holds no Capstan medium{then}", then = then(self.hint()))]
    NoMedium(String),
    /// The medium's header cannot be read.
    #[error("the medium in {path} cannot be used: {}{then}", Explain::sentence(source), then = then(self.hint()))]
    Medium {
        /// Where it is.
        path: String,
        /// What is wrong.
        #[source]
        source: FormatError,
    },
    /// The segments are there, their header file is not: nothing is written to such a medium.
    #[error("the medium in {path} has segments but no {HEADER_NAME} that can be read: nothing is added to it{then}", then = then(self.hint()))]
    HeaderLost {
        /// Where it is.
        path: String,
    },
    /// A tape's first block is damaged, and what is behind it says which medium it is.
    #[error("the first block of {path} is damaged: '{label}' is read, and nothing is added to it{then}", then = then(self.hint()))]
    TapeHeaderLost {
        /// The tape.
        path: String,
        /// The medium's label.
        label: String,
    },
    /// A tape's first block is damaged, and nothing behind it that can be read says which medium it is.
    #[error("{0} is a tape of Capstan, but its first block is damaged, and nothing behind it that can be read says which \
         medium it is{then}", then = then(self.hint()))]
    TapeUnread(String),
    /// The tape behind a spool failed before, which was said then.
    #[error("the tape behind the spool failed: {0}")]
    SpoolFailed(Problem),
    /// The file of a spool, which is no part of the medium.
    #[error("cannot {action} the spool in {path}: {source}{then}", then = then(self.hint()))]
    Spool {
        /// What was tried.
        action: Cow<'static, str>,
        /// The directory in which it lies.
        path: String,
        /// Why not.
        #[source]
        #[serde(with = "crate::os_form")]
        source: io::Error,
    },
    /// There is next to nothing free where the medium lies.
    #[error("there is no room for a medium in {path}: less than {least_mib} MiB are free{then}", then = then(self.hint()))]
    NoRoom {
        /// Where it is.
        path: String,
        /// What has to be free, in MiB.
        least_mib: u64,
    },
    /// The disk of a medium is full.
    #[error("the disk of medium '{label}' in {path} is full: less than {least_mib} MiB are free{then}", then = then(self.hint()))]
    MediumFull {
        /// The medium's label.
        label: String,
        /// Where it is.
        path: String,
        /// What has to be free, in MiB.
        least_mib: u64,
    },
    /// The null device was asked for what it took.
    #[error("the null device keeps nothing{then}", then = then(self.hint()))]
    KeepsNothing,
    /// A library was named and no tape of it.
    #[error("{0} is a library: say which tape is meant, as {0}?tape=BARCODE{then}", then = then(self.hint()))]
    WhichTape(String),
    /// What takes no attachments was to be given one.
    #[error("only a tape, or an array of nothing but tapes, takes an attachment{then}", then = then(self.hint()))]
    KeepsNoAttachment,
    /// The tapes of an array need more drives than there are.
    #[error("library {library} has {drives} drives, and each of the array's {tapes} tapes in it needs one for itself{then}", then = then(self.hint()))]
    TooFewDrives {
        /// The library.
        library: String,
        /// Its drives.
        drives: u32,
        /// The array's tapes there.
        tapes: u32,
    },
    /// The header of a tape cannot be changed without losing what is behind it.
    #[error("{0} holds backups, and the header at its begin cannot be written without losing them{then}", then = then(self.hint()))]
    HeaderStays(String),
    /// The drive, the tape or the library.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// The device host cannot be reached, or no longer: that says nothing of what is on its media.
    #[error("{0}")]
    HostLost(Problem),
    /// Another process writes to it.
    #[error("the medium in {path} is in use by {holder}{then}", then = then(self.hint()))]
    Busy {
        /// Where it is.
        path: String,
        /// Who holds it.
        holder: String,
    },
    /// The block size asked for is not the medium's.
    #[error("the medium in {path} has blocks of {have} bytes, and {want} were asked for{then}", then = then(self.hint()))]
    BlockSize {
        /// Where it is.
        path: String,
        /// The medium's block size.
        have: u32,
        /// What was asked for.
        want: u32,
    },
    /// A medium that is a member of an array is named alone.
    #[error("the medium in {path} is a part of an array{place}, and cannot be used alone{then}", then = then(self.hint()))]
    ArrayMember {
        /// Where it is.
        path: String,
        /// Which part of what, in words that follow "array".
        place: String,
    },
    /// A medium that is named as a member of an array is none, or one of another array.
    #[error("{path} is not a member of the array: {problem}")]
    NotOfArray {
        /// Where it is.
        path: String,
        /// Why not, and what to do.
        problem: Problem,
    },
    /// A member of an array is lost already.
    #[error("{0}")]
    MemberLost(Problem),
    /// Too many members of an array are lost.
    #[error("the array {array} lacks {lost} of its {members} members and can do without {spare}: {}{then}", source.sentence(), then = then(self.hint()))]
    ArrayBroken {
        /// Its name.
        array: String,
        /// Members that are lost.
        lost: usize,
        /// All its members.
        members: usize,
        /// As many may be lost.
        spare: usize,
        /// Why the last of them was lost.
        #[source]
        source: Box<DeviceError>,
    },
    /// A member counts its segments otherwise than the array.
    #[error("it would give its next segment the number {}, the array's is {}{then}", given.0, number.0, then = then(self.hint()))]
    ArrayOutOfStep {
        /// The member's number.
        given: SegmentNumber,
        /// The array's.
        number: SegmentNumber,
    },
}

impl Explain for DeviceError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotOurs(_) => "name an empty or new directory or a blank tape, or what capstan made (`capstan media erase TAPE \
                 --foreign` makes a tape blank)".to_owned(),
            Self::NotBlank(_) => "name an empty or new directory, or a blank tape".to_owned(),
            Self::NoMedium(_) => "check the path, or back up to it first".to_owned(),
            Self::HeaderLost { path, .. } => format!("`capstan media repair {}` writes that file anew", shell_word(path)),
            Self::TapeHeaderLost { label, .. } => format!("`capstan media retire {}` brings what must stay to another tape", shell_word(label)),
            Self::TapeUnread(_) => "try another drive, or restore from a copy of what it holds".to_owned(),
            Self::NoRoom { .. } => "free space or name another device".to_owned(),
            Self::KeepsNothing => "name a directory or a tape that holds a medium".to_owned(),
            Self::WhichTape(_) => "`capstan library inventory` lists them".to_owned(),
            Self::KeepsNoAttachment => "name another device".to_owned(),
            Self::TooFewDrives { .. } => "use fewer members there, or a library with more drives".to_owned(),
            Self::HeaderStays(_) => "recycle it first".to_owned(),
            Self::Busy { .. } => "wait until it ends, or use another device".to_owned(),
            Self::BlockSize { .. } => "leave --block-size out or use another medium".to_owned(),
            Self::ArrayMember { .. } => "name the array with all its members, as rait5:DEVICE,DEVICE,DEVICE".to_owned(),
            Self::ArrayOutOfStep { .. } => "rebuild this member".to_owned(),
            Self::NoThread(e) => return e.hint(),
            Self::Address(e) => return e.hint(),
            Self::Tape(e) => return e.hint(),
            Self::Io { action, source, .. } => return self.hint_of_io(hint(action, source)),
            Self::Medium { path, source } => return source.hint().or_else(|| Some(header_hint(path))),
            Self::Spool { source, .. } => spool_hint(source).to_owned(),
            Self::MediumFull { .. } => WAYS_TO_ROOM.to_owned(),
            Self::ArrayBroken { source, .. } => source.problem().hint_too(BRING_BACK).hint?,
            Self::NotOfArray { problem, .. } | Self::SpoolFailed(problem) | Self::MemberLost(problem) | Self::HostLost(problem) => return problem.hint.clone(),
        })
    }
}

/// What to do where too many members of an array are lost.
const BRING_BACK: &str = "bring members back, or name them where they are now";

/// What gives room back on the disk of a medium.
pub const WAYS_TO_ROOM: &str = "make room, or let `capstan prune` with keep rules remove what need not stay, or let go what is there for newer \
     versions alone, by `capstan consolidate NAME@SESSION --to DIRECTORY` of the oldest version that is to be kept, on another disk";

/// How that follows in the text of an error, which ends with what a drive said to do where it was one.
fn own_hint(action: &str, error: &io::Error) -> String {
    then(hint(action, error).map(str::to_owned))
}

/// What to do where the operating system refused.
fn hint(action: &str, error: &io::Error) -> Option<&'static str> {
    Some(match error.kind() {
        io::ErrorKind::NotFound if action == "create the directory" => {
            "check the path: the directory above has to be there and has to take new ones"
        }
        io::ErrorKind::NotFound => "check the path, and that its file system is mounted",
        io::ErrorKind::NotADirectory => "name a directory: that is what a medium is",
        io::ErrorKind::StorageFull => {
            "free space on it or use another device, what was committed is kept"
        }
        io::ErrorKind::FileTooLarge => {
            "raise the limit (ulimit -f), or use a file system that takes such large files"
        }
        io::ErrorKind::PermissionDenied => "check its owner and mode, or run as its owner",
        io::ErrorKind::ReadOnlyFilesystem => "mount it read-write",
        _ => return None,
    })
}

fn spool_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "name a directory that is there as spool=DIR",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free space there, or name another directory or a smaller spool-size"
        }
        io::ErrorKind::PermissionDenied => "check its owner and mode, or run as its owner",
        _ => "check that disk, or name a directory on another",
    }
}

/// What names of tapes begin with: their headers cannot be written anew without losing what is behind.
const TAPES: [&str; 3] = ["vtape:", "scsi:", "iscsi:"];

fn header_hint(path: &str) -> String {
    match TAPES.iter().any(|scheme| path.starts_with(scheme)) {
        true => "restore from a copy of what it holds, or name another device".to_owned(),
        false => format!("`capstan media repair {}` writes its header file anew", shell_word(path)),
    }
}

impl DeviceError {
    /// What to do where the operating system refused, or a drive said what is wrong in its place.
    fn hint_of_io(&self, own: Option<&str>) -> Option<String> {
        match (self.of_tape().map(Explain::problem), own) {
            (Some(of_tape), Some(own)) => of_tape.hint_too(own).hint,
            (Some(of_tape), None) => of_tape.hint,
            (None, own) => own.map(str::to_owned),
        }
    }

    /// Why there is no medium on a device that is neither a directory, a tape nor an array.
    pub fn has_no_medium(address: &Address) -> Self {
        address.known().err().map_or(Self::KeepsNothing, Self::Address)
    }

    /// Whether the device is full.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::Tape(TapeError::EndOfMedium { .. }) | Self::MediumFull { .. } => true,
            Self::ArrayBroken { source, .. } => source.is_full(),
            _ => false,
        }
    }

    /// Whether it is the spool before a tape that failed, and not the tape: another tape would not do better.
    pub fn is_of_spool(&self) -> bool {
        matches!(self, Self::Spool { .. })
    }

    /// Whether no medium of Capstan is there, or none that can be read.
    pub fn is_no_medium(&self) -> bool {
        matches!(self, Self::NoMedium(_) | Self::Medium { .. } | Self::NotOurs(_))
    }

    /// Whether something is on a device that was to be blank.
    pub fn is_used(&self) -> bool {
        matches!(self, Self::NotBlank(_) | Self::NotOurs(_) | Self::ArrayMember { .. })
    }

    /// Whether another process has the device.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. }) || self.of_tape().is_some_and(TapeError::is_busy)
    }

    /// Whether it tells nothing of what is on the medium: that is elsewhere, others have it, a drive failed, its server does not answer, or
    /// this user may not read it.
    pub fn spares_medium(&self) -> bool {
        match self {
            Self::ArrayBroken { source, .. } => source.spares_medium(),
            Self::HostLost(_) => true,
            e if e.is_busy() => true,
            e => match (e, e.of_tape()) {
                (_, Some(tape)) => tape.is_away() || tape.spares_tape(),
                (Self::Io { source, .. }, None) => is_far(source) || is_refused(source),
                _ => false,
            },
        }
    }

    /// Whether a write that failed so tells on the medium. Else it is a matter of where that lies, of the way to it, of its drive, or of
    /// what was asked for.
    pub fn tells_on_medium(&self) -> bool {
        match self {
            Self::ArrayBroken { source, .. } => source.tells_on_medium(),
            Self::Medium { .. }
            | Self::HeaderLost { .. }
            | Self::TapeHeaderLost { .. }
            | Self::TapeUnread(_)
            | Self::SpoolFailed(_) => true,
            e => match (e, e.of_tape()) {
                (_, Some(TapeError::Io { source, .. })) => is_of_disk(source),
                (_, Some(tape)) => tape.tells_on_tape(),
                (Self::Io { source, .. }, None) => is_of_disk(source),
                _ => false,
            },
        }
    }

    /// What a drive, a tape or a library said, if it is that.
    pub fn of_tape(&self) -> Option<&TapeError> {
        match self {
            Self::Tape(e) => Some(e),
            Self::Io { source, .. } => source.get_ref().and_then(|e| e.downcast_ref()),
            _ => None,
        }
    }

    /// Whether a tape drive is at fault, so that another one, or another medium, may do.
    pub fn blames_drive(&self) -> bool {
        self.of_tape().is_some_and(TapeError::blames_drive)
    }

    /// Whether it is a tape, or too many of an array's, that is at hand and cannot be read: no drive, no way to it and no key is at
    /// fault, and nothing else is in its place.
    pub fn blames_medium(&self) -> bool {
        match self {
            Self::ArrayBroken { source, .. } => source.blames_medium(),
            Self::TapeUnread(_) => true,
            other => other.of_tape().is_some_and(|e| e.blames_tape() && !e.is_no_tape()),
        }
    }

    /// Whether a tape drive, or the way to it, is lost: that says nothing of the tape.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::ArrayBroken { source, .. } => source.is_unreachable(),
            Self::HostLost(_) => true,
            other => other.of_tape().is_some_and(TapeError::is_unreachable),
        }
    }

    /// Whether the medium may be as it should, and only is not to be had now.
    pub fn is_out_of_reach(&self) -> bool {
        self.is_busy() || self.blames_drive() || matches!(self, Self::HostLost(_))
    }
}

/// That something could not be done on what is there.
pub fn io_error(
    action: &'static str,
    path: &str,
) -> impl FnOnce(std::io::Error) -> DeviceError + use<> {
    let path = path.to_owned();
    move |source| DeviceError::Io { action: action.into(), path, source }
}
