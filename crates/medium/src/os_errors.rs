//! What an error of the operating system says of the disk on which a medium lies: whether the disk is at fault, or the place, or the way
//! to it.

use std::io;

use rustix::io::Errno;

/// Whether a write that failed so tells on the disk. All else is a matter of the place: it is mounted read-only or not at all, it is full,
/// it does not let this user write, its server does not answer, or this process may open no more files.
pub fn is_of_disk(e: &io::Error) -> bool {
    match Errno::from_io_error(e) {
        // What Linux returns for media errors, failed checksums of blocks, and file systems that found themselves damaged
        // (block/blk-core.c, fs/ext4, fs/xfs).
        Some(errno) => matches!(
            errno,
            Errno::IO
                | Errno::NODATA
                | Errno::REMOTEIO
                | Errno::ILSEQ
                | Errno::UCLEAN
                | Errno::BADMSG
        ),
        // It is not the system's: what was read back is not what was written, unless nothing could be written any more.
        None => !is_lost(e),
    }
}

/// Whether the connection to the device host broke.
pub fn is_lost(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::ConnectionAborted
}

/// Whether the way to a file is lost: the server of its file system does not answer, or its disk was pulled.
pub fn is_far(e: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    let is_gone = || {
        matches!(
            Errno::from_io_error(e),
            Some(Errno::NODEV | Errno::NXIO | Errno::NOMEDIUM | Errno::HOSTDOWN | Errno::SHUTDOWN)
        )
    };
    matches!(
        e.kind(),
        Kind::NotADirectory
            | Kind::StaleNetworkFileHandle
            | Kind::NotConnected
            | Kind::TimedOut
            | Kind::HostUnreachable
            | Kind::NetworkUnreachable
            | Kind::NetworkDown
            | Kind::ConnectionRefused
            | Kind::ConnectionReset
            | Kind::ConnectionAborted
    ) || is_gone()
}

/// Whether a file cannot be had by this process, whatever is in it: this user may not read it, or no more files can be opened now.
pub fn is_refused(e: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(e),
        Some(Errno::ACCESS | Errno::PERM | Errno::MFILE | Errno::NFILE | Errno::NOMEM)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_disk_did_tells_on_it() {
        let own =
            [Errno::IO, Errno::NODATA, Errno::REMOTEIO, Errno::ILSEQ, Errno::UCLEAN, Errno::BADMSG];
        for errno in own {
            assert!(is_of_disk(&errno.into()), "{errno:?}");
            assert!(!is_far(&errno.into()) && !is_refused(&errno.into()), "{errno:?}");
        }
        let of_place = [
            Errno::ROFS,
            Errno::ACCESS,
            Errno::PERM,
            Errno::NOSPC,
            Errno::DQUOT,
            Errno::FBIG,
            Errno::NOENT,
            Errno::NOTDIR,
            Errno::STALE,
            Errno::NOTCONN,
            Errno::TIMEDOUT,
            Errno::HOSTDOWN,
            Errno::NODEV,
            Errno::NXIO,
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
            Errno::BUSY,
        ];
        for errno in of_place {
            assert!(!is_of_disk(&errno.into()), "{errno:?}");
        }
        assert!(is_of_disk(&io::Error::other("it gives back other bytes than it took")));
    }
}
