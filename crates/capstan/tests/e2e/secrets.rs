//! Secrets that the environment gives stay in the process that they are given to.

use std::fs;

use crate::support::{Lab, finish, is_root, skip};

const SECRETS: [(&str, &str); 5] = [
    ("CAPSTAN_PASSPHRASE", "the first secret word"),
    ("CAPSTAN_NEW_PASSPHRASE", "the second secret word"),
    ("CAPSTAN_RECOVERY_CODE", "the third secret word"),
    ("CAPSTAN_IDB_RECOVERY", "the fourth secret word"),
    ("CAPSTAN_CHAP_SECRET", "the fifth secret word"),
];

/// What shows of the process that runs it, and what it inherited.
const LOOK: &str = "env >PLACE/NAME.env; cat /proc/$PPID/environ >PLACE/NAME.environ; \
                    grep 'core file' /proc/$PPID/limits >PLACE/NAME.limits; stat -c %u /proc/$PPID/environ >PLACE/NAME.owner";

fn look(lab: &Lab, name: &str) -> String {
    let place = lab.path("").display().to_string();
    LOOK.replace("PLACE", place.trim_end_matches('/')).replace("NAME", name)
}

fn shows_nothing(lab: &Lab, name: &str) {
    for kind in ["env", "environ"] {
        let found = fs::read(lab.path(format!("{name}.{kind}"))).unwrap();
        let found = String::from_utf8_lossy(&found);
        assert!(found.contains("CAPSTAN_HOME"), "{name}.{kind} has nothing at all");
        for (variable, secret) in SECRETS {
            assert!(!found.contains(secret), "{variable} is in {name}.{kind}");
        }
    }
    let limits = fs::read_to_string(lab.path(format!("{name}.limits"))).unwrap();
    assert_eq!(limits.split_whitespace().nth(4), Some("0"), "{limits}");
}

#[test]
fn commands_that_it_runs_inherit_no_secret() {
    let lab = Lab::new();
    lab.file("tree/a", "a");
    let mut init = lab.command();
    init.args(["key", "init"]).env(SECRETS[0].0, SECRETS[0].1);
    finish(&mut init).ok();
    let input = look(&lab, "input");
    let mut backup = lab.command();
    backup.args(["backup", "--from-command", &input, "--name", "c", "--to", "medium"]);
    finish(backup.envs(SECRETS)).ok();
    shows_nothing(&lab, "input");
    lab.file(
        "spec.toml",
        format!(
            "device = \"{}\"\n[commands]\npre = [\"{}\"]\npost = [\"{}\"]\n[[object]]\nname = \"t\"\npaths = [\"{}\"]\n",
            lab.path("medium").display(),
            look(&lab, "pre"),
            look(&lab, "post"),
            lab.path("tree").display(),
        ),
    );
    for _ in 0..2 {
        let mut run = lab.command();
        finish(run.args(["run", "spec.toml"]).env(SECRETS[0].0, SECRETS[0].1)).ok();
    }
    shows_nothing(&lab, "pre");
    shows_nothing(&lab, "post");
    // It is known to the process all the same: the second one built on the first.
    let sessions = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
    assert!(sessions.contains("\"incr\""), "{sessions}");
}

#[test]
fn others_of_the_same_user_cannot_look_into_a_process_with_secrets() {
    if !is_root() {
        return skip("needs root, who becomes a plain user");
    }
    let lab = Lab::of_user();
    let owner = |name: &str, secret: Option<&str>| {
        // What it may not read it says nothing of.
        let command = format!("({}) 2>/dev/null; true", look(&lab, name));
        let mut backup = lab.command();
        backup.args(["backup", "--from-command", &command, "--name", name, "--to", "medium"]);
        finish(backup.envs(secret.map(|s| (SECRETS[0].0, s)))).ok();
        fs::read_to_string(lab.path(format!("{name}.owner"))).unwrap().trim().to_owned()
    };
    assert_eq!(owner("open", None), crate::support::NOBODY);
    assert_eq!(owner("guarded", Some(SECRETS[0].1)), "0");
    assert!(fs::read(lab.path("guarded.environ")).unwrap().is_empty());
}
