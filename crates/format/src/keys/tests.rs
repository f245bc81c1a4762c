//! What keys promise: what opens what, what does not, and that damage is named.

use serde_json::Value;

use super::*;
use crate::id::StreamId;

/// Cheap parameters: what is tested is not how slow Argon2 is.
const FAST: ArgonParams = ArgonParams { m_kib: 16, t: 1, p: 1 };

/// Bytes that are the same in every run, different for each seed and draw.
pub(super) fn fixed_rng(seed: &'static str) -> impl FnMut(&mut [u8]) {
    let mut count = 0u64;
    move |out: &mut [u8]| {
        for chunk in out.chunks_mut(32) {
            let block: [u8; 32] = prim::sha256(&[seed.as_bytes(), &count.to_le_bytes()]);
            chunk.copy_from_slice(&block[..chunk.len()]);
            count += 1;
        }
    }
}

fn by<'a>(by: LockBy<'a>, scope: Scope) -> NewLock<'a> {
    NewLock { by, scope, label: "test" }
}

fn phrase(text: &str) -> NewLock<'_> {
    by(LockBy::Passphrase(text, FAST), Scope::All)
}

fn ring(seed: &'static str) -> (KeyRing, Unlocked) {
    KeyRing::create(&phrase("correct horse"), 1_700_000_000, &mut fixed_rng(seed)).unwrap()
}

fn opens(ring: &KeyRing, secret: &Secret, record: &KeyRecord, keys: &SessionKeys) {
    let open = ring.unlock(secret).unwrap();
    assert_eq!(record.unwrap_names(&open).unwrap(), keys.names);
    assert_eq!(record.unwrap_contents(&open).unwrap(), keys.contents);
}

fn edit(json: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(json).unwrap();
    change(&mut value);
    serde_json::to_vec(&value).unwrap()
}

/// Flips a bit of the first byte of a base64 field.
fn flip(field: &mut Value) {
    let text = field.as_str().unwrap();
    let first = if text.starts_with('A') { "B" } else { "A" };
    *field = Value::from(format!("{first}{}", &text[1..]));
}

#[test]
fn frames_open_with_the_same_key_stream_sequence_and_header_only() {
    let key = [7; 32];
    let stream = StreamId([9; 16]);
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let sealer = FrameSealer::new(&key, Purpose::Contents, stream, cipher).unwrap();
        let plain: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
        let mut buf = plain.clone();
        let tag = sealer.seal_in_place(5, b"header", &mut buf).unwrap();
        assert_ne!(buf, plain);
        buf.extend_from_slice(&tag);
        let open = |s: &FrameSealer, seq, ad: &[u8], buf: &[u8]| {
            let mut buf = buf.to_vec();
            s.open_in_place(seq, ad, &mut buf).map(|p| p.to_vec())
        };
        assert_eq!(open(&sealer, 5, b"header", &buf).unwrap(), plain);
        let bad = Err(KeyError::Frame { sequence: 6, stream });
        assert_eq!(open(&sealer, 6, b"header", &buf), bad);
        assert!(open(&sealer, 5, b"other", &buf).is_err());
        assert!(open(&sealer, 5, b"header", &buf[..15]).is_err());
        assert!(open(&sealer, 5, b"header", &buf[..buf.len() - 1]).is_err());
        let names = FrameSealer::new(&key, Purpose::Names, stream, cipher).unwrap();
        assert!(open(&names, 5, b"header", &buf).is_err());
        let other = FrameSealer::new(&key, Purpose::Contents, StreamId([8; 16]), cipher).unwrap();
        assert!(open(&other, 5, b"header", &buf).is_err());
        for at in [0, 299_999, 300_003] {
            let mut damaged = buf.clone();
            damaged[at] ^= 1;
            assert!(open(&sealer, 5, b"header", &damaged).is_err());
        }
    }
    assert_eq!(Cipher::from_u8(Cipher::best() as u8), Some(Cipher::best()));
    assert_eq!(Cipher::from_u8(0), None);
}

#[test]
fn every_kind_of_lock_opens_and_the_wrong_secret_is_told() {
    let rng = &mut fixed_rng("kinds");
    let (mut ring, open) = ring("mine");
    let (other, other_open) = self::ring("theirs");
    let (code, wrong_code) = (RecoveryCode::draw(rng), RecoveryCode::draw(rng));
    let file = [3; 64];
    assert_eq!(
        ring.unlock(&Secret::KeyFile(&file)).unwrap_err(),
        KeyError::NoLockOfKind(LockKind::KeyFile)
    );
    for lock in [
        LockBy::KeyFile(&file),
        LockBy::RecoveryCode(&code),
        LockBy::Recipient(&other.active().unwrap()),
    ] {
        ring.add_lock(&open, &by(lock, Scope::All), rng).unwrap();
    }
    let ring = KeyRing::from_json(&ring.to_json().unwrap()).unwrap();
    let keys = SessionKeys::draw(rng);
    let record = KeyRecord::wrap(&keys, Cipher::Aes256Gcm, &ring, &[], rng).unwrap();
    for secret in [
        Secret::Passphrase("correct horse"),
        Secret::KeyFile(&file),
        Secret::RecoveryCode(&code),
        Secret::Ring(&other_open),
    ] {
        opens(&ring, &secret, &record, &keys);
    }
    let fails = |secret: Secret, error| assert_eq!(ring.unlock(&secret).unwrap_err(), error);
    fails(Secret::Passphrase("Correct horse"), KeyError::WrongPassphrase);
    fails(Secret::Passphrase(""), KeyError::WrongPassphrase);
    fails(Secret::KeyFile(&[4; 64]), KeyError::WrongKeyFile);
    fails(Secret::RecoveryCode(&wrong_code), KeyError::WrongRecoveryCode);
    let (_, stranger) = self::ring("stranger");
    fails(Secret::Ring(&stranger), KeyError::NoLockOfKind(LockKind::Recipient));
    let kinds: Vec<_> = ring.list()[0].locks.iter().map(|l| l.kind).collect();
    let all =
        [LockKind::Passphrase, LockKind::KeyFile, LockKind::RecoveryCode, LockKind::Recipient];
    assert_eq!(kinds, all);
}

#[test]
fn unfit_secrets_and_locks_are_refused() {
    let rng = &mut fixed_rng("weak");
    let (mut ring, open) = ring("weak ring");
    let before = ring.clone();
    for lock in [
        LockBy::Passphrase("", FAST),
        LockBy::KeyFile(&[1; 31]),
        LockBy::Passphrase("x", ArgonParams { m_kib: 256 * 1024 + 1, t: 1, p: 1 }),
        LockBy::Passphrase("x", ArgonParams { m_kib: 16, t: 17, p: 1 }),
        LockBy::Passphrase("x", ArgonParams { m_kib: 128, t: 1, p: 9 }),
        LockBy::Passphrase("x", ArgonParams { m_kib: 7, t: 1, p: 1 }),
        LockBy::Recipient(&Recipient { names: [0; 32], contents: [0; 32] }),
    ] {
        assert!(ring.add_lock(&open, &by(lock, Scope::All), rng).is_err());
    }
    let label = NewLock { label: "a\nb", ..phrase("x") };
    assert!(ring.add_lock(&open, &label, rng).is_err());
    let nothing = Unlocked::default();
    assert!(matches!(ring.add_lock(&nothing, &phrase("x"), rng), Err(KeyError::Locked { .. })));
    assert_eq!(ring, before);
    let names = by(LockBy::Passphrase("x", FAST), Scope::Names);
    assert_eq!(KeyRing::create(&names, 0, rng).unwrap_err(), KeyError::NoFullLock);
    while ring.list()[0].locks.len() < MAX_LOCKS {
        ring.add_lock(&open, &phrase("x"), rng).unwrap();
    }
    assert!(matches!(ring.add_lock(&open, &phrase("x"), rng), Err(KeyError::TooMuch { .. })));
}

#[test]
fn names_only_lists_and_cannot_read() {
    let rng = &mut fixed_rng("names");
    let (mut ring, open) = ring("names ring");
    ring.add_lock(&open, &by(LockBy::Passphrase("clerk", FAST), Scope::Names), rng).unwrap();
    let keys = SessionKeys::draw(rng);
    let record = KeyRecord::wrap(&keys, Cipher::Aes256Gcm, &ring, &[], rng).unwrap();
    let mut clerk = ring.unlock(&Secret::Passphrase("clerk")).unwrap();
    assert_eq!(clerk.scope(&ring.active().unwrap().id()), Some(Scope::Names));
    assert_eq!(record.unwrap_names(&clerk).unwrap(), keys.names);
    assert_eq!(record.unwrap_contents(&clerk), Err(KeyError::NamesOnly { id: keys.id }));
    // Nor can he give himself more, or take the ring over.
    assert!(matches!(ring.add_lock(&clerk, &phrase("clerk2"), rng), Err(KeyError::Locked { .. })));
    assert!(ring.rotate(&mut clerk, &phrase("clerk2"), 0, rng).is_err());
    ring.add_lock(&clerk, &by(LockBy::KeyFile(&[1; 32]), Scope::Names), rng).unwrap();
    // Through a recipient's lock, half a recipient gets half.
    let (mut theirs, theirs_open) = self::ring("half");
    theirs
        .add_lock(&theirs_open, &by(LockBy::Recipient(&ring.active().unwrap()), Scope::All), rng)
        .unwrap();
    let through = theirs.unlock(&Secret::Ring(&clerk)).unwrap();
    assert_eq!(through.scope(&theirs.active().unwrap().id()), Some(Scope::Names));
}

#[test]
fn further_recipients_get_what_they_are_granted() {
    let rng = &mut fixed_rng("grants");
    let (ring, _) = ring("a");
    let ((b, b_open), (c, c_open)) = (self::ring("b"), self::ring("c"));
    let keys = SessionKeys::draw(rng);
    let grants = [
        Grant { to: b.active().unwrap(), scope: Scope::All },
        Grant { to: c.active().unwrap(), scope: Scope::Names },
    ];
    let writer = KeyRing::of_recipient(ring.active().unwrap(), 0);
    let record = KeyRecord::wrap(&keys, Cipher::best(), &writer, &grants, rng).unwrap();
    opens(&ring, &Secret::Passphrase("correct horse"), &record, &keys);
    assert_eq!(*record.unwrap_all(&b_open).unwrap().contents, *keys.contents);
    assert_eq!(record.unwrap_names(&c_open).unwrap(), keys.names);
    assert_eq!(record.unwrap_contents(&c_open), Err(KeyError::NamesOnly { id: keys.id }));
    let (_, d_open) = self::ring("d");
    assert!(matches!(record.unwrap_names(&d_open), Err(KeyError::NotARecipient { .. })));
    let secret = Secret::Passphrase("correct horse");
    assert_eq!(writer.unlock(&secret).unwrap_err(), KeyError::PublicOnly);
    assert_eq!(ring.public_only().unlock(&secret).unwrap_err(), KeyError::PublicOnly);
}

#[test]
fn rotation_keeps_old_sessions_readable_with_the_new_secret_and_the_old() {
    let rng = &mut fixed_rng("rotate");
    let (mut ring, mut open) = ring("rotating");
    let mut sessions = Vec::new();
    let mut session = |ring: &KeyRing| {
        let keys = SessionKeys::draw(rng);
        let record = KeyRecord::wrap(&keys, Cipher::Aes256Gcm, ring, &[], rng).unwrap();
        sessions.push((keys, record));
    };
    session(&ring);
    let rng = &mut fixed_rng("rotate 2");
    for text in ["second", "third"] {
        let former = ring.active().unwrap();
        let id = ring.rotate(&mut open, &phrase(text), 1_800_000_000, rng).unwrap();
        assert_eq!(ring.active().unwrap().id(), id);
        assert_ne!(ring.active().unwrap(), former);
        session(&ring);
    }
    let ring = KeyRing::from_json(&ring.to_json().unwrap()).unwrap();
    let newest = ring.unlock(&Secret::Passphrase("third")).unwrap();
    let oldest = ring.unlock(&Secret::Passphrase("correct horse")).unwrap();
    for (keys, record) in &sessions {
        assert_eq!(record.unwrap_contents(&newest).unwrap(), keys.contents);
    }
    assert_eq!(sessions[0].1.unwrap_contents(&oldest).unwrap(), sessions[0].0.contents);
    assert!(matches!(sessions[1].1.unwrap_names(&oldest), Err(KeyError::NotARecipient { .. })));
    assert_eq!((newest.pairs().count(), oldest.pairs().count()), (3, 1));
    assert!(newest.problems().is_empty());
    // An old record, rewrapped, opens with the new ring and no longer with the old pair.
    let (keys, record) = &mut sessions[0];
    record.rewrap(&newest, &ring, &[], rng).unwrap();
    opens(&ring, &Secret::Passphrase("third"), record, keys);
    assert!(record.unwrap_names(&oldest).is_err());
}

#[test]
fn locks_go_but_never_the_last_that_opens_all() {
    let rng = &mut fixed_rng("remove");
    let (mut ring, mut open) = ring("removing");
    let first = ring.list()[0].locks[0].id.unwrap();
    let names = by(LockBy::Passphrase("clerk", FAST), Scope::Names);
    let clerk = ring.add_lock(&open, &names, rng).unwrap();
    assert!(matches!(ring.remove_lock(&first), Err(KeyError::LastLock { .. })));
    let second = ring.add_lock(&open, &phrase("second"), rng).unwrap();
    ring.remove_lock(&first).unwrap();
    assert_eq!(ring.remove_lock(&first), Err(KeyError::NoSuchLock(first.to_string())));
    let secret = Secret::Passphrase("correct horse");
    assert_eq!(ring.unlock(&secret).unwrap_err(), KeyError::WrongPassphrase);
    ring.remove_lock(&clerk).unwrap();
    assert!(ring.unlock(&Secret::Passphrase("second")).is_ok());
    assert!(ring.remove_lock(&second).is_err());
    // After a rotation the newer pair opens the older one, whose own lock may go.
    ring.rotate(&mut open, &phrase("third"), 1, rng).unwrap();
    ring.remove_lock(&second).unwrap();
    assert_eq!(ring.unlock(&Secret::Passphrase("third")).unwrap().pairs().count(), 2);
}

#[test]
fn damage_to_a_ring_is_told_from_a_wrong_passphrase() {
    let (ring, _) = ring("damaged");
    let json = ring.to_json().unwrap();
    let secret = Secret::Passphrase("correct horse");
    let unlock = |path: &str| {
        let json = edit(&json, |v| flip(v.pointer_mut(path).unwrap()));
        KeyRing::from_json(&json).and_then(|r| r.unlock(&secret).map(|_| ())).unwrap_err()
    };
    for part in ["names", "contents"] {
        let error = unlock(&format!("/pairs/0/locks/0/sealed/{part}"));
        assert!(matches!(error, KeyError::DamagedLock { .. }), "{error}");
        let error = unlock(&format!("/pairs/0/{part}"));
        assert!(matches!(error, KeyError::Malformed { .. }), "{error}");
    }
    assert_eq!(unlock("/pairs/0/locks/0/sealed/salt"), KeyError::WrongPassphrase);
    // A pair's public keys replaced whole: the lock is not of this pair.
    let forged = edit(&json, |v| {
        let (other, _) = self::ring("forger");
        let other: Value = serde_json::from_slice(&other.to_json().unwrap()).unwrap();
        for field in ["id", "names", "contents"] {
            v["pairs"][0][field] = other["pairs"][0][field].clone();
        }
    });
    let error = KeyRing::from_json(&forged).unwrap().unlock(&secret).unwrap_err();
    assert!(matches!(error, KeyError::DamagedLock { .. }), "{error}");
    // A lock that a stranger made for a recipient known to him, with a private half that is not the pair's.
    let (mine, open) = self::ring("recipient of a forged lock");
    let rng = &mut fixed_rng("forged");
    let (names, contents) = (prim::draw32(rng), Some(prim::draw32(rng)));
    let forged = secret::OpenPair { public: ring.active().unwrap(), names, contents };
    let mut ring = ring.clone();
    let to = mine.active().unwrap();
    let new = by(LockBy::Recipient(&to), Scope::All);
    ring.pairs[0].locks.push(lock::Lock::make(&new, &forged, rng).unwrap());
    let error = ring.unlock(&Secret::Ring(&open)).unwrap_err();
    assert!(matches!(error, KeyError::DamagedLock { .. }), "{error}");
    // A lock said to open all that holds names only, and parameters that would stall the machine.
    let scope = edit(&json, |v| v["pairs"][0]["locks"][0]["scope"] = Value::from("names"));
    assert!(matches!(KeyRing::from_json(&scope), Err(KeyError::Malformed { .. })));
    for (field, value) in [("m_kib", u32::MAX), ("t", 17), ("p", 9), ("p", 0)] {
        let json = edit(&json, |v| v["pairs"][0]["locks"][0]["argon"][field] = Value::from(value));
        let error = KeyRing::from_json(&json).unwrap().unlock(&secret).unwrap_err();
        assert!(matches!(error, KeyError::Argon { .. }), "{error}");
    }
    let later = edit(&json, |v| v["version"] = Value::from(2));
    assert!(matches!(KeyRing::from_json(&later), Err(KeyError::Version { version: 2, .. })));
}

#[test]
fn a_forged_ring_cannot_make_unlocking_take_for_ever() {
    let (ring, _) = ring("stall");
    let json = edit(&ring.to_json().unwrap(), |v| {
        let lock = v["pairs"][0]["locks"][0].clone();
        for n in 1..MAX_LOCKS {
            let mut lock = lock.clone();
            lock["id"] = Value::from(format!("{n:016x}"));
            v["pairs"][0]["locks"].as_array_mut().unwrap().push(lock);
        }
        // 16 locks of 4 GiB·passes each: the budget ends the attempt before the fifth.
        for lock in v["pairs"][0]["locks"].as_array_mut().unwrap() {
            lock["argon"] = serde_json::json!({"m_kib": 256 * 1024, "t": 16, "p": 1});
        }
    });
    let ring = KeyRing::from_json(&json).unwrap();
    let mut work = lock::Work::new();
    let costly = ArgonParams { m_kib: 256 * 1024, t: 16, p: 1 };
    let tried = (0..MAX_LOCKS).filter(|_| work.spend(costly).is_ok()).count();
    assert_eq!((ring.list()[0].locks.len(), tried), (MAX_LOCKS, 4));
}

#[test]
fn a_lock_of_a_later_kind_is_kept_and_the_others_open() {
    let (ring, open) = ring("later");
    let json = edit(&ring.to_json().unwrap(), |v| {
        let lock = serde_json::json!({"id": "00000000000000ff", "kind": "tpm2", "blob": [1, 2]});
        v["pairs"][0]["locks"].as_array_mut().unwrap().insert(0, lock);
    });
    let mut ring = KeyRing::from_json(&json).unwrap();
    assert!(ring.unlock(&Secret::Passphrase("correct horse")).is_ok());
    assert_eq!(ring.list()[0].locks[0].kind, LockKind::Unknown);
    ring.add_lock(&open, &phrase("x"), &mut fixed_rng("x")).unwrap();
    let again: Value = serde_json::from_slice(&ring.to_json().unwrap()).unwrap();
    assert_eq!(again["pairs"][0]["locks"][0]["blob"], serde_json::json!([1, 2]));
    ring.remove_lock(&"00000000000000ff".parse().unwrap()).unwrap();
}

#[test]
fn a_record_that_was_altered_is_named() {
    let rng = &mut fixed_rng("record");
    let (ring, open) = ring("of the record");
    let keys = SessionKeys::draw(rng);
    let record = KeyRecord::wrap(&keys, Cipher::Aes256Gcm, &ring, &[], rng).unwrap();
    let json = record.to_json().unwrap();
    assert_eq!(KeyRecord::from_json(&json).unwrap(), record);
    let id = keys.id;
    let purpose = Purpose::Names;
    let names = |change: &dyn Fn(&mut Value)| {
        let json = edit(&json, |v| change(v));
        KeyRecord::from_json(&json).unwrap().unwrap_names(&open).unwrap_err()
    };
    let damaged = KeyError::DamagedRecord { id, purpose };
    assert_eq!(names(&|v| flip(&mut v["names"]["wraps"][0]["sealed"])), damaged);
    assert_eq!(names(&|v| flip(&mut v["names"]["wraps"][0]["ephemeral"])), damaged);
    assert_eq!(names(&|v| v["cipher"] = Value::from("chacha20-poly1305")), damaged);
    assert_eq!(names(&|v| v["names"] = v["contents"].clone()), damaged);
    let wrong = KeyError::WrongKey { id, purpose };
    assert_eq!(names(&|v| flip(&mut v["names"]["commit"])), wrong);
    let zeros = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    assert_eq!(names(&|v| v["names"]["wraps"][0]["ephemeral"] = Value::from(zeros)), damaged);
    record.verify(Purpose::Names, &keys.names).unwrap();
    assert_eq!(record.verify(Purpose::Names, &keys.contents), Err(wrong));
    let cipher = edit(&json, |v| v["cipher"] = Value::from("rot13"));
    assert!(matches!(KeyRecord::from_json(&cipher), Err(KeyError::Malformed { .. })));
    // The record alone and the passphrase restore.
    let alone = KeyRecord::from_json(&json).unwrap();
    opens(alone.ring(), &Secret::Passphrase("correct horse"), &alone, &keys);
}

#[test]
fn sizes_are_bounded_before_parsing() {
    let mut long = ring("long").0.to_json().unwrap();
    long.resize(MAX_RING_JSON + 1, b' ');
    assert!(matches!(KeyRing::from_json(&long), Err(KeyError::Malformed { .. })));
    long.truncate(MAX_RING_JSON);
    KeyRing::from_json(&long).unwrap();
    let deep = format!("{{\"version\":1,\"pairs\":{}", "[".repeat(60_000));
    assert!(KeyRing::from_json(deep.as_bytes()).is_err());
    assert!(KeyRecord::from_json(&vec![b' '; MAX_RECORD_JSON + 1]).is_err());
    // A ring that would grow beyond the limit stays as it was.
    let rng = &mut fixed_rng("grow");
    let (mut ring, mut open) = ring("growing");
    let label = "x".repeat(128);
    let grown = (0..MAX_PAIRS).try_for_each(|_| {
        ring.rotate(&mut open, &NewLock { label: &label, ..phrase("p") }, 0, rng).map(|_| ())
    });
    assert!(matches!(grown, Err(KeyError::TooMuch { .. })), "{grown:?}");
    KeyRing::from_json(&ring.to_json().unwrap()).unwrap();
}

#[test]
fn recipients_are_copied_as_text() {
    let public = ring("text").0.active().unwrap();
    let text = public.to_string();
    assert_eq!(format!(" {text}\n").parse::<Recipient>().unwrap(), public);
    for at in 12..text.len() {
        let mut typo = text.clone().into_bytes();
        typo[at] = if typo[at] == b'A' { b'B' } else { b'A' };
        let typo = String::from_utf8(typo).unwrap();
        assert!(typo.parse::<Recipient>().is_err(), "{typo}");
    }
    assert!(text[..102].parse::<Recipient>().is_err());
}

#[test]
fn secrets_do_not_print() {
    let rng = &mut fixed_rng("debug");
    let (ring, open) = ring("debug ring");
    let keys = SessionKeys::draw(rng);
    let code = RecoveryCode::draw(rng);
    let text = format!("{keys:?} {code:?} {open:?} {ring:?}");
    let secret = format!("{:?}", &keys.names[..4]);
    assert!(!text.contains(secret.trim_matches(['[', ']'])), "{text}");
    assert!(!text.contains("sealed"));
}

mod garbage {
    use super::*;
    use proptest::prelude::*;

    fn try_all(json: &[u8]) {
        let open = ring("garbage").1;
        if let Ok(ring) = KeyRing::from_json(json) {
            let _ = (ring.unlock(&Secret::KeyFile(&[1; 32])), ring.unlock(&Secret::Ring(&open)));
            let _ = (ring.list(), ring.active(), ring.to_json());
        }
        if let Ok(record) = KeyRecord::from_json(json) {
            let _ = (record.unwrap_names(&open), record.unwrap_contents(&open));
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in ".{0,120}") {
            try_all(&bytes);
            try_all(text.as_bytes());
            let _ = RecoveryCode::parse(&text);
            let _ = text.parse::<Recipient>();
            let _ = format!("capstan-pub-{text}").parse::<Recipient>();
            let _ = text.parse::<PairId>();
        }

        #[test]
        fn no_damage_to_a_valid_record_panics(at in 0usize..10_000, to in any::<u8>(), cut in any::<bool>()) {
            let rng = &mut fixed_rng("garbage record");
            let (ring, _) = ring("garbage");
            let keys = SessionKeys::draw(rng);
            let record = KeyRecord::wrap(&keys, Cipher::Aes256Gcm, &ring, &[], rng).unwrap();
            for mut json in [ring.to_json().unwrap(), record.to_json().unwrap()] {
                let at = at % json.len();
                if cut { json.truncate(at) } else { json[at] = to }
                try_all(&json);
            }
        }

        #[test]
        fn codes_read_back(seed in any::<[u8; 32]>(), layout in 0..4) {
            let mut draw = |out: &mut [u8]| out.copy_from_slice(&seed);
            let code = RecoveryCode::draw(&mut draw);
            let text = code.to_text();
            let typed = match layout {
                0 => text.to_string(),
                1 => text.to_lowercase().replace('0', "o").replace('1', "l").replace('v', "u")
                    .replace("l:", "1:").replace('-', " "),
                2 => text.lines().map(|l| l[3..].replace('-', "")).collect(),
                _ => text.replace('\n', " "),
            };
            let back = RecoveryCode::parse(&typed).unwrap();
            prop_assert_eq!(back.bytes(), &seed);
        }
    }
}

mod recovery {
    use super::*;

    #[test]
    fn a_mistake_is_named_by_line() {
        let code = RecoveryCode::draw(&mut fixed_rng("code"));
        let text = code.to_text();
        let lines: Vec<&str> = text.lines().collect();
        for line in 0..4 {
            for at in (3..22).filter(|at| lines[line].as_bytes()[*at] != b'-') {
                let mut typo = lines[line].as_bytes().to_vec();
                typo[at] = if typo[at] == b'7' { b'8' } else { b'7' };
                let mut typed = lines.clone();
                let typo = String::from_utf8(typo).unwrap();
                typed[line] = &typo;
                let error = RecoveryCode::parse(&typed.join("\n")).unwrap_err();
                let KeyError::RecoveryLine { line: told, .. } = error else { panic!("{error}") };
                assert_eq!(told, line + 1);
            }
        }
        let swapped = [lines[1], lines[0], lines[2], lines[3]].map(|l| &l[3..]).join("\n");
        let error = RecoveryCode::parse(&swapped).unwrap_err();
        assert!(error.to_string().contains("line 2 of the sheet"), "{error}");
        let error = RecoveryCode::parse(&lines[..3].join("\n")).unwrap_err();
        assert_eq!(error, KeyError::RecoveryLength { found: 48 });
        let short = text.replacen(&lines[2][3..4], "", 1);
        assert!(RecoveryCode::parse(&short).is_err());
        let error = RecoveryCode::parse(&text.replacen("3: ", "3: *", 1)).unwrap_err();
        assert!(matches!(error, KeyError::RecoveryLine { line: 3, .. }), "{error}");
        assert!(RecoveryCode::parse(&"A".repeat(5000)).is_err());
    }

    #[test]
    fn the_sheet_holds_what_opens_the_ring() {
        let rng = &mut fixed_rng("sheet");
        let (mut ring, open) = ring("sheet ring");
        let code = RecoveryCode::draw(rng);
        let info = SheetInfo { name: "host\x1b[2J", date: "2026-11-20", steps: &["step one"] };
        assert!(recovery_sheet(&ring, &code, &info).is_err());
        ring.add_lock(&open, &by(LockBy::RecoveryCode(&code), Scope::All), rng).unwrap();
        let sheet = recovery_sheet(&ring, &code, &info).unwrap();
        assert!(sheet.contains("1. step one") && sheet.contains("host[2J"));
        assert!(sheet.contains(&ring.active().unwrap().id().to_string()));
        let typed: Vec<_> = sheet.lines().filter(|l| l.contains(": ") && l.contains('-')).collect();
        let typed: Vec<_> = typed.into_iter().filter(|l| l.starts_with("    ")).collect();
        let back = RecoveryCode::parse(&typed.join("\n")).unwrap();
        assert!(ring.unlock(&Secret::RecoveryCode(&back)).is_ok());
        let wrong = RecoveryCode::draw(rng);
        assert_eq!(recovery_sheet(&ring, &wrong, &info).unwrap_err(), KeyError::WrongRecoveryCode);
        // After a rotation the code opens the older pair only, and a new sheet would promise too much.
        let mut open = open;
        let mut rotated = ring.clone();
        rotated.rotate(&mut open, &phrase("new"), 0, rng).unwrap();
        assert!(rotated.unlock(&Secret::RecoveryCode(&code)).is_ok());
        assert!(recovery_sheet(&rotated, &code, &info).is_err());
        assert!(sheet.lines().all(|l| l.len() <= 100), "fits a page");
    }
}
