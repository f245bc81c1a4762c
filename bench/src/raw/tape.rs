//! A bare loop of WRITE commands to a drive.

use std::time::{Duration, Instant};

use capstan_scsi::{Drive, Error, Written};

use super::Done;
use crate::error::BenchError;

/// How long a tape that was just loaded is waited for.
const LOAD: Duration = Duration::from_secs(60);

/// Writes so many bytes in blocks of that size from one buffer, and a filemark that brings them to the tape.
pub fn write(drive: &str, block: usize, bytes: u64) -> Result<(Duration, Done), BenchError> {
    let failed = |e: Error| BenchError::Unexpected {
        program: "the bare loop of WRITE".to_owned(),
        problem: e.to_string(),
    };
    let data: Vec<u8> = (0..block).map(|i| (i * 7 + i / 256) as u8).collect();
    let start = Instant::now();
    let mut drive = Drive::open(drive).map_err(failed)?;
    drive.wait_ready(LOAD).map_err(failed)?;
    drive.rewind().map_err(failed)?;
    drive.prepare().map_err(failed)?;
    let mut done = 0;
    while done < bytes {
        match drive.write_block(&data).map_err(failed)? {
            Written::Done | Written::EarlyWarning => done += block as u64,
            Written::NoRoom => {
                return Err(BenchError::Unexpected {
                    program: "the bare loop of WRITE".to_owned(),
                    problem: "the tape is full".to_owned(),
                });
            }
        }
    }
    let _ = drive.sync().map_err(failed)?;
    Ok((start.elapsed(), Done { files: 0, bytes: done }))
}
