//! What an administrator does with media: makes, erases, forgets them, and carries them to vaults.

pub(crate) mod as_new;
pub(crate) mod erase;
pub(crate) mod forget;
pub(crate) mod life;
pub(crate) mod tape_use;
pub(crate) mod vault;
