//! Messages: what a session says of one object, one file, one device.

use std::fmt;

/// How grave a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// For the record.
    Note,
    /// Something was left out or is not as it was asked for; nothing is lost that could be had.
    Warning,
    /// Something is missing from the backup or restore.
    Error,
}

/// Makes the codes from their table: what each is about, number, name, severity, hint.
macro_rules! codes {
    ($($(#[$what:meta])* $code:ident = $number:literal, $name:literal, $severity:ident, $hint:literal;)*) => {
        /// What a message is about. Each has a name, a severity and a hint: the table that docs/errors.md prints.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$what])* $code,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$code),*];

            /// The code's number, name, severity, and the hint what to do.
            pub const fn row(self) -> (u16, &'static str, Severity, &'static str) {
                match self {
                    $(Self::$code => ($number, $name, Severity::$severity, $hint),)*
                }
            }
        }
    };
}

codes! {
    /// A file vanished between listing and reading.
    Vanished = 101, "vanished", Note, "nothing to do: it was removed during the backup";
    /// A file changed while it was read.
    Changed = 102, "changed", Warning,
        "back it up when it is quiet, from a snapshot, or with --retries";
    /// A file became shorter while it was read.
    Short = 103, "short", Warning, "it shrank while it was read; back it up when it is quiet";
    /// A file could not be read from an offset on.
    Unreadable = 104, "unreadable", Error,
        "check the disk (dmesg, smartctl); what could be read is stored and the rest is zeros, unless the message says that the last version's state is kept";
    /// A file or directory could not be opened.
    NotOpened = 105, "not-opened", Error,
        "run as a user who may read it, or exclude it; until then what the last version has of it is kept";
    /// A file is locked or open for writing.
    InUse = 106, "in-use", Warning, "close what writes to it, or use --locked skip or error";
    /// A file is locked or open for writing, and that was to be an error.
    Locked = 110, "locked", Error, "close what writes to it, or use --locked warn or skip";
    /// A file is locked or open for writing, and was left out for that.
    LockedLeftOut = 115, "locked-left-out", Warning,
        "close what writes to it, or use --locked warn; until then what the last version has of it is kept";
    /// Metadata of a file could not be read.
    NoMetadata = 107, "no-metadata", Error,
        "check the file system; the file is stored without what could not be read";
    /// A directory was left out by itself.
    LeftOut = 108, "left-out", Note, "nothing to do; name it as a PATH of its own to include it";
    /// A command or standard input failed.
    InputFailed = 109, "input-failed", Error, "run the command by hand to see why it fails";
    /// A command or standard input gave nothing, and gave something before.
    InputEmpty = 118, "input-empty", Error,
        "run the command by hand to see why it gives nothing; if that is meant, back it up under another --name; until then \
         the last version that has something is kept";
    /// The disk agent on another host does not answer any more.
    AgentLost = 119, "agent-lost", Error,
        "see whether its host runs and can be reached, and run it again: what is committed stays";
    /// A path that was to be backed up is not there.
    PathMissing = 111, "path-missing", Error,
        "mount or make it, or name it no more; until then what the last version has of it is kept";
    /// A directory could not be listed.
    NotListed = 113, "not-listed", Error,
        "run as a user who may list it, check its disk, or exclude it; until then what the last version has of it is kept";
    /// A path that was to be backed up is a symbolic link to a directory.
    PathIsLink = 116, "path-is-link", Warning,
        "name what it leads to, or write PATH/; nothing to do if the link itself is meant";
    /// A path that was a directory is a symbolic link.
    PathBecameLink = 117, "path-became-link", Error,
        "name what it leads to in its place, or write PATH/; if the link itself is meant, back it up under another --name; \
         until then what the last version has of it is kept";
    /// Nothing is mounted at a mount point that is to be backed up.
    NotMounted = 114, "not-mounted", Error,
        "mount it; until then what the last version has of it is kept. If its disk was taken away for good, take it out of \
         /etc/fstab or disable its mount unit, and exclude its mount point once";
    /// Less is taken than in the object's last version.
    LessSelected = 112, "less-selected", Warning,
        "nothing to do if that was meant; else name again what is to be backed up: earlier versions still have it";
    /// A frame of a medium is damaged.
    Damaged = 201, "damaged", Error, "restore the named files from another version or copy";
    /// A file's data are missing from the media at hand.
    Missing = 202, "missing", Error, "make the missing medium available and run it again";
    /// Files lie on a medium that is away.
    Away = 250, "away", Error, "bring the medium in and run it again: what is there stays";
    /// A file lies on a medium that is away.
    FileAway = 251, "file-away", Note, "the message `away` says of its medium where that is";
    /// Something was read from a mirror or a copy, since it is damaged or missing where it was looked for first.
    ReplicaUsed = 229, "replica-used", Warning,
        "nothing is lost: make the medium whole again with `capstan media repair`, or bring it back";
    /// What is damaged or missing on a medium is whole on another one.
    WholeElsewhere = 258, "whole-elsewhere", Warning,
        "no file is lost: `capstan media repair` writes anew what is damaged, as long as the other medium has it";
    /// What was damaged or missing on a medium lies there anew, whole.
    Repaired = 230, "repaired", Note, "nothing to do";
    /// A name on a medium cannot be a file's name.
    BadName = 203, "bad-name", Error,
        "the medium was not written by an honest capstan; do not trust it";
    /// Something in the way of a restored file.
    Conflict = 301, "conflict", Error,
        "move what is in the way, or restore into an empty directory";
    /// A file could not be written.
    NotWritten = 302, "not-written", Error, "check space and permissions of the target";
    /// Metadata could not be restored.
    NotRestored = 303, "not-restored", Warning,
        "run as root to restore owners, device nodes and all attributes";
    /// Something is encrypted and no key is at hand.
    Sealed = 205, "sealed", Warning,
        "set CAPSTAN_PASSPHRASE or CAPSTAN_KEY_FILE and do the same again";
    /// What lies on a tape was encrypted by its drive, and its key is not at hand.
    NeedsKey = 219, "needs-key", Error,
        "set CAPSTAN_PASSPHRASE, CAPSTAN_KEY_FILE or CAPSTAN_RECOVERY_CODE, or have the drive given its keys by whoever manages \
         them, and run it again: nothing is damaged by this";
    /// A backup is not encrypted where others are.
    NotEncrypted = 206, "not-encrypted", Warning,
        "take over a medium's key ring with `capstan key import`, or make one with `capstan key init`";
    /// What an incremental builds on is not at hand.
    NoBase = 403, "no-base", Warning,
        "make the media of the earlier backups available, or give the key that opens their names; where a machine was renamed, \
         `host` in its capstan.toml says what it was called";
    /// What an incremental builds on could not be read to its end.
    BaseUnreadable = 415, "base-unreadable", Error,
        "`capstan idb check` says what is wrong, and `capstan catalog load` reads it from its medium; a backup with --full builds on \
         nothing";
    /// A backup is out of line with the object's earlier ones.
    Anomaly = 410, "anomaly", Warning,
        "look at what changed (`capstan diff`): if it is malware, keep the earlier versions and cut the machine off";
    /// A restored file is not what was recorded.
    NotProved = 304, "not-proved", Error,
        "run `capstan verify`, check memory and disks, and make a full backup";
    /// A pattern did nothing.
    NoMatch = 320, "no-match", Warning, "check how the pattern is written (docs/patterns.md)";
    /// Of some files' paths stripping leaves nothing.
    Stripped = 321, "stripped", Warning,
        "strip fewer components, or restore these files by themselves";
    /// Options were adapted.
    Adapted = 401, "adapted", Note, "nothing to do";
    /// A session was stopped before its end.
    Stopped = 402, "stopped", Warning,
        "what was done until then holds; run the command again, a backup with --resume";
    /// A device failed.
    DeviceFailed = 204, "device-failed", Error,
        "what was committed is kept: mend the device or name another, then back up with --resume";
    /// A drive or a medium failed, and another goes on.
    MediumFailed = 214, "medium-failed", Warning,
        "nothing is lost: see to the drive (`capstan library status`) and the medium (`capstan media show`)";
    /// A mirror failed; the others go on.
    MirrorFailed = 207, "mirror-failed", Warning,
        "mend the device, then bring its medium up to date with `capstan copy`";
    /// The medium of a mirror left the house; the others are written.
    MirrorAway = 227, "mirror-away", Warning,
        "mount it, or take it back with `capstan media import` when it is there, and bring it up to date with `capstan copy`";
    /// A mirror lacks what the version builds on.
    MirrorBehind = 239, "mirror-behind", Warning,
        "run the `capstan copy` that it names, or make a full backup, which builds on nothing";
    /// The header file of a medium is damaged; what it says is taken from a segment.
    HeaderDamaged = 228, "header-damaged", Warning,
        "nothing is lost: `capstan media repair` writes the header file of a directory anew, `capstan media retire` gives a tape up";
    /// A member of an array is lost; the others go on.
    MemberLost = 208, "member-lost", Warning,
        "bring the member back, or write it anew onto another device with `capstan rait rebuild`";
    /// The spool before a tape is lost; the tape is written without it.
    SpoolLost = 216, "spool-lost", Warning,
        "nothing is lost, the drive may stop and start: see to the spool's disk before the next session";
    /// What is not committed of a source that cannot be read again is not kept.
    NotKept = 224, "not-kept", Warning,
        "the session goes on, but a medium that fails would end it: make room there before the next one";
    /// A drive asked to be cleaned.
    DriveDirty = 209, "drive-dirty", Warning,
        "put a cleaning tape into the library and use `capstan library clean`";
    /// A drive could not read a tape that another drive reads, or could not write several tapes.
    DriveSuspect = 252, "drive-suspect", Warning,
        "nothing is lost: clean the drive (`capstan library clean`), and have it looked at if that does not help; \
         `capstan library enable` says that it is well";
    /// A drive failed, and others are taken before it.
    DriveFailed = 256, "drive-failed", Warning,
        "nothing is lost: look at the drive's cables and its front panel, and have it looked at; a session that works in it, or \
         `capstan library enable`, says that it is well";
    /// A tape is not what its sticker says.
    Mislabelled = 245, "mislabelled", Warning,
        "put the right label on the tape: by a wrong one it gets drives that cannot use it, or is taken for another; nothing of the session \
         is lost";
    /// A tape that was to be written is write-protected.
    WriteProtected = 254, "write-protected", Warning,
        "take the tape out through a mail slot, move its tab to where it can be written, and bring it back; or give it up with \
         `capstan media retire`";
    /// A night took more media than its rotation set is to have.
    SetOutgrown = 255, "set-outgrown", Warning,
        "give the set that number with `capstan pool set`, so that what it keeps stays for as many nights as before; \
         `capstan pool list` shows what it has";
    /// Somebody is to put a tape into a drive.
    TapeWanted = 210, "tape-wanted", Warning, "put the tape in: the session goes on by itself";
    /// Tapes were not brought out of their library.
    NotEjected = 211, "not-ejected", Warning,
        "make room in the mail slots and use `capstan library export`";
    /// A tape is worn or at fault, and was not retired.
    TapePoor = 212, "tape-poor", Warning,
        "bring what must stay to another tape with `capstan media retire`";
    /// Another process has the robot of a library.
    RobotBusy = 213, "robot-busy", Note, "nothing to do: it goes on when the robot is free";
    /// Other sessions have the medium, the drives or the tape.
    Waiting = 215, "waiting", Note,
        "nothing to do: it goes on when that is free; `--wait` says for how long";
    /// The internal database's own backup was not written.
    IdbNotSaved = 451, "idb-not-saved", Warning,
        "the data are safe; make room on the device, the next session writes it again";
    /// The server of the internal database went away, or is back.
    IdbAway = 452, "idb-away", Warning,
        "start PostgreSQL again: the session waits for it, and goes on";
    /// A version is not locked though that was asked for.
    NotLocked = 404, "not-locked", Error,
        "make all media of the version and of what it builds on available, then use `capstan lock`";
    /// A clock says of a version what cannot be.
    ClockWrong = 411, "clock-wrong", Error,
        "set the clock (NTP); versions stay in the order in which they were committed. One whose date is wrong goes, \
         once a later one is there, by `capstan protect NAME@SESSION --none` and `capstan prune NAME`";
    /// The same where no date decided anything.
    ClockDoubtful = 416, "clock-doubtful", Warning,
        "set the clock (NTP); what is restored is the last version that was committed, or the one that was named";
    /// The clock may have been set ahead: nothing ends by time.
    ClockLeapt = 414, "clock-leapt", Warning,
        "set the clock (NTP); if it is right, `capstan prune --clock-is-right` says so, and else a week of backups does";
    /// Somebody reads a version that was to go.
    IsRead = 412, "is-read", Note, "nothing to do: what is read goes when that is done";
    /// The kernel has no more threads.
    NoThread = 413, "no-thread", Error,
        "end other programs, or raise the limit of processes (`ulimit -u`, TasksMax= of a systemd unit), and run the \
         command again";
    /// Pages of the internal database are damaged.
    IdbDamaged = 456, "idb-damaged", Error,
        "put the home aside and bring it back with `capstan idb recover MEDIUM`, or with `capstan import MEDIUM`; check the disk";
    /// A backup of the internal database cannot be read, and an older one is taken.
    IdbOlder = 457, "idb-older", Warning,
        "recover from another medium that was written then, or `capstan import` each medium that was written since";
    /// A medium is not where it was, and nobody is on record as having taken it away.
    MediumAway = 217, "medium-away", Error,
        "mount it, or import it from where it is; `capstan media export` if it was taken away, `capstan media forget` if it is lost";
    /// Versions that were given up are there again.
    BroughtBack = 405, "brought-back", Note, "nothing to do: the next prune decides on them anew";
    /// A base was to be consolidated by a prune, and was not.
    NotConsolidated = 226, "not-consolidated", Warning,
        "the chain stays whole: make room, or see to the damage, as the message says, then prune again";
    /// A backup that did not complete stays on a full disk.
    UnendedKept = 236, "unended-kept", Warning,
        "make room and give `backup --resume`, or let it go by the commands that the message names";
    /// A medium is not as it was last written.
    MediumChanged = 221, "medium-changed", Error,
        "somebody else wrote to it, or cut it: the message says what differs, and which commands take the medium as it is or give \
         up what it held";
    /// A version is not whole, as a medium was taken as it is that had lost something of it.
    LostData = 218, "lost-data", Warning,
        "import the medium that has what is missing, if there is one; name a version that is whole to restore all of it";
    /// A version is not complete, as its session did not come to its end.
    Incomplete = 253, "incomplete", Error,
        "name a complete version, which `capstan versions` lists, or back it up again: what was committed of this one is whole";
}

impl Code {
    /// The code's name in logs and JSON.
    pub const fn name(self) -> &'static str {
        self.row().1
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One message.
#[derive(Debug, Clone)]
pub struct Message {
    /// What it is about.
    pub code: Code,
    /// Which agent says it: `disk agent`, `media agent`, `cell`.
    pub agent: &'static str,
    /// The file, directory or device, as text.
    pub path: String,
    /// What happened.
    pub text: String,
    /// When, in microseconds since 1970.
    pub time_us: i64,
}

/// Who takes messages. Called from many threads.
pub trait Listener: Send + Sync {
    /// Takes a message.
    fn message(&self, message: Message);
}

/// Whether a character does something else to a line of text than to stand in it: controls, what turns its direction, line
/// separators, and what has no width, so that two names would look the same.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Text for one line of a terminal, a log or a table: characters that are not safe there are escaped, as `\u{202e}`.
pub fn safe_text(text: &str) -> String {
    path_text(text.as_bytes())
}

/// An error with all that caused it, in one line, without saying anything twice.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(e) = source {
        let more = e.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = e.source();
    }
    text
}

/// What the system said, without its number; what others said, as it is.
pub fn plain(e: &std::io::Error) -> String {
    if let Some(of_others) = e.get_ref() {
        return of_others.to_string();
    }
    e.to_string().split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// A word of a command line that a message suggests: in quotes where a shell would take it for something else, as it would an
/// address with `?` and `&`.
pub fn shell_word(word: impl fmt::Display) -> String {
    let word = word.to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@._/-+:,=%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Bytes of a path as text: UTF-8 where it is, `\xNN` for each byte that is not, and escapes for characters that would do
/// something to a terminal, or cannot be seen.
pub fn path_text(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len() + 1);
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_unsafe(c) { out.extend(c.escape_default()) } else { out.push(c) }
        }
        chunk.invalid().iter().for_each(|b| out.push_str(&format!("\\x{b:02x}")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_suggested_commands_can_be_pasted() {
        for (word, pasted) in [
            ("desk@1f2e3d4c", "desk@1f2e3d4c"),
            ("iscsi://h:3260/iqn.2001-04.com.x:vtl/1", "iscsi://h:3260/iqn.2001-04.com.x:vtl/1"),
            ("vtape:/v?drive=1&tape=A1", "'vtape:/v?drive=1&tape=A1'"),
            ("/ann's disk", "'/ann'\\''s disk'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(word), pasted);
        }
    }

    #[test]
    fn paths_print_safely() {
        assert_eq!(path_text(b"a/\xff\xc3\xa9\x1b[31m"), "a/\\xffé\\u{1b}[31m");
    }

    #[test]
    fn what_turns_or_hides_text_is_escaped() {
        let turns = ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}');
        let hides =
            ('\u{200b}'..='\u{200f}').chain(['\u{2028}', '\u{2029}', '\u{2060}', '\u{feff}']);
        for c in turns.chain(hides) {
            let shown = safe_text(&format!("invoice{c}fdp.exe"));
            assert_eq!(shown, format!("invoice\\u{{{:x}}}fdp.exe", u32::from(c)));
        }
        assert_eq!(safe_text("übung 日本 e\u{301} — 🚀"), "übung 日本 e\u{301} — 🚀");
        assert_eq!(safe_text("a\nb"), "a\\nb");
    }

    #[test]
    fn codes_are_distinct() {
        for (i, a) in Code::ALL.iter().enumerate() {
            for b in &Code::ALL[i + 1..] {
                assert_ne!(a.row().0, b.row().0);
                assert_ne!(a.name(), b.name());
            }
        }
    }
}
