//! Rings in a home, and what opens them.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use capstan_format::keys::{ArgonParams, Cipher, LockBy, NewLock, Scope, SessionKeys};

use super::*;

/// Cheap, so that tests are quick.
const ARGON: ArgonParams = ArgonParams { m_kib: 8, t: 1, p: 1 };

fn new(passphrase: &str) -> NewLock<'_> {
    NewLock { by: LockBy::Passphrase(passphrase, ARGON), scope: Scope::All, label: "" }
}

fn draw<T>(run: impl FnOnce(&mut dyn FnMut(&mut [u8])) -> std::result::Result<T, KeyError>) -> T {
    with_randomness(&Entropy::seeded(7), run).unwrap()
}

fn ring() -> (KeyRing, Unlocked) {
    draw(|rng| KeyRing::create(&new("right"), 0, rng))
}

#[test]
fn a_ring_is_stored_for_its_owner_alone() {
    let home = tempfile::tempdir().unwrap();
    assert!(load(home.path()).unwrap().is_none());
    let (ring, _) = ring();
    std::fs::write(home.path().join(".keyring.json.new"), "left by a crash").unwrap();
    save(home.path(), &ring).unwrap();
    save(home.path(), &ring).unwrap();
    assert_eq!(load(home.path()).unwrap(), Some(ring));
    let file = home.path().join(FILE_NAME);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
    std::fs::write(&file, "{").unwrap();
    assert!(matches!(load(home.path()), Err(CellError::Key(KeyError::Malformed { .. }))));
}

#[test]
fn given_secrets_are_tried_and_nobody_is_asked() {
    let (ring, _) = ring();
    let asked = || Box::new(|_: &str| -> io::Result<_> { panic!("asked") });
    let open = |s: Secrets| unlock(&ring, &s.with_prompt(asked()));
    assert!(open(Secrets::none().with_passphrase("right")).is_ok());
    let wrong = open(Secrets::none().with_passphrase("wrong"));
    assert!(matches!(wrong, Err(CellError::Key(KeyError::WrongPassphrase))));
    // A file that opens nothing does not hide a passphrase that does.
    let file = tempfile::NamedTempFile::new().unwrap();
    let both = Secrets::none().with_key_file(file.path()).with_passphrase("right");
    assert!(open(both).is_ok());
    let error = unlock(&ring, &Secrets::none()).unwrap_err();
    assert!(error.to_string().contains(ENV_PASSPHRASE), "{error}");
    let public = unlock(&ring.public_only(), &Secrets::none());
    assert!(matches!(public, Err(CellError::Key(KeyError::PublicOnly))));
}

#[test]
fn a_person_may_mistype_twice() {
    let (ring, _) = ring();
    let answers = |right_at: usize| {
        let asked = AtomicUsize::new(0);
        Secrets::none().with_prompt(Box::new(move |_| {
            let at = asked.fetch_add(1, Ordering::SeqCst);
            let answer = if at == right_at { "right" } else { "wrong" };
            Ok(Some(Zeroizing::new(answer.to_owned())))
        }))
    };
    assert!(unlock(&ring, &answers(2)).is_ok());
    let error = unlock(&ring, &answers(3)).unwrap_err();
    assert!(matches!(error, CellError::Key(KeyError::WrongPassphrase)));
    // Who was asked is not asked again, whether he knew it or not.
    for (secrets, knew) in [(answers(0), true), (answers(3), false)] {
        for _ in 0..3 {
            assert_eq!(unlock(&ring, &secrets).is_ok(), knew);
        }
    }
    let cancelled = Secrets::none().with_prompt(Box::new(|_| Err(ErrorKind::TimedOut.into())));
    for _ in 0..2 {
        assert!(matches!(unlock(&ring, &cancelled), Err(CellError::Io { .. })));
    }
    let nobody = Secrets::none().with_prompt(Box::new(|_| Ok(None)));
    assert!(matches!(unlock(&ring, &nobody), Err(CellError::NoKey(_))));
}

#[test]
fn who_can_do_without_answers_nothing() {
    let (ring, _) = ring();
    let answers = |answer: &'static str| {
        Secrets::none().with_prompt(Box::new(move |question| {
            assert!(question.contains("(empty: do without)"), "{question}");
            Ok(Some(Zeroizing::new(answer.to_owned())))
        }))
    };
    let open = |secrets: &Secrets| unlock_if_given(&ring, secrets, "do without");
    assert!(open(&answers("right")).unwrap().is_some());
    let wrong = open(&answers("wrong"));
    assert!(matches!(wrong, Err(CellError::Key(KeyError::WrongPassphrase))));
    let wrong = open(&Secrets::none().with_passphrase("wrong"));
    assert!(matches!(wrong, Err(CellError::Key(KeyError::WrongPassphrase))));
    let declined = answers("");
    for _ in 0..2 {
        assert!(open(&declined).unwrap().is_none());
    }
    let nobody = Secrets::none().with_prompt(Box::new(|_| Ok(None)));
    assert!(open(&nobody).unwrap().is_none());
    assert!(open(&Secrets::none()).unwrap().is_none());
}

#[test]
fn a_new_pair_gets_the_recorded_keys() {
    let home = tempfile::tempdir().unwrap();
    let idb = Idb::open(home.path()).unwrap();
    let put = |ring: &KeyRing, seed: u64| {
        let entropy = Entropy::seeded(seed);
        let record = with_randomness(&entropy, |rng| {
            let keys = SessionKeys::draw(rng);
            KeyRecord::wrap(&keys, Cipher::best(), ring, &[], rng)
        });
        let record = record.unwrap();
        let json = String::from_utf8(record.to_json().unwrap()).unwrap();
        idb.put_key(&capstan_idb::KeyRecord { id: record.id(), record: json }).unwrap();
        record.id()
    };
    let (mut ring, mut unlocked) = ring();
    let own = put(&ring, 1);
    let stranger =
        with_randomness(&Entropy::seeded(9), |rng| KeyRing::create(&new("other"), 0, rng));
    let foreign = put(&stranger.unwrap().0, 2);
    let before = idb.key(foreign).unwrap();

    draw(|rng| {
        // The seed of the first pair again would draw the same pair.
        rng(&mut [0; 1000]);
        ring.rotate(&mut unlocked, &new("new"), 1, rng)
    });
    let done = rewrap(&idb, &unlocked, &ring, None).unwrap();
    assert_eq!(done, Rewrapped { changed: 1, current: 0, foreign: 1 });
    let done = rewrap(&idb, &unlocked, &ring, None).unwrap();
    assert_eq!(done, Rewrapped { changed: 0, current: 1, foreign: 1 });

    // A names key made later is given what was recorded before.
    let names = draw(|rng| {
        rng(&mut [0; 2000]);
        NamesKey::draw(0, rng)
    });
    let json = idb.key(own).unwrap().unwrap().record;
    let record = KeyRecord::from_json(json.as_bytes()).unwrap();
    assert!(record.unwrap_names(&names.unlocked()).is_err());
    let done = rewrap(&idb, &unlocked, &ring, Some(&names)).unwrap();
    assert_eq!(done, Rewrapped { changed: 1, current: 0, foreign: 1 });
    let done = rewrap(&idb, &unlocked, &ring, Some(&names)).unwrap();
    assert_eq!(done, Rewrapped { changed: 0, current: 1, foreign: 1 });

    let json = idb.key(own).unwrap().unwrap().record;
    let record = KeyRecord::from_json(json.as_bytes()).unwrap();
    let active = ring.active().unwrap().id();
    // What opened it before goes on doing so.
    let former = ring.list()[0].id;
    assert!(record.recipients(Purpose::Contents).eq([active, former]));
    for passphrase in ["new", "right"] {
        let opened = record.ring().unlock(&Secret::Passphrase(passphrase)).unwrap();
        assert!(record.unwrap_all(&opened).is_ok(), "{passphrase}");
    }
    assert!(record.unwrap_names(&names.unlocked()).is_ok());
    assert!(record.unwrap_contents(&names.unlocked()).is_err());
    assert_eq!(idb.key(foreign).unwrap(), before);
}
