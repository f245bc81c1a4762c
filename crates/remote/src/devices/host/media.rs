//! Answers what is asked of media, of those that are written, and of devices.

use capstan_address::SpoolPlan;
use capstan_format::array::RebuiltMember;
use capstan_format::block::BLOCK_SIZE_MAX;
use capstan_format::id::MediumId;
use capstan_medium::host::{KnownMembers, OpenArray};

use super::opened::facts;
use super::storage::aligned;
use super::{Asks, no_device};
use crate::connection::Broken;
use crate::devices::message::{
    Asked, Dev, Judging, OfDevice, OfMedia as Of, OfMember, OfWritable, hear_bytes,
};

/// What the cell knows of members, asked while an array is opened.
pub(super) struct Known<'a>(pub &'a Asks<'a>);

impl KnownMembers for Known<'_> {
    fn rebuilt(&self, array: MediumId) -> Vec<RebuiltMember> {
        self.0.ask(Asked::Rebuilt(array)).unwrap_or_default()
    }

    fn unfit(&self, of: &dyn OpenArray) -> Vec<(usize, String)> {
        self.judged(of).unwrap_or_default()
    }
}

impl Known<'_> {
    fn judged(&self, of: &dyn OpenArray) -> Result<Vec<(usize, String)>, Broken> {
        let asks = self.0;
        asks.tell(Asked::Unfit(Box::new(facts(of))))?;
        loop {
            match asks.channel.hear::<Judging>()? {
                Judging::Is(unfit) => return Ok(unfit),
                Judging::Asks(place, question) => member(of, place, question, &mut Plain(asks))?,
            }
        }
    }
}

/// Takes what a member says.
pub(super) trait Said {
    fn problems(&mut self, problems: Vec<String>) -> Result<(), Broken>;
    fn segments(
        &mut self,
        found: Result<Vec<capstan_format::id::SegmentNumber>, capstan_medium::DeviceError>,
    ) -> Result<(), Broken>;
}

/// Says it within a question of the host.
struct Plain<'a>(&'a Asks<'a>);

impl Said for Plain<'_> {
    fn problems(&mut self, problems: Vec<String>) -> Result<(), Broken> {
        self.0.channel.tell(&problems)
    }

    fn segments(
        &mut self,
        found: Result<Vec<capstan_format::id::SegmentNumber>, capstan_medium::DeviceError>,
    ) -> Result<(), Broken> {
        self.0.channel.tell(&found)
    }
}

/// Asks a member of an array, by its place.
pub(super) fn member(
    of: &dyn OpenArray,
    place: usize,
    question: OfMember,
    said: &mut dyn Said,
) -> Result<(), Broken> {
    let members = of.members();
    let member = members.get(place).and_then(Option::as_ref);
    match (question, member) {
        (OfMember::Problems, member) => {
            said.problems(member.map(|member| member.problems()).unwrap_or_default())
        }
        (OfMember::Segments, Some(member)) => said.segments(member.segments()),
        (OfMember::Held, Some(member)) => said.segments(member.held()),
        (OfMember::Segments | OfMember::Held, None) => said.segments(Err(no_device())),
    }
}

impl Asks<'_> {
    pub(super) fn media(&self, of: Of) -> Result<(), Broken> {
        let (devices, things) = (&*self.side.devices, &self.side.things);
        match of {
            Of::Medium(address) => {
                self.came(devices.medium(&address.0).map(|medium| things.medium(medium)))
            }
            Of::Known(address, wanted) => {
                self.came(devices.known(&address.0, wanted).map(|medium| things.medium(medium)))
            }
            Of::MediumIn(drive) => self.is(&devices.medium_in(&drive.0)),
            Of::Held(address) => self.came(devices.held(&address.0).map(|held| things.held(held))),
            Of::IsBlank(address) => self.came(devices.is_blank(&address.0)),
            Of::HeaderOn(tape) => self.came(devices.header_on(&tape.0)),
            Of::Member(tape) => {
                self.came(devices.member(&tape.0).map(|medium| things.medium(medium)))
            }
            Of::Writable(address, block_size) => {
                let new = || self.ask_io(Asked::NewHeader);
                let opened = devices.writable(&address.0, &new, block_size, &Known(self));
                self.came(opened.map(|unjudged| things.writable(unjudged)))
            }
            Of::Null(address, block_size) => {
                let opened = devices.null(&address.0, block_size);
                self.came(opened.map(|device| things.device(device)))
            }
            Of::OpenKey(medium, key) => {
                devices.open_key(medium, key.0);
                self.is(&())
            }
            Of::HasKey(medium) => self.is(&devices.has_key(medium)),
            Of::ReadThrough(plan) => {
                let plan = plan.map(|(dir, size)| SpoolPlan { dir: dir.0, size });
                self.came(devices.read_through(plan))
            }
        }
    }

    pub(super) fn writable(&self, number: u64, of: OfWritable) -> Result<(), Broken> {
        let things = &self.side.things;
        let all = &things.writables;
        let last = || all.take_alone(number).ok_or_else(no_device);
        match of {
            OfWritable::CheckDrive => {
                self.came(all.with(number, |d| d.check_drive()).unwrap_or_else(|| Err(no_device())))
            }
            OfWritable::RefuseWorm => {
                self.came(all.with(number, |d| d.refuse_worm()).unwrap_or_else(|| Err(no_device())))
            }
            OfWritable::Address(named) => {
                let found = all.with(number, |device| device.address(&named.0));
                self.is(&Dev(found.unwrap_or(named.0)))
            }
            OfWritable::Placed(named) => {
                let found = all.with(number, |device| device.placed(&named.0));
                self.is(&found.unwrap_or_else(|| named.0.into()))
            }
            OfWritable::LostMembers => {
                self.is(&all.with(number, |device| device.lost_members()).unwrap_or_default())
            }
            OfWritable::Hold => {
                let held = all.with(number, |device| device.hold());
                let held = held.unwrap_or_else(|| Err(no_device()));
                self.came(held.map(|held| things.held(held)))
            }
            OfWritable::IntoDevice => {
                let device = last().and_then(|device| device.into_device());
                self.came(device.map(|device| things.device(device)))
            }
            OfWritable::ReplaceHeader(header) => {
                self.came(last().and_then(|device| device.replace_header(&header)))
            }
            OfWritable::Erase(secure) => self.came(last().and_then(|device| device.erase(secure))),
            OfWritable::BeginAnew(header) => {
                self.came(last().and_then(|device| device.begin_anew(&header)))
            }
        }
    }

    pub(super) fn device(&self, number: u64, of: OfDevice) -> Result<(), Broken> {
        let block = match of {
            OfDevice::Write => hear_bytes(self.channel, BLOCK_SIZE_MAX.into())?,
            _ => Vec::new(),
        };
        let device = self.side.things.devices.get(number);
        let mut device = device.as_ref().map(|device| device.lock());
        let Some(device) = device.as_mut().and_then(|device| device.as_mut()) else {
            // What cannot fail has no other way to say so.
            return self.came(Err::<(), _>(no_device()));
        };
        match of {
            OfDevice::NextNumber => self.is(&device.next_number()),
            OfDevice::Advance(to) => {
                device.advance(to);
                self.is(&())
            }
            OfDevice::BeginSegment => self.came(device.begin_segment()),
            OfDevice::Write => self.came(aligned(&block, |block| device.write(block))),
            OfDevice::BeginCatalog => self.came(device.begin_catalog()),
            OfDevice::EndSegment => self.came(device.end_segment()),
            OfDevice::Commit => self.came(device.commit()),
            OfDevice::Salvage => self.came(device.salvage()),
            OfDevice::Cut(from) => self.is(&device.cut(from)),
            OfDevice::ObjectOf(segment) => self.is(&device.object_of(segment)),
            OfDevice::AbandonSegment => {
                device.abandon_segment();
                self.is(&())
            }
            OfDevice::IsEnding => self.is(&device.is_ending()),
            OfDevice::SegmentSize => self.is(&device.segment_size()),
            OfDevice::TakeLost => self.is(&device.take_lost()),
            OfDevice::TakeLostSpool => self.is(&device.take_lost_spool()),
            OfDevice::Compresses => self.is(&device.compresses()),
            OfDevice::SetCompression(on) => self.came(device.set_compression(on)),
            OfDevice::Speeds => self.is(&device.speeds()),
            OfDevice::DriveSessions => self.is(&device.drive_sessions()),
        }
    }
}
