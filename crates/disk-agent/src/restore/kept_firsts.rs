//! First names that have something else which the policy keeps: a further name has the contents then.

use std::collections::HashMap;

use capstan_format::entry::split;
use capstan_port::disk::restore::LinkAsked;

use crate::target::{Found, Tally, Target, Worker};

/// By first names: the further name that gets the contents or has them, and whether it has them.
#[derive(Default)]
pub(super) struct KeptFirsts(HashMap<Vec<u8>, (Vec<u8>, bool)>);

impl KeptFirsts {
    /// Takes further names.
    pub fn take(&mut self, target: &Target, links: Vec<LinkAsked>) {
        if links.is_empty() || !target.may_keep_others() {
            return;
        }
        let mut worker = target.worker();
        links.iter().for_each(|link| self.take_one(&mut worker, link));
    }

    fn take_one(&mut self, worker: &mut Worker<'_>, LinkAsked { link, first_to, to }: &LinkAsked) {
        let known = self.0.get(&link.target);
        if known.is_some_and(|(_, has_it)| *has_it) {
            return;
        }
        let (dir, name) = split(first_to);
        if worker.found(link, dir, name) != Found::Other {
            return;
        }
        let (dir, name) = split(to);
        let has_it = match worker.found(link, dir, name) {
            Found::Other => return,
            Found::Free if known.is_some() => return,
            found => found == Found::Like,
        };
        self.0.insert(link.target.clone(), (link.path(), has_it));
    }

    /// The further names, by the first ones, which are counted as kept.
    pub fn instead(&mut self, tally: &Tally) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.0.iter().for_each(|_| tally.kept());
        std::mem::take(&mut self.0).into_iter().map(|(first, (link, _))| (first, link)).collect()
    }
}
