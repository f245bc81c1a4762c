//! The kinds of stores that a host has.

use std::collections::HashMap;
use std::sync::Arc;

use capstan_address::{AddressError, StoreAddress, store};
use capstan_medium::DeviceError;

use crate::directory::Directories;
use crate::store::{Site, StoreKind};

/// Kinds of stores, by what the names of their stores begin with. A new kind of store is a folder of this crate, and a line in
/// [`Self::default`].
pub struct Kinds(HashMap<&'static str, Arc<dyn StoreKind>>);

impl Default for Kinds {
    /// Those that every host has.
    fn default() -> Self {
        let kinds: [(&str, Arc<dyn StoreKind>); 1] =
            [(store::DIRECTORY, Arc::new(Directories::default()))];
        Self(kinds.into())
    }
}

impl Kinds {
    /// These, and one more: in tests, stores that nobody else has.
    #[must_use]
    pub fn and(mut self, name: &'static str, kind: Arc<dyn StoreKind>) -> Self {
        self.0.insert(name, kind);
        self
    }

    /// A store, if it is of one of these kinds. To whoever named it one of another kind is no device.
    pub fn site(&self, store: &StoreAddress) -> Result<Site, DeviceError> {
        let no_device = || AddressError::NoDevice(store.to_string());
        let kind = self.0.get(store.kind()).ok_or_else(no_device)?;
        Ok(Site::new(kind.clone(), store))
    }
}
