//! Loop-mounted ext4, xfs and btrfs, as source and as medium: what they do with O_DIRECT, flags and xattrs is their own.

use std::path::PathBuf;

use crate::compare::same;
use crate::support::{Lab, Mount, below, loop_devices, noise, skip};

const TREE: &str = r#"
mkdir -p a/b; echo one >a/one; ln a/one a/b/linked; ln -s one a/link; mkfifo a/fifo; mknod a/node c 1 5
setfattr -n user.note -v text a/one; setfattr -n trusted.note -v text a; setfacl -m u:4321:r a/one
setfacl -d -m u:4321:rwx a/b; echo cap >a/cap; setcap cap_net_raw+ep a/cap
chattr +d a/one; echo i >a/immutable; chattr +i a/immutable; echo app >a/append; chattr +a a/append
truncate -s 200M a/sparse; echo x | dd of=a/sparse bs=1M seek=100 conv=notrunc status=none
chown 1234:4321 a/one; chmod 4755 a/cap; for i in {1..300}; do echo $i >a/b/$i; done
printf 'x%.0s' {1..5000} >a/compressible; : >a/empty; echo z >$'a/\xff\xfe'
touch -d '2001-02-03 04:05:06.123456789' a/one a/b a
"#;

struct FileSystem {
    lab: Lab,
    // Unmounted before the lab is removed, so declared last and taken first.
    mount: Option<Mount>,
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        self.mount.take();
    }
}

impl FileSystem {
    fn new(make: &str, options: &str) -> Self {
        let lab = Lab::new();
        lab.sh(&format!("truncate -s 400M image; {make} image >/dev/null"));
        let options = format!("loop,{options}");
        let mount = Mount::new(
            &["-o", &options, &lab.path("image").display().to_string()],
            &lab.path("at"),
        );
        Self { lab, mount: Some(mount) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.lab.path("at").join(name)
    }
}

fn round_trip(make: &str, options: &str) {
    if !loop_devices() {
        return skip("loop devices cannot be mounted here");
    }
    let fs = FileSystem::new(make, options);
    let lab = &fs.lab;
    // From this file system to this file system: source, medium and target at once.
    let (tree, medium, into) = (fs.path("tree"), fs.path("medium"), fs.path("out"));
    std::fs::create_dir(&tree).unwrap();
    lab.sh(&format!("cd at/tree\n{TREE}"));
    lab.file("at/tree/noise", noise(1, 40_000_001));
    for (name, read) in [("auto", "auto"), ("buffered", "buffered"), ("direct", "direct")] {
        let args = [
            tree.as_os_str(),
            "--to".as_ref(),
            medium.as_ref(),
            "--name".as_ref(),
            name.as_ref(),
            "--read".as_ref(),
            read.as_ref(),
        ];
        let report = lab.backed_up(args);
        assert!(report["bytes_written"].as_u64().unwrap() < 60_000_000, "{report:#}");
        lab.restored([name.as_ref(), "--into".as_ref(), into.as_os_str()]);
        let there = below(&into, &tree);
        same(lab, &tree, &there);
        use std::os::unix::fs::MetadataExt;
        let sparse = std::fs::metadata(there.join("a/sparse")).unwrap();
        assert!(sparse.blocks() * 512 < 4 << 20, "the hole is filled: {} blocks", sparse.blocks());
        lab.run(["verify", name]).ok();
        lab.sh("chattr -R -f -i -a at/out || true; rm -rf at/out");
    }
    // The medium alone is enough: import it elsewhere, check, restore there.
    let other = lab.path("other");
    let run = |args: &[&std::ffi::OsStr]| {
        crate::support::finish(lab.command().env("CAPSTAN_HOME", &other).args(args)).ok();
    };
    run(&["import".as_ref(), medium.as_ref()]);
    run(&["verify".as_ref(), "--medium".as_ref(), medium.as_ref()]);
    run(&["restore".as_ref(), "auto".as_ref(), "--into".as_ref(), into.as_ref()]);
    same(lab, &tree, &below(&into, &tree));
}

#[test]
fn ext4() {
    round_trip("mkfs.ext4 -q", "noatime");
}

#[test]
fn xfs() {
    round_trip("mkfs.xfs -q", "noatime");
}

#[test]
fn btrfs_with_compression() {
    round_trip("mkfs.btrfs -q", "compress-force=zstd");
}

/// Where times have no fractions, a file that is written again in the second in which it was read has the same times.
#[test]
fn a_change_in_the_second_of_the_backup_is_not_missed() {
    if !loop_devices() {
        return skip("loop devices cannot be mounted here");
    }
    let fs = FileSystem::new("mkfs.ext4 -q -F -I 128", "noatime");
    let lab = &fs.lab;
    lab.mkdir("at/tree");
    lab.file("at/tree/old", "was here before");
    lab.sh("touch -d 2001-01-01 at/tree/old; sleep 2.1");
    lab.file("at/tree/f", "balance=0001");
    lab.backed_up(["at/tree", "--to", "medium", "--name", "t", "--full"]);
    lab.sh("printf 'balance=0002' | dd of=at/tree/f conv=notrunc status=none");
    let incr = lab.backed_up(["at/tree", "--to", "medium", "--name", "t", "--incr"]);
    assert_eq!(incr["kept"], 1, "what is older is known: {incr:#}");
    lab.restored(["t", "--into", "out"]);
    same(lab, &fs.path("tree"), &below(&lab.path("out"), &fs.path("tree")));
}

/// The same of what has no contents: a directory, a link, nodes of devices and pipes.
#[test]
fn a_change_of_anything_in_the_second_of_the_backup_is_not_missed() {
    if !loop_devices() {
        return skip("loop devices cannot be mounted here");
    }
    let fs = FileSystem::new("mkfs.ext4 -q -F -I 128", "noatime");
    let lab = &fs.lab;
    lab.mkdir("at/tree");
    lab.sh("cd at/tree; mkdir old; ln -s x old/link; mkfifo old/fifo; sleep 2.1
        mkdir mode owner acl; ln -s one link; ln -s one current; mkfifo fifo; mknod node c 1 3");
    lab.backed_up(["at/tree", "--to", "medium", "--name", "t", "--full"]);
    // The new link has the inode that the old one had, and a target as long.
    lab.sh("cd at/tree; chmod 700 mode; chown 1000:1000 owner; setfattr -n user.secret -v yes acl
        chown -h 55:55 link; rm current; ln -s two current; chmod 640 fifo; chmod 666 node");
    let incr = lab.backed_up(["at/tree", "--to", "medium", "--name", "t", "--incr"]);
    assert_eq!(incr["kept"], 2, "what is older is known: {incr:#}");
    lab.restored(["t", "--into", "out"]);
    same(lab, &fs.path("tree"), &below(&lab.path("out"), &fs.path("tree")));
}
