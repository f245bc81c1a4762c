//! What the key ring has: its keys and their locks, for people and as JSON.

use capstan_cell::keyring::{self, FILE_NAME};
use capstan_cell::{CellError, names_key};
use capstan_engine::message::safe_text;
use capstan_format::keys::{KeyRing, LockInfo, LockKind, PairInfo, Scope};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::admin::key::{Keys, print};
use crate::exit::Failure;
use crate::output::json_line;
use crate::text::local_time;

impl Keys {
    pub(super) fn list(&self) -> Result<(), Failure> {
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

    pub(super) fn show(&self) -> Result<(), Failure> {
        let public = self.ring()?.active().map_err(CellError::from)?;
        if self.json {
            *self.public.borrow_mut() = Some(public.to_string());
            return Ok(());
        }
        print(&format!("{public}\n"))
    }

    /// The ring as it is now, where JSON is asked for.
    pub(super) fn print_json(&self) -> Result<(), Failure> {
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
    let lock = |lock: &LockInfo| {
        json!({
            "id": lock.id.map(|id| id.to_string()),
            "kind": kind_name(lock.kind),
            "scope": lock.scope.map(|scope| scope_name(Some(scope))),
            "label": lock.label,
            "recipient": lock.recipient.map(|id| id.to_string()),
        })
    };
    let pair = |pair: &PairInfo| {
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
