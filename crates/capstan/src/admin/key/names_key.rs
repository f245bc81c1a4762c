//! The names key, with which incrementals run where no secret is at hand.

use capstan_cell::keyring::{self, Secrets};
use capstan_cell::{Cell, CellError, names_key};
use capstan_format::keys::KeyError;
use jiff::Timestamp;

use crate::admin::key::Keys;
use crate::args::SecretArgs;
use crate::exit::Failure;

impl Keys {
    /// Makes the names key, or removes what an earlier ring left.
    pub(super) fn names_key_if(&self, wanted: bool) -> Result<(), Failure> {
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
    pub(super) fn names(&self, secret: &SecretArgs) -> Result<(), Failure> {
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

    pub(super) fn remove_names_key(&self) -> Result<(), Failure> {
        let _lock = keyring::lock(&self.home)?;
        let is_removed = names_key::remove(&self.home)?;
        let cell = Cell::open(&self.home, Secrets::none(), Self::agents()?)?;
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
}
