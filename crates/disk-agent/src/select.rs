//! What is left out of a walk: the rules of a job, ready to be asked on this host.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use capstan_select::{BadPattern, Decision, Pattern, Patterns};
use capstan_wire::backup::{MountedLast, Rules};

use crate::linux::mount_table::HostMounts;
use crate::linux::source;

/// Where something is to be mounted.
#[derive(Debug, Clone, Default)]
pub(crate) struct MountPoints {
    /// As the host has it.
    pub here: HostMounts,
    /// As the object's last version found it.
    pub last: MountedLast,
}

/// Rules, compiled, and what they come to on this host.
#[derive(Debug)]
pub struct Selection {
    patterns: Patterns,
    /// The rules.
    pub(crate) rules: Rules,
    /// Directories (device, inode number) never to enter: our own media and home.
    pub(crate) never: Vec<(u64, u64)>,
    /// Where something is to be mounted.
    pub(crate) mounts: MountPoints,
}

impl Selection {
    /// What rules come to for a walk of these roots, of which the last version found something mounted.
    pub fn new(
        rules: &Rules,
        roots: &[Vec<u8>],
        mounted_last: &MountedLast,
        mounts: HostMounts,
    ) -> Result<Self, BadPattern> {
        let identity = |path: &Vec<u8>| source::directory(Path::new(OsStr::from_bytes(path)));
        let of_root = |root: &Vec<u8>| identity(&[b"/", root.as_slice()].concat());
        let roots: Vec<_> = roots.iter().filter_map(of_root).collect();
        let media = rules.media.iter().filter_map(identity).filter(|id| !roots.contains(id));
        Ok(Self {
            patterns: Patterns::new(&rules.exclude, &rules.include)?,
            never: rules.never.iter().filter_map(identity).chain(media).collect(),
            rules: rules.clone(),
            mounts: MountPoints { here: mounts, last: mounted_last.clone() },
        })
    }

    /// All that there is below the roots.
    #[cfg(test)]
    pub(crate) fn all() -> Self {
        let (rules, last, here) = Default::default();
        Self::new(&rules, &[], &last, here).unwrap()
    }

    /// Whether there is any pattern.
    pub(crate) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// A pattern by its number.
    pub(crate) fn pattern(&self, number: usize) -> Option<&Pattern> {
        self.patterns.all().get(number)
    }

    /// What patterns say of a path (without leading slash); nothing where none matches.
    pub(crate) fn decide(&self, path: &[u8], is_dir: bool) -> Option<Decision> {
        self.patterns.decide(path, is_dir)
    }

    /// Whether the path (without leading slash) is left out by a pattern.
    pub(crate) fn excludes(&self, path: &[u8], is_dir: bool) -> bool {
        self.patterns.excludes(path, is_dir)
    }

    /// Whether a file of that many bytes is taken.
    pub(crate) fn takes_size(&self, bytes: u64) -> bool {
        self.rules.sizes.as_ref().is_none_or(|sizes| sizes.contains(&bytes))
    }
}
