//! `capstan key`: the key ring of the home.

use std::cell::RefCell;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use capstan_address::Address;
use capstan_cell::guard::guard;
use capstan_cell::keyring::{self, ENV_PASSPHRASE, FILE_NAME, Rewrapped, Secrets, with_randomness};
use capstan_cell::{Cell, CellError, TakenRing, names_key, ring_of_medium};
use capstan_engine::durable;
use capstan_engine::entropy::Entropy;
use capstan_engine::message::safe_text;
use capstan_format::keys::{
    ArgonParams, KeyError, KeyRing, LockBy, LockId, LockKind, NewLock, Recipient, RecoveryCode,
    Rng, Scope, SheetInfo, Unlocked, recovery_sheet,
};
use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::args::{Global, KeyArgs, KeyCommand, LockArgs, SecretArgs};
use crate::exit::{COMPLETED, FAILED, Failure};
use crate::output::{Output, ask_secret, json_line};
use crate::process::environment::{self, ENV_NEW_PASSPHRASE};
use crate::process::home;
use crate::text::local_time;
use crate::text::sizes::grouped;

/// Bytes of a key file that is made here.
const KEY_FILE_LEN: usize = 32;
/// Passphrases shorter than this, in characters, get a warning: who has a medium can try them at leisure.
const SHORT_PASSPHRASE: usize = 12;

/// Runs `key`.
pub fn run(global: &Global, args: &KeyArgs) -> Result<u8, Failure> {
    guard();
    let keys = Keys {
        home: home::home(global)?,
        json: args.json,
        notes: Notes { quiet: global.quiet },
        documents: RefCell::default(),
        public: RefCell::default(),
    };
    match &args.command {
        KeyCommand::Init { lock, recipient, no_names_key } => {
            keys.init(lock, recipient.as_ref(), !*no_names_key)
        }
        KeyCommand::Add { lock, recipient, names_only, secret } => {
            let scope = if *names_only { Scope::Names } else { Scope::All };
            keys.add(lock, recipient.as_ref(), scope, secret)
        }
        KeyCommand::Import { device, no_names_key, secret } => {
            keys.import(global, device, !*no_names_key, secret)
        }
        KeyCommand::Names { remove: true, .. } => keys.remove_names_key(),
        KeyCommand::Names { remove: false, secret } => keys.names(secret),
        KeyCommand::Remove { lock } => keys.remove(lock),
        KeyCommand::List => keys.list(),
        KeyCommand::Rotate { lock, secret } => keys.rotate(lock, secret),
        KeyCommand::Rewrap { secret } => keys.rewrap(secret),
        KeyCommand::Show => keys.show(),
        KeyCommand::Recovery { name, secret } => keys.recovery(name.as_deref(), secret),
    }?;
    keys.print_json()?;
    Ok(COMPLETED)
}

/// What opens a lock that is being made.
enum Opener {
    Passphrase(Zeroizing<String>),
    KeyFile(Zeroizing<Vec<u8>>),
    Code(RecoveryCode),
    Recipient(Recipient),
}

impl Opener {
    fn lock<'a>(&'a self, scope: Scope, label: &'a str) -> NewLock<'a> {
        let by = match self {
            Self::Passphrase(text) => LockBy::Passphrase(text, ArgonParams::DEFAULT),
            Self::KeyFile(content) => LockBy::KeyFile(content),
            Self::Code(code) => LockBy::RecoveryCode(code),
            Self::Recipient(to) => LockBy::Recipient(to),
        };
        NewLock { by, scope, label }
    }
}

struct Keys {
    home: PathBuf,
    /// One JSON object is asked for: what would be printed goes into it.
    json: bool,
    notes: Notes,
    documents: RefCell<Vec<Zeroizing<String>>>,
    public: RefCell<Option<String>>,
}

impl Keys {
    /// Prints what somebody keeps, or puts it into the JSON.
    fn print(&self, text: &str) -> Result<(), Failure> {
        match self.json {
            true => self.documents.borrow_mut().push(Zeroizing::new(text.to_owned())),
            false => print(text)?,
        }
        Ok(())
    }

    /// The ring as it is now, where JSON is asked for.
    fn print_json(&self) -> Result<(), Failure> {
        if !self.json {
            return Ok(());
        }
        let ring = keyring::load(&self.home)?;
        let names = names_key::load(&self.home)?.map(|key| key.id().to_string());
        let documents: Vec<_> =
            self.documents.borrow().iter().map(|text| text.to_string()).collect();
        print(&json_line(&json!({
            "key_ring": ring.as_ref().map(|_| self.home.join(FILE_NAME).display().to_string()),
            "pairs": ring.as_ref().map_or_else(|| json!([]), |ring| json!(pairs_json(ring))),
            "names_key": names,
            "public_key": *self.public.borrow(),
            "documents": documents,
        })))
    }

    fn ring(&self) -> Result<KeyRing, Failure> {
        keyring::load(&self.home)?.ok_or_else(|| {
            Failure::bad_input(
                format!("there is no key ring in {}", self.home.display()),
                "make one with `capstan key init`; backups are not encrypted until then",
            )
        })
    }

    fn unlock(&self, ring: &KeyRing, secret: &SecretArgs) -> Result<Unlocked, Failure> {
        Ok(keyring::unlock(ring, &self.secrets(secret)?)?)
    }

    fn secrets(&self, args: &SecretArgs) -> Result<Secrets, Failure> {
        let secrets = home::secrets()?;
        Ok(match &args.unlock_key_file {
            Some(file) => secrets.with_key_file(file),
            None => secrets,
        })
    }

    fn init(
        &self,
        args: &LockArgs,
        recipient: Option<&Recipient>,
        names_key: bool,
    ) -> Result<(), Failure> {
        let _lock = keyring::lock(&self.home)?;
        let path = self.home.join(FILE_NAME);
        self.refuse_ring()?;
        let now = Timestamp::now().as_second();
        if let Some(to) = recipient {
            keyring::save(&self.home, &KeyRing::of_recipient(*to, now))?;
            self.notes.say(&format!("backups are encrypted for key {} from now on", to.id()));
            self.notes.say("this machine cannot read them; keep the key ring that can");
            return self.names_key_if(names_key);
        }
        let openers = openers(args, true, self.notes)?;
        let (first, rest) = openers.split_first().ok_or_else(no_lock)?;
        let label = label(args);
        let (mut ring, unlocked) =
            draw(|rng| KeyRing::create(&first.lock(Scope::All, label), now, rng))?;
        for opener in rest {
            draw(|rng| ring.add_lock(&unlocked, &opener.lock(Scope::All, label), rng))?;
        }
        // A code that could not be printed opens nothing that anybody has.
        self.print_sheets(&ring, &openers, None)?;
        keyring::save(&self.home, &ring)?;
        self.notes
            .say(&format!("backups are encrypted from now on; the key ring is {}", path.display()));
        self.names_key_if(names_key)?;
        if !openers.iter().any(|o| matches!(o, Opener::Code(_))) {
            self.notes.say(
                "without what opens it no backup can be read: `capstan key recovery` prints a sheet to lock away",
            );
        }
        Ok(())
    }

    fn add(
        &self,
        args: &LockArgs,
        recipient: Option<&Recipient>,
        scope: Scope,
        secret: &SecretArgs,
    ) -> Result<(), Failure> {
        let _lock = keyring::lock(&self.home)?;
        let mut ring = self.ring()?;
        let unlocked = self.unlock(&ring, secret)?;
        let mut new = match recipient {
            // A passphrase is the default only where nothing else is asked for.
            Some(_) if args.is_empty() => Vec::new(),
            _ => openers(args, false, self.notes)?,
        };
        new.extend(recipient.map(|to| Opener::Recipient(*to)));
        let mut ids = Vec::new();
        for opener in &new {
            ids.push(draw(|rng| ring.add_lock(&unlocked, &opener.lock(scope, label(args)), rng))?);
        }
        if scope == Scope::All {
            self.print_sheets(&ring, &new, None)?;
        } else {
            // A sheet promises that all can be read with it; this code opens names only.
            for opener in &new {
                if let Opener::Code(code) = opener {
                    self.print(&code.to_text())?;
                }
            }
        }
        keyring::save(&self.home, &ring)?;
        ids.iter().for_each(|id| self.notes.say(&format!("lock {id} is added")));
        self.note_locks(&ids);
        Ok(())
    }

    fn import(
        &self,
        global: &Global,
        device: &Address,
        names_key: bool,
        secret: &SecretArgs,
    ) -> Result<(), Failure> {
        let _lock = keyring::lock(&self.home)?;
        self.refuse_ring()?;
        let taken = ring_of_medium(&global.devices, device, &self.secrets(secret)?)?;
        let TakenRing { ring, unlocked, records } = taken;
        let id = ring.active().map_err(CellError::from)?.id();
        keyring::save(&self.home, &ring)?;
        self.notes.say(&format!(
            "backups are encrypted for key {id} from now on; the key ring is {}",
            self.home.join(FILE_NAME).display()
        ));
        self.notes.say(
            "what you gave opens this key itself, so only who knows it can have made it; compare the id with your recovery sheet or with `capstan key list` of another machine",
        );
        self.names_key_if(names_key)?;
        // What the medium has, and what was imported before, opens to the names key too: the next backup builds on it with nobody at
        // hand.
        if names_key {
            keyring::record_keys(self.cell()?.idb(), &records)?;
            self.rewrap_with(&ring, &unlocked)?;
        }
        Ok(())
    }

    /// Makes the names key, or removes what an earlier ring left.
    fn names_key_if(&self, wanted: bool) -> Result<(), Failure> {
        if !wanted {
            names_key::remove(&self.home)?;
            self.notes.say(
                "there is no names key: where no secret is at hand, each backup is a full one",
            );
            return Ok(());
        }
        names_key::make(&self.home, Timestamp::now().as_second())?;
        self.say_names_key();
        Ok(())
    }

    fn say_names_key(&self) {
        self.notes.say(&format!(
            "{} opens the names of this home's backups, not their contents, so that incrementals run unattended; \
             `capstan key names --remove` removes it",
            self.home.join(names_key::FILE_NAME).display()
        ));
    }

    /// Makes the names key where there is none, and gives it what was recorded before, if a secret is at hand.
    fn names(&self, secret: &SecretArgs) -> Result<(), Failure> {
        let _lock = keyring::lock(&self.home)?;
        let ring = self.ring()?;
        // A damaged one is made anew.
        if names_key::load(&self.home).ok().flatten().is_none() {
            names_key::make(&self.home, Timestamp::now().as_second())?;
        }
        self.say_names_key();
        let without = "the next backup is a full one";
        match keyring::unlock_if_given(&ring, &self.secrets(secret)?, without) {
            Ok(Some(unlocked)) => self.rewrap_with(&ring, &unlocked),
            Ok(None) | Err(CellError::Key(KeyError::PublicOnly)) => {
                self.notes.say(
                    "it opens backups from now on, not those before: the next one is a full one; with a secret, `capstan key rewrap` gives it those too",
                );
                Ok(())
            }
            Err(e) => Err(e.into()),
        }
    }

    fn remove_names_key(&self) -> Result<(), Failure> {
        let _lock = keyring::lock(&self.home)?;
        let is_removed = names_key::remove(&self.home)?;
        let cell = Cell::open(&self.home, Secrets::none())?;
        // After a recovery it may be what is not wanted back.
        if cell.forget_names_key()? {
            self.notes
                .say("it is done without a names key: backups are full where no secret is at hand");
            return Ok(());
        }
        if !is_removed {
            return Err(Failure::bad_input(
                format!("there is no names key in {}", self.home.display()),
                "`capstan key names` makes one",
            ));
        }
        self.notes.say(
            "the names key is removed: where no secret is at hand, each backup is a full one from now on",
        );
        Ok(())
    }

    /// A ring is never replaced by another.
    fn refuse_ring(&self) -> Result<(), Failure> {
        let Some(ring) = keyring::load(&self.home)? else { return Ok(()) };
        let hint = if ring.list().iter().all(|p| p.locks.is_empty()) {
            format!(
                "it has public keys only; remove {} to write for another key",
                self.home.join(FILE_NAME).display()
            )
        } else {
            "use `capstan key add` for a further lock, `capstan key rotate` for new keys".to_owned()
        };
        let error = format!("there is a key ring in {} already", self.home.display());
        Err(Failure::bad_input(error, &hint))
    }

    fn remove(&self, lock: &LockId) -> Result<(), Failure> {
        let _lock = keyring::lock(&self.home)?;
        let mut ring = self.ring()?;
        ring.remove_lock(lock).map_err(CellError::from)?;
        keyring::save(&self.home, &ring)?;
        self.notes.say(&format!("lock {lock} is removed; media that are written keep it"));
        Ok(())
    }

    fn list(&self) -> Result<(), Failure> {
        let ring = self.ring()?;
        if self.json {
            return Ok(());
        }
        let names = names_key::load(&self.home)?;
        let mut text = String::new();
        for pair in ring.list() {
            let active = if pair.active { ", active" } else { "" };
            let created = local_time(pair.created.saturating_mul(1_000_000));
            text.push_str(&format!("key {}  made {created}{active}\n", pair.id));
            if pair.locks.is_empty() {
                text.push_str("  no locks: it can write backups and not read them\n");
            }
            for lock in pair.locks {
                let id = lock.id.map_or_else(|| "?".to_owned(), |id| id.to_string());
                let (kind, scope) = (lock.kind.to_string(), scope_name(lock.scope));
                let line =
                    format!("  lock {id}  {kind:<13}  {scope:<5}  {}", safe_text(&lock.label));
                text.push_str(line.trim_end());
                text.push('\n');
            }
        }
        match names {
            Some(key) => {
                let made = local_time(key.created().saturating_mul(1_000_000));
                text.push_str(&format!("names key {}  made {made}\n", key.id()));
                text.push_str("  it opens names of this home's backups without a secret\n");
            }
            None => text.push_str("no names key: incrementals need a secret\n"),
        }
        print(&text)
    }

    fn rotate(&self, args: &LockArgs, secret: &SecretArgs) -> Result<(), Failure> {
        let _lock = keyring::lock(&self.home)?;
        let mut ring = self.ring()?;
        let mut unlocked = self.unlock(&ring, secret)?;
        let openers = openers(args, false, self.notes)?;
        let (first, rest) = openers.split_first().ok_or_else(no_lock)?;
        let (now, label) = (Timestamp::now().as_second(), label(args));
        let id = draw(|rng| ring.rotate(&mut unlocked, &first.lock(Scope::All, label), now, rng))?;
        for opener in rest {
            draw(|rng| ring.add_lock(&unlocked, &opener.lock(Scope::All, label), rng))?;
        }
        let new: Vec<LockId> = ring
            .list()
            .pop()
            .into_iter()
            .flat_map(|pair| pair.locks)
            .filter_map(|l| l.id)
            .collect();
        self.print_sheets(&ring, &openers, None)?;
        // The ring comes first: with it, both what is wrapped anew and what is not can be read.
        keyring::save(&self.home, &ring)?;
        self.notes.say(&format!("key {id} is active; older keys are kept for reading"));
        self.notes.say(
            "locks of older keys, recovery sheets among them, open what was written before and nothing that is written from now on: add them again (`capstan key recovery`, `capstan key add`)",
        );
        self.note_locks(&new);
        self.rewrap_with(&ring, &unlocked)
    }

    fn rewrap(&self, secret: &SecretArgs) -> Result<(), Failure> {
        let _lock = keyring::lock(&self.home)?;
        let ring = self.ring()?;
        let unlocked = self.unlock(&ring, secret)?;
        self.rewrap_with(&ring, &unlocked)
    }

    fn cell(&self) -> Result<Cell, Failure> {
        Ok(Cell::open(&self.home, Secrets::none())?)
    }

    fn rewrap_with(&self, ring: &KeyRing, unlocked: &Unlocked) -> Result<(), Failure> {
        let cell = self.cell()?;
        let names = names_key::load(&self.home)?;
        let Rewrapped { changed, current, foreign } =
            keyring::rewrap(cell.idb(), unlocked, ring, names.as_ref())?;
        self.notes.say(&format!(
            "keys of {} backups are wrapped anew, {} were as they should be, {} are of other key rings",
            grouped(changed),
            grouped(current),
            grouped(foreign)
        ));
        Ok(())
    }

    fn show(&self) -> Result<(), Failure> {
        let public = self.ring()?.active().map_err(CellError::from)?;
        if self.json {
            *self.public.borrow_mut() = Some(public.to_string());
            return Ok(());
        }
        print(&format!("{public}\n"))
    }

    fn recovery(&self, name: Option<&str>, secret: &SecretArgs) -> Result<(), Failure> {
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

    /// Says which media do not carry locks that were just made.
    fn note_locks(&self, made: &[LockId]) {
        let note = || -> Result<(), CellError> {
            let cell = Cell::open(&self.home, Secrets::none())?;
            made.iter().try_for_each(|id| cell.note_lock(id))?;
            let made: Vec<String> = made.iter().map(ToString::to_string).collect();
            for lock in cell.locks_not_on_media()?.iter().filter(|of| made.contains(&of.lock)) {
                self.notes.say(&format!("{} (`capstan status` says which lack it)", lock.text()));
            }
            Ok(())
        };
        // The lock is made, whatever is known of media.
        if let Err(e) = note() {
            self.notes.say(&format!("media that are not written again do not carry it; which these are is not known: {e}"));
        }
    }

    /// Prints a sheet for each recovery code.
    fn print_sheets(
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

/// What is to open the new locks, in the order in which they are named.
fn openers(args: &LockArgs, is_first: bool, notes: Notes) -> Result<Vec<Opener>, Failure> {
    let mut openers = Vec::new();
    if args.passphrase || args.is_empty() {
        openers.push(Opener::Passphrase(new_passphrase(is_first, notes)?));
    } else if args.recovery_code
        && args.key_file.is_none()
        && args.new_key_file.is_none()
        && is_first
    {
        // A ring that only a sheet of paper opens is of no use for daily work.
        openers.push(Opener::Passphrase(new_passphrase(is_first, notes)?));
    }
    if let Some(file) = &args.key_file {
        openers.push(Opener::KeyFile(keyring::read_key_file(file)?));
    }
    if let Some(file) = &args.new_key_file {
        openers.push(Opener::KeyFile(make_key_file(file, notes)?));
    }
    if args.recovery_code {
        openers.push(Opener::Code(draw(|rng| Ok(RecoveryCode::draw(rng)))?));
    }
    Ok(openers)
}

/// A new passphrase, from the environment or asked for twice.
fn new_passphrase(is_first: bool, notes: Notes) -> Result<Zeroizing<String>, Failure> {
    let names: &[&str] =
        if is_first { &[ENV_NEW_PASSPHRASE, ENV_PASSPHRASE] } else { &[ENV_NEW_PASSPHRASE] };
    for name in names {
        if let Some(text) = environment::secret_text(name)? {
            return Ok(checked(text, notes));
        }
    }
    let ask = |question: &str| -> Result<Zeroizing<String>, Failure> {
        let answer = ask_secret(question).map_err(CellError::io("read", "the passphrase"))?;
        answer.ok_or_else(|| {
            let names = names.join(" or ");
            Failure::bad_input(
                "there is no terminal to ask for a passphrase",
                &format!("set {names}, or use --key-file"),
            )
        })
    };
    let first = ask("New passphrase: ")?;
    if first != ask("Once more: ")? {
        return Err(Failure::bad_input(
            "the two passphrases differ",
            "type the same twice; nothing was changed",
        ));
    }
    Ok(checked(first, notes))
}

fn checked(passphrase: Zeroizing<String>, notes: Notes) -> Zeroizing<String> {
    if passphrase.chars().count() < SHORT_PASSPHRASE {
        notes.say(
            "warning: the passphrase is short; who has a medium can try many, so use several words",
        );
    }
    passphrase
}

/// Makes a key file that only its owner can read.
fn make_key_file(path: &Path, notes: Notes) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let content = draw(|rng| {
        let mut content = Zeroizing::new(vec![0; KEY_FILE_LEN]);
        rng(&mut content);
        Ok(content)
    })?;
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(&content)?;
        file.sync_all()?;
        durable::synchronise_name(path)
    };
    write().map_err(|e| {
        Failure::bad_input(
            format!("cannot make the key file {}: {e}", path.display()),
            "name a file that does not exist, in a directory that does",
        )
    })?;
    notes.say(&format!("{} is made; keep a copy where the media are not", path.display()));
    Ok(content)
}

/// Runs what draws keys.
fn draw<T>(run: impl FnOnce(&mut Rng) -> Result<T, KeyError>) -> Result<T, Failure> {
    let entropy = Entropy::system().map_err(CellError::io("open", "/dev/urandom"))?;
    Ok(with_randomness(&entropy, run)?)
}

fn label(args: &LockArgs) -> &str {
    args.label.as_deref().unwrap_or_default()
}

fn no_lock() -> Failure {
    let error = "no lock is named".to_owned();
    Failure::of(FAILED, error, Some("give --passphrase or --key-file"))
}

fn scope_name(scope: Option<Scope>) -> &'static str {
    match scope {
        Some(Scope::All) => "all",
        Some(Scope::Names) => "names",
        None => "?",
    }
}

fn kind_name(kind: LockKind) -> &'static str {
    match kind {
        LockKind::Passphrase => "passphrase",
        LockKind::KeyFile => "key_file",
        LockKind::RecoveryCode => "recovery_code",
        LockKind::Recipient => "recipient",
        LockKind::Unknown => "unknown",
    }
}

fn pairs_json(ring: &KeyRing) -> Value {
    let lock = |lock: &capstan_format::keys::LockInfo| {
        json!({
            "id": lock.id.map(|id| id.to_string()),
            "kind": kind_name(lock.kind),
            "scope": lock.scope.map(|scope| scope_name(Some(scope))),
            "label": lock.label,
            "recipient": lock.recipient.map(|id| id.to_string()),
        })
    };
    let pair = |pair: &capstan_format::keys::PairInfo| {
        json!({
            "id": pair.id.to_string(),
            "created": Timestamp::from_second(pair.created).ok().map(|t| t.to_string()),
            "active": pair.active,
            "public": pair.public.to_string(),
            "locks": pair.locks.iter().map(lock).collect::<Vec<_>>(),
        })
    };
    ring.list().iter().map(pair).collect()
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = Output::new();
    out.text(text)?;
    out.finish()
}

/// What is said beside the output: with `--quiet` nothing.
#[derive(Clone, Copy)]
struct Notes {
    quiet: bool,
}

impl Notes {
    fn say(self, text: &str) {
        if !self.quiet {
            // Where nobody reads it, what was done remains.
            let _ = writeln!(std::io::stderr().lock(), "capstan: {text}");
        }
    }
}
