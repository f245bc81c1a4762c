//! Files on media that are away: they are not damaged, a line is said of each medium, and they come when it is in.

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Run, below, noise, report};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

/// A full on one tape and an incremental on another; the full's tape is in the vault.
fn half_in_the_vault() -> Lab {
    let lab = Lab::new();
    run(
        &lab,
        "vtl create vtl --capacity 40M --scale 1e5 --drives 1 --slots 4 --tapes 3 --mail-slots 1",
    )
    .ok();
    lab.file("t/old", noise(1, 2_500_000));
    lab.file("t/older", noise(2, 1_000_000));
    // A further name is no further file, and away with it.
    lab.sh("ln t/old t/linked");
    lab.backed_up(["t", "--to", "vtape:vtl?tape=V00001L9", "--name", "t"]);
    lab.file("t/new", noise(3, 500_000));
    let second = ["t", "--to", "vtape:vtl?tape=V00002L9", "--name", "t", "--incr"];
    assert_eq!(lab.backed_up(second)["method"], "incr");
    let vault = ["library", "export", "vtape:vtl", "V00001L9", "--location", "bank, box 7"];
    lab.run(vault).ok();
    run(&lab, "vtl take vtl V00001L9").ok();
    lab
}

/// That a report says of two files, and of nothing else, that they are away.
fn are_away(report: &Value) {
    assert_eq!(
        (&report["status"], &report["away"]),
        (&"completed_with_errors".into(), &2.into()),
        "{report}"
    );
    assert_eq!((&report["corrupt"], &report["away_bytes"]), (&0.into(), &3_500_000.into()));
    let errors = report["errors"].as_array().unwrap();
    let errors: Vec<_> = errors.iter().filter(|e| e["code"] != "path-missing").collect();
    assert_eq!((errors.len(), &errors[0]["code"]), (1, &"away".into()), "{report}");
    let text = errors[0]["error"].as_str().unwrap();
    assert!(
        text.starts_with("2 files, 3.5 MB: on tape V00001L9, which was exported on 20"),
        "{text}"
    );
    assert!(text.ends_with(" to bank, box 7"), "{text}");
    let medium = &report["away_media"][0];
    assert_eq!((&medium["barcode"], &medium["files"]), (&"V00001L9".into(), &2.into()), "{medium}");
}

#[test]
fn files_on_a_vaulted_tape_are_away_and_not_corrupt() {
    let lab = half_in_the_vault();
    let restored = run(&lab, "restore t --into out --json");
    assert_eq!(restored.code, 3, "{}", restored.stderr);
    are_away(&report(restored));
    assert!(below(&lab.path("out"), &lab.path("t")).join("new").exists());
    let text = run(&lab, "restore t --into text");
    let lines: Vec<_> = text.stdout.lines().filter(|line| line.contains("Away")).collect();
    assert!(lines[0].contains("2, 3.50 MB, on media that are not at hand"), "{}", text.stdout);
    assert!(!text.stderr.contains("/old"), "a line of the medium is enough: {}", text.stderr);
    let verbose = run(&lab, "restore t --into verbose -v");
    for words in ["/t/old", "/t/linked", "which is away"] {
        assert!(verbose.stderr.contains(words), "{words}: {}", verbose.stderr);
    }
    assert!(!below(&lab.path("verbose"), &lab.path("t")).join("linked").exists());

    are_away(&report(run(&lab, "verify t --json")));
    let archived = report(run(&lab, "restore t --to-tar out.tar --json"));
    are_away(&archived);
    assert_eq!(archived["files"], 1, "{archived}");
    // Unpacked over files that are whole it leaves them.
    assert_eq!(lab.sh("tar -tf out.tar | grep -E 'new|old|linked' | sed 's,.*/,,'"), "new\n");
    let said = run(&lab, "restore t --to-tar again.tar -v").stderr;
    assert!(said.contains("/t/linked") && !said.contains("restore that too"), "{said}");
    // Who looks after it is not alarmed: it is away on purpose.
    assert_eq!(run(&lab, "status --json").ok().code, 0);
    assert!(!run(&lab, "media list").ok().stdout.contains("damaged"));
    let drill = report(run(&lab, "drill t --sample 100% --json"));
    assert_eq!(drill["drill"]["failed"], 0, "{drill}");
    are_away(&drill);
    run(&lab, "vtl insert vtl V00001L9").ok();
    run(&lab, "library import vtape:vtl").ok();
    lab.restored(["t", "--into", "out", "--overwrite", "if-newer"]);
    same_by_rsync(&lab.path("t"), &below(&lab.path("out"), &lab.path("t")));
    lab.sh("rm -r out");
    assert_eq!(report(run(&lab, "verify t --json"))["status"], "completed");
}

#[test]
fn a_disk_that_is_not_mounted_is_away_too() {
    let lab = Lab::new();
    lab.file("t/old", noise(1, 300_000));
    lab.backed_up(["t", "--to", "m1", "--name", "t"]);
    lab.file("t/new", noise(2, 100_000));
    lab.backed_up(["t", "--to", "m2", "--name", "t", "--incr"]);
    lab.sh("mv m1 unplugged");
    let restored = report(run(&lab, "restore t --into out --json"));
    assert_eq!(
        (&restored["status"], &restored["away"]),
        (&"completed_with_errors".into(), &1.into())
    );
    let text = restored["errors"][0]["error"].as_str().unwrap().to_owned();
    assert!(text.starts_with("1 file, 300.0 kB: on medium 'm1', which is not in"), "{text}");
    // What is there and damaged is no such thing.
    lab.sh("mv unplugged m1; for f in m1/*.segment; do truncate -s 100000 $f; done");
    let damaged = report(run(&lab, "restore t --into damaged --json"));
    assert_eq!((&damaged["away"], &damaged["corrupt"]), (&0.into(), &1.into()), "{damaged}");
    assert_eq!(damaged["status"], "completed_with_errors");
}

/// A file that is away counts once, with its whole size, and what was not written is none of the files restored.
#[test]
fn a_file_in_parts_that_is_away_counts_whole() {
    let lab = Lab::new();
    lab.file("t/kept", noise(1, 1000));
    lab.backed_up(["t", "--to", "m1", "--name", "t"]);
    lab.file("t/big", noise(2, 40_000_000));
    lab.file("t/small", noise(3, 400_000));
    lab.backed_up(["t", "--to", "m2", "--name", "t", "--incr"]);
    lab.sh("mv m2 unplugged");
    let counts = |args: &[&str]| {
        let report = report(lab.run([args, &["--json"]].concat()));
        let of = |key: &str| report[key].as_u64().unwrap_or_else(|| panic!("{key}: {report:#}"));
        let text = report["errors"].to_string();
        assert!(text.contains("2 files, 40.4 MB: on") || of("away") == 1, "{text}");
        (of("files"), of("away"), of("away_bytes"))
    };
    assert_eq!(counts(&["restore", "t", "--into", "out"]), (1, 2, 40_400_000));
    assert_eq!(lab.sh("find out -type f | wc -l").trim(), "1");
    assert_eq!(counts(&["verify", "t"]), (3, 2, 40_400_000));
    let big = lab.path("t/big");
    let one = ["restore", "t", big.to_str().unwrap(), "--into", "one"];
    assert_eq!(counts(&one), (0, 1, 40_000_000));
    assert_eq!(lab.sh("find one -type f | wc -l").trim(), "0");
    lab.sh("mv unplugged m2");
    let all = report(lab.run(["restore", "t", "--into", "all", "--json"]));
    assert_eq!((&all["files"], &all["away"]), (&3.into(), &0.into()), "{all:#}");
    same_by_rsync(&lab.path("t"), &below(&lab.path("all"), &lab.path("t")));
    // What exists and is kept is none of them.
    let again =
        report(lab.run(["restore", "t", "--into", "all", "--overwrite", "never", "--json"]));
    assert_eq!((&again["files"], &again["skipped"]), (&0.into(), &3.into()), "{again:#}");
}

/// That is no damage of what is in it: a line of each medium is enough, whoever reads.
#[test]
fn a_library_that_cannot_be_reached_is_away() {
    let lab = Lab::new();
    run(&lab, "vtl create vtl --capacity 40M --scale 1e5 --drives 1 --slots 4 --tapes 2").ok();
    for (n, tape) in [(1, "V00001L9"), (2, "V00002L9")] {
        for name in ["old", "older", "oldest"] {
            lab.file(&format!("t/{name}-{n}"), noise(n, 500_000));
        }
        lab.sh(&format!("ln t/old-{n} t/linked-{n}"));
        lab.backed_up(["t", "--to", &format!("vtape:vtl?tape={tape}"), "--name", "t"]);
    }
    lab.file("t/new", noise(3, 100_000));
    lab.backed_up(["t", "--to", "disk", "--name", "t", "--incr"]);
    lab.sh("mv vtl gone");
    for line in
        ["restore t --into out", "verify t", "restore t --to-tar out.tar", "drill t --sample 100%"]
    {
        let done = report(run(&lab, &format!("{line} --json")));
        assert_eq!((&done["away"], &done["corrupt"]), (&6.into(), &0.into()), "{line}: {done:#}");
        let errors: Vec<_> = done["errors"].as_array().unwrap().iter().collect();
        assert_eq!(errors.len(), 2, "{line}: {done:#}");
        for (error, tape) in errors.iter().zip(["V00001L9", "V00002L9"]) {
            assert_eq!(error["code"], "away", "{line}: {done:#}");
            let text = error["error"].as_str().unwrap();
            let begin = format!("3 files, 1.5 MB: on tape {tape}, which cannot be reached: ");
            assert!(text.starts_with(&begin), "{line}: {text}");
            assert!(text.ends_with("there is no virtual library"), "{line}: {text}");
        }
    }
    assert!(below(&lab.path("out"), &lab.path("t")).join("new").exists());
    lab.sh("mv gone vtl");
    lab.restored(["t", "--into", "out", "--overwrite", "if-newer"]);
    same_by_rsync(&lab.path("t"), &below(&lab.path("out"), &lab.path("t")));
}

#[test]
fn a_directory_to_which_the_way_is_lost_is_away() {
    let lab = Lab::new();
    lab.sh("mkdir server");
    lab.file("t/old", noise(1, 300_000));
    lab.backed_up(["t", "--to", "server/m1", "--name", "t"]);
    lab.file("t/new", noise(2, 100_000));
    lab.backed_up(["t", "--to", "m2", "--name", "t", "--incr"]);
    lab.sh("mv server unplugged; echo no directory >server");
    let restored = report(run(&lab, "restore t --into out --json"));
    assert_eq!((&restored["away"], &restored["corrupt"]), (&1.into(), &0.into()), "{restored:#}");
    let text = restored["errors"][0]["error"].as_str().unwrap();
    let begin = "1 file, 300.0 kB: on medium 'm1', which cannot be reached: not a directory";
    assert!(text.starts_with(begin), "{text}");
}

/// Who goes to the bank for one tape brings the others, too.
#[test]
fn all_that_are_in_the_vault_are_named_at_once() {
    let lab = half_in_the_vault();
    let vault = ["library", "export", "vtape:vtl", "V00002L9", "--location", "bank, box 7"];
    run(&lab, "library unload vtape:vtl drive:1").ok();
    lab.run(vault).ok();
    run(&lab, "vtl take vtl V00002L9").ok();
    for line in [
        "restore t --into out",
        "verify t",
        "consolidate t --to made",
        "copy t --to copied",
        "drill t --sample 100%",
    ] {
        let refused = run(&lab, line);
        assert!(refused.code != 0, "{line}: {}", refused.stdout);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        for words in ["V00001L9", "V00002L9", "bank, box 7", "library import"] {
            assert!(said.contains(words), "{line}: '{words}' is not in: {said}");
        }
    }
}

/// Of three versions the second is whole in the library; what is away of the others is named together, also by who goes on without.
#[test]
fn some_that_are_in_the_vault_are_all_named() {
    let lab = half_in_the_vault();
    lab.file("t/newer", noise(4, 400_000));
    lab.backed_up(["t", "--to", "vtape:vtl?tape=V00003L9", "--name", "t", "--incr"]);
    run(&lab, "library unload vtape:vtl drive:1").ok();
    lab.run(["library", "export", "vtape:vtl", "V00003L9", "--location", "home"]).ok();
    run(&lab, "vtl take vtl V00003L9").ok();
    for line in ["copy t --to copied", "consolidate t --to made"] {
        let refused = run(&lab, line);
        assert!(refused.code != 0 && !lab.path("copied").exists(), "{line}: {}", refused.stdout);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        for words in ["V00001L9", "bank, box 7", "V00003L9", "to home"] {
            assert!(said.contains(words), "{line}: '{words}' is not in: {said}");
        }
    }
}

/// One version on three tapes of which two are away: what is there is copied, and a line said of each tape.
#[test]
fn what_of_a_version_cannot_be_copied_is_said_by_medium() {
    let lab = Lab::new();
    run(
        &lab,
        "vtl create vtl --capacity 16M --scale 1e5 --drives 1 --slots 8 --tapes 6 --mail-slots 4",
    )
    .ok();
    for n in 0..10 {
        lab.file(&format!("t/of-{n}"), noise(n, 1_000_000));
    }
    let small = ["--segment-size", "1M", "--compress", "off"];
    let made = lab.backed_up(["t", "--to", "vtape:vtl", "--name", "t"].iter().chain(&small));
    let media = made["media"].as_array().unwrap();
    assert!(media.len() >= 3, "{made}");
    run(&lab, "library unload vtape:vtl drive:1").ok();
    for (tape, place) in [("V00001L9", "bank, box 7"), ("V00003L9", "home")] {
        lab.run(["library", "export", "vtape:vtl", tape, "--location", place]).ok();
        run(&lab, &format!("vtl take vtl {tape}")).ok();
    }
    let copied = report(run(&lab, "copy t --to copied --json"));
    assert_eq!(copied["status"], "completed_with_errors", "{copied}");
    let errors = copied["errors"].as_array().unwrap();
    let away: Vec<_> = errors.iter().filter(|e| e["code"] == "away").collect();
    assert_eq!((away.len(), errors.len()), (2, 2), "{copied}");
    for (of, place) in [("V00001L9", "bank, box 7"), ("V00003L9", "home")] {
        let is_it = |e: &&&Value| e["error"].as_str().unwrap().contains(of);
        let text = away.iter().find(is_it).unwrap()["error"].as_str().unwrap();
        assert!(text.contains("segment") && text.ends_with(&format!(" to {place}")), "{text}");
        let of_media = copied["away_media"].as_array().unwrap();
        assert!(of_media.iter().any(|m| m["barcode"] == of), "{copied}");
    }
    for tape in ["V00001L9", "V00003L9"] {
        run(&lab, &format!("vtl insert vtl {tape}")).ok();
    }
    run(&lab, "library import vtape:vtl").ok();
    assert_eq!(report(run(&lab, "copy t --to copied --json"))["status"], "completed");
    lab.sh("mv vtl gone");
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("t"), &below(&lab.path("out"), &lab.path("t")));
}

/// What is damaged is whole on copies that are out of the house: who repairs is told which.
#[test]
fn a_repair_names_the_media_that_have_what_is_damaged() {
    let lab = Lab::new();
    for n in 0..4 {
        lab.file(&format!("t/of-{n}"), noise(n, 900_000));
    }
    let small = ["--segment-size", "1M", "--compress", "off"];
    lab.backed_up(["t", "--to", "m", "--name", "t"].iter().chain(&small));
    for (copy, place) in [("c1", "bank, box 7"), ("c2", "home")] {
        run(&lab, &format!("copy t --to {copy}")).ok();
        lab.run(["media", "export", copy, "--to", place]).ok();
    }
    lab.sh("mv c1 c1.away; mv c2 c2.away; for f in m/*.segment; do truncate -s 100000 $f; done");
    let repaired = report(run(&lab, "media repair m --json"));
    assert_eq!(repaired["status"], "completed_with_errors", "{repaired}");
    let errors = repaired["errors"].as_array().unwrap();
    let away: Vec<_> = errors.iter().filter(|e| e["code"] == "away").collect();
    assert_eq!(away.len(), 2, "{repaired}");
    let said = format!("{away:?}");
    for words in ["'c1'", "bank, box 7", "'c2'", "to home"] {
        assert!(said.contains(words), "'{words}' is not in: {said}");
    }
    lab.sh("mv c2.away c2");
    run(&lab, "media import c2").ok();
    assert_eq!(report(run(&lab, "media repair m --json"))["status"], "completed");
    lab.run(["verify", "--medium", "m"]).ok();
}

/// What users have in the place of a file that is away stays as it is, also where only the metadata are of the version that is at hand.
#[test]
fn what_has_the_name_of_a_file_that_is_away_is_not_touched() {
    let lab = Lab::new();
    lab.sh("mkdir -p t/moded t/gone; cd t; for n in touched moded/file linked kept gone/file; do echo full of $n >$n; done");
    lab.backed_up(["t", "--to", "m1", "--name", "t"]);
    lab.sh("sleep 1.1; cd t; touch touched; chmod 600 moded/file; ln linked z-further; touch gone/file; echo new >new");
    assert_eq!(lab.backed_up(["t", "--to", "m2", "--name", "t", "--incr"])["method"], "incr");
    lab.sh("mv m1 vaulted");
    // Somebody goes on with them, and removes one directory.
    lab.sh(
        "cd t; for n in touched moded/file linked kept; do echo work of today on $n >$n; chmod 640 $n; done; \
         rm -r new gone; cp -a . ../before; mkdir ../before/gone; touch -r . -d 1970-01-01 ../before/.x; rm ../before/.x",
    );
    for overwrite in ["never", "if-newer", "always"] {
        let done =
            report(lab.run(["restore", "t", "--in-place", "--overwrite", overwrite, "--json"]));
        assert_eq!((&done["away"], &done["corrupt"]), (&5.into(), &0.into()), "{done:#}");
        let errors = done["errors"].as_array().unwrap();
        assert_eq!((errors.len(), &errors[0]["code"]), (1, &"away".into()), "{done:#}");
        lab.sh("rm t/new");
        let differs =
            "rsync -aHAXn --checksum --itemize-changes --delete before/ t/ | grep -v '^[.]d..t'";
        assert_eq!(lab.sh(&format!("{differs} || true")), "", "--overwrite {overwrite}");
    }
    // Into a new directory nothing is made of them, and a line is enough.
    let done = report(lab.run(["restore", "t", "--into", "out", "--json"]));
    assert_eq!(done["errors"].as_array().unwrap().len(), 1, "{done:#}");
    assert_eq!(lab.sh("find out -type f | sed 's,.*/,,'"), "new\n");
    // With the medium back, only what is older than the version gets the version's contents.
    lab.sh("mv vaulted m1");
    lab.restored(["t", "--in-place", "--overwrite", "if-newer"]);
    assert_eq!(
        lab.sh("cat t/touched t/moded/file t/linked t/kept t/gone/file"),
        "work of today on touched\nwork of today on moded/file\nwork of today on linked\nwork of today on kept\nfull of gone/file\n"
    );
}

/// Inode flags are set on what was restored, not on what stayed in its place.
#[test]
fn what_stays_gets_no_inode_flags() {
    let lab = Lab::new();
    lab.sh("mkdir t; echo full >t/file; echo other >t/other; chattr +d t/file t/other");
    if !lab.sh("lsattr t/file").contains('d') {
        println!("skipped: this file system has no inode flags");
        return;
    }
    lab.backed_up(["t", "--to", "m", "--name", "t"]);
    lab.sh("sleep 1.1; chattr -d t/file; echo of today >t/file; rm t/other");
    lab.restored(["t", "--in-place", "--overwrite", "if-newer"]);
    assert_eq!(lab.sh("cat t/file t/other"), "of today\nother\n");
    let flags = lab.sh("cd t; lsattr file other");
    let has = |name: &str| {
        let line = flags.lines().find(|line| line.ends_with(name)).unwrap();
        line.split(' ').next().unwrap().contains('d')
    };
    assert_eq!((has("file"), has("other")), (false, true), "{flags}");
}

/// Files that were moved, got further names or are large: of what is away nothing is made, and nothing of it takes the place of what exists.
#[test]
fn nothing_is_made_of_moved_and_linked_files_that_are_away() {
    let lab = Lab::new();
    for (n, name) in ["a2", "moved", "dir/x", "tt", "z1"].iter().enumerate() {
        lab.file(&format!("t/{name}"), noise(n as u64, 300_000));
    }
    lab.file("t/huge", noise(9, 40_000_000));
    lab.sh("cd t; ln a2 b2; ln z1 z2");
    lab.backed_up(["t", "--to", "m1", "--name", "t"]);
    lab.sh("cd t; ln a2 0first; mv moved amoved; mv dir ndir; touch tt; ln huge 0huge; ln z1 z3; echo new >new");
    assert_eq!(lab.backed_up(["t", "--to", "m2", "--name", "t", "--incr"])["method"], "incr");
    lab.sh("cp -a t kept; mv m1 vaulted");
    let done = report(lab.run(["restore", "t", "--into", "out", "--json"]));
    assert_eq!(done["corrupt"], 0, "{done:#}");
    assert_eq!(done["files"], 1, "{done:#}");
    assert_eq!(done["errors"].as_array().unwrap().len(), 1, "{done:#}");
    assert_eq!(lab.sh("find out -type f | sed 's,.*/,,'"), "new\n");
    // Of each inode one name is gone, others are there; some have users' own contents.
    lab.sh("cd t; rm 0first 0huge z1 new; for n in a2 amoved; do echo mine >$n; done; cp -a . ../before");
    for overwrite in ["never", "if-newer", "if-different", "always"] {
        let done =
            report(lab.run(["restore", "t", "--in-place", "--overwrite", overwrite, "--json"]));
        assert_eq!(done["corrupt"], 0, "{done:#}");
        let codes: Vec<_> = done["errors"].as_array().unwrap().iter().map(|e| &e["code"]).collect();
        assert_eq!(codes, ["away"], "{done:#}");
        lab.sh("rm t/new");
        let differs =
            "rsync -aHAXn --checksum --itemize-changes --delete before/ t/ | grep -v '^[.]d..t'";
        assert_eq!(lab.sh(&format!("{differs} || true")), "", "--overwrite {overwrite}");
    }
    lab.sh("mv vaulted m1; rm -r t");
    lab.restored(["t", "--in-place"]);
    lab.sh("rm -r out");
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("kept"), &lab.path("t"));
    same_by_rsync(&lab.path("kept"), &below(&lab.path("out"), &lab.path("t")));
}

/// Damaged contents do not take the place of what exists, under a further name neither.
#[test]
fn damaged_contents_do_not_replace_a_further_name() {
    let lab = Lab::new();
    lab.file("t/a", noise(1, 1_500_000));
    lab.sh("cd t; ln a b; ln a c");
    lab.backed_up(["t", "--to", "m", "--name", "t", "--compress", "off"]);
    lab.sh("printf XXXXXXXX | dd of=m/00000001.segment bs=1 seek=600000 conv=notrunc status=none; cp -a t kept");
    for overwrite in ["if-newer", "if-different", "always"] {
        // One name is gone, one is good, one is somebody's own.
        lab.sh("rm -r t; cp -a kept t; rm t/a t/c; echo mine >t/c");
        let done =
            report(lab.run(["restore", "t", "--in-place", "--overwrite", overwrite, "--json"]));
        assert_eq!(done["corrupt"], 1, "{done:#}");
        assert_eq!(lab.sh("cmp kept/b t/b; cat t/c"), "mine\n", "--overwrite {overwrite}");
        assert_eq!(lab.sh("stat -c %Y t/a"), "0\n", "what is left of it is there, dated 1970");
    }
}

/// What was cut short is dated 1970: the run that goes on takes it for older than the backup, and writes it anew.
#[test]
fn what_a_full_disk_cut_short_is_written_anew() {
    let lab = Lab::new();
    for n in 0..5 {
        lab.file(&format!("t/f{n}"), noise(n, 1_000_000));
    }
    lab.file("t/large", noise(9, 34_000_000));
    lab.backed_up(["t", "--to", "m", "--name", "t"]);
    if lab.sh("mkdir small; mount -t tmpfs -o size=3m none small 2>&1 || echo no").contains("no") {
        println!("skipped: this is not root");
        return;
    }
    let cut = lab.run(["restore", "t", "--into", "small"]);
    let grown = lab.sh("mount -o remount,size=60m small; find small -type f | wc -l");
    let again = lab.run(["restore", "t", "--into", "small", "--overwrite", "if-newer"]);
    let same = lab.sh(&format!("diff -r t small{} && echo same || true", lab.path("t").display()));
    lab.sh("umount small");
    assert_ne!(cut.code, 0, "{}", cut.stderr);
    assert_ne!(grown.trim(), "0");
    assert_eq!((again.code, same.as_str()), (0, "same\n"), "{}", again.stderr);
}
