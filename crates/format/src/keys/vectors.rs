//! Known answers: what version 1 wrote has to be read by every later version.
//!
//! A Python program (cryptography, argon2-cffi) opened them by the steps of `docs/keys.md`. They are never changed; a
//! new format version gets new ones beside them.

use super::tests::fixed_rng;
use super::*;
use crate::id::StreamId;

const PASSPHRASE: &str = "Käse, Brot und 4 Äpfel";
const KEY_FILE: &[u8] = b"0123456789abcdef0123456789abcdef\n";
const STREAM: StreamId = StreamId([0xa5; 16]);
const PLAIN: &[u8] = b"a frame of capstan";

/// Names key, contents key, and the frame sealed by each as [`Vectors::hex`] says.
const HEX: [&str; 4] = [
    "944c8dcfa01ca51542efbc731cbc39bd4f01a226023cc74ef78357b605e11bcb",
    "2d5e21ddfa13dc403afe2577069dd713264800d98d0112cf185d929c27597b36",
    "8dc29d5ddcbfad8a911a0e86feb63d68b0d73be1dec5cc8a67af19af3dd429e583fb",
    "f8dfe86d3ac01217649622d53a1f3f0767f6930a709702927a0a01026aa64d97965f",
];
const RECIPIENT: &str = "capstan-pub-kOCGxyPltJsq9PQNgsOnm4kjWa5mZBf4n0ZVWLRv6k0stezc6OykPN443BGiHm582OkWMtjZZrEieGvU0IOTA9TXg9I";
const CODE: &str = "1: EJ7Z-NVZS-RNX3-0GX9
2: MY56-8N8B-R22B-50K6
3: YAY0-G3YY-N85T-3QM5
4: 1AQE-TNTS-3BNR-2TC9
";
const RECORD: &str = r#"{
 "cipher": "aes-256-gcm",
 "contents": {
  "commit": "zMB9W7D3nHOWh+UBnQWsJydfNrOIZDu9stXfSrdbuFE=",
  "wraps": [
   {
    "ephemeral": "+0WOGJ010lrYNzYjg2Duq9gz4ERPuAetmd29X//SHlw=",
    "sealed": "UurcJrXMWYnt5OOAjYbHJBakUwmC/orK5N3lPQX1mCXyl12hPxduWMzn70n+YdLf",
    "to": "5e7307e1e4fa878d"
   }
  ]
 },
 "id": "d92d23b4a58296b4473d7f13de2b52e2",
 "names": {
  "commit": "A9URae+JsWU0j5zn31zo5rVPexivAUHoQAOTtqv4cNc=",
  "wraps": [
   {
    "ephemeral": "8gMXo187DYn4O7nm0027dRVPgf9nLclsynHq0C5Geh8=",
    "sealed": "kJ0mec+CVGxU/0aPllrqBmkxKcIJe3v/ETlMpF8fPqHQ1mIx5YTaNahE/R4xIzZr",
    "to": "5e7307e1e4fa878d"
   },
   {
    "ephemeral": "WsS9gY9hc7sNC7OCtVe+BWO9dKLo8QvGkQHzydDD+mE=",
    "sealed": "oBD4/C7mKXev6QwO6FUTSocpIZ9pWm8c7de/Zw2WZ1jf/hY1zTuCDxJrtQvgBGV7",
    "to": "b2f16d0b15e9d7ae"
   }
  ]
 },
 "ring": {
  "pairs": [
   {
    "contents": "etOwq/fmpWt7oZqd3QvC189Oi6XiK/0Vhc0aIal/iRk=",
    "created": 1700000000,
    "id": "2fe6baa141cc7d8e",
    "locks": [
     {
      "argon": {
       "m_kib": 19456,
       "p": 1,
       "t": 2
      },
      "id": "49c27c9c3319dc1d",
      "kind": "passphrase",
      "label": "first",
      "scope": "all",
      "sealed": {
       "check": "2AOgu8RSNPVtTrjJ7Wil02tmvSFLyw2LxWeLqMzlQLU=",
       "contents": "zHC1l2ltWbEwuvJvKHVUl3ixjnRcRJr846F0bGS1WtI/Xn42Og+tHoBWdjFBz65H",
       "names": "yosL/gAINewUDNhL+nFz3hj9W2nERDBUrsWzT5c12ISCZV5sQe48t4n+1G2Fb+yO",
       "salt": "tUJlv2gehGm9LOuzC7P/mQ=="
      }
     },
     {
      "id": "061bda1e7f4c1b3c",
      "kind": "key_file",
      "label": "clerk",
      "scope": "names",
      "sealed": {
       "check": "1STWOIFlRGest9oSo25Ea7TUCgmmAcFXj2E5iCZMHUQ=",
       "names": "0Z1WLGsG2w6FzZOElIOJ0oUjZSGKIisY+s/ybq0Jqg4Csn8LdoF9aBEohsYzzvJS",
       "salt": "CJSfNRyHqPYBwjtft45I5g=="
      }
     },
     {
      "contents": {
       "ephemeral": "yU89szprgRDfx5sU+A1YbaTRn5ix9NpZlf64TQgIjHY=",
       "sealed": "ruDDW2VzherD2E2338I3WOqrLmgMN1Y13elPD2voudtvo2UbAMk9LZx61DqTpMIb",
       "to": "5e7307e1e4fa878d"
      },
      "id": "7972de7ea122eeb3",
      "kind": "recipient",
      "label": "newer pair 5e7307e1e4fa878d",
      "names": {
       "ephemeral": "QciICtgQGHI8um636Hgam+23ZZBLEsSfpksB8It0tDw=",
       "sealed": "n+sH0DETBrItXJofIYHXu0mSUX+WWYXG2RdJQyketWlTii5dst1+DpPz+OyAM95m",
       "to": "5e7307e1e4fa878d"
      },
      "scope": "all"
     }
    ],
    "names": "+YwhcSg0wd2FN5xIMKg1UJ0/ujBMfJaCD4e9cXl1yGM="
   },
   {
    "contents": "tkfuh/t4qPA0Pq7398XL38Y0YlSrLor0jHEyv6nzLRA=",
    "created": 1800000000,
    "id": "5e7307e1e4fa878d",
    "locks": [
     {
      "argon": {
       "m_kib": 256,
       "p": 2,
       "t": 3
      },
      "id": "31b286a702410fdc",
      "kind": "passphrase",
      "label": "second",
      "scope": "all",
      "sealed": {
       "check": "VVBA4olu+VHzM4t7wcYCPUSGvpfCDhZg7TwNJwvS2Sg=",
       "contents": "CLmIRMUrYJYfVJs7cvVyJv+yo0xNquneGqhHFg1kvpsz3mBC2nsdlUaRhQkXsEMM",
       "names": "yNnh7YKsWq2zdXMfuXTSqRUD+pq1s6vknBroxkkzvMmvkY2gKxbAk2+XnBOmANKl",
       "salt": "qSgcnthLol0w+Zt446jCaA=="
      }
     },
     {
      "id": "7667ccfaa63a214c",
      "kind": "recovery_code",
      "label": "paper",
      "scope": "all",
      "sealed": {
       "check": "Hr8LdfgLWK9W8SfYak7Ojf69K2rCoWRQwuKtkgXYm7Q=",
       "contents": "AOiu1vpZ/xzsNQyx4WtYghvyxkF5Vp67mXjYPa2pep2lRXTl3d4eYJ6tjfs+2ig/",
       "names": "VUaP6rQ1u91OV6HWPwc7I69EFvUXfrjVcL/rxfgIELmzlkmiu83zLu80d/g53PwT",
       "salt": "4mi8hT57fMquAhrT91u8PQ=="
      }
     }
    ],
    "names": "l0Yj2lHNzPsHXTU2AJddeTdyUV5bJJPYH0WUUlt69UQ="
   }
  ],
  "version": 1
 },
 "version": 1
}"#;

/// What one version of the writer makes of fixed random bytes.
#[derive(Debug, PartialEq)]
struct Vectors {
    record: serde_json::Value,
    code: String,
    recipient: String,
    /// Names and contents key, then a frame by each cipher with sequence 258 and header `head`, tag included.
    hex: [String; 4],
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn seal(keys: &SessionKeys, purpose: Purpose, cipher: Cipher) -> String {
    let sealer = FrameSealer::new(keys.key(purpose), purpose, STREAM, cipher).unwrap();
    let mut frame = PLAIN.to_vec();
    let tag = sealer.seal_in_place(258, b"head", &mut frame).unwrap();
    hex(&[frame.as_slice(), &tag].concat())
}

fn build() -> Vectors {
    let rng = &mut fixed_rng("capstan key vectors, version 1");
    let lock = |by, scope, label| NewLock { by, scope, label };
    let phrase = LockBy::Passphrase(PASSPHRASE, ArgonParams::DEFAULT);
    let first = lock(phrase, Scope::All, "first");
    let (mut ring, mut open) = KeyRing::create(&first, 1_700_000_000, rng).unwrap();
    let clerk = lock(LockBy::KeyFile(KEY_FILE), Scope::Names, "clerk");
    ring.add_lock(&open, &clerk, rng).unwrap();
    let lanes = LockBy::Passphrase(PASSPHRASE, ArgonParams { m_kib: 256, t: 3, p: 2 });
    ring.rotate(&mut open, &lock(lanes, Scope::All, "second"), 1_800_000_000, rng).unwrap();
    let code = RecoveryCode::draw(rng);
    let paper = lock(LockBy::RecoveryCode(&code), Scope::All, "paper");
    ring.add_lock(&open, &paper, rng).unwrap();
    let file = LockBy::KeyFile(KEY_FILE);
    let (other, _) = KeyRing::create(&lock(file, Scope::All, "other"), 1, rng).unwrap();
    let recipient = other.active().unwrap();
    let keys = SessionKeys::draw(rng);
    let grant = Grant { to: recipient, scope: Scope::Names };
    let record = KeyRecord::wrap(&keys, Cipher::Aes256Gcm, &ring, &[grant], rng).unwrap();
    Vectors {
        record: serde_json::from_slice(&record.to_json().unwrap()).unwrap(),
        code: code.to_text().to_string(),
        recipient: recipient.to_string(),
        hex: [
            hex(keys.names.as_slice()),
            hex(keys.contents.as_slice()),
            seal(&keys, Purpose::Contents, Cipher::Aes256Gcm),
            seal(&keys, Purpose::Names, Cipher::ChaCha20Poly1305),
        ],
    }
}

#[test]
fn version_1_is_written_as_ever() {
    let frozen = Vectors {
        record: serde_json::from_str(RECORD).unwrap(),
        code: CODE.to_owned(),
        recipient: RECIPIENT.to_owned(),
        hex: HEX.map(str::to_owned),
    };
    assert_eq!(build(), frozen);
}

#[test]
fn version_1_is_read() {
    let record = KeyRecord::from_json(RECORD.as_bytes()).unwrap();
    let ring = record.ring();
    let code = RecoveryCode::parse(CODE).unwrap();
    for secret in [Secret::Passphrase(PASSPHRASE), Secret::RecoveryCode(&code)] {
        let open = ring.unlock(&secret).unwrap();
        assert_eq!(open.pairs().count(), 2);
        assert!(open.problems().is_empty());
        let keys = record.unwrap_all(&open).unwrap();
        assert_eq!([hex(keys.names.as_slice()), hex(keys.contents.as_slice())], [HEX[0], HEX[1]]);
        for (purpose, cipher, frame) in [
            (Purpose::Contents, Cipher::Aes256Gcm, HEX[2]),
            (Purpose::Names, Cipher::ChaCha20Poly1305, HEX[3]),
        ] {
            let digits: Vec<&str> = (0..frame.len()).step_by(2).map(|i| &frame[i..i + 2]).collect();
            let mut frame: Vec<u8> =
                digits.iter().map(|d| u8::from_str_radix(d, 16).unwrap()).collect();
            let sealer = FrameSealer::new(keys.key(purpose), purpose, STREAM, cipher).unwrap();
            assert_eq!(sealer.open_in_place(258, b"head", &mut frame).unwrap(), PLAIN);
        }
    }
    // The clerk's key file opens the names of the older pair, and that one is no recipient.
    let clerk = ring.unlock(&Secret::KeyFile(KEY_FILE)).unwrap();
    assert_eq!(clerk.pairs().count(), 1);
    assert!(matches!(record.unwrap_names(&clerk), Err(KeyError::NotARecipient { .. })));
    assert!(RECIPIENT.parse::<Recipient>().is_ok());
}
