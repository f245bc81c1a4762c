//! The key ring itself: it is made, taken from a medium, or given a new key, and keys of earlier backups are wrapped anew.

use capstan_address::Address;
use capstan_cell::keyring::{self, FILE_NAME, Rewrapped};
use capstan_cell::{CellError, TakenRing, names_key, ring_of_medium};
use capstan_format::keys::{KeyRing, LockId, Recipient, Scope, Unlocked};
use jiff::Timestamp;

use crate::admin::key::openers::{Opener, label, no_lock, openers};
use crate::admin::key::{Keys, draw};
use crate::args::{Global, LockArgs, SecretArgs};
use crate::exit::Failure;
use crate::process::home;
use crate::text::sizes::grouped;

impl Keys {
    pub(super) fn init(
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

    pub(super) fn import(
        &self,
        global: &Global,
        device: &Address,
        names_key: bool,
        secret: &SecretArgs,
    ) -> Result<(), Failure> {
        let _lock = keyring::lock(&self.home)?;
        self.refuse_ring()?;
        let taken =
            ring_of_medium(&home::agents(global.devices.clone())?, device, &self.secrets(secret)?)?;
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

    pub(super) fn rotate(&self, args: &LockArgs, secret: &SecretArgs) -> Result<(), Failure> {
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

    pub(super) fn rewrap(&self, secret: &SecretArgs) -> Result<(), Failure> {
        let _lock = keyring::lock(&self.home)?;
        let ring = self.ring()?;
        let unlocked = self.unlock(&ring, secret)?;
        self.rewrap_with(&ring, &unlocked)
    }

    pub(super) fn rewrap_with(&self, ring: &KeyRing, unlocked: &Unlocked) -> Result<(), Failure> {
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
}
