//! What a verification reads: media, each with its segments. Tapes are opened one after the other.

use std::collections::HashMap;

use capstan_engine::message::{Code, shell_word};
use capstan_engine::problem::Explain;
use capstan_format::id::{MediumId, SegmentId, SegmentNumber};
use capstan_format::keys::KeyRecord;
use capstan_medium::OpenMedium;
use capstan_port::media::MediaAgent;

use crate::error::{CellError, Damage, Result};
use crate::keys::records::key_records;
use crate::media::unreadable::lost_header;
use crate::reading::version::VersionView;
use crate::session::SessionLog;
use crate::versions::missing::MissingSegment;

/// What is to be read: a medium, and its segments.
pub(super) struct Part {
    pub medium: OpenMedium,
    pub segments: Vec<SegmentNumber>,
    /// Segments that are recorded and not there: of an array, too few of its members have them.
    pub missing: Vec<MissingSegment>,
    /// The segments that are recorded: of a medium that is read by itself all, else those that are read.
    pub recorded: HashMap<SegmentNumber, SegmentId>,
    /// Whether it is a tape that is read by itself.
    pub on_tape: bool,
    /// Segments of which nobody needs that they are whole, and why.
    pub passed: HashMap<SegmentNumber, String>,
}

/// Segments by their numbers on a medium.
pub(super) type Places = HashMap<SegmentNumber, SegmentId>;

/// A medium that is to be read.
pub(super) enum Planned {
    /// It was opened.
    Open(Box<Part>),
    /// It is opened when it is its turn: a tape is loaded once.
    Tape(TapeToRead),
    /// It is at hand and cannot be read.
    Unreadable(TapeToRead, CellError),
}

/// What is to be read of a tape.
pub(super) struct TapeToRead {
    pub medium: MediumId,
    pub recorded: Places,
    pub passed: HashMap<SegmentNumber, String>,
}

impl Planned {
    pub fn medium(&self) -> MediumId {
        match self {
            Self::Open(part) => part.medium.header().medium,
            Self::Tape(tape) | Self::Unreadable(tape, _) => tape.medium,
        }
    }

    pub fn segments(&self) -> Vec<SegmentNumber> {
        match self {
            Self::Open(part) => part.segments.clone(),
            Self::Tape(tape) | Self::Unreadable(tape, _) => tape.recorded.keys().copied().collect(),
        }
    }

    /// What is recorded of what is to be read there.
    pub fn recorded(&self) -> Places {
        match self {
            Self::Open(part) => part.recorded.clone(),
            Self::Tape(tape) | Self::Unreadable(tape, _) => tape.recorded.clone(),
        }
    }

    /// Opens it, if it is not open, and says whether it is not as it was last written. One that cannot be opened is not tried again.
    pub fn open(
        self,
        view: Option<&VersionView<'_>>,
        name: &str,
        log: &SessionLog<'_>,
    ) -> Result<Part> {
        let (tape, view) = match (self, view) {
            (Self::Open(part), _) => return Ok(*part),
            (Self::Unreadable(_, e), _) => return Err(e),
            (Self::Tape(tape), Some(view)) => (tape, view),
            (Self::Tape(tape), None) => {
                return Err(Damage::MediumOfNoVersion(tape.medium).into());
            }
        };
        let opened = view.media.medium(tape.medium).and_then(|medium| {
            let changed = view.cell.note_changed_known(&medium)?;
            Ok((medium, changed))
        });
        let (medium, changed) = opened.inspect_err(|e| {
            if e.away().is_none() {
                view.media.in_use.lock().insert(tape.medium, e.problem());
            }
        })?;
        if let Some(text) = changed {
            log.say(Code::MediumChanged, "cell", name, text);
        }
        Ok(Part::of(medium, tape.recorded, tape.passed))
    }
}

impl Part {
    /// These segments of a medium.
    pub fn of(
        medium: OpenMedium,
        recorded: HashMap<SegmentNumber, SegmentId>,
        passed: HashMap<SegmentNumber, String>,
    ) -> Self {
        let mut segments: Vec<SegmentNumber> = recorded.keys().copied().collect();
        segments.sort_unstable();
        Self { medium, segments, missing: Vec::new(), recorded, on_tape: false, passed }
    }

    /// Says that the medium's header had to be made up for.
    pub fn say_header_problem(&self, log: &SessionLog<'_>) {
        if let Some((what, text)) = lost_header(&self.medium) {
            log.say(Code::Damaged, "media agent", &what, text);
        }
    }

    /// Says of a damaged segment that this costs nothing.
    pub fn say_passed(&self, number: SegmentNumber, log: &SessionLog<'_>) {
        let what = format!("segment {} of {}", number.0, self.medium.path());
        let why = self.passed.get(&number).map(String::as_str).unwrap_or_default();
        log.say(
            Code::Adapted,
            "media agent",
            &what,
            format!("it is damaged, which costs nothing: {why}"),
        );
    }

    /// Says of a damaged segment what becomes of it, where the database does not know it.
    pub fn say_unknown(&self, number: SegmentNumber, log: &SessionLog<'_>) {
        if self.recorded.contains_key(&number) {
            return;
        }
        let way = match self.on_tape {
            true => "it stays until the tape is recycled".to_owned(),
            false => format!(
                "`capstan media repair {} --remove-unreadable` removes it if nothing of it can be read",
                shell_word(self.medium.path())
            ),
        };
        let what = format!("segment {} of {}", number.0, self.medium.path());
        let text =
            format!("no version that is known needs it: the database does not know it; {way}");
        log.say(Code::Adapted, "media agent", &what, text);
    }

    pub fn say_missing(&self, log: &SessionLog<'_>) {
        for missing in &self.missing {
            let what = format!("segment {} of {}", missing.number.0, self.medium.path());
            let of = missing.version.as_ref().map(|v| format!(" ({v})")).unwrap_or_default();
            let text = match self.medium.header().is_array() {
                true => format!(
                    "it is recorded{of} and on too few of the members at hand: bring back the member that has it"
                ),
                false => format!("it is recorded{of} and is not there"),
            };
            log.say(Code::Missing, "media agent", &what, text);
        }
    }
}

/// The recorded segments that were read of a part.
#[derive(Default)]
pub(super) struct Verified {
    pub sound: Vec<SegmentId>,
    pub damaged: Vec<SegmentId>,
}

impl Verified {
    pub fn note(&mut self, part: &Part, number: SegmentNumber, is_sound: bool) {
        let of = if is_sound { &mut self.sound } else { &mut self.damaged };
        of.extend(part.recorded.get(&number));
    }
}

/// The wrapped keys of all that is to be read, as they lie on the media.
pub(super) fn records_of(
    agent: &dyn MediaAgent,
    planned: &[Planned],
    view: Option<&VersionView<'_>>,
) -> Vec<KeyRecord> {
    let of = |planned: &Planned| match planned {
        Planned::Open(part) => key_records(agent, &part.medium, &part.segments),
        Planned::Tape(tape) => {
            let medium = view.and_then(|view| view.media.medium(tape.medium).ok());
            medium
                .map(|medium| key_records(agent, &medium, &planned.segments()))
                .unwrap_or_default()
        }
        Planned::Unreadable(..) => Vec::new(),
    };
    planned.iter().flat_map(of).collect()
}
