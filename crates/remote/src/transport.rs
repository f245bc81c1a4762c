//! A stream of bytes in both directions between two hosts, or two sides of one process.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

/// Ends one direction or both: who reads or writes at the moment gets an error or the end.
pub type Shut = Box<dyn Fn(Shutdown) + Send + Sync>;

/// A stream of bytes in both directions.
pub struct Transport {
    /// What the other side sends.
    pub reader: Box<dyn Read + Send>,
    /// What the other side gets.
    pub writer: Box<dyn Write + Send>,
    /// Ends it.
    pub shut: Shut,
}

impl Transport {
    /// Over TCP, in clear: for tests and for one host.
    pub fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let (reader, shut) = (stream.try_clone()?, stream.try_clone()?);
        let shut: Shut = Box::new(move |how| drop(shut.shutdown(how)));
        Ok(Self { reader: Box::new(reader), writer: Box::new(stream), shut })
    }

    /// Over a socket of this host.
    pub fn unix(stream: UnixStream) -> io::Result<Self> {
        let (reader, shut) = (stream.try_clone()?, stream.try_clone()?);
        let shut: Shut = Box::new(move |how| drop(shut.shutdown(how)));
        Ok(Self { reader: Box::new(reader), writer: Box::new(stream), shut })
    }

    /// Two ends of one, within this process.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = UnixStream::pair()?;
        Ok((Self::unix(one)?, Self::unix(other)?))
    }
}
