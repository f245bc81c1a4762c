//! An archive at the disk agent.

use capstan_engine::meter::Meters;
use capstan_engine::threads::start_in;
use capstan_port::disk::DiskAgent;
use capstan_port::disk::archive::{ArchiveFailed, ArchiveRun, GoesOn, Member, OpenArchive};
use capstan_port::disk::contents::Piece;
use capstan_port::disk::restore::RestoreWith;
use capstan_wire::disk::ask::{ArchiveAsk, RestoreBegin};
use capstan_wire::disk::told::{ArchiveAnswer, FromAgent};
use capstan_wire::restore::ArchiveSpec;
use capstan_wire::rows;

use super::teller::{Of, Teller};
use crate::connection::{Broken, Channel};
use crate::disk::errors::archive_said;
use crate::disk::frames::FramesThere;
use crate::disk::post::{Item, Post};
use crate::disk::told::Passing;

/// Opens an archive, and writes it.
pub(super) fn run(
    agent: &dyn DiskAgent,
    channel: Channel,
    spec: &ArchiveSpec,
) -> Result<(), Broken> {
    let post = Post::of(channel)?;
    let (meters, listener) = (Meters::default(), Passing(&post));
    let stop = post.channel().stop_flag();
    let archive = match agent.open_archive(spec, &stop) {
        Ok(archive) => archive,
        Err(e) => return post.tell(&Err::<(), _>(archive_said(e))),
    };
    post.tell(&Ok::<(), ()>(()))?;
    let ArchiveAsk::Begin(begin) = post.hear()? else { return Err(senseless()) };
    let counting = archive.counting();
    let counts = || counting.counts();
    let teller = Teller::new(agent, &post, &meters, Of::Restore(&counts));
    std::thread::scope(|scope| {
        let ending = teller.ending();
        start_in(scope, "telling", || teller.run(&mut || Ok(())))?;
        let RestoreBegin { keys, has_links, has_flags, .. } = begin;
        let with = RestoreWith {
            listener: &listener,
            meters: &meters,
            stop: &stop,
            keys,
            has_links,
            has_flags,
        };
        let done = write(archive, &post, with)?;
        drop(ending);
        teller.tell()?;
        let done = done.map_err(|ArchiveFailed(why)| why.into());
        post.tell(&FromAgent::Done(ArchiveAnswer::Ended(done)))
    })
}

fn senseless() -> Broken {
    Broken::Message("an archive was told what has no sense now".to_owned())
}

/// Writes it; what it came to.
fn write<'a>(
    archive: Box<dyn OpenArchive<'a> + 'a>,
    post: &'a Post,
    with: RestoreWith<'a>,
) -> Result<Result<(), ArchiveFailed>, Broken> {
    let frames = Box::new(FramesThere { post, anywhere: true });
    let mut run = match archive.begin(with, frames) {
        Ok(run) => run,
        Err(e) => return Ok(Err(e)),
    };
    post.tell(&FromAgent::Done(ArchiveAnswer::Begun(run.room())))?;
    let mut has_stopped = false;
    loop {
        let taken = match post.wait::<ArchiveAsk>()? {
            // What was under way when it was ended is not written.
            Item::Rows(_) if has_stopped => Ok(GoesOn::No),
            Item::Rows(message) => add(&mut *run, rows::decode(&message)?),
            Item::Said(ArchiveAsk::Hold) => {
                run.hold(&post.rows::<Piece>()?);
                Ok(GoesOn::Yes)
            }
            Item::Said(ArchiveAsk::End { is_cut }) => return Ok(run.end(is_cut)),
            Item::Said(ArchiveAsk::Begin(_)) => return Err(senseless()),
        };
        match taken {
            Ok(goes_on) => {
                let goes_on = goes_on == GoesOn::Yes;
                has_stopped |= !goes_on;
                post.tell(&FromAgent::Done(ArchiveAnswer::Taken(goes_on)))?;
            }
            Err(why) => return Ok(Err(why)),
        }
    }
}

/// Adds members, as long as it goes on.
fn add(run: &mut dyn ArchiveRun, members: Vec<Member>) -> Result<GoesOn, ArchiveFailed> {
    for member in members {
        if run.add(member)? == GoesOn::No {
            return Ok(GoesOn::No);
        }
    }
    Ok(GoesOn::Yes)
}
