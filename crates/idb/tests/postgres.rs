//! PostgreSQL as the store: a server that goes away, whose tables it has, the way there from a file and back into one.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use capstan_format::id::{MediumId, SessionId, VersionId};
use capstan_idb::{
    Allocation, CountedTable, Idb, IdbError, Pool, Protection, Status, refuse_database,
};
use common::server::{Server, name_of, write_settings};
use common::*;
use tempfile::TempDir;

/// A home with its tables in a database of this server.
fn home_on(server: &Server, further: &str) -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let url = server.new_database();
    write_settings(&dir.path().join("home"), &format!("database = \"{url}\"\n{further}"));
    (dir, url)
}

fn open(dir: &TempDir) -> capstan_idb::Result<Idb> {
    Idb::open(&dir.path().join("home"))
}

fn refused(error: IdbError, words: &[&str]) -> String {
    assert!(error.is_bad_input(), "{error:?}");
    let text = error.to_string();
    words.iter().for_each(|word| assert!(text.contains(word), "'{word}' is not in: {text}"));
    text
}

#[test]
fn sessions_that_wait_see_the_server_come_back() {
    let server = Server::start();
    let (dir, _) = home_on(&server, "database-wait = \"1m\"\n");
    let idb = open(&dir).unwrap();
    let (_dir, idb) = begun_in((dir, idb));
    let said = Arc::new(Mutex::new(Vec::new()));
    let hear = said.clone();
    idb.on_notice(move |text| hear.lock().unwrap().push(text.to_owned()));

    // Back before anybody asks: nobody is told.
    for end in [Server::stop, Server::crash] {
        end(&server);
        server.start_again();
        idb.commit_segments(&[(segment(1, 1, 1, 1), vec![part(1, 1, 1, 0, 9)])]).unwrap();
        assert_eq!(idb.segments_of_medium(MediumId(nth(1))).unwrap().len(), 1);
    }
    assert!(said.lock().unwrap().is_empty());

    // Away for a while: told once that it is, and once that it is back.
    server.stop();
    thread::scope(|scope| {
        let writes = scope.spawn(|| {
            idb.commit_segments(&[(segment(2, 1, 2, 1), vec![part(2, 1, 1, 9, 12)])]).unwrap();
        });
        let begun = Instant::now();
        while said.lock().unwrap().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(20), "nobody is told");
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(300));
        assert!(!writes.is_finished());
        server.start_again();
        writes.join().unwrap();
    });
    assert_eq!(idb.segments_of_medium(MediumId(nth(1))).unwrap().len(), 2);
    let said = said.lock().unwrap();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("went away") && said[0].contains("60 s"), "{said:?}");
    assert!(said[1].contains("is back"), "{said:?}");
}

#[test]
fn a_server_that_stays_away_ends_the_wait_once() {
    let server = Server::start();
    let (dir, _) = home_on(&server, "database-wait = \"1s\"\n");
    let idb = open(&dir).unwrap();
    idb.put_medium(&medium(1, "monday")).unwrap();
    server.stop();
    let begun = Instant::now();
    let error = idb.put_medium(&medium(2, "tuesday")).unwrap_err();
    assert!(matches!(&error, IdbError::Away { waited_s: 1, .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("is kept") && text.contains("--resume"), "{text}");
    assert!(begun.elapsed() >= Duration::from_secs(1));
    // Not waited for again, for every call that is yet to come.
    let begun = Instant::now();
    for _ in 0..20 {
        assert!(matches!(idb.media().unwrap_err(), IdbError::Away { .. }));
    }
    assert!(begun.elapsed() < Duration::from_millis(500));
    // A command that begins now does not wait at all.
    let error = open(&dir).unwrap_err();
    assert!(error.to_string().contains("see that PostgreSQL runs there"), "{error}");
    server.start_again();
    assert_eq!(idb.media().unwrap().len(), 1);
    idb.put_medium(&medium(2, "tuesday")).unwrap();
    assert_eq!(open(&dir).unwrap().media().unwrap().len(), 2);
}

/// Stands between a program and the server, and cuts the connection at a commit: before it is passed on, or when the server
/// has answered it and nobody heard.
struct Cutter {
    dir: TempDir,
    cut: Arc<AtomicU8>,
    cuts: Arc<AtomicUsize>,
}

const PASS: u8 = 0;
const BEFORE: u8 = 1;
const AFTER: u8 = 2;

impl Cutter {
    fn of(server: &Server) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join(".s.PGSQL.5432")).unwrap();
        let to = server.socket_dir().join(".s.PGSQL.5432");
        let (cut, cuts) = (Arc::new(AtomicU8::new(PASS)), Arc::new(AtomicUsize::new(0)));
        let (when, count) = (cut.clone(), cuts.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), UnixStream::connect(&to).unwrap());
                let (when, count) = (when.clone(), count.clone());
                thread::spawn(move || pass(client, server, &when, &count));
            }
        });
        Self { dir, cut, cuts }
    }

    fn url(&self, url: &str) -> String {
        format!("postgres:///{}?host={}&user=capstan", name_of(url), self.dir.path().display())
    }
}

fn pass(mut client: UnixStream, mut server: UnixStream, when: &AtomicU8, count: &AtomicUsize) {
    let (mut answers, mut hears) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let back = thread::spawn(move || {
        let mut bytes = [0; 65536];
        while let Ok(n @ 1..) = answers.read(&mut bytes) {
            if hears.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
    });
    let mut bytes = [0; 65536];
    while let Ok(n @ 1..) = client.read(&mut bytes) {
        let said = &bytes[..n];
        let commits = said.windows(6).any(|w| w == b"COMMIT");
        if commits && when.load(Ordering::SeqCst) != PASS {
            count.fetch_add(1, Ordering::SeqCst);
            let before = when.swap(PASS, Ordering::SeqCst) == BEFORE;
            // Nothing goes back from here on.
            let _ = client.shutdown(std::net::Shutdown::Both);
            if !before {
                server.write_all(said).unwrap();
                thread::sleep(Duration::from_millis(200));
            }
            break;
        }
        if server.write_all(said).is_err() {
            break;
        }
    }
    let _ = server.shutdown(std::net::Shutdown::Both);
    let _ = client.shutdown(std::net::Shutdown::Both);
    let _ = back.join();
}

#[test]
fn a_commit_whose_answer_is_lost_is_done_once() {
    let server = Server::shared();
    let url = server.new_database();
    let cutter = Cutter::of(server);
    let dir = tempfile::tempdir().unwrap();
    write_settings(&dir.path().join("home"), &format!("database = \"{}\"\n", cutter.url(&url)));
    let idb = open(&dir).unwrap();
    let id = MediumId(nth(1));
    idb.put_medium(&medium(1, "monday")).unwrap();
    for (n, cut) in [(1, BEFORE), (2, AFTER), (3, BEFORE), (4, AFTER)] {
        cutter.cut.store(cut, Ordering::SeqCst);
        // A count: twice would show.
        idb.add_medium_error(id, 5, false).unwrap();
        assert_eq!(cutter.cuts.load(Ordering::SeqCst), n);
        assert_eq!(idb.management(id).unwrap().errors, n as u64, "cut {cut}");
    }
    // What the work came to is what it came to the first time.
    idb.put_object(&object(1, "etc")).unwrap();
    let status = Status::Running;
    idb.begin_session(&session(1, Some(1), status), Some(&version(1, 1, status))).unwrap();
    cutter.cut.store(AFTER, Ordering::SeqCst);
    assert_eq!(idb.mark_dead_sessions(&|_| true).unwrap(), [SessionId(nth(1))]);
    assert_eq!(cutter.cuts.load(Ordering::SeqCst), 5);
    drop(idb);
    assert_eq!(
        server.sql(name_of(&url), "SELECT COUNT(*) FROM capstan_writers"),
        "0",
        "no mark is left"
    );
}

#[test]
fn a_database_is_of_one_home() {
    let server = Server::shared();
    let (first, url) = home_on(server, "");
    let cell = "c".repeat(32);
    assert_eq!(open(&first).unwrap().cell_or(&cell).unwrap(), cell);
    assert_eq!(open(&first).unwrap().cell_or("another").unwrap(), cell);
    // Another home with the same address.
    let second = tempfile::tempdir().unwrap();
    let settings = format!("database = \"{url}\"\n");
    write_settings(&second.path().join("home"), &settings);
    let text = refused(open(&second).unwrap_err(), &[&cell, "another database", "postgres.cell"]);
    assert!(!second.path().join("home/capstan.db").exists(), "{text}");
    // It is the first one's, whose directory was lost: so it says.
    fs::write(second.path().join("home/postgres.cell"), format!("{cell}\n")).unwrap();
    open(&second).unwrap();
    // Another, new database under the address: nobody begins anew unasked.
    let other = server.new_database();
    write_settings(&first.path().join("home"), &format!("database = \"{other}\"\n"));
    refused(open(&first).unwrap_err(), &[&cell, "bring that one back"]);
    // The setting is gone.
    fs::remove_file(first.path().join("home/capstan.toml")).unwrap();
    refused(open(&first).unwrap_err(), &["put `database", "back"]);
    assert!(!first.path().join("home/capstan.db").exists());
    // A first time that was cut short goes on.
    fs::remove_file(second.path().join("home/postgres.cell")).unwrap();
    fs::write(second.path().join("home/.postgres.cell.new"), format!("{cell}\n")).unwrap();
    open(&second).unwrap();
    assert!(second.path().join("home/postgres.cell").exists());
}

#[test]
fn processes_that_begin_a_home_at_once_agree_on_its_cell() {
    let server = Server::shared();
    for round in 0..5 {
        let (dir, _) = home_on(server, "");
        let all = Barrier::new(4);
        let decide = |n: u32| {
            let idb = open(&dir).unwrap();
            all.wait();
            idb.cell_or(&format!("cell-{n}")).unwrap()
        };
        let cells: Vec<String> = thread::scope(|scope| {
            let deciders: Vec<_> = (0..4)
                .map(|n| {
                    scope.spawn({
                        let decide = &decide;
                        move || decide(n)
                    })
                })
                .collect();
            deciders.into_iter().map(|decider| decider.join().unwrap()).collect()
        });
        assert!(cells.iter().all(|cell| *cell == cells[0]), "round {round}: {cells:?}");
        assert_eq!(open(&dir).unwrap().cell_or("later").unwrap(), cells[0]);
    }
}

#[test]
fn tables_of_others_are_left_alone() {
    let server = Server::shared();
    let (dir, url) = home_on(server, "");
    server.sql(name_of(&url), "CREATE TABLE invoices (id TEXT)");
    refused(open(&dir).unwrap_err(), &["invoices", "an empty one"]);
    let count = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'public'";
    assert_eq!(server.sql(name_of(&url), count), "1");
}

#[test]
fn a_mistaken_address_is_said_without_its_password() {
    let server = Server::shared();
    let at = server.socket_dir().display();
    for (url, words) in [
        (
            format!("postgres:///nothing?host={at}&user=capstan&password=secret"),
            &["createdb", "nothing"][..],
        ),
        (
            "postgres://capstan:secret@127.0.0.1:1/db".to_owned(),
            &["see that PostgreSQL runs there"],
        ),
        (
            "postgres:///db?host=/no/such/place&user=me&password=secret".to_owned(),
            &["/no/such/place"],
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        write_settings(&dir.path().join("home"), &format!("database = \"{url}\"\n"));
        let begun = Instant::now();
        let error = open(&dir).unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(5));
        let text = format!("{error} {error:?}");
        words.iter().for_each(|word| assert!(text.contains(word), "'{word}': {text}"));
        assert!(!text.contains("secret"), "{text}");
    }
    // A user whom the server does not let in.
    let (dir, url) = home_on(server, "");
    server.sql("postgres", &format!("ALTER DATABASE {} ALLOW_CONNECTIONS false", name_of(&url)));
    let error = open(&dir).unwrap_err().to_string();
    assert!(error.contains("postgres://capstan@"), "{error}");
}

#[test]
fn text_sorts_by_its_bytes_whatever_the_database_does() {
    let server = Server::shared();
    let (dir, url) = home_on(server, "");
    let idb = open(&dir).unwrap();
    let names = ["B", "_", "a", "z", "Ä"];
    assert_eq!(server.sql(name_of(&url), "SELECT 'B' < 'a'"), "f", "the server's own order");
    for (n, name) in (1..).zip(names) {
        idb.put_object(&object(n, name)).unwrap();
    }
    let listed: Vec<_> = idb.objects().unwrap().into_iter().map(|o| o.name).collect();
    assert_eq!(listed, names);
}

/// Of each table something, with values that a copy could spoil.
fn fill(idb: &Idb) {
    idb.put_object(&object(1, "naïve \"quoted\" \\ \u{1F600}\n")).unwrap();
    idb.put_medium(&medium(1, "monday")).unwrap();
    let status = Status::Running;
    let row = capstan_idb::Version { null_device: true, ..version(1, 1, status) };
    idb.begin_session(&session(1, Some(1), status), Some(&row)).unwrap();
    idb.set_protection(VersionId(nth(1)), Some(Protection::Permanent), Some(Protection::None))
        .unwrap();
    let mut rows = Vec::new();
    for n in 0..=255 {
        rows.push((
            segment(n, 1, n.into(), 1),
            vec![part(n, 1, 1, 0, 1 << 60), part(n, 2, 1, 0, 9)],
        ));
    }
    idb.commit_segments(&rows).unwrap();
    let pool = |name: &str, free: Option<&str>| Pool {
        name: name.to_owned(),
        allocation: Allocation::Strict,
        appendable: name == "a",
        free_pool: free.map(ToOwned::to_owned),
        rotation: [1, 2, 3],
        scratch: name == "a",
        libraries: vec!["vtape:/v".to_owned()],
        label_rule: free.map(|_| "{pool}-{n}".to_owned()),
        vault: free.map(|_| "bank, box 7".to_owned()),
    };
    idb.put_pool(&pool("z", None)).unwrap();
    idb.put_pool(&pool("a", Some("z"))).unwrap();
    idb.set_medium_pool(MediumId(nth(1)), Some("a"), None).unwrap();
    let done = Status::Completed;
    let report = "{\"tab\":\"\\u0000\\t\"}";
    idb.end_session(SessionId(nth(1)), done, 9, &Default::default(), report, Some(done)).unwrap();
    idb.cell_or(&"c".repeat(32)).unwrap();
}

/// All that can be asked of what was filled.
fn everything(idb: &Idb) -> String {
    let counts: Vec<_> =
        CountedTable::ALL.iter().map(|table| idb.count_rows(*table).unwrap()).collect();
    let id = VersionId(nth(1));
    format!(
        "{counts:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        idb.objects().unwrap(),
        idb.media().unwrap(),
        idb.pools().unwrap(),
        idb.management(MediumId(nth(1))).unwrap(),
        idb.sessions(9).unwrap(),
        idb.version(id).unwrap(),
        idb.keeping(id).unwrap(),
        idb.segments_of_version(id).unwrap(),
        idb.setting("cell").unwrap(),
    )
}

#[test]
fn tables_move_to_a_server_and_a_copy_of_them_comes_back_into_either_store() {
    let server = Server::shared();
    let (dir, idb) = fresh_file();
    fill(&idb);
    let before = everything(&idb);
    let home = idb.home().to_owned();
    drop(idb);
    let is_nothing = |home: &Path| Idb::open_to_move(home).map(drop).unwrap_err();
    refused(is_nothing(&home), &["name no server"]);
    let url = server.new_database();
    write_settings(&home, &format!("database = \"{url}\"\n"));
    // Until it is moved, nothing else is done.
    refused(open(&dir).unwrap_err(), &["capstan.db", "`capstan idb move`"]);
    let moved = Idb::open_to_move(&home).unwrap().move_to_server().unwrap();
    assert!(
        moved.rows > 768 && moved.left.exists() && !home.join("capstan.db").exists(),
        "{moved:?}"
    );
    refused(is_nothing(&home), &["nothing to move"]);
    let idb = open(&dir).unwrap();
    assert_eq!(everything(&idb), before);
    assert!(idb.sizes().unwrap().tables > 0);
    assert!(idb.dangling().unwrap().is_empty());
    // One that was cut short at its last step.
    fs::copy(&moved.left, home.join("capstan.db")).unwrap();
    assert_eq!(Idb::open_to_move(&home).unwrap().move_to_server().unwrap().rows, 0);

    // The copy that a backup of the database holds: back into a file, and onto a server.
    let copy = idb.small_copy().unwrap();
    drop(idb);
    let back = tempfile::tempdir().unwrap();
    let home = back.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("capstan.db"), &copy).unwrap();
    assert_eq!(everything(&open(&back).unwrap()), before);
    assert!(!open(&back).unwrap().small_copy().unwrap().is_empty());
    let error = refuse_database(&home, true).unwrap_err();
    refused(error, &["already"]);
    // Not over the tables that are there.
    write_settings(&home, &format!("database = \"{url}\"\n"));
    let error = Idb::open_to_move(&home).unwrap().move_to_server().unwrap_err();
    refused(error, &["has rows already"]);
    let foreign = server.new_database();
    write_settings(&home, &format!("database = \"{foreign}\"\n"));
    refuse_database(&home, true).unwrap_err();
    Idb::open_to_move(&home).unwrap().move_to_server().unwrap();
    assert_eq!(everything(&open(&back).unwrap()), before);
    refused(refuse_database(&home, true).unwrap_err(), &["already", "postgres://"]);
}

#[test]
fn rows_are_not_mixed_with_those_that_are_there() {
    let server = Server::shared();
    let (used, url) = home_on(server, "");
    open(&used).unwrap().put_medium(&medium(7, "theirs")).unwrap();
    let (_dir, idb) = fresh_file();
    fill(&idb);
    let home = idb.home().to_owned();
    drop(idb);
    write_settings(&home, &format!("database = \"{url}\"\n"));
    let error = Idb::open_to_move(&home).unwrap().move_to_server().unwrap_err();
    refused(error, &["has rows already (media)"]);
    assert!(home.join("capstan.db").exists() && !home.join("postgres.cell").exists());
    assert_eq!(open(&used).unwrap().media().unwrap().len(), 1);
    assert!(open(&used).unwrap().objects().unwrap().is_empty(), "nothing of it stayed");
}

/// Two writers at once take turns, and neither sees half of what the other does.
#[test]
fn one_writes_at_a_time() {
    let server = Server::shared();
    let (dir, url) = home_on(server, "");
    let (first, second) = (open(&dir).unwrap(), open(&dir).unwrap());
    first.put_medium(&medium(1, "monday")).unwrap();
    thread::scope(|scope| {
        for idb in [&first, &second] {
            scope.spawn(|| {
                (0..100).for_each(|_| idb.add_medium_error(MediumId(nth(1)), 5, false).unwrap())
            });
        }
    });
    assert_eq!(first.management(MediumId(nth(1))).unwrap().errors, 200);
    assert_eq!(server.sql(name_of(&url), "SELECT SUM(serial) FROM capstan_writers"), "201");
}
