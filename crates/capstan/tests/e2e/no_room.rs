//! A restore into a file system without room, and a limit on the size of files: what is said, and what counts as restored.

use crate::support::{Lab, Mount, can_mount, noise, report, skip};

const SIZE: usize = 3_000_000;

/// A medium with files of three megabytes, and one that is written in parts, none of which fits where three megabytes do not twice.
fn lab() -> Lab {
    let lab = Lab::new();
    for n in 0..3 {
        lab.file(&format!("tree/f{n}"), noise(n, SIZE));
    }
    lab.file("tree/huge", noise(9, 40 << 20));
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab
}

#[test]
fn what_did_not_come_to_its_end_does_not_count_as_restored() {
    if !can_mount() {
        return skip("nothing can be mounted here");
    }
    let lab = lab();
    let _small = Mount::new(&["-t", "tmpfs", "-o", "size=5M", "tmpfs"], &lab.path("small"));
    let run = lab.run(["restore", "t", "--into", "small", "--json"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let done = report(run);
    // One that is written in parts counts as soon as it is made, its bytes when a part came to its end.
    assert!(done["files"].as_u64() < Some(3), "{done:#}");
    let bytes = done["bytes_written"].as_u64().unwrap();
    assert!([0, SIZE as u64].contains(&bytes), "{done:#}");
}

#[test]
fn a_limit_on_file_sizes_is_an_error_that_is_named() {
    let lab = lab();
    let program = lab.command();
    let program = program.get_program().to_str().unwrap().to_owned();
    let limited = |line: &str| {
        let home = lab.path("home").display().to_string();
        let script = format!(
            "ulimit -f 2000; CAPSTAN_HOME={home} {program} {line} 2>&1 || echo \"exit $?\""
        );
        lab.sh(&script)
    };
    let said = limited("restore t --into out");
    assert!(said.contains("exit 3") && said.contains("ulimit -f"), "{said}");
    let said = limited("backup tree --to other --name o");
    assert!(said.contains("exit 1") && said.contains("ulimit -f"), "{said}");
    // What it begins has the signal as it was.
    let said = limited("backup --from-command 'head -c 3M /dev/zero >big' --to third --name c");
    assert!(said.contains("exit 1") && !said.contains("write error"), "{said}");
    lab.sh("rm -rf out");
    lab.restored(["t", "--into", "out"]);
}
