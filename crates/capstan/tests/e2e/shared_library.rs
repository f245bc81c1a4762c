//! A library that several hosts share: homes with one database move tapes one after the other.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use capstan_tape::lock::Locks;
use capstan_tape::vtl::library::{Design, Library};

use crate::server::{Server, write_settings};
use crate::support::{Lab, Run, finish, wait_for};
use crate::tape::library_of;

/// Two homes of one cell, as on two hosts; and a library whose robot takes more than a second, in which another process begins.
fn lab() -> Lab {
    let lab = Lab::new();
    let settings = format!("database = \"{}\"\n", Server::shared().new_database());
    write_settings(&lab.path("home"), &settings);
    lab.run(["media", "list"]).ok();
    write_settings(&lab.path("home-2"), &settings);
    lab.sh("cp home/postgres.cell home-2");
    Library::create(&lab.path("vtl"), &Design { scale: 6.0, ..library_of(1, 4) }, 4).unwrap();
    lab
}

fn moving(lab: &Lab, home: &str, from: &str, to: &str) -> Command {
    let mut command = lab.command();
    command.env("CAPSTAN_HOME", lab.path(home));
    command.args(["library", "move", "vtape:vtl", from, to]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Begins a move, and then takes away the lock that keeps processes of one host apart.
fn begun(lab: &Lab, from: &str, to: &str) -> Child {
    let child = moving(lab, "home", from, to).spawn().unwrap();
    let robot = lab.path("vtl/robot");
    wait_for("the robot moves", || Locks::default().holder(&robot).is_some());
    fs::remove_file(robot).unwrap();
    child
}

fn is_in(lab: &Lab, barcode: &str, slot: u32) {
    let held = Library::open(&lab.path("vtl")).unwrap().tapes().unwrap();
    let tape = held.iter().find(|tape| tape.barcode == barcode).unwrap();
    assert_eq!(tape.place.short(), format!("slot:{slot}"));
}

fn waited_for(said: &str, child: u32) {
    let who = format!("which process {child} on ");
    assert!(said.contains("waiting for the robot") && said.contains(&who), "{said}");
}

#[test]
fn of_two_hosts_one_moves_tapes_at_a_time() {
    let lab = lab();
    let mut first = begun(&lab, "slot:1", "slot:5");
    let second: Run = finish(&mut moving(&lab, "home-2", "slot:2", "slot:6"));
    waited_for(&second.ok().stderr, first.id());
    assert!(first.wait().unwrap().success());
    is_in(&lab, "V00001L9", 5);
    is_in(&lab, "V00002L9", 6);
}

#[test]
fn the_robot_of_a_process_that_was_killed_is_free() {
    let lab = lab();
    let mut first = begun(&lab, "slot:1", "slot:5");
    let said = lab.path("said");
    let mut second = moving(&lab, "home-2", "slot:2", "slot:6");
    let mut second = second.stderr(File::create(&said).unwrap()).spawn().unwrap();
    let read = || fs::read_to_string(&said).unwrap();
    wait_for("the second one waits", || read().contains("waiting for the robot"));
    first.kill().unwrap();
    first.wait().unwrap();
    let killed = Instant::now();
    assert!(second.wait().unwrap().success());
    // Not only when the lease ends by itself.
    assert!(killed.elapsed() < Duration::from_secs(20));
    waited_for(&read(), first.id());
    is_in(&lab, "V00001L9", 1);
    is_in(&lab, "V00002L9", 6);
    // Nothing is left that would have to be waited for.
    let third = finish(&mut moving(&lab, "home", "slot:1", "slot:5"));
    assert!(!third.ok().stderr.contains("waiting"), "{}", third.stderr);
}
