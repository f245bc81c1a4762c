//! Keys as a media agent gets them that is to open frames.

use capstan_catalog::keys::VersionKeys;
use capstan_wire::keys::{FrameKey, SecretKey};

/// The keys that are open, as values.
pub(crate) fn frame_keys(keys: &VersionKeys) -> Vec<FrameKey> {
    let of = |is_of_names| {
        move |(id, key, cipher): (_, &capstan_format::keys::Key32, _)| {
            let key = SecretKey(key.clone());
            FrameKey { id, is_of_names, key, cipher }
        }
    };
    keys.names().map(of(true)).chain(keys.contents().map(of(false))).collect()
}
