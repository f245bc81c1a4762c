//! Where copies are staged to.

use capstan_port::media::write::members::Member;

use super::source::Sources;
use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{CellError, Result, StageRefusal};
use crate::media::exchanged::Looked;
use crate::request::StageRequest;
use crate::supply::Wanted;
use crate::supply::pools::queue::Queue;
use crate::supply::tapes::by_hand::Choice;
use crate::supply::unfit::{IS_COPIED, PassedOver, why_next};

impl Cell {
    /// Opens the medium that is written to, none of those that were `passed` over.
    pub(super) fn stage_member(
        &self,
        request: &StageRequest,
        by_drive: ByDrive,
        passed: &[PassedOver],
        sources: &Sources,
    ) -> Result<Member> {
        let mut passed = passed.to_vec();
        passed.extend(sources.ids().into_iter().map(|id| (id, IS_COPIED.into())));
        let (block_size, new_medium) = (request.block_size, request.new_medium);
        let wanted = Wanted { block_size, by_drive, new_medium, as_it_is: false };
        let (mut queue, mut looked) = (Queue::begin(&self.devices), Looked::default());
        let member = loop {
            let (mut chosen, mut at) = (None, String::new());
            let address = match &request.pool {
                Some(pool) => {
                    let turn = request.turn;
                    let medium =
                        self.allocate_or_wait(pool, turn, by_drive, &mut passed, &mut queue, 1)?;
                    (chosen, at) = (Some(medium.id), medium.device.to_string());
                    medium.device.clone()
                }
                None => request.device.clone(),
            };
            if (address.as_store().is_some() || address.as_array().is_some())
                && let Ok(there) = self.devices.medium(&address)
                && sources.has(there.header().medium)
            {
                return Err(StageRefusal::SourceIsTarget { device: address }.into());
            }
            let choice = Choice { pool: request.pool.clone(), passed: passed.clone(), asks: false };
            match self.open_chosen(&address, &wanted, &choice) {
                Err(e)
                    if e.is_out_of_reach()
                        && let Some(id) = chosen =>
                {
                    queue.pass(id, e, &mut passed)?;
                }
                // It is chosen once more, where it is.
                Err(CellError::Exchanged(_)) if chosen.is_some_and(|id| looked.is_new(id, &at)) => {
                }
                Err(e)
                    if let Some(id) = chosen
                        && let Some(why) = why_next(&e) =>
                {
                    self.note_passed_over(&address.to_string(), Some(id), &e);
                    passed.push((id, why.into()));
                }
                other => break other?,
            }
        };
        let id = member.medium.medium;
        if self.idb.management(id)?.damaged_us.is_some() {
            return Err(StageRefusal::TargetDamaged { label: member.medium.label.clone() }.into());
        }
        Ok(member)
    }
}
