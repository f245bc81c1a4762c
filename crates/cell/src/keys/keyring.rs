//! The key ring of a home: where it is kept, what opens it, and what a new key pair changes.
//!
//! A ring in the home means that backups are encrypted. Writing needs its public halves only; reading needs a
//! [`Secrets`] that opens one of its locks.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use capstan_engine::entropy::Entropy;
use capstan_engine::problem::Problem;
use capstan_engine::{durable, regular};
use capstan_format::keys::{
    Grant, KeyError, KeyRecord, KeyRing, LockKind, MAX_WRAPS, NamesKey, PairId, Purpose,
    RecoveryCode, Scope, Secret, Unlocked,
};
use capstan_idb::Idb;
use parking_lot::{Mutex, MutexGuard};
use zeroize::Zeroizing;

use crate::error::{CellError, KeyRefusal, Result};
use crate::process::guard::guard;

/// The ring's file below the home.
pub const FILE_NAME: &str = "keyring.json";
/// The environment variable with a passphrase.
pub const ENV_PASSPHRASE: &str = "CAPSTAN_PASSPHRASE";
/// The environment variable with the path of a key file.
pub const ENV_KEY_FILE: &str = "CAPSTAN_KEY_FILE";
/// The environment variable with a recovery code.
pub const ENV_RECOVERY_CODE: &str = "CAPSTAN_RECOVERY_CODE";

/// The longest ring file that is read, in bytes; rings are shorter.
const FILE_MAX: u64 = 1 << 20;
/// The longest key file that is read, in bytes: the longest that a lock takes, and one to notice that it is longer.
const KEY_FILE_MAX: u64 = (1 << 20) + 1;
/// How often a person is asked for a passphrase.
const TRIES: usize = 3;

/// Asks a person for a secret, without showing what is typed. The text says for what; `None` if there is nobody to ask.
pub type Prompt = Box<dyn Fn(&str) -> io::Result<Option<Zeroizing<String>>> + Send + Sync>;

/// Where to get what opens keys.
#[derive(Default)]
pub struct Secrets {
    passphrase: Option<Zeroizing<String>>,
    key_file: Option<PathBuf>,
    recovery_code: Option<Zeroizing<String>>,
    prompt: Option<Prompt>,
    typed: Mutex<Typed>,
}

/// What somebody typed: a session opens many key records and asks once.
#[derive(Default)]
struct Typed {
    passphrases: Vec<Zeroizing<String>>,
    recovery_codes: Vec<Zeroizing<String>>,
    gave_up: Option<GaveUp>,
}

/// Why nobody is to be asked again.
#[derive(Clone, Copy)]
enum GaveUp {
    Wrong,
    Cancelled(ErrorKind),
    /// Nobody is there, or he has nothing to say.
    Unanswered,
}

/// What an empty answer to a question for a passphrase means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Empty {
    /// A passphrase, and a wrong one.
    Wrong,
    /// That there is none, with what is left out then.
    Without(&'static str),
}

impl GaveUp {
    fn result(self) -> Result<Option<Unlocked>> {
        match self {
            Self::Wrong => Err(KeyError::WrongPassphrase.into()),
            Self::Cancelled(kind) => {
                Err(CellError::io("read", "the answer")(io::Error::new(kind, "cancelled")))
            }
            Self::Unanswered => Ok(None),
        }
    }
}

impl Secrets {
    /// No secret: opens nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// What variables give: `CAPSTAN_PASSPHRASE`, `CAPSTAN_KEY_FILE`, `CAPSTAN_RECOVERY_CODE`. An empty one is as none. Whoever
    /// began the process knows where their values are: secrets do not stay in its environment.
    pub fn from_variables(get: &dyn Fn(&str) -> Option<Zeroizing<Vec<u8>>>) -> Result<Self> {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let text = |name: &str| -> Result<Option<Zeroizing<String>>> {
            let Some(value) = get(name) else { return Ok(None) };
            match std::str::from_utf8(&value) {
                Ok(text) => Ok(Some(Zeroizing::new(text.to_owned()))),
                Err(_) => Err(KeyRefusal::NotUtf8 { variable: name.to_owned() }.into()),
            }
        };
        let path = get(ENV_KEY_FILE).map(|path| PathBuf::from(OsStr::from_bytes(&path)));
        Ok(Self {
            passphrase: text(ENV_PASSPHRASE)?,
            key_file: path,
            recovery_code: text(ENV_RECOVERY_CODE)?,
            ..Self::default()
        })
    }

    /// With a passphrase.
    #[must_use]
    pub fn with_passphrase(mut self, passphrase: &str) -> Self {
        self.passphrase = Some(Zeroizing::new(passphrase.to_owned()));
        self
    }

    /// With a key file.
    #[must_use]
    pub fn with_key_file(mut self, path: &Path) -> Self {
        self.key_file = Some(path.to_owned());
        self
    }

    /// With a recovery code as typed.
    #[must_use]
    pub fn with_recovery_code(mut self, code: &str) -> Self {
        self.recovery_code = Some(Zeroizing::new(code.to_owned()));
        self
    }

    /// With somebody to ask where nothing else is given.
    #[must_use]
    pub fn with_prompt(mut self, prompt: Prompt) -> Self {
        self.prompt = Some(prompt);
        self
    }

    fn typed(&self) -> MutexGuard<'_, Typed> {
        self.typed.lock()
    }

    /// Whether a secret is given, without asking anybody.
    pub fn are_given(&self) -> bool {
        self.passphrase.is_some() || self.key_file.is_some() || self.recovery_code.is_some()
    }
}

/// What a secret is, never what it says.
impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets")
            .field("passphrase", &self.passphrase.is_some())
            .field("key_file", &self.key_file)
            .field("recovery_code", &self.recovery_code.is_some())
            .field("prompt", &self.prompt.is_some())
            .finish()
    }
}

/// The ring of that home; `None` where backups are not encrypted.
pub fn load(home: &Path) -> Result<Option<KeyRing>> {
    load_as(home, FILE_NAME)
}

/// A ring that is kept under another name.
pub(crate) fn load_as(home: &Path, name: &str) -> Result<Option<KeyRing>> {
    let path = home.join(name);
    match regular::read(&path, FILE_MAX) {
        Ok(json) => Ok(Some(KeyRing::from_json(&json)?)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(CellError::io("read the key ring", path.display())(e)),
    }
}

/// Stores the ring in that home, readable for its owner alone, so that a crash leaves the old one or the new one.
pub fn save(home: &Path, ring: &KeyRing) -> Result<()> {
    save_as(home, FILE_NAME, ring)
}

/// Stores a ring under another name.
pub(crate) fn save_as(home: &Path, name: &str, ring: &KeyRing) -> Result<()> {
    write_as(home, name, &ring.to_json()?)
}

/// Writes a file of keys, readable for its owner alone, so that a crash leaves the old one or the new one.
pub(crate) fn write_as(home: &Path, name: &str, json: &[u8]) -> Result<()> {
    let path = home.join(name);
    let temp = home.join(format!(".{name}.new"));
    let io = |action| CellError::io(action, path.display());
    // Left by a crash; whoever changes the ring holds the lock, so nobody is writing it now.
    match std::fs::remove_file(&temp) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(io("replace the key ring")(e)),
        _ => {}
    }
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temp)?;
        file.write_all(json)?;
        file.sync_all()?;
        durable::rename(&temp, &path)
    };
    write().map_err(io("write the key ring"))
}

/// Held while a ring is read, changed and saved, so that two changes at once do not lose one of them.
#[derive(Debug)]
pub struct ChangeLock(#[expect(dead_code, reason = "held for its lock")] File);

/// Waits until nobody else changes the ring of that home; the home is made (0700) where it is missing.
pub fn lock(home: &Path) -> Result<ChangeLock> {
    let io = |action| CellError::io(action, home.display());
    if !home.is_dir() {
        durable::create_directories(home, 0o700).map_err(io("create the home"))?;
    }
    let path = home.join(".keyring.lock");
    match regular::refuse_others(&path) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            return Err(CellError::io("open", path.display())(e));
        }
        _ => {}
    }
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(CellError::io("open", path.display()))?;
    file.lock().map_err(CellError::io("lock", path.display()))?;
    Ok(ChangeLock(file))
}

/// Opens what the secrets open: all that are given are tried; where none is, somebody is asked. An error means that
/// nothing opened.
pub fn unlock(ring: &KeyRing, secrets: &Secrets) -> Result<Unlocked> {
    open(ring, secrets, Empty::Wrong)?.ok_or_else(|| nothing_given(ring))
}

/// As [`unlock`], for what can be done without: `None` where no secret is given and nobody who is asked has one. The text
/// says what an empty answer means, as "import without names".
pub fn unlock_if_given(
    ring: &KeyRing,
    secrets: &Secrets,
    without: &'static str,
) -> Result<Option<Unlocked>> {
    open(ring, secrets, Empty::Without(without))
}

fn open(ring: &KeyRing, secrets: &Secrets, empty: Empty) -> Result<Option<Unlocked>> {
    guard();
    let mut open = Unlocked::default();
    let mut failure: Option<CellError> = None;
    let mut take = |result: Result<Unlocked>| match result {
        Ok(unlocked) => open.merge(unlocked),
        Err(e) => failure = failure.take().or(Some(e)),
    };
    if let Some(path) = &secrets.key_file {
        take(read_key_file(path).and_then(|f| Ok(ring.unlock(&Secret::KeyFile(&f))?)));
    }
    if let Some(text) = &secrets.recovery_code {
        let code = RecoveryCode::parse(text);
        take(code.and_then(|c| ring.unlock(&Secret::RecoveryCode(&c))).map_err(CellError::from));
    }
    if let Some(text) = &secrets.passphrase {
        take(ring.unlock(&Secret::Passphrase(text)).map_err(CellError::from));
    }
    if open.pairs().next().is_some() {
        return Ok(Some(open));
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    let mut typed = secrets.typed();
    let by_passphrase = |text: &Zeroizing<String>| ring.unlock(&Secret::Passphrase(text)).ok();
    let by_code = |text: &Zeroizing<String>| {
        ring.unlock(&Secret::RecoveryCode(&RecoveryCode::parse(text).ok()?)).ok()
    };
    let known = typed.passphrases.iter().find_map(by_passphrase);
    match known.or_else(|| typed.recovery_codes.iter().find_map(by_code)) {
        Some(unlocked) => Ok(Some(unlocked)),
        None => ask(ring, secrets, &mut typed, empty),
    }
}

/// Reads a key file, at most as much as a lock takes.
pub fn read_key_file(path: &Path) -> Result<Zeroizing<Vec<u8>>> {
    let io =
        |source| CellError::from(KeyRefusal::KeyFileUnreadable { path: path.to_owned(), source });
    let file = File::open(path).map_err(io)?;
    // Ample from the start, so that growing leaves no copies behind.
    let mut content = Zeroizing::new(Vec::with_capacity(KEY_FILE_MAX as usize));
    file.take(KEY_FILE_MAX).read_to_end(&mut content).map_err(io)?;
    Ok(content)
}

/// Asks for what opens the ring; `None` where there is nobody to ask or nothing to ask for.
fn ask(
    ring: &KeyRing,
    secrets: &Secrets,
    typed: &mut Typed,
    empty: Empty,
) -> Result<Option<Unlocked>> {
    let pairs = ring.list();
    let has = |kind| pairs.iter().flat_map(|p| &p.locks).any(|l| l.kind == kind);
    let active = pairs.last().map(|p| p.id.to_string()).unwrap_or_default();
    let Some(prompt) = &secrets.prompt else { return Ok(None) };
    if let Some(why) = typed.gave_up {
        return why.result();
    }
    let hint = match empty {
        Empty::Wrong => String::new(),
        Empty::Without(what) => format!(" (empty: {what})"),
    };
    let answer = |question: &str, typed: &mut Typed| {
        let answer = prompt(question)
            .inspect_err(|e| typed.gave_up = Some(GaveUp::Cancelled(e.kind())))
            .map_err(CellError::io("read", "the answer"))?;
        let answer = answer.filter(|text| empty == Empty::Wrong || !text.is_empty());
        if answer.is_none() {
            typed.gave_up = Some(GaveUp::Unanswered);
        }
        Ok::<_, CellError>(answer)
    };
    if has(LockKind::Passphrase) {
        for left in (0..TRIES).rev() {
            let question = format!("Passphrase of key {active}{hint}: ");
            let Some(text) = answer(&question, typed)? else { return Ok(None) };
            match ring.unlock(&Secret::Passphrase(&text)) {
                Err(KeyError::WrongPassphrase) if left > 0 => {}
                Err(e) => {
                    typed.gave_up = Some(GaveUp::Wrong);
                    return Err(e.into());
                }
                Ok(unlocked) => {
                    typed.passphrases.push(text);
                    return Ok(Some(unlocked));
                }
            }
        }
    }
    if has(LockKind::RecoveryCode) {
        let mut code = Zeroizing::new(String::with_capacity(512));
        for line in 1..=4 {
            let question = format!("Recovery code of key {active}, line {line} of 4{hint}: ");
            let Some(text) = answer(&question, typed)? else { return Ok(None) };
            code.push_str(&text);
            code.push('\n');
        }
        let unlocked = ring.unlock(&Secret::RecoveryCode(&RecoveryCode::parse(&code)?))?;
        typed.recovery_codes.push(code);
        return Ok(Some(unlocked));
    }
    Ok(None)
}

fn nothing_given(ring: &KeyRing) -> CellError {
    let pairs = ring.list();
    if pairs.iter().all(|p| p.locks.is_empty()) {
        return KeyError::PublicOnly.into();
    }
    let active = pairs.last().map(|p| p.id.to_string()).unwrap_or_default();
    CellError::NoKey(
        Problem::new(format!("key {active} has to be unlocked for this and no secret is given"))
            .hint(format!("set {ENV_PASSPHRASE}, {ENV_KEY_FILE} or {ENV_RECOVERY_CODE}")),
    )
}

/// Records wrapped keys that a medium has, those that are not known yet.
pub fn record_keys(idb: &Idb, records: &[KeyRecord]) -> Result<()> {
    for record in records {
        let json = String::from_utf8_lossy(&record.to_json()?).into_owned();
        idb.import_key(&capstan_idb::KeyRecord { id: record.id(), record: json })?;
    }
    Ok(())
}

/// What [`rewrap`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rewrapped {
    /// Key records wrapped anew.
    pub changed: u64,
    /// Key records that were wrapped for the active pair already.
    pub current: u64,
    /// Key records that none of the opened pairs opens, of other rings: they stay as they are.
    pub foreign: u64,
}

/// Wraps the session keys recorded in the internal database for the ring's active pair. Data and media stay as they
/// are: media carry the records and the ring as they were when they were written.
///
/// Those for which the names key is not yet get it as well. Former pairs of the ring that opened them go on doing so, as they do on
/// the media: their locks stay until they are removed.
pub fn rewrap(
    idb: &Idb,
    unlocked: &Unlocked,
    ring: &KeyRing,
    names: Option<&NamesKey>,
) -> Result<Rewrapped> {
    let active = ring.active()?.id();
    let grants: Vec<Grant> = names.iter().map(|key| key.grant()).collect();
    let entropy = Entropy::system().map_err(CellError::io("open", "/dev/urandom"))?;
    let mut done = Rewrapped::default();
    for row in idb.keys()? {
        let mut record = KeyRecord::from_json(row.record.as_bytes())?;
        let is_current = [Purpose::Names, Purpose::Contents]
            .into_iter()
            .all(|purpose| record.recipients(purpose).any(|to| to == active))
            && names.is_none_or(|key| record.recipients(Purpose::Names).any(|to| to == key.id()));
        if is_current && record.ring() == ring {
            done.current += 1;
            continue;
        }
        let opened: [Vec<PairId>; 2] =
            [Purpose::Names, Purpose::Contents].map(|purpose| record.recipients(purpose).collect());
        let former = ring.list().into_iter().rev().filter(|pair| !pair.active);
        let former = former.filter_map(|pair| {
            let scope = match opened.each_ref().map(|all| all.contains(&pair.id)) {
                [_, true] => Scope::All,
                [true, false] => Scope::Names,
                [false, false] => return None,
            };
            Some(Grant { to: pair.public, scope })
        });
        let grants: Vec<Grant> = grants.iter().copied().chain(former).take(MAX_WRAPS - 1).collect();
        match with_randomness(&entropy, |rng| record.rewrap(unlocked, ring, &grants, rng)) {
            Ok(()) => {
                let json = String::from_utf8_lossy(&record.to_json()?).into_owned();
                idb.put_key(&capstan_idb::KeyRecord { id: row.id, record: json })?;
                done.changed += 1;
            }
            Err(CellError::Key(KeyError::NotARecipient { .. } | KeyError::NamesOnly { .. })) => {
                done.foreign += 1;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Runs what draws keys with the operating system's randomness; if that fails, so does the whole, and what was made
/// is not used.
pub fn with_randomness<T>(
    entropy: &Entropy,
    run: impl FnOnce(&mut dyn FnMut(&mut [u8])) -> std::result::Result<T, KeyError>,
) -> Result<T> {
    let mut failure = None;
    let made = run(&mut |out| {
        if let Err(e) = entropy.fill(out) {
            failure = Some(e);
        }
    });
    match failure {
        Some(e) => Err(CellError::io("read", "/dev/urandom")(e)),
        None => Ok(made?),
    }
}

#[cfg(test)]
mod tests;
