//! A drive in memory that does what the standard says, with all that no emulation at hand has: LOCATE(16), log pages,
//! encryption; and that can be told to misbehave. Tests of other crates have it too, each with its own name `scsi`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::scsi::Error;
use super::scsi::transport::{
    CHECK_CONDITION, Data, GOOD, Left, Outcome, Transport, TransportError,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    Block(Vec<u8>),
    Filemark,
}

/// How READ POSITION answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Positions {
    Long,
    Short,
    /// Like tgt: the short form says "unknown", the long form lies.
    Lies,
}

/// What a test can set and see.
pub struct State {
    pub tape: Vec<Object>,
    pub at: usize,
    pub positions: Positions,
    /// The operation codes that it has beside those that all have.
    pub locate: Vec<u8>,
    pub early_warning: usize,
    pub capacity: usize,
    pub block_len: u32,
    pub compression: bool,
    pub compression_sticks: bool,
    pub encrypting: bool,
    pub key: Vec<u8>,
    pub sent: Vec<Vec<u8>>,
    /// Answers that come instead, once each, when a command of that operation code comes.
    pub instead: VecDeque<(u8, Result<Outcome, TransportError>)>,
    pub serial: &'static str,
    /// A command was left at work, and how long it is.
    pub at_work: Option<Instant>,
    /// Behind the next command of that operation code it is lost.
    pub deaf_after: Option<u8>,
    pub deaf: bool,
    /// Nobody can connect to it.
    pub unreachable: bool,
}

#[derive(Clone)]
pub struct Model(pub Arc<Mutex<State>>);

impl Model {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            tape: Vec::new(),
            at: 0,
            positions: Positions::Long,
            locate: vec![0x92],
            early_warning: usize::MAX,
            capacity: usize::MAX,
            block_len: 512,
            compression: true,
            compression_sticks: false,
            encrypting: false,
            key: Vec::new(),
            sent: Vec::new(),
            instead: VecDeque::new(),
            serial: "SN1",
            at_work: None,
            deaf_after: None,
            deaf: false,
            unreachable: false,
        })))
    }

    pub fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    /// The next command of that operation code gets sense data: flags and key, information, code, qualifier.
    pub fn fail(&self, opcode: u8, flags: u8, information: Option<i32>, code: (u8, u8)) {
        let outcome = check(flags, information, code, 0);
        self.with(|state| state.instead.push_back((opcode, Ok(outcome))));
    }

    /// Operation codes sent since this was last asked.
    pub fn sent(&self) -> Vec<u8> {
        self.with(|state| std::mem::take(&mut state.sent).iter().map(|cdb| cdb[0]).collect())
    }
}

pub fn check(flags: u8, information: Option<i32>, code: (u8, u8), residual: usize) -> Outcome {
    let mut sense = vec![0; 18];
    sense[0] = if information.is_some() { 0xf0 } else { 0x70 };
    sense[2] = flags;
    sense[3..7].copy_from_slice(&information.unwrap_or(0).to_be_bytes());
    sense[7] = 10;
    (sense[12], sense[13]) = code;
    Outcome { status: CHECK_CONDITION, sense, residual }
}

const FILEMARK: u8 = 0x80;
const END_OF_MEDIUM: u8 = 0x40;
const WRONG_LENGTH: u8 = 0x20;
const ILLEGAL: u8 = 5;

impl Transport for Model {
    fn execute(
        &mut self,
        cdb: &[u8],
        data: Data<'_>,
        timeout: Duration,
    ) -> Result<Outcome, TransportError> {
        assert!(!timeout.is_zero());
        let mut state = self.0.lock().unwrap();
        state.sent.push(cdb.to_vec());
        if state.instead.front().is_some_and(|(opcode, _)| *opcode == cdb[0]) {
            return state.instead.pop_front().unwrap().1;
        }
        if state.deaf {
            return Err(TransportError::Lost("it does not answer".to_owned()));
        }
        if state.deaf_after == Some(cdb[0]) {
            (state.deaf_after, state.deaf) = (None, true);
        }
        Ok(state.execute(cdb, data))
    }

    fn left(&mut self, patience: Duration) -> Left {
        let Some(until) = self.with(|state| state.at_work) else { return Left::No };
        std::thread::sleep(until.saturating_duration_since(Instant::now()).min(patience));
        if Instant::now() < until { Left::AtWork } else { Left::Over }
    }

    fn reconnect(&mut self) -> Result<(), Error> {
        assert_ne!(self.left(Duration::ZERO), Left::AtWork, "nobody can open it");
        if self.with(|state| state.unreachable) {
            let (device, why) = (self.name().to_owned(), "no route".to_owned());
            return Err(Error::Connect { device, why });
        }
        self.with(|state| (state.at_work, state.deaf) = (None, false));
        Ok(())
    }

    fn max_transfer(&self) -> usize {
        4 << 20
    }

    fn name(&self) -> &str {
        "model"
    }
}

fn good() -> Outcome {
    Outcome { status: GOOD, ..Outcome::default() }
}

fn send(data: Data<'_>, bytes: &[u8]) -> Outcome {
    let Data::In(buffer) = data else { panic!("no room for an answer") };
    let len = bytes.len().min(buffer.len());
    buffer[..len].copy_from_slice(&bytes[..len]);
    Outcome { residual: buffer.len() - len, ..good() }
}

fn signed24(bytes: &[u8]) -> i64 {
    i64::from(i32::from_be_bytes([bytes[0], bytes[1], bytes[2], 0]) >> 8)
}

impl State {
    fn execute(&mut self, cdb: &[u8], data: Data<'_>) -> Outcome {
        match cdb[0] {
            0x00 | 0x1e | 0x16 | 0x17 => good(),
            0x01 | 0x1b => {
                self.at = 0;
                good()
            }
            0x05 => send(data, &[0, 0x80, 0, 0, 0, 4]),
            0x08 => self.read(data),
            0x0a => self.write(data),
            0x10 => self.write_filemarks(signed24(&cdb[2..])),
            0x11 => self.space(cdb[1], signed24(&cdb[2..])),
            0x12 => self.inquiry(cdb, data),
            0x15 => self.mode_select(data),
            0x19 => self.erase(),
            0x1a => self.mode_sense(cdb[2] & 0x3f, data),
            0x34 => self.position(cdb[1] == 6, data),
            0x4d => log_sense(cdb[2] & 0x3f, data),
            0x92 if self.locate.contains(&0x92) => {
                self.locate(u64::from_be_bytes(cdb[4..12].try_into().unwrap()))
            }
            0x2b if self.locate.contains(&0x2b) => {
                self.locate(u32::from_be_bytes(cdb[3..7].try_into().unwrap()).into())
            }
            0xa2 => self.security_in(cdb[3], data),
            0xb5 => self.security_out(data),
            _ => check(ILLEGAL, None, (0x20, 0), 0),
        }
    }

    fn erase(&mut self) -> Outcome {
        self.tape.truncate(self.at);
        good()
    }

    fn inquiry(&self, cdb: &[u8], data: Data<'_>) -> Outcome {
        match (cdb[1], cdb[2]) {
            (1, 0x80) => send(
                data,
                &[&[1, 0x80, 0, self.serial.len() as u8], self.serial.as_bytes()].concat(),
            ),
            (1, _) => check(ILLEGAL, None, (0x24, 0), 0),
            _ => send(data, b"\x01\x80\x06\x02\x1f\0\0\0MODEL   Drive in memory 0001"),
        }
    }

    fn read(&mut self, data: Data<'_>) -> Outcome {
        let Data::In(buffer) = data else { panic!("no room for a block") };
        let room = buffer.len();
        match self.tape.get(self.at) {
            None => check(0x08, Some(room as i32), (0, 5), room),
            Some(Object::Filemark) => {
                self.at += 1;
                check(FILEMARK, Some(room as i32), (0, 1), room)
            }
            Some(Object::Block(block)) => {
                self.at += 1;
                let len = block.len().min(room);
                buffer[..len].copy_from_slice(&block[..len]);
                match room as i32 - block.len() as i32 {
                    0 => good(),
                    rest => check(WRONG_LENGTH, Some(rest), (0, 0), room - len),
                }
            }
        }
    }

    fn put(&mut self, object: Object) -> Option<Outcome> {
        self.tape.truncate(self.at);
        if self.at >= self.capacity {
            return Some(check(0x0d | END_OF_MEDIUM, None, (0, 2), 0));
        }
        self.tape.push(object);
        self.at += 1;
        None
    }

    fn written(&self) -> Outcome {
        if self.at > self.early_warning { check(END_OF_MEDIUM, None, (0, 2), 0) } else { good() }
    }

    fn write(&mut self, data: Data<'_>) -> Outcome {
        let Data::Out(block) = data else { panic!("no block") };
        self.put(Object::Block(block.to_vec())).unwrap_or_else(|| self.written())
    }

    fn write_filemarks(&mut self, count: i64) -> Outcome {
        let full = (0..count).find_map(|_| self.put(Object::Filemark));
        full.unwrap_or_else(|| self.written())
    }

    fn space(&mut self, code: u8, count: i64) -> Outcome {
        if code == 3 {
            self.at = self.tape.len();
            return good();
        }
        for left in (1..=count.abs()).rev() {
            let next = if count > 0 { Some(self.at) } else { self.at.checked_sub(1) };
            let Some(next) = next else {
                return check(END_OF_MEDIUM, Some(left as i32), (0, 4), 0);
            };
            let Some(object) = self.tape.get(next) else {
                return check(0x08, Some(left as i32), (0, 5), 0);
            };
            let is_mark = *object == Object::Filemark;
            self.at = if count > 0 { next + 1 } else { next };
            if code == 0 && is_mark {
                return check(FILEMARK, Some(left as i32), (0, 1), 0);
            }
            if code == 1 && !is_mark {
                return self.space(code, count.signum() * left);
            }
        }
        good()
    }

    fn locate(&mut self, object: u64) -> Outcome {
        self.at = self.tape.len().min(object as usize);
        if object as usize > self.tape.len() { check(0x08, None, (0, 5), 0) } else { good() }
    }

    fn position(&self, long: bool, data: Data<'_>) -> Outcome {
        let beginning = if self.at == 0 { 0x80 } else { 0 };
        let files = self.tape[..self.at].iter().filter(|o| **o == Object::Filemark).count();
        let mut bytes = [0; 32];
        match (self.positions, long) {
            (Positions::Long, true) => {
                bytes[0] = beginning;
                bytes[8..16].copy_from_slice(&(self.at as u64).to_be_bytes());
                bytes[16..24].copy_from_slice(&(files as u64).to_be_bytes());
            }
            (Positions::Short | Positions::Long, false) => {
                bytes[0] = beginning;
                bytes[4..8].copy_from_slice(&(self.at as u32).to_be_bytes());
            }
            (Positions::Lies, true) => bytes[0] = 0x20,
            (Positions::Lies, false) => bytes[0] = 0x14,
            (Positions::Short, true) => return check(ILLEGAL, None, (0x24, 0), 0),
        }
        send(data, if long { &bytes } else { &bytes[..20] })
    }

    fn mode_sense(&self, page: u8, data: Data<'_>) -> Outcome {
        let mut bytes = vec![0, 0, 0x10, 8, 0x5a, 0, 0, 0, 0];
        bytes.extend_from_slice(&self.block_len.to_be_bytes()[1..]);
        match page {
            0x00 => {}
            0x0f => {
                let flags = 0x40 | if self.compression { 0x80 } else { 0 };
                bytes.extend_from_slice(&[
                    0x8f, 14, flags, 0x80, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0,
                ]);
            }
            _ => return check(ILLEGAL, None, (0x24, 0), 0),
        }
        bytes[0] = bytes.len() as u8 - 1;
        send(data, &bytes)
    }

    fn mode_select(&mut self, data: Data<'_>) -> Outcome {
        let Data::Out(bytes) = data else { panic!("no settings") };
        self.block_len = u32::from_be_bytes([0, bytes[9], bytes[10], bytes[11]]);
        if bytes.len() > 12 && !self.compression_sticks {
            assert_eq!(bytes[12], 0x0f);
            self.compression = bytes[14] & 0x80 != 0;
        }
        good()
    }

    fn security_in(&self, page: u8, data: Data<'_>) -> Outcome {
        match page {
            0x10 => {
                let mut bytes = vec![0, 0x10, 0, 40];
                bytes.extend_from_slice(&[0; 16]);
                bytes.extend_from_slice(&[
                    7, 0, 0, 20, 0x0a, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0x14,
                ]);
                send(data, &bytes)
            }
            0x20 => {
                let mode = if self.encrypting { 2 } else { 0 };
                send(data, &[0, 0x20, 0, 8, 0x42, mode, mode, 7, 0, 0, 0, 1])
            }
            _ => check(ILLEGAL, None, (0x24, 0), 0),
        }
    }

    fn security_out(&mut self, data: Data<'_>) -> Outcome {
        let Data::Out(bytes) = data else { panic!("no page") };
        assert_eq!(bytes[8], 7);
        self.key = bytes[20..].to_vec();
        self.encrypting = bytes[6] == 2 && !self.key.is_empty();
        good()
    }
}

fn log_sense(page: u8, data: Data<'_>) -> Outcome {
    match page {
        0x00 => send(data, &[0, 0, 0, 3, 0, 0x0c, 0x2e]),
        0x0c => send(data, &[0x0c, 0, 0, 16, 0, 0, 0, 4, 0, 0, 3, 0, 0, 1, 0, 4, 0, 0, 2, 0]),
        0x2e => send(data, &[0x2e, 0, 0, 10, 0, 20, 0, 1, 1, 0, 21, 0, 1, 0]),
        _ => check(ILLEGAL, None, (0x24, 0), 0),
    }
}
