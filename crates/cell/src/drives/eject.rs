//! Tapes that leave the house when their session is done: ejected, or brought to mail slots, and recorded as exported.

use std::collections::BTreeMap;

use capstan_address::TapeAddress;
use capstan_engine::message::{Code, shell_word};
use capstan_format::id::MediumId;
use capstan_idb::LeavingTape;
use capstan_medium::DeviceError;
use capstan_medium::tape::{Held, Place};

use crate::Cell;
use crate::drives::library;
use crate::error::{Result, chain};
use crate::media::tape_name;
use crate::observe::Observer;
use crate::report::{Report, Retired};
use crate::session::{SessionLog, now_us};

impl Cell {
    /// Brings the tapes out that a session wrote; instead of one that was retired since, those with its copies. What does not work
    /// is a warning: the session's data are on them.
    pub(crate) fn eject(
        &self,
        report: &mut Report,
        retired: &[Retired],
        location: &str,
        observer: &dyn Observer,
    ) {
        let log = SessionLog::new(observer);
        // This process has their drives still.
        self.devices.release_idle();
        let mut of: BTreeMap<String, Vec<(MediumId, TapeAddress)>> = BTreeMap::new();
        let mut labels: Vec<String> = Vec::new();
        for label in &report.media {
            match retired.iter().find(|retired| retired.label == *label) {
                Some(retired) => labels.extend_from_slice(&retired.copies),
                None => labels.push(label.clone()),
            }
        }
        for medium in self.media_called(&labels).unwrap_or_default() {
            for tape in self.tapes_of(medium) {
                // Of an array a tape may be lost.
                if tape.tape.is_some() || self.devices.is_by_hand(&tape).unwrap_or(false) {
                    of.entry(tape.library.to_string()).or_default().push((medium, tape));
                }
            }
        }
        for (library, tapes) in of {
            let warn = |text: String| log.say(Code::NotEjected, "media agent", &library, text);
            match self.eject_of(&tapes, location) {
                Ok(Brought { what, stay, mail_slots }) => {
                    report.notes.extend(what.map(|what| format!("{what} of {library}")));
                    if !stay.is_empty() {
                        warn(self.way_out(&library, &tapes, &stay, mail_slots, location));
                    }
                }
                Err(e) => warn(format!("its tapes were not brought out: {}", chain(&e))),
            }
            if let Err(e) = self.note_leaving(&tapes, location) {
                warn(format!("which tapes are to be brought out is not recorded: {}", chain(&e)));
            }
        }
        let mut said = Report::default();
        log.fill(&*self.devices, &mut said);
        report.errors.append(&mut said.errors);
        report.faults.append(&mut said.faults);
    }

    /// The same of one library: as many as it has room for.
    fn eject_of(&self, tapes: &[(MediumId, TapeAddress)], location: &str) -> Result<Brought> {
        let Some((last, first)) = tapes.last().zip(tapes.first().map(|(_, tape)| tape)) else {
            return Ok(Brought::default());
        };
        let barcodes: Vec<String> = tapes.iter().filter_map(|(_, t)| t.tape.clone()).collect();
        if barcodes.is_empty() {
            // Those before it were ejected when it was asked for.
            self.devices.eject(&last.1).map_err(DeviceError::from)?;
            for (medium, _) in tapes {
                self.media_export(&medium.to_string(), location)?;
            }
            let what = Some("the tape was ejected".to_owned());
            return Ok(Brought { what, ..Brought::default() });
        }
        let (held, mail_slots) = {
            let mut library = library::open(&*self.devices, &first.library)?;
            (library.inventory().map_err(library::of_tape)?, library.elements().mail_slots)
        };
        let in_mail = |tape: &&Held| matches!(tape.place, Place::Mail(_));
        let mut room = (mail_slots as usize).saturating_sub(held.iter().filter(in_mail).count());
        let (mut go, mut stay) = (Vec::new(), Vec::new());
        for barcode in barcodes {
            let tape = held.iter().find(|tape| tape.barcode == barcode);
            // Also one that stays: none is brought out of a drive later on.
            if let Some(Place::Drive(n)) = tape.map(|tape| tape.place) {
                library::unload(&*self.devices, &first.library, n)?;
            }
            if !tape.as_ref().is_some_and(in_mail) {
                if room == 0 {
                    stay.push(barcode);
                    continue;
                }
                room -= 1;
            }
            go.push(barcode);
        }
        let mut out = Vec::new();
        self.library_export(&first.library, &go, location, &mut |exported| {
            let to = exported.moved.to.map_or(String::new(), |to| format!(" in {to}"));
            out.push(format!("{}{to}", exported.moved.barcode));
        })?;
        let what = (!out.is_empty()).then(|| format!("to be taken out: {}", out.join(", ")));
        Ok(Brought { what, stay, mail_slots: mail_slots as usize })
    }

    /// Has the tapes on record that are to leave and did not: whoever goes to the vault brings them.
    fn note_leaving(&self, tapes: &[(MediumId, TapeAddress)], location: &str) -> Result<()> {
        for (medium, tape) in tapes.iter().filter(|(_, tape)| tape.tape.is_some()) {
            let tape = tape_name(tape);
            if self.idb.management(*medium)?.tape_exported(&tape).is_none() {
                let (asked_us, to) = (now_us(), location.to_owned());
                self.idb.put_leaving(&LeavingTape { medium: *medium, tape, asked_us, to })?;
            }
        }
        Ok(())
    }

    /// How tapes come out for which there was no room: by as many at a time as there are mail slots, or by hand.
    fn way_out(
        &self,
        library: &str,
        tapes: &[(MediumId, TapeAddress)],
        stay: &[String],
        mail_slots: usize,
        location: &str,
    ) -> String {
        let (all, to) = (stay.join(", "), shell_word(location));
        if mail_slots == 0 {
            let is_out = |tape: &TapeAddress| tape.tape.as_ref().is_some_and(|t| stay.contains(t));
            let export = |(id, tape): &(MediumId, TapeAddress)| {
                // Tapes of arrays go each by itself: others may be in another library.
                let name = match self.tapes_of(*id).len() {
                    1 => self.idb.medium(*id).ok().flatten().map(|medium| medium.label),
                    _ => None,
                };
                let name = name.unwrap_or_else(|| tape.recorded().to_string());
                format!("`capstan media export {} --to {to}`", shell_word(name))
            };
            let commands: Vec<String> =
                tapes.iter().filter(|(_, tape)| is_out(tape)).map(export).collect();
            return format!(
                "the library has no mail slots for {all}; take the tapes out by hand, then {}",
                commands.join(" and ")
            );
        }
        let library = shell_word(library);
        let export = |some: &[String]| {
            let some: Vec<String> = some.iter().map(shell_word).collect();
            format!("`capstan library export {library} {} --location {to}`", some.join(" "))
        };
        let commands: Vec<String> = stay.chunks(mail_slots).map(export).collect();
        format!(
            "there is no free mail slot for {all}; take out what is in them, then {}",
            commands.join(", take that out, then ")
        )
    }
}

/// What came out of a library.
#[derive(Default)]
struct Brought {
    /// In words.
    what: Option<String>,
    /// Barcodes of the tapes that there was no room for.
    stay: Vec<String>,
    /// How many mail slots the library has.
    mail_slots: usize,
}
