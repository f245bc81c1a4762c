//! `catalog export`: the table against `ls`, and the queries of docs/guide/duckdb.md, run by DuckDB, against find(1).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::independent_reader::python;
use crate::support::{Lab, Run, finish, is_root, noise, skip};

/// What the guide's queries give by their titles, and further queries by themselves; `None` without DuckDB.
fn asked(lab: &Lab, queries: &[&str]) -> Option<Value> {
    let Some(python) = python() else {
        assert!(std::env::var_os("CI").is_none(), "the gate needs the venv of `make setup`");
        skip("there is no venv: make setup");
        return None;
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = here.join("tests/e2e/duckdb_guide.py");
    let guide = here.join("../../docs/guide/duckdb.md");
    let run =
        finish(Command::new(python).arg(script).arg(guide).args(queries).current_dir(lab.path("")));
    Some(serde_json::from_str(&run.ok().stdout).unwrap())
}

/// A tree with everything that the guide asks for, in three versions; each version's `find` is kept.
fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/home/ann/thesis.odt", noise(1, 50_000));
    lab.file("tree/home/ann/old/thesis-copy.odt", noise(1, 50_000));
    lab.file("tree/home/bob/mail", noise(2, 30_000));
    lab.file("tree/logs/today", noise(3, 1000));
    lab.file("tree/logs/gone", noise(4, 700));
    lab.sh(r#"
cd tree; mkdir empty $'not-\xff-utf8'; echo x >$'not-\xff-utf8/\xfe'; : >nothing; ln home/bob/mail home/bob/mail-too
ln -s thesis.odt home/ann/link; mkfifo fifo; truncate -s 1M home/holes; echo island | dd of=home/holes bs=1k seek=64 conv=notrunc status=none
echo run >setuid; chmod 4755 setuid; echo open >open; chmod 666 open; touch -d '2001-02-03 04:05:06.123456789' home/ann/old/thesis-copy.odt
"#);
    if is_root() {
        lab.sh("chown -R 12345:12345 tree/home/ann; chown daemon:daemon tree/logs/today");
    }
    let state = r"TZ=UTC find $PWD/tree -printf '%y\t%i\t%s\t%h\t%p\t%u\t%TY\n' | iconv -f utf-8 -t utf-8 -c >";
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.sh(&format!("{state}state-0"));
    lab.sh("sleep 0.01; rm tree/logs/gone; head -c 5000 /dev/zero >>tree/logs/today; head -c 200 /dev/zero >tree/logs/new");
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--incr"]);
    lab.sh("chmod 600 tree/home/ann/thesis.odt; head -c 9000 /dev/zero >>tree/home/bob/mail; truncate -s 10 tree/logs/new");
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--incr"]);
    lab.sh(&format!("{state}state-2"));
    lab
}

fn export(lab: &Lab, args: &[&str]) -> Run {
    lab.run([&["catalog", "export"], args].concat())
}

/// A file as find(1) has it.
struct Found {
    kind: String,
    inode: String,
    size: i64,
    dir: String,
    path: String,
    owner: String,
    year: i64,
}

fn state(lab: &Lab, n: u32) -> Vec<Found> {
    let text = fs::read_to_string(lab.path(format!("state-{n}"))).unwrap();
    let found = |line: &str| {
        let mut parts = line.split('\t').map(str::to_owned);
        let mut next = || parts.next().unwrap();
        Found {
            kind: next(),
            inode: next(),
            size: next().parse().unwrap(),
            dir: next(),
            path: next(),
            owner: next(),
            year: next().parse().unwrap(),
        }
    };
    text.lines().map(found).collect()
}

/// Each inode's first name, as sums count it.
fn files(lab: &Lab, n: u32) -> Vec<Found> {
    let mut seen = BTreeSet::new();
    let mut all = state(lab, n);
    all.retain(|f| f.kind == "f" && seen.insert(f.inode.clone()));
    all
}

/// Sums by a key.
fn summed(files: &[Found], key: impl Fn(&Found) -> String) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    for f in files {
        *sums.entry(key(f)).or_default() += f.size;
    }
    sums
}

/// Two columns of what a query gave.
fn pairs(rows: &Value, key: &str, value: &str) -> BTreeMap<String, i64> {
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    // DuckDB's sums are of a type that Python has as a decimal or an integer.
    let number = |v: &Value| v.as_i64().unwrap_or_else(|| text(v).parse().unwrap());
    rows.as_array().unwrap().iter().map(|r| (text(&r[key]), number(&r[value]))).collect()
}

/// What a script of the shell prints, line by line.
fn lines(lab: &Lab, script: &str) -> Vec<String> {
    lab.sh(script).lines().map(str::to_owned).collect()
}

#[test]
fn the_guides_queries_agree_with_find() {
    let lab = lab();
    let done = export(&lab, &["t", "--all-versions", "--parquet", "desk.parquet", "--json"]);
    let done: Value = serde_json::from_str(&done.ok().stdout).unwrap();
    assert_eq!(done["versions"].as_array().unwrap().len(), 3);
    assert_eq!(done["bytes"], fs::metadata(lab.path("desk.parquet")).unwrap().len());
    let count = "SELECT count(*) AS n FROM 'desk.parquet'";
    let Some(found) = asked(&lab, &[count]) else { return };
    assert_eq!(found[count][0]["n"], done["rows"]);
    let sessions: Vec<_> =
        found["versions"].as_array().unwrap().iter().map(|v| v["method"].clone()).collect();
    assert_eq!(sessions, ["full", "incr", "incr"]);

    let now = files(&lab, 2);
    let tree = lab.path("tree").display().to_string();
    assert_eq!(pairs(&found["directories"], "dir", "bytes"), summed(&now, |f| lossy(&f.dir)));
    // Of all above the tree, what du would say of it.
    let total: i64 = now.iter().map(|f| f.size).sum();
    let trees = pairs(&found["trees"], "tree", "bytes");
    assert_eq!((trees["/"], trees[&format!("{tree}/")]), (total, total));
    let below =
        |dir: &str| now.iter().filter(|f| f.path.starts_with(dir)).map(|f| f.size).sum::<i64>();
    for dir in ["home", "home/ann", "home/bob", "logs"] {
        let dir = format!("{tree}/{dir}/");
        assert_eq!(trees[&dir], below(&dir), "{dir}");
    }
    assert_eq!(pairs(&found["owners"], "owner", "bytes"), summed(&now, |f| f.owner.clone()));
    assert_eq!(pairs(&found["years"], "year", "bytes"), summed(&now, |f| f.year.to_string()));
    let kinds = pairs(&found["kinds"], "kind", "files");
    let of_kind = |kind: &str| state(&lab, 2).iter().filter(|f| f.kind == kind).count() as i64;
    assert_eq!(
        (kinds["file"], kinds["symlink"], kinds["fifo"]),
        (of_kind("f"), of_kind("l"), of_kind("p"))
    );

    // The last backup against the one before.
    let grown = [(format!("{tree}/home/bob"), 9000), (format!("{tree}/logs"), -190)];
    assert_eq!(pairs(&found["grown"], "dir", "grown"), BTreeMap::from(grown));
    let changes: Vec<_> = found["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["path"].as_str().unwrap(), c["what"].as_str().unwrap()))
        .collect();
    let path = |name: &str| format!("{tree}/{name}");
    let names = ["home/ann/thesis.odt", "home/bob/mail", "home/bob/mail-too", "logs/new"].map(path);
    assert_eq!(changes, names.iter().map(|n| (n.as_str(), "changed")).collect::<Vec<_>>());

    let copies = [path("home/ann/old/thesis-copy.odt"), path("home/ann/thesis.odt")];
    assert_eq!(
        found["duplicates"],
        json!([{"size": 50_000, "copies": 2, "to_gain": 50_000, "paths": copies}])
    );
    let old = &found["not changed for two years, and large"];
    assert_eq!(*old, json!([{"path": copies[0], "size": 50_000, "changed": "2001-02-03"}]));
    let open = "runs as its owner, or writable by all";
    let open: Vec<_> = found[open]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["path"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(open, lines(&lab, "find $PWD/tree -type f '(' -perm -4000 -o -perm -2 ')' | sort"));
    assert_eq!(found["states"], json!([]));
}

/// A path as `iconv -c` left it here, as the table has it: what is no text is replaced there and left out here.
fn lossy(path: &str) -> String {
    path.replace("not--utf8", "not-\u{fffd}-utf8")
}

#[test]
fn every_row_is_as_ls_has_it() {
    let lab = lab();
    export(&lab, &["t", "--parquet", "desk.parquet"]).ok();
    // Python has DuckDB's times with time zone by a further module only.
    let all = "SELECT * EXCLUDE (version_time, mtime, ctime), epoch_us(mtime) AS mtime_us, epoch_us(ctime) AS ctime_us \
               FROM 'desk.parquet' ORDER BY path, inode";
    let Some(found) = asked(&lab, &[all]) else { return };
    let table = found[all].as_array().unwrap();
    let text = lab.run(["ls", "--json", "t"]).ok().json_lines();
    let mut listed: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    listed.sort_by_key(|l| l["path"].as_str().unwrap().to_owned());
    assert_eq!(table.len(), listed.len());
    let session = lab.run(["find", "--json", "--name", "thesis.odt"]).ok().json_lines();
    let session: Value = serde_json::from_str(&session).unwrap();
    // As people write it.
    let id = &session["session"].as_str().unwrap()[..8];
    for (row, l) in table.iter().zip(&listed) {
        for (ours, theirs) in [
            ("path", "path"),
            ("kind", "type"),
            ("size", "size"),
            ("uid", "uid"),
            ("gid", "gid"),
            ("user_name", "user"),
            ("group_name", "group"),
            ("hard_link_to", "hard_link_to"),
            ("target", "target"),
            ("state", "state"),
        ] {
            assert_eq!(row[ours], l[theirs], "{ours}: {row} {l}");
        }
        assert_eq!(format!("{:04o}", row["mode"].as_u64().unwrap()), l["mode"]);
        let time: jiff::Timestamp = l["mtime"].as_str().unwrap().parse().unwrap();
        assert_eq!(row["mtime_us"], time.as_microsecond());
        assert_eq!(row["path_bytes"].is_array(), l["path_bytes"].is_string());
        let (dir, name) = (row["dir"].as_str(), row["name"].as_str().unwrap());
        let joined =
            dir.map_or("/".to_owned(), |dir| format!("{}/{name}", dir.trim_end_matches('/')));
        assert_eq!(row["path"], joined);
        assert_eq!((&row["session"], &row["object"]), (&json!(id), &json!("t")));
        assert_eq!((&row["media"], &row["status"]), (&json!("medium"), &json!("completed")));
        // Of contents that were read, also by an earlier session, the checksum is known.
        let has_data = row["kind"] == "file" && row["size"] != 0 && row["hard_link_to"].is_null();
        assert_eq!(row["checksum"].is_null(), !has_data, "{row}");
    }
    let bytes = table.iter().find(|r| r["path_bytes"].is_array() && r["kind"] == "file").unwrap();
    let bytes: Vec<u8> = serde_json::from_value(bytes["path_bytes"].clone()).unwrap();
    assert!(bytes.ends_with(b"/not-\xff-utf8/\xfe"));
    let inode = |name: &str| {
        table.iter().find(|r| r["path"].as_str().unwrap().ends_with(name)).unwrap()["inode"]
            .to_string()
    };
    assert_eq!(inode("/mail"), lab.sh("stat -c %i tree/home/bob/mail").trim());
    assert_eq!(inode("/mail"), inode("/mail-too"));
    // The file whose contents an earlier session read, and its inode a later one.
    let thesis = table.iter().find(|r| r["path"].as_str().unwrap().ends_with("/thesis.odt"));
    let ctime = lab.sh("stat -c %Z tree/home/ann/thesis.odt");
    assert_eq!(
        (thesis.unwrap()["ctime_us"].as_i64().unwrap() / 1_000_000).to_string(),
        ctime.trim()
    );
}

#[test]
fn standard_output_and_files_get_the_same_or_nothing() {
    let lab = lab();
    let said = export(&lab, &["t", "--parquet", "desk.parquet"]);
    assert!(said.ok().stdout.contains("rows of t@"), "{}", said.stdout);
    let mut to_stdout = lab.command();
    to_stdout.args(["catalog", "export", "t", "--parquet", "-"]);
    let output = to_stdout.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("written to standard output"), "{said}");
    assert_eq!(output.stdout, fs::read(lab.path("desk.parquet")).unwrap());
    assert_eq!(lab.sh("stat -c %a desk.parquet").trim(), "600");
    // As of before the first there is nothing, and a table that is there stays.
    export(&lab, &["t", "--as-of", "2001-01-01", "--parquet", "desk.parquet"])
        .refused(&["that time"]);
    export(&lab, &["nobody", "--parquet", "none.parquet"]).refused(&["nobody", "known are t"]);
    export(&lab, &["nobody", "--all-versions", "--parquet", "none.parquet"]).refused(&["nobody"]);
    export(&lab, &["t@12", "--all-versions", "--parquet", "none.parquet"])
        .refused(&["--all-versions"]);
    export(&lab, &["t"]).refused(&["--parquet"]);
    lab.mkdir("dir");
    for bad in ["dir", "no/where", "/dev/null", "/"] {
        export(&lab, &["t", "--parquet", bad]).refused(&[bad, "name a file"]);
    }
    assert_eq!(output.stdout, fs::read(lab.path("desk.parquet")).unwrap());
    assert_eq!(lab.sh("ls -A").matches("parquet").count(), 1);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let run = to_stdout.stdout(Stdio::from(full)).output().unwrap();
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stderr).contains("No space left"));
}

#[test]
fn names_of_an_encrypted_backup_need_the_key() {
    let lab = Lab::with_passphrase(Some("correct horse battery"));
    lab.file("tree/secret-name", noise(1, 5000));
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.run(["key", "names", "--remove"]).ok();
    let args = ["catalog", "export", "t", "--parquet", "desk.parquet"];
    let mut without = lab.command();
    finish(without.args(args).env_remove("CAPSTAN_PASSPHRASE")).refused(&["hint"]);
    let mut all = lab.command();
    all.args(args).arg("--all-versions").env_remove("CAPSTAN_PASSPHRASE");
    finish(&mut all).refused(&["hint"]);
    assert!(!lab.path("desk.parquet").exists());
    lab.run(args).ok();
    let name = "SELECT name FROM 'desk.parquet' WHERE checksum IS NOT NULL";
    let Some(found) = asked(&lab, &[name]) else { return };
    assert_eq!(found[name], json!([{"name": "secret-name"}]));
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_written() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 5000));
    let first = lab.backed_up(["tree", "--to", "m1", "--name", "t"]);
    let second = lab.backed_up(["tree", "--to", "m2", "--name", "t", "--full"]);
    lab.backed_up(["tree", "--to", "m3", "--name", "t", "--full", "--log-level", "files"]);
    lab.sh("mkdir away; mv m2 m3 away");
    let session = &second["session"].as_str().unwrap()[..8];
    let name = format!("t@{session}");
    // Its catalog file is here: that is enough.
    export(&lab, &[&name, "--parquet", "desk.parquet"]).ok();
    lab.sh("ls -t home/catalogs/*.catalog | head -1 | xargs rm; rm home/catalogs/*.index");
    let load = format!("catalog load {name}");
    for command in [
        &["catalog", "export", &name, "--parquet", "x"][..],
        &["ls", &name],
        &["find", "a", "--all-versions"],
    ] {
        lab.run(command).refused(&["catalog file", "missing", "'m2'", &load]);
    }
    let done = export(&lab, &["t", "--all-versions", "--parquet", "desk.parquet", "--json"]);
    assert_eq!(done.code, 3, "{}", done.stderr);
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(report["left_out"][0]["version"], name);
    assert_eq!(report["versions"].as_array().unwrap().len(), 2);
    assert!(
        done.stderr.contains(&name) && done.stderr.contains("less than was backed up"),
        "{}",
        done.stderr
    );
    let poor =
        "SELECT DISTINCT state, size, mtime, checksum FROM 'desk.parquet' WHERE state IS NOT NULL";
    if let Some(found) = asked(&lab, &[poor]) {
        assert_eq!(
            found[poor],
            json!([{"state": "name only", "size": null, "mtime": null, "checksum": null}])
        );
    }
    // A damaged one is no better.
    lab.sh("for f in home/catalogs/*.catalog; do truncate -s 100 $f; done; mv m1 away; rm -f home/catalogs/*.index");
    let first = format!("t@{}", &first["session"].as_str().unwrap()[..8]);
    lab.run(["ls", &first]).refused(&["catalog file", "damaged", "'m1'", "catalog load"]);
    lab.sh("mv away/* .");
    lab.run(["catalog", "load", &name]).ok();
    export(&lab, &["t", "--all-versions", "--parquet", "desk.parquet"]).ok();
}
