//! What opens a key ring, and what is open then.

use super::lock::{Tried, Work};
use super::ring::{KeyRing, Pair};
use super::secret::{OpenPair, Secret, Unlocked};
use super::{KeyError, Scope};

/// What came of trying one secret on one pair.
#[derive(Default)]
struct Attempt {
    fitting: bool,
    problem: Option<KeyError>,
}

impl Pair {
    fn try_secret(
        &self,
        secret: &Secret,
        open: &Unlocked,
        work: &mut Work,
    ) -> (Option<OpenPair>, Attempt) {
        let mut attempt = Attempt::default();
        let known = open.scope(&self.id());
        let mut found: Option<OpenPair> = None;
        // Locks that open all come first: the cheapest way to the most.
        let by_scope = |scope| self.locks.iter().filter(move |l| l.scope() == Some(scope));
        for lock in by_scope(Scope::All).chain(by_scope(Scope::Names)) {
            if found.is_some() || (known.is_some() && lock.scope() == Some(Scope::Names)) {
                break;
            }
            match lock.open(&self.public(), secret, work) {
                Ok(None) => {}
                Ok(Some(Tried::WrongSecret)) => attempt.fitting = true,
                Ok(Some(Tried::Opened(pair))) => found = Some(pair),
                Ok(Some(Tried::Damaged)) => {
                    let id = lock.id().map(|id| id.to_string()).unwrap_or_default();
                    attempt.problem = Some(KeyError::DamagedLock { lock: id, pair: self.id() });
                }
                Err(error) => attempt.problem = Some(error),
            }
        }
        (found, attempt)
    }
}

impl KeyRing {
    /// Opens what the secret opens: the pairs that have a lock for it, and the older ones that those open.
    ///
    /// An error means that nothing opened; where only a part did, [`Unlocked::scope`] and [`Unlocked::problems`] tell.
    pub fn unlock(&self, secret: &Secret) -> Result<Unlocked, KeyError> {
        let mut open = Unlocked::default();
        let mut work = Work::new();
        let mut fitting = false;
        // Newest first: each pair opens the one before it, which saves a passphrase's derivation for each.
        for pair in self.pairs.iter().rev() {
            let chain = Secret::Ring(&open);
            let (found, attempt) = pair.try_secret(&chain, &open, &mut work);
            let mut problem = attempt.problem;
            found.into_iter().for_each(|p| open.add(p));
            if open.scope(&pair.id()) != Some(Scope::All) {
                let (found, attempt) = pair.try_secret(secret, &open, &mut work);
                fitting |= attempt.fitting;
                problem = attempt.problem.or(problem);
                found.into_iter().for_each(|p| open.add(p));
            }
            if open.scope(&pair.id()) != Some(Scope::All) {
                open.problems.extend(problem);
            }
        }
        if !open.pairs.is_empty() {
            return Ok(open);
        }
        Err(match open.problems.into_iter().next() {
            Some(problem) => problem,
            None if fitting => secret.wrong(),
            None if self.pairs.iter().all(|p| p.locks.is_empty()) => KeyError::PublicOnly,
            None => KeyError::NoLockOfKind(secret.kind()),
        })
    }
}
