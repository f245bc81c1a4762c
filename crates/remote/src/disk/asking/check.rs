//! Comparisons and proofs: rows are sent as far as there is room for them, what was found comes back.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use capstan_engine::frames::FramePort;
use capstan_engine::message::Listener;
use capstan_port::disk::check::{CheckError, Inquiry, RowsBroken};
use capstan_wire::disk::ask::RowsEnd;
use capstan_wire::disk::said::CheckSaid;
use capstan_wire::disk::told::FromAgent;
use capstan_wire::rows;
use minicbor::{Decode, Encode};

use crate::connection::Broken;
use crate::disk::errors::{check, lost};
use crate::disk::frames::serve;
use crate::disk::post::{Item, Post};
use crate::disk::told::{OFTEN, message};

/// What a check is connected to.
pub(super) struct With<'a, 'f> {
    pub frames: Option<&'f mut dyn FramePort>,
    pub listener: Option<&'a dyn Listener>,
    pub stop: &'a AtomicBool,
}

/// Has a check made that was asked for.
pub(super) fn run<R: Encode<()>, F: for<'b> Decode<'b, ()>>(
    post: &Post,
    mut with: With<'_, '_>,
    inquiry: &mut dyn Inquiry<R, F>,
) -> Result<(), CheckError> {
    let (mut is_stopped, mut has_ended) = (false, false);
    loop {
        if !is_stopped && with.stop.load(Relaxed) {
            is_stopped = true;
            post.channel().stop().map_err(|why| lost(&why))?;
        }
        let item = post.next::<FromAgent<Result<(), CheckSaid>>>(OFTEN);
        let done = match item.map_err(|why| lost(&why))? {
            None => continue,
            Some(Item::Rows(found)) => rows::decode::<F>(&found)
                .map(|all| all.into_iter().for_each(|found| inquiry.found(found)))
                .map_err(Broken::from),
            Some(Item::Said(FromAgent::Done(done))) => return done.map_err(check),
            Some(Item::Said(FromAgent::More(n))) => {
                (0..n).try_for_each(|_| give(post, inquiry, &mut has_ended))
            }
            Some(Item::Said(FromAgent::Message(told))) => message(told).map(|message| {
                with.listener.into_iter().for_each(|of| of.message(message.clone()))
            }),
            Some(Item::Said(FromAgent::Frame { stream, at, .. })) => match &mut with.frames {
                Some(frames) => serve(post, &mut **frames, (stream, at)),
                None => Err(Broken::Message("frames are asked for where there are none".into())),
            },
            Some(Item::Said(_)) => Ok(()),
        };
        done.map_err(|why| lost(&why))?;
    }
}

/// Sends the next rows. None are the end.
fn give<R: Encode<()>, F>(
    post: &Post,
    inquiry: &mut dyn Inquiry<R, F>,
    has_ended: &mut bool,
) -> Result<(), Broken> {
    if *has_ended {
        return Ok(());
    }
    match inquiry.rows() {
        Ok(all) => {
            *has_ended = all.is_empty();
            post.send(&all)
        }
        Err(RowsBroken) => {
            *has_ended = true;
            post.tell(&RowsEnd::Broken)
        }
    }
}
