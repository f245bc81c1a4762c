//! Locks of the key ring: they are added and removed, and media that lack them are named.

use capstan_cell::keyring::{self, Secrets};
use capstan_cell::{Cell, CellError};
use capstan_format::keys::{LockId, Recipient, Scope};

use crate::admin::key::openers::{Opener, label, openers};
use crate::admin::key::{Keys, draw};
use crate::args::{LockArgs, SecretArgs};
use crate::exit::Failure;

impl Keys {
    pub(super) fn add(
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

    pub(super) fn remove(&self, lock: &LockId) -> Result<(), Failure> {
        let _lock = keyring::lock(&self.home)?;
        let mut ring = self.ring()?;
        ring.remove_lock(lock).map_err(CellError::from)?;
        keyring::save(&self.home, &ring)?;
        self.notes.say(&format!("lock {lock} is removed; media that are written keep it"));
        Ok(())
    }

    /// Says which media do not carry locks that were just made.
    pub(super) fn note_locks(&self, made: &[LockId]) {
        let note = || -> Result<(), CellError> {
            let cell = Cell::open(&self.home, Secrets::none(), Self::agents()?)?;
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
}
