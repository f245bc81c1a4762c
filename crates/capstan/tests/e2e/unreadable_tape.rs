//! Tapes whose header can be read and not all that lies behind it: each command finds the damage, names and records it.

use std::path::Path;

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::gone_media::status;
use crate::support::{Lab, noise, report};
use crate::tape::{library, media};

/// A library with a drive, and a tape with two versions; the drive stands at its end.
fn lab() -> (Lab, std::path::PathBuf) {
    let lab = Lab::new();
    let dir = library(&lab, 1, 3);
    lab.file("tree/a", noise(1, 4_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--full"]);
    lab.file("tree/b", noise(2, 3_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--full"]);
    (lab, dir)
}

/// Has the drive read its next `sound` blocks, and nothing behind them.
fn blind_behind(dir: &Path, sound: u32) {
    let plan: Vec<_> = (sound + 1..600).map(|n| format!("read:{n}=error")).collect();
    Library::open(dir).unwrap().plan_faults(Some(1), &plan.join(",")).unwrap();
}

fn names_damage(done: &Value) -> bool {
    let codes = ["damaged", "missing"];
    done["errors"].as_array().unwrap().iter().any(|e| codes.iter().any(|code| e["code"] == *code))
}

/// Wherever it begins that nothing can be read: not when the tape is planned to be read either does the command end.
#[test]
fn what_cannot_be_read_behind_a_header_is_damage() {
    for command in ["verify --medium V00001L9 --json", "verify t --json", "drill t --json"] {
        for sound in 0..7 {
            let (lab, dir) = lab();
            blind_behind(&dir, sound);
            let run = lab.run(command.split(' '));
            let what = format!("{command}, {sound}: {}{}", run.stdout, run.stderr);
            if run.code == 0 {
                // A version that is whole lies before that, or a drill has taken its sample from there.
                assert!(sound > 0 && !command.contains("medium"), "{what}");
                continue;
            }
            assert_eq!(run.code, 3, "{what}");
            assert!(names_damage(&report(run)), "{what}");
            assert_eq!(media(&lab)[0].1, "damaged", "{what}");
            assert_eq!(status(&lab).0, 6, "{what}");
        }
    }
}
