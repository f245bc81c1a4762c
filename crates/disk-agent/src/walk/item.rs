//! What a walk deals: names, in groups, or what is left out of them and why.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock};

use rustix::fs::Stat;

use super::entered::Entered;
use crate::linux::source::{DirHandle, Listed};
use crate::select::Selection;
use capstan_port::disk::base::BaseRow;

/// Names in a group: what a stream opens before it reads.
pub const GROUP: usize = 256;

/// Names that a stream opens together.
#[derive(Debug, Default)]
pub struct Group {
    /// The names, in order.
    pub items: Vec<WalkItem>,
    /// The next to be fetched ahead, by [`super::ahead`].
    pub fetched: AtomicUsize,
}

/// A name to be saved.
#[derive(Debug)]
pub struct WalkItem {
    /// The directory it is in.
    pub dir: Arc<DirHandle>,
    /// What listing said of it.
    pub listed: Listed,
    /// What the base has under that name.
    pub base: Option<BaseRow>,
    /// It is in the base and no longer in the source.
    pub gone: bool,
    /// It is left out, or what is in the directory if it has no name: that is dealt only where it is asked for.
    pub left_out: Option<Box<LeftOut>>,
    /// Its contents were brought into the page cache for us: they are dropped when they were read.
    pub ours: AtomicBool,
    /// What stat said of it, where that was asked ahead.
    pub stat: OnceLock<Box<Stat>>,
    /// Of a directory that is entered: as what.
    pub entered: Option<Arc<Entered>>,
}

impl WalkItem {
    pub(super) fn new(
        dir: Arc<DirHandle>,
        listed: Listed,
        base: Option<BaseRow>,
        gone: bool,
    ) -> Self {
        Self {
            dir,
            listed,
            base,
            gone,
            left_out: None,
            ours: AtomicBool::new(false),
            stat: OnceLock::new(),
            entered: None,
        }
    }
}

/// By what a name, or what is in a directory, is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftOut {
    /// A pattern, by its number.
    Pattern(usize),
    /// The directory is tagged as a cache.
    Cache,
    /// The directory has such a name in it.
    Present(Vec<u8>),
    /// Its size.
    Size,
    /// It is in use.
    InUse,
    /// By itself, and why.
    Itself(&'static str),
    /// It was named, and cannot be backed up, which a message says.
    Failed,
}

impl LeftOut {
    /// The rule, in words.
    pub fn text(&self, selection: &Selection) -> String {
        match self {
            Self::Pattern(number) => match selection.pattern(*number) {
                Some(pattern) if pattern.from.is_none() => format!("--exclude {pattern}"),
                Some(pattern) => format!("--exclude-from {pattern}"),
                None => "a pattern".to_owned(),
            },
            Self::Cache => "--exclude-caches".to_owned(),
            Self::Present(name) => {
                format!("--exclude-if-present {}", capstan_engine::message::path_text(name))
            }
            Self::Size => "--files-of-size".to_owned(),
            Self::InUse => "--locked skip".to_owned(),
            Self::Itself(why) => (*why).to_owned(),
            Self::Failed => String::new(),
        }
    }
}
