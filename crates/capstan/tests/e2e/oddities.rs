//! A made tree with everything a Linux file can be or have, backed up and restored by root and by a plain user.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, SeekFrom};

use crate::compare::same;
use crate::support::{Lab, below, can_mount, is_root, noise, skip};

/// What anybody can make. Directory times last: making a file in it changes them.
const ANYBODY: &str = r#"
mkdir -p plain/empty "with space" $'new\nline' -- ./-dash
echo content >plain/file; echo again >$'new\nline/a\tb'; echo >-dash/-f
: >plain/empty-file
printf 'caf\xe9 \xff\xfe' >$'plain/not-utf8-\xff\xfe\xe9'
mkdir $'dir-\xc3\x28'; echo x >$'dir-\xc3\x28/\x80'
long=$(printf 'n%.0s' {1..255}); echo long >"plain/$long"; mkdir "$long"; echo long >"$long/$long"
mkdir links; echo shared >links/first; for n in 2 3 4; do ln links/first "links/name-$n"; done
mkdir links/far; ln links/first links/far/away; ln links/first "with space/away"
ln -s ../plain/file links/relative; ln -s /etc/hostname links/absolute; ln -s nowhere links/dangling
ln -s "$(printf 't%.0s' {1..4000})" links/long-text; ln -s $'\xff\xfe' links/not-utf8
ln links/relative links/relative-too
mkdir special; mkfifo special/fifo; mkfifo -m 600 special/fifo-too; ln special/fifo special/fifo-linked
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("special/socket")'
mkdir modes; for m in 0400 0644 0755 4755 2755 6755 1755 0111 7777 0200; do : >modes/f$m; done
for m in 0400 0644 0755 4755 2755 6755 1755 0111 7777; do chmod $m modes/f$m; done
for m in 0755 1777 2775 0500; do mkdir modes/d$m; echo in >modes/d$m/f; chmod $m modes/d$m; done
mkdir xattrs; for f in one big empty; do echo $f >xattrs/$f; done
setfattr -n user.text -v hello xattrs/one; setfattr -n user.binary -v 0x00ff0a0d00 xattrs/one
setfattr -n user.big -v "$(printf 'v%.0s' {1..3000})" xattrs/big; setfattr -n user.none xattrs/empty
mkdir xattrs/dir; setfattr -n user.of.dir -v 1 xattrs/dir
mkdir acls; echo x >acls/file; setfacl -m u:4321:rw,g:1234:r,m::rw acls/file
mkdir acls/dir; setfacl -m u:4321:rwx acls/dir; setfacl -d -m u:4321:rwx,g::rx acls/dir; echo x >acls/dir/inherits
mkdir sparse
truncate -s 3G sparse/all-hole
truncate -s 1G sparse/islands
for at in 0 100 5000 200000; do echo island | dd of=sparse/islands bs=4096 seek=$at conv=notrunc status=none; done
truncate -s 64M sparse/data-hole; head -c 100000 /dev/urandom | dd of=sparse/data-hole conv=notrunc status=none
truncate -s 64M sparse/hole-data; head -c 100000 /dev/urandom >>sparse/hole-data
head -c 1M /dev/zero >sparse/zeros-not-holes
mkdir times; for f in past present future; do echo $f >times/$f; done
touch -d '1960-05-06 07:08:09.000000001' times/past; touch -d '2024-02-29 12:00:00.987654321' times/present
touch -d '2200-01-01 00:00:00.5' times/future
ln -s past times/link; touch -h -d '1999-12-31 23:59:59.999999999' times/link
mkdir times/dir; touch -d '1987-06-05 04:03:02.123456789' times/dir
mkdir many; for i in {1..700}; do echo $i >many/$i; done
echo flags >flagged; chattr +d +A flagged 2>/dev/null || true
touch -d '2001-02-03 04:05:06.070809' links special sparse many plain/empty
touch -d '2000-01-01 00:00:00.000000042' .
"#;

/// What only root can make.
const ROOT: &str = r#"
mkdir nodes; mknod nodes/null c 1 3; mknod nodes/block b 7 200; mknod -m 640 nodes/big c 4000 1000000
ln nodes/null nodes/null-too
mkdir owners; for f in a b c; do echo $f >owners/$f; done
chown 12345:54321 owners/a; chown daemon:games owners/b; chown -h 12345:1 owners/c; ln -s a owners/l; chown -h 777:888 owners/l
echo secret >owners/mode-0; chmod 0 owners/mode-0
mkdir owners/d; chown 4294967000:4294967001 owners/d; chmod 0 owners/d
echo cap >capable; chmod 755 capable; setcap cap_net_raw,cap_net_admin+ep capable
touch -d '2011-11-11 11:11:11.111111111' nodes owners
touch -d '2000-01-01 00:00:00.000000042' .
"#;

/// What root can do only outside of containers.
const PRIVILEGED: &str = r#"
echo t >trusted; setfattr -n trusted.note -v "root's own" trusted; ln -s trusted trusted-link; setfattr -h -n trusted.on.link -v 1 trusted-link
mkdir flags; for f in immutable append nodump noatime both plain; do echo $f >flags/$f; done
mkdir flags/dir; echo x >flags/dir/f
chattr +i flags/immutable; chattr +a flags/append; chattr +d flags/nodump; chattr +A flags/noatime; chattr +id flags/both
ln flags/nodump flags/nodump-linked
touch -d '2011-11-11 11:11:11.111111111' flags flags/dir
chattr +i flags/dir
touch -d '2000-01-01 00:00:00.000000042' .
"#;

/// 20 directories of 250 bytes each and a file at the bottom: three times the longest path a system call takes.
fn deep(top: &Path, depth: usize) -> (OwnedFd, Vec<u8>) {
    let name = vec![b'd'; 250];
    let name = OsStr::from_bytes(&name);
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let mut dir = rustix::fs::openat(CWD, top, flags, Mode::empty()).unwrap();
    for _ in 0..depth {
        let _ = rustix::fs::mkdirat(&dir, name, Mode::from(0o755));
        dir = rustix::fs::openat(&dir, name, flags, Mode::empty()).unwrap();
    }
    (dir, noise(3, 300_000))
}

pub fn make_deep(top: &Path) {
    fs::create_dir(top).unwrap();
    let (dir, content) = deep(top, 20);
    let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
    let file = rustix::fs::openat(&dir, "bottom", create, Mode::from(0o640)).unwrap();
    fs::File::from(file).write_all(&content).unwrap();
    rustix::fs::symlinkat("bottom", &dir, "link").unwrap();
    rustix::fs::linkat(&dir, "bottom", &dir, "hard", AtFlags::empty()).unwrap();
}

/// rsync and the rest give up on such paths; so they are compared here.
fn check_deep(top: &Path) {
    let (dir, content) = deep(top, 20);
    let mut found = Vec::new();
    let file = rustix::fs::openat(&dir, "bottom", OFlags::RDONLY, Mode::empty())
        .expect("the file beyond PATH_MAX");
    let mut file = fs::File::from(file);
    file.read_to_end(&mut found).unwrap();
    assert!(found == content, "the file beyond PATH_MAX has another content");
    assert_eq!(
        (file.metadata().unwrap().mode() & 0o7777, file.metadata().unwrap().nlink()),
        (0o640, 2)
    );
    assert_eq!(rustix::fs::readlinkat(&dir, "link", Vec::new()).unwrap().as_bytes(), b"bottom");
}

/// Extents of data in a file.
fn islands(path: &Path) -> Vec<(u64, u64)> {
    let file = fs::File::open(path).unwrap();
    let (mut at, mut found) = (0, Vec::new());
    while let Ok(data) = rustix::fs::seek(&file, SeekFrom::Data(at)) {
        at = rustix::fs::seek(&file, SeekFrom::Hole(data)).unwrap();
        found.push((data, at));
    }
    found
}

fn check_sparse(source: &Path, restored: &Path) {
    for name in ["all-hole", "islands", "data-hole", "hole-data"] {
        let [a, b] = [source, restored].map(|t| t.join("sparse").join(name));
        let (from, to) = (fs::metadata(&a).unwrap(), fs::metadata(&b).unwrap());
        assert_eq!(from.len(), to.len(), "{name}");
        assert!(
            to.blocks() <= from.blocks() + 64,
            "{name}: the holes are filled: {} blocks, was {}: {:?} was {:?}",
            to.blocks(),
            from.blocks(),
            islands(&b),
            islands(&a),
        );
    }
}

#[test]
fn every_oddity_comes_back_as_root() {
    if !is_root() {
        return skip("only root can make nodes, owners and capabilities");
    }
    let lab = Lab::new();
    let tree = lab.mkdir("tree");
    let privileged = if can_mount() { PRIVILEGED } else { "" };
    lab.sh(&format!("cd tree\n{ANYBODY}\n{ROOT}\n{privileged}"));
    let far = lab.path("deep");
    make_deep(&far);
    let medium = lab.path("medium");
    // As many streams as one may want, and one: the restore is the same.
    for (name, streams) in [("many", "5"), ("one", "1")] {
        let args = [
            tree.as_os_str(),
            far.as_os_str(),
            "--to".as_ref(),
            medium.as_ref(),
            "--name".as_ref(),
            name.as_ref(),
            "--streams".as_ref(),
            streams.as_ref(),
        ];
        let report = lab.backed_up(args);
        // Only holes of the sparse files are not read: 4 GB of them.
        assert!(report["bytes_written"].as_u64().unwrap() < 20_000_000, "{report:#}");
        let into = lab.path(format!("out-{name}"));
        let restored = lab.restored([name.as_ref(), "--into".as_ref(), into.as_os_str()]);
        assert_eq!(report["files"], restored["files"]);
        let there = below(&into, &tree);
        check_deep(&below(&into, &far));
        check_sparse(&tree, &there);
        same(&lab, &tree, &there);
        lab.run(["verify", name]).ok();
    }
}

#[test]
fn every_oddity_comes_back_as_a_plain_user() {
    if !is_root() {
        return skip("only root can become another user");
    }
    let lab = Lab::of_user();
    lab.sh(&format!("mkdir tree; cd tree\n{ANYBODY}\nrm modes/f0111 modes/f0200"));
    let (tree, medium, into) = (lab.path("tree"), lab.path("medium"), lab.path("out"));
    lab.backed_up([
        tree.as_os_str(),
        "--to".as_ref(),
        medium.as_ref(),
        "--name".as_ref(),
        "mine".as_ref(),
    ]);
    lab.restored(["mine".as_ref(), "--into".as_ref(), into.as_os_str()]);
    let there = below(&into, &tree);
    check_sparse(&tree, &there);
    same(&lab, &tree, &there);
    // The default home of a plain user needs no set-up either.
    let mut command = lab.command();
    command
        .env_remove("CAPSTAN_HOME")
        .arg("backup")
        .arg(tree.join("plain"))
        .arg("--to")
        .arg(lab.path("second"));
    let run = crate::support::finish(&mut command);
    run.ok();
    assert!(lab.path(".local/share/capstan/capstan.db").exists());
}

#[test]
fn what_a_plain_user_cannot_read_is_named_and_the_rest_goes_on() {
    if !is_root() {
        return skip("only root can become another user");
    }
    let lab = Lab::of_user();
    lab.sh("mkdir tree; cd tree; echo a >a; echo z >z; echo no >closed; chmod 0 closed; mkdir shut; echo x >shut/x; chmod 0 shut");
    let (tree, medium, into) = (lab.path("tree"), lab.path("medium"), lab.path("out"));
    let args =
        [tree.as_os_str(), "--to".as_ref(), medium.as_ref(), "--name".as_ref(), "t".as_ref()];
    let report = lab.backup(args);
    assert_eq!(report["status"], "completed_with_errors");
    let mut named: Vec<_> =
        report["errors"].as_array().unwrap().iter().map(|e| e["path"].as_str().unwrap()).collect();
    named.sort_unstable();
    named.dedup();
    let expected = ["closed", "shut"].map(|n| tree.join(n).display().to_string());
    assert_eq!(named, expected, "{report:#}");
    lab.restore(["t".as_ref(), "--into".as_ref(), into.as_os_str()]);
    let there = below(&into, &tree);
    assert_eq!(fs::read_to_string(there.join("a")).unwrap(), "a\n");
    assert_eq!(fs::read_to_string(there.join("z")).unwrap(), "z\n");
    let _ =
        fs::set_permissions(tree.join("shut"), std::os::unix::fs::PermissionsExt::from_mode(0o700));
}

#[test]
fn what_a_plain_user_cannot_restore_is_said_once() {
    if !is_root() {
        return skip("only root can become another user");
    }
    let lab = Lab::of_user();
    let tree = lab.mkdir("tree");
    // Root's own files, nodes and all; 50 of each.
    let script = "for i in $(seq 50); do echo $i >f$i; chown $i:$i f$i; mknod n$i c 1 3; ln n$i zn$i; done; chmod 755 .";
    let made =
        std::process::Command::new("bash").args(["-euc", script]).current_dir(&tree).status();
    assert!(made.unwrap().success());
    let medium = lab.path("medium");
    let root = crate::support::finish(
        std::process::Command::new(env!("CARGO_BIN_EXE_capstan"))
            .env("CAPSTAN_HOME", lab.path("root-home"))
            .args(["backup", "--name", "t", "--to"])
            .args([&medium, &tree]),
    );
    root.ok();
    // The medium is given to the user, who imports it.
    let given = std::process::Command::new("chown")
        .args(["-R", crate::support::NOBODY])
        .arg(&medium)
        .status();
    assert!(given.unwrap().success());
    lab.run([OsStr::new("import"), medium.as_os_str()]).ok();
    let into = lab.path("out");
    let run = lab.run(["restore".as_ref(), "t".as_ref(), "--into".as_ref(), into.as_os_str()]);
    assert!(run.code == 0 || run.code == 3, "{}", run.stderr);
    let all = format!("{}{}", run.stdout, run.stderr);
    let about = |what: &str| all.lines().filter(|l| l.contains(what)).count();
    assert!(all.contains("50"), "the total is not said: {all}");
    assert!((1..=4).contains(&about("owner")), "owners are to be said once: {all}");
    assert!(
        !all.contains("/n17") && !all.contains("/zn17"),
        "nodes are reported one by one: {all}"
    );
    for i in 1..=50 {
        assert_eq!(
            fs::read_to_string(below(&into, &tree).join(format!("f{i}"))).unwrap(),
            format!("{i}\n")
        );
    }
}

#[test]
fn owners_go_by_name_unless_numbers_are_asked_for() {
    if !is_root() {
        return skip("only root can give files away");
    }
    let lab = Lab::new();
    let file = lab.file("tree/file", "x");
    // daemon is 1 everywhere; so names and numbers agree here, and the option must not change that.
    lab.sh("chown daemon:daemon tree/file");
    let (tree, medium) = (lab.path("tree"), lab.path("medium"));
    lab.backed_up([
        tree.as_os_str(),
        "--to".as_ref(),
        medium.as_ref(),
        "--name".as_ref(),
        "t".as_ref(),
    ]);
    for (into, options) in [("by-name", &[][..]), ("by-number", &["--numeric-ids"])] {
        let into = lab.path(into);
        let mut args = vec!["t".as_ref(), "--into".as_ref(), into.as_os_str()];
        args.extend(options.iter().map(OsStr::new));
        lab.restored(args);
        let meta = fs::metadata(below(&into, &file)).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (1, 1));
    }
}

#[test]
fn a_huge_file_feeds_several_streams() {
    let lab = Lab::new();
    let len = if crate::support::soak() { 8 << 30 } else { 300 << 20 };
    let path = lab.file("tree/huge", "");
    let file = fs::File::options().write(true).open(&path).unwrap();
    let piece = noise(9, 1 << 20);
    for at in (0..len).step_by(1 << 20) {
        // Not twice the same megabyte: a piece in the wrong place is found.
        file.write_all_at(&piece, at).unwrap();
        file.write_all_at(&at.to_le_bytes(), at).unwrap();
    }
    let (tree, medium, into) = (lab.path("tree"), lab.path("medium"), lab.path("out"));
    let args = [
        tree.as_os_str(),
        "--to".as_ref(),
        medium.as_ref(),
        "--name".as_ref(),
        "t".as_ref(),
        "--streams".as_ref(),
        "4".as_ref(),
    ];
    let report = lab.backed_up(args);
    assert_eq!(report["bytes_read"], len);
    lab.restored(["t".as_ref(), "--into".as_ref(), into.as_os_str()]);
    crate::compare::same_by_rsync(&tree, &below(&into, &tree));
}
