//! On another machine a user has another number: owners and whoever an ACL names are told by name.

use crate::independent_reader::Reader;
use crate::support::{Lab, Run, can_mount, finish, is_root, skip};

/// The user database of the machine that is backed up, and of that where it is restored: there ben has the number that ann had.
const THERE: &str = "ann:x:5150:5150::/:/bin/sh";
const HERE: &str = "ben:x:5150:5150::/:/bin/sh\nann:x:6150:6150::/:/bin/sh";

/// Runs a script on a machine with these users, each with a group of the same name; `capstan` is the program.
fn on(lab: &Lab, users: &str, script: &str) -> Run {
    lab.sh(&format!(
        "getent passwd root >passwd; getent group root >group; echo '{users}' >>passwd; \
         echo '{users}' | cut -d: -f1-3 | sed 's/$/:/' >>group; mkdir -p bin; \
         printf '#!/bin/sh\\nexec \"{}\" --home \"{}\" \"$@\"\\n' >bin/capstan; chmod 755 bin/capstan",
        env!("CARGO_BIN_EXE_capstan"),
        lab.path("home").display(),
    ));
    let mut command = lab.program("unshare");
    let mount =
        "mount --bind passwd /etc/passwd; mount --bind group /etc/group; PATH=$PWD/bin:$PATH; ";
    command.args(["-m", "bash", "-euc", &format!("{mount}{script}")]);
    finish(&mut command)
}

/// A tree with ACLs for ann, on a medium.
fn backed_up() -> Option<Lab> {
    if !is_root() || !can_mount() {
        skip("needs root and mounts");
        return None;
    }
    let lab = Lab::new();
    on(
        &lab,
        THERE,
        "mkdir tree tree/dir; echo a >tree/a; echo b >tree/b; chown ann:ann tree/b
         setfacl -m u:ann:r,g:ann:rw,u:77:x tree/a; setfacl -m u:ann:rwx,d:u:ann:rx tree/dir
         capstan backup tree --to medium --name t",
    )
    .ok();
    Some(lab)
}

/// Owners and ACLs below a tree, with names.
const ALL: &str = "cd $TREE; getfacl -pR . | sort; stat -c '%n %U %G' *";

/// What the tree says on the machine that it came from.
fn there(lab: &Lab) -> String {
    on(lab, THERE, &format!("TREE=tree; {ALL}")).ok().stdout.clone()
}

fn here(lab: &Lab, script: &str) -> String {
    on(lab, HERE, &format!("TREE=out$PWD/tree; {script} >&2; {ALL}")).ok().stdout.clone()
}

#[test]
fn whoever_an_acl_names_has_the_same_rights_where_he_has_another_number() {
    let Some(lab) = backed_up() else { return };
    assert!(there(&lab).contains("user:ann:r--"), "{}", there(&lab));
    assert_eq!(here(&lab, "capstan restore t --into out"), there(&lab));
    // By number it is ben who has them.
    let by_number = here(&lab, "rm -rf out; capstan restore t --into out --numeric-ids");
    assert!(by_number.contains("user:ben:r--") && !by_number.contains("ann"), "{by_number}");
    let archive = "rm -rf out; mkdir out; capstan restore t --to-tar - | tar --acls -C out -xpf -";
    assert_eq!(here(&lab, archive), there(&lab));
    if let Some(reader) = Reader::find() {
        let (python, script) = (reader.python.display(), reader.script.display());
        let read = format!("rm -rf out; '{python}' '{script}' extract medium --into out");
        assert_eq!(here(&lab, &read), there(&lab));
    }
    // What is compared and drilled is told by name as well.
    on(&lab, HERE, "rm -rf tree; capstan restore t --in-place; capstan compare t").ok();
    on(&lab, HERE, "mkdir scratch; capstan drill t --sample 100% --scratch scratch").ok();
    let differs = on(&lab, HERE, "setfacl -m u:ben:w tree/a; capstan compare t");
    assert!(differs.code == 4 && differs.stdout.contains("xattrs"), "{}", differs.stdout);
}

#[test]
fn a_version_made_of_others_and_an_imported_one_know_the_names_too() {
    let Some(lab) = backed_up() else { return };
    on(&lab, THERE, "echo more >tree/dir/c; capstan backup tree --to medium --name t --incr").ok();
    on(&lab, HERE, "capstan consolidate t; rm -rf home; capstan import medium").ok();
    assert_eq!(here(&lab, "capstan restore t --into out"), there(&lab));
}
