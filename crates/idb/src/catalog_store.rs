//! Where catalog files are kept: a store of objects, a directory today, a bucket by another constructor.
//!
//! A directory is written durably: `object_store` syncs the file before it takes its name and the directory after. It is read
//! through the file that the store opens, so what is asked of it later costs a system call and no more. From any other store
//! an object is taken whole when it is opened: catalogs end at a mebibyte or so, and a request costs more than that many
//! bytes.

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use capstan_engine::regular;
use capstan_format::sums::ContentSum;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Name;
use object_store::{Error, GetResultPayload, ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

/// A store of catalog files.
pub struct CatalogStore {
    /// Returns from a write when it is durable.
    durable: Arc<dyn ObjectStore>,
    /// For what can be made again: need not be.
    relaxed: Arc<dyn ObjectStore>,
    at: At,
}

enum At {
    /// A directory: its futures never wait, so nothing has to drive them.
    Directory(PathBuf),
    /// Anything else, with what drives it; under a lock since a runtime of one thread is driven by one caller.
    Elsewhere(Mutex<Runtime>),
}

/// What a store says of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub name: String,
    pub len: u64,
    pub written: SystemTime,
    /// The store's own mark.
    tag: Option<String>,
}

impl CatalogStore {
    /// The files of a directory, which is there.
    pub fn directory(dir: &Path) -> io::Result<Self> {
        let open = || LocalFileSystem::new_with_prefix(dir).map_err(plain);
        Ok(Self {
            durable: Arc::new(open()?.with_fsync(true)),
            relaxed: Arc::new(open()?),
            at: At::Directory(dir.to_owned()),
        })
    }

    /// The objects of any other store. What it has written has to be durable, as it is with buckets.
    pub fn of(objects: Arc<dyn ObjectStore>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let at = At::Elsewhere(Mutex::new(runtime));
        Ok(Self { durable: Arc::clone(&objects), relaxed: objects, at })
    }

    /// An object as messages show it.
    pub(crate) fn shown(&self, name: &str) -> PathBuf {
        match &self.at {
            At::Directory(dir) => dir.join(name),
            At::Elsewhere(_) => PathBuf::from(format!("{}/{name}", self.durable)),
        }
    }

    /// Writes an object, `parts` one after the other; it replaces a former one, whole. It is durable on return.
    pub(crate) fn put(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        self.put_to(&self.durable, name, parts)
    }

    /// Writes an object that can be made again: it may be gone after a power cut, or not whole.
    pub(crate) fn put_relaxed(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put_to(&self.relaxed, name, &[bytes])
    }

    fn put_to(&self, store: &Arc<dyn ObjectStore>, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let payload: PutPayload = parts.iter().map(|part| Bytes::copy_from_slice(part)).collect();
        self.wait(store.put(&Name::from(name), payload)).map_err(plain)?;
        if let At::Directory(dir) = &self.at {
            // The store has no mode to give; the directory is its owner's alone anyway.
            fs::set_permissions(dir.join(name), Permissions::from_mode(0o600))?;
        }
        Ok(())
    }

    /// Opens an object; `None` if there is none. One that is replaced meanwhile stays as it was opened.
    pub(crate) fn get(&self, name: &str) -> io::Result<Option<CatalogFile>> {
        self.refuse_others(name)?;
        let found = async {
            let found = self.durable.get(&Name::from(name)).await?;
            let len = found.meta.size;
            let body = match found.payload {
                GetResultPayload::File(file, _) => Body::File(file),
                _ => Body::Bytes(found.bytes().await?),
            };
            Ok(CatalogFile { body, len, at: 0 })
        };
        found_or_none(self.wait(found))
    }

    /// What is known of an object without opening it.
    pub(crate) fn look(&self, name: &str) -> io::Result<Option<Listed>> {
        self.refuse_others(name)?;
        let found = self.wait(self.durable.head(&Name::from(name)));
        Ok(found_or_none(found)?.map(listed))
    }

    /// Removes an object; whether there was one.
    pub(crate) fn remove(&self, name: &str) -> io::Result<bool> {
        // A bucket does not say whether there was one.
        if self.look(name)?.is_none() {
            return Ok(false);
        }
        let removed = self.wait(self.durable.delete(&Name::from(name)));
        Ok(found_or_none(removed)?.is_some())
    }

    /// Removes an object if it was last written before `grace` ago. A time in the future, after the clock was set back, counts
    /// as new.
    pub(crate) fn remove_if_older(&self, name: &str, grace: Duration) -> io::Result<bool> {
        match self.look(name)? {
            Some(found) if found.is_older(grace) => self.remove(name),
            _ => Ok(false),
        }
    }

    /// Calls with each object, in any order.
    pub(crate) fn list(&self, each: &mut dyn FnMut(Listed)) -> io::Result<()> {
        let mut stream = self.durable.list(None);
        self.wait(async {
            while let Some(found) =
                std::future::poll_fn(|context| stream.as_mut().poll_next(context)).await
            {
                each(listed(found?));
            }
            Ok(())
        })
        .map_err(plain)
    }

    /// Removes what a killed process left of writing to a directory; a bucket never shows such. Returns how many there were.
    pub(crate) fn remove_unfinished(&self, grace: Duration) -> io::Result<usize> {
        let At::Directory(dir) = &self.at else { return Ok(0) };
        let mut removed = 0;
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let is_unfinished = entry.file_name().to_str().is_some_and(is_unfinished);
            let written = entry.metadata().and_then(|metadata| metadata.modified());
            if is_unfinished && written.is_ok_and(|written| is_older(written, grace)) {
                match fs::remove_file(entry.path()) {
                    Ok(()) => removed += 1,
                    // Another process was faster.
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(removed)
    }

    /// The store opens what it looks at, and would wait for a pipe.
    fn refuse_others(&self, name: &str) -> io::Result<()> {
        let At::Directory(dir) = &self.at else { return Ok(()) };
        match regular::refuse_others(&dir.join(name)) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            regular => regular,
        }
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        match &self.at {
            At::Directory(_) => wait_here(work),
            At::Elsewhere(runtime) => runtime.lock().block_on(work),
        }
    }
}

impl fmt::Debug for CatalogStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CatalogStore").field(&self.durable).finish()
    }
}

impl Listed {
    pub fn is_older(&self, grace: Duration) -> bool {
        is_older(self.written, grace)
    }

    pub fn stamp(&self) -> CatalogStamp {
        let mut tag = ContentSum::default();
        tag.update(self.tag.as_deref().unwrap_or_default().as_bytes());
        let since = self.written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let written_us = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        CatalogStamp { len: self.len, tag: tag.take(), written_us }
    }
}

fn is_older(written: SystemTime, grace: Duration) -> bool {
    written.elapsed().is_ok_and(|age| age >= grace)
}

/// Whether `object_store` gives such names to what it has not written to its end: `NAME#1`.
fn is_unfinished(name: &str) -> bool {
    let number = name.rsplit_once('#').map_or("", |(_, number)| number);
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

fn listed(meta: ObjectMeta) -> Listed {
    let (len, written) = (meta.size, meta.last_modified.into());
    Listed { name: meta.location.to_string(), len, written, tag: meta.e_tag }
}

/// A catalog file, open for reading.
#[derive(Debug)]
pub struct CatalogFile {
    body: Body,
    len: u64,
    /// Where [`Read`] goes on.
    at: u64,
}

#[derive(Debug)]
enum Body {
    File(File),
    Bytes(Bytes),
}

#[expect(clippy::len_without_is_empty, reason = "it is a file, and no empty one is of any use")]
impl CatalogFile {
    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Fills a buffer with what lies at an offset.
    pub fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        match &self.body {
            Body::File(file) => file.read_exact_at(buffer, at),
            Body::Bytes(bytes) => {
                let from = usize::try_from(at).unwrap_or(usize::MAX);
                let found = bytes.get(from..from.saturating_add(buffer.len()));
                buffer.copy_from_slice(found.ok_or(ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match &self.body {
            Body::File(file) => file.read_at(buffer, at),
            Body::Bytes(bytes) => {
                let from = usize::try_from(at).unwrap_or(usize::MAX);
                bytes.get(from..).unwrap_or_default().read(buffer)
            }
        }
    }
}

impl Read for CatalogFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.read_at(buffer, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

fn found_or_none<T>(result: Result<T, Error>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(e) => Err(plain(e)),
    }
}

/// What the system said, where it was the system: the store's own words name neither what was tried nor what to do.
fn plain(error: Error) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(e) = cause {
        if let Some(e) = e.downcast_ref::<io::Error>() {
            return e.raw_os_error().map_or_else(
                || io::Error::new(e.kind(), e.to_string()),
                io::Error::from_raw_os_error,
            );
        }
        cause = e.source();
    }
    io::Error::other(error)
}

/// Waits for work on this thread: that of a directory is done when it is first asked for.
fn wait_here<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut work = pin!(work);
    if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return done;
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
            return done;
        }
        thread::park();
    }
}

/// What tells a catalog file from another one that takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogStamp {
    /// Its length in bytes.
    pub len: u64,
    /// Its store's own mark, as a number: of a directory from inode number, length and time.
    pub tag: u64,
    /// When it was last written, in microseconds since 1970.
    pub written_us: i64,
}
