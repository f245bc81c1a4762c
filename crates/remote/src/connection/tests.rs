//! Two sides of a connection within one process.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use capstan_wire::channel::{COST, WINDOW};
use capstan_wire::frame::{Head, Kind};
use capstan_wire::hello::Hello;

use super::*;

const QUICK: Beats = Beats { every: Duration::from_millis(50), patience: Duration::from_secs(3) };

fn connected(beats: Beats, serve: impl Fn(Channel) + Send + Sync + 'static) -> [Connection; 2] {
    let (one, other) = Transport::pair().unwrap();
    let answering =
        thread::spawn(move || Connection::start(other, Side::Answered, beats, Box::new(serve)));
    let one = Connection::start(one, Side::Dialled, beats, Box::new(drop)).unwrap();
    [one, answering.join().unwrap().unwrap()]
}

fn echo(channel: Channel) {
    while let Ok(message) = channel.receive() {
        if channel.send(&message).is_err() {
            return;
        }
    }
}

#[test]
fn messages_of_any_length_come_back_in_their_order() {
    let [one, _other] = connected(Beats::default(), echo);
    let channel = one.open().unwrap();
    for length in [0, 1, 65_535, 65_536, 65_537, 5_000_000] {
        let message: Vec<u8> = (0..length).map(|n| (n * 7) as u8).collect();
        channel.send(&message).unwrap();
        assert!(channel.receive().unwrap() == message, "{length}");
    }
}

#[test]
fn a_channel_that_nobody_reads_holds_up_no_other() {
    let [one, _other] = connected(Beats::default(), |channel| {
        // Whoever speaks first says whether he is read.
        if channel.receive().unwrap() == b"read" {
            echo(channel);
        } else {
            while !channel.is_stopped() {
                thread::sleep(Duration::from_millis(5));
            }
        }
    });
    let deaf = Arc::new(one.open().unwrap());
    deaf.send(b"deaf").unwrap();
    let stuck = thread::spawn({
        let deaf = deaf.clone();
        move || {
            // More than there is room for.
            let message = vec![1; (WINDOW / 4) as usize];
            (0..5).map(|_| deaf.send(&message)).find_map(Result::err)
        }
    });
    let heard = one.open().unwrap();
    heard.send(b"read").unwrap();
    for n in 0..1000u32 {
        heard.send(&n.to_le_bytes()).unwrap();
    }
    for n in 0..1000u32 {
        assert_eq!(heard.receive().unwrap(), n.to_le_bytes());
    }
    assert!(!stuck.is_finished());
    deaf.stop().unwrap();
    assert_eq!(stuck.join().unwrap(), Some(Broken::Ended));
}

#[test]
fn the_end_of_one_side_is_heard_after_what_it_said() {
    let [one, _other] = connected(Beats::default(), |channel| {
        channel.send(b"first").unwrap();
        channel.send(b"last").unwrap();
    });
    let channel = one.open().unwrap();
    assert_eq!(channel.receive().unwrap(), b"first");
    assert_eq!(channel.receive().unwrap(), b"last");
    assert_eq!(channel.receive(), Err(Broken::Ended));
    assert!(channel.is_stopped());
    assert_eq!(channel.send(b"too late"), Err(Broken::Ended));
}

#[test]
fn a_connection_that_is_closed_breaks_what_is_said_on_it() {
    let [one, other] = connected(Beats::default(), |channel| {
        channel.send(b"here").unwrap();
        assert!(matches!(channel.receive(), Err(Broken::Gone | Broken::Ended)));
    });
    let channel = one.open().unwrap();
    assert_eq!(channel.receive().unwrap(), b"here");
    drop(other);
    assert!(matches!(channel.receive(), Err(Broken::Gone | Broken::Ended)));
    let begun = Instant::now();
    while one.broken().is_none() && begun.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(5));
    }
    assert!(one.open().is_err());
}

#[test]
fn what_was_said_before_the_end_arrives() {
    for _ in 0..200 {
        let (sent, heard) = std::sync::mpsc::channel();
        let [one, _other] = connected(Beats::default(), move |channel| {
            while let Ok(message) = channel.receive() {
                sent.send(message.len()).unwrap();
            }
            sent.send(usize::MAX).unwrap();
        });
        let channel = one.open().unwrap();
        channel.send(&vec![1; 300_000]).unwrap();
        channel.send(b"last").unwrap();
        drop(channel);
        drop(one);
        assert_eq!(heard.into_iter().take(3).collect::<Vec<_>>(), [300_000, 4, usize::MAX]);
    }
}

#[test]
fn a_side_that_is_silent_is_noticed() {
    let (one, other) = Transport::pair().unwrap();
    let mut silent = other;
    let hello = capstan_wire::encode(&Hello::default()).unwrap();
    let head = Head { kind: Kind::Hello, channel: 0, length: hello.len() as u32 };
    silent.writer.write_all(&[&head.encode()[..], &hello].concat()).unwrap();
    let one = Connection::start(one, Side::Dialled, QUICK, Box::new(drop)).unwrap();
    let channel = one.open().unwrap();
    assert!(matches!(channel.receive(), Err(Broken::Silent(_))));
}

#[test]
fn two_sides_that_have_nothing_to_say_stay_connected() {
    let [one, _other] = connected(QUICK, echo);
    thread::sleep(QUICK.patience * 3 / 2);
    let channel = one.open().unwrap();
    channel.send(b"still there").unwrap();
    assert_eq!(channel.receive().unwrap(), b"still there");
}

/// Sends frames by hand to a side that answers, and says why that broke the connection.
fn sent(frames: &[(Kind, u32, &[u8])]) -> Broken {
    let (mut raw, answering) = UnixStream::pair().unwrap();
    let frames: Vec<u8> = frames
        .iter()
        .flat_map(|(kind, channel, payload)| {
            let head = Head { kind: *kind, channel: *channel, length: payload.len() as u32 };
            [&head.encode()[..], payload].concat()
        })
        .collect();
    let hello = capstan_wire::encode(&Hello::default()).unwrap();
    let head = Head { kind: Kind::Hello, channel: 0, length: hello.len() as u32 };
    raw.write_all(&[&head.encode()[..], &hello].concat()).unwrap();
    let transport = Transport::unix(answering).unwrap();
    let deaf = |channel: Channel| while channel.receive().is_ok() {};
    let connection =
        Connection::start(transport, Side::Answered, Beats::default(), Box::new(deaf)).unwrap();
    let mut back = raw.try_clone().unwrap();
    let reading = thread::spawn(move || drop(back.read_to_end(&mut Vec::new())));
    // The other side may hang up in the midst of it.
    let _ = raw.write_all(&frames);
    reading.join().unwrap();
    connection.broken().unwrap()
}

#[test]
fn who_does_not_keep_the_protocol_is_hung_up_on() {
    let senseless = |channel| Broken::Frame(capstan_wire::frame::FrameError::Senseless(channel));
    assert_eq!(sent(&[(Kind::Hello, 0, b"{}")]), senseless(0));
    assert_eq!(sent(&[(Kind::Last, 1, b"x")]), senseless(1));
    assert_eq!(sent(&[(Kind::Open, 3, b"")]), senseless(3));
    assert_eq!(sent(&[(Kind::Open, 2, b"")]), senseless(2));
    assert_eq!(sent(&[(Kind::Open, 1, b""), (Kind::Open, 1, b"")]), senseless(1));
    let too_much = [(Kind::Open, 1, &b""[..]), (Kind::Credit, 1, &1u32.to_le_bytes()[..])];
    assert!(matches!(sent(&too_much), Broken::Channel(_)));
    let ended = [(Kind::Open, 1, &b""[..]), (Kind::End, 1, b""), (Kind::Last, 1, b"x")];
    // Whether the line was left already is a matter of time: then the frame is left alone.
    let stray = [&ended[..], &[(Kind::Last, 9, b"x")]].concat();
    assert!(matches!(sent(&stray), Broken::Channel(_) | Broken::Frame(_)));
}

#[test]
fn nobody_waits_on_a_channel_that_was_opened_after_the_end() {
    let (mut raw, answering) = UnixStream::pair().unwrap();
    let hello = capstan_wire::encode(&Hello::default()).unwrap();
    let head = Head { kind: Kind::Hello, channel: 0, length: hello.len() as u32 };
    raw.write_all(&[&head.encode()[..], &hello].concat()).unwrap();
    let serving = Arc::new(());
    let served = serving.clone();
    let serve = move |channel: Channel| {
        let _serving = served.clone();
        drop(channel.receive());
    };
    let transport = Transport::unix(answering).unwrap();
    let connection =
        Connection::start(transport, Side::Answered, Beats::default(), Box::new(serve)).unwrap();
    // What the other side still says is read.
    drop(connection);
    for channel in [1, 3, 5] {
        let head = Head { kind: Kind::Open, channel, length: 0 };
        raw.write_all(&head.encode()).unwrap();
    }
    drop(raw);
    let begun = Instant::now();
    while Arc::strong_count(&serving) > 1 {
        assert!(begun.elapsed() < Duration::from_secs(20), "somebody waits for ever");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn messages_that_nobody_reads_fill_no_memory() {
    let frames = (WINDOW / COST) as usize + 1;
    let mut all: Vec<(Kind, u32, &[u8])> = vec![(Kind::Open, 1, b"")];
    all.extend((0..frames).map(|_| (Kind::Last, 1, &b""[..])));
    let (mut raw, answering) = UnixStream::pair().unwrap();
    let hello = capstan_wire::encode(&Hello::default()).unwrap();
    let head = Head { kind: Kind::Hello, channel: 0, length: hello.len() as u32 };
    raw.write_all(&[&head.encode()[..], &hello].concat()).unwrap();
    let transport = Transport::unix(answering).unwrap();
    let sleeping = |channel: Channel| {
        while !channel.is_stopped() {
            thread::sleep(Duration::from_millis(5));
        }
    };
    let connection =
        Connection::start(transport, Side::Answered, Beats::default(), Box::new(sleeping)).unwrap();
    for (kind, channel, payload) in all {
        let head = Head { kind, channel, length: payload.len() as u32 };
        if raw.write_all(&head.encode()).is_err() {
            break;
        }
    }
    let begun = Instant::now();
    while connection.broken().is_none() && begun.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(5));
    }
    let no_credit = capstan_wire::channel::ChannelError::NoCredit;
    assert_eq!(connection.broken(), Some(Broken::Channel(no_credit)));
}
