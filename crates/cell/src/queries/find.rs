//! Finding files in versions: by path, name, size, time and kind.

use capstan_catalog::find::{Among, name_like};
use capstan_format::entry::{Entry, Kind};
use capstan_select::Patterns;

use crate::Cell;
use crate::error::{CellError, QueryRefusal, Result};
use crate::queries::query::{Found, PassedOver};
use crate::request::FindRequest;

impl Cell {
    /// Calls with each row that matches in the versions of each object that are meant. Returns what was passed over.
    pub fn find(&self, request: &FindRequest, each: &mut dyn FnMut(&Found)) -> Result<PassedOver> {
        let wanted = Wanted::new(request)?;
        let like = request.name.as_deref().or(request.pattern.as_deref()).and_then(name_like);
        let among = like.map_or(Among::All, Among::Named);
        self.each_found(request.which, among, &mut |path, entry| wanted.matches(path, entry), each)
    }
}

struct Wanted<'a> {
    request: &'a FindRequest,
    path: Option<Patterns>,
    name: Option<Patterns>,
}

impl<'a> Wanted<'a> {
    fn new(request: &'a FindRequest) -> Result<Self> {
        let matcher = |pattern: String| {
            Patterns::new(&[pattern.as_str().into()], &[]).map_err(CellError::from)
        };
        let name = match &request.name {
            Some(name) if name.is_empty() || name.contains('/') => {
                return Err(QueryRefusal::NoFileName { name: name.clone() }.into());
            }
            // What begins a line of a .gitignore with a meaning of its own is a letter of a name.
            Some(name) if name.starts_with(['!', '#']) => Some(matcher(format!("\\{name}"))?),
            Some(name) => Some(matcher(name.clone())?),
            None => None,
        };
        let path = request.pattern.clone().map(matcher).transpose()?;
        Ok(Self { request, path, name })
    }

    fn matches(&self, path: &[u8], e: &Entry) -> bool {
        let r = self.request;
        let is_dir = e.kind == Kind::Dir;
        let mtime_us =
            e.mtime.sec.saturating_mul(1_000_000).saturating_add(i64::from(e.mtime.nsec / 1000));
        // Only files have a size.
        let size = (e.kind == Kind::File).then_some(e.size);
        self.path.as_ref().is_none_or(|p| p.excludes(path, is_dir))
            && self.name.as_ref().is_none_or(|n| n.excludes(&e.name, is_dir))
            && r.larger.is_none_or(|least| size.is_some_and(|size| size > least))
            && r.smaller.is_none_or(|most| size.is_some_and(|size| size < most))
            && r.changed_since_us.is_none_or(|time| mtime_us >= time)
            && r.changed_before_us.is_none_or(|time| mtime_us < time)
            && (r.kinds.is_empty() || r.kinds.contains(&e.kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Which;
    use capstan_format::entry::Timestamp;

    fn request() -> FindRequest {
        FindRequest {
            pattern: None,
            name: None,
            larger: None,
            smaller: None,
            changed_since_us: None,
            changed_before_us: None,
            kinds: Vec::new(),
            which: Which::Newest,
        }
    }

    fn matches(request: &FindRequest, path: &str, change: impl FnOnce(&mut Entry)) -> bool {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut entry = Entry {
            dir: dir.as_bytes().to_vec(),
            name: name.as_bytes().to_vec(),
            size: 100,
            mtime: Timestamp { sec: 50, nsec: 0 },
            ..Entry::default()
        };
        change(&mut entry);
        Wanted::new(request).unwrap().matches(path.as_bytes(), &entry)
    }

    #[test]
    fn each_condition_and_all_together() {
        let name = |n: &str| FindRequest { name: Some(n.to_owned()), ..request() };
        assert!(matches(&name("*.pst"), "home/ann/mail.pst", |_| {}));
        assert!(!matches(&name("ann"), "home/ann/mail.pst", |_| {}), "the name itself, no parent");
        assert!(matches(&name("!x"), "a/!x", |_| {}) && !matches(&name("!x"), "a/y", |_| {}));
        let size = |larger, smaller| FindRequest { larger, smaller, ..request() };
        assert!(matches(&size(Some(99), Some(101)), "a", |_| {}));
        assert!(!matches(&size(Some(100), None), "a", |_| {}));
        assert!(!matches(&size(None, Some(100)), "a", |_| {}));
        assert!(!matches(&size(None, Some(101)), "a", |e| e.kind = Kind::Dir), "no size");
        let time = |since, before| FindRequest {
            changed_since_us: since,
            changed_before_us: before,
            ..request()
        };
        assert!(matches(&time(Some(50_000_000), Some(50_000_001)), "a", |_| {}));
        assert!(!matches(&time(Some(50_000_001), None), "a", |_| {}));
        assert!(!matches(&time(None, Some(50_000_000)), "a", |_| {}));
        let dirs = FindRequest { kinds: vec![Kind::Dir], ..request() };
        assert!(matches(&dirs, "a", |e| e.kind = Kind::Dir) && !matches(&dirs, "a", |_| {}));
        let all = FindRequest { pattern: Some("/home/**".to_owned()), ..name("*.pst") };
        assert!(matches(&all, "home/x.pst", |_| {}) && !matches(&all, "srv/x.pst", |_| {}));
        for bad in ["", "a/b"] {
            assert!(Wanted::new(&name(bad)).is_err(), "{bad}");
        }
    }
}
