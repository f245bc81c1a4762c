//! What stands at a cell for a device that segments are written to, at its host.

use std::sync::Arc;

use capstan_format::id::SegmentNumber;
use capstan_medium::storage::Handle;
use capstan_medium::tape::{DriveSession, Speeds};
use capstan_medium::{Device, DeviceError, LostMember};
use serde::de::DeserializeOwned;

use crate::devices::far::{Far, Stand};
use crate::devices::message::{DeviceFound, Kind, OfDevice as Of, Question};

/// What stands for a device.
pub struct RemoteDevice {
    stand: Stand,
    found: DeviceFound,
}

impl RemoteDevice {
    /// For what was found.
    pub fn new(far: &Arc<Far>, found: DeviceFound) -> Self {
        Self { stand: Stand::new(far, Kind::Device, found.number), found }
    }

    fn call<T: DeserializeOwned>(&self, question: Of) -> Result<T, DeviceError> {
        self.stand.far.call(&Question::Device(self.stand.number, question))
    }

    /// Asks what cannot fail; where the connection broke, the next call that can says so.
    fn ask<T: DeserializeOwned>(&self, question: Of) -> Option<T> {
        self.stand.far.ask(&Question::Device(self.stand.number, question)).ok()
    }
}

impl Device for RemoteDevice {
    fn next_number(&self) -> SegmentNumber {
        self.ask(Of::NextNumber).unwrap_or(self.found.next_number)
    }

    fn advance(&mut self, to: SegmentNumber) {
        let _ = self.ask::<()>(Of::Advance(to));
    }

    fn can_leave_out_numbers(&self) -> bool {
        self.found.can_leave_out_numbers
    }

    fn begin_segment(&mut self) -> Result<SegmentNumber, DeviceError> {
        self.call(Of::BeginSegment)
    }

    fn write(&mut self, block: &[u8]) -> Result<(), DeviceError> {
        self.stand.far.send(&Question::Device(self.stand.number, Of::Write), block)
    }

    fn begin_catalog(&mut self) -> Result<(), DeviceError> {
        self.call(Of::BeginCatalog)
    }

    fn end_segment(&mut self) -> Result<(), DeviceError> {
        self.call(Of::EndSegment)
    }

    fn commit(&mut self) -> Result<(), DeviceError> {
        self.call(Of::Commit)
    }

    fn salvage(&mut self) -> Result<SegmentNumber, DeviceError> {
        self.call(Of::Salvage)
    }

    fn cut(&mut self, from: SegmentNumber) -> bool {
        self.ask(Of::Cut(from)).unwrap_or(false)
    }

    fn object_of(&self, segment: SegmentNumber) -> Option<u64> {
        self.ask::<Option<u64>>(Of::ObjectOf(segment)).flatten()
    }

    fn abandon_segment(&mut self) {
        let _ = self.ask::<()>(Of::AbandonSegment);
    }

    fn short_blocks(&self) -> bool {
        self.found.short_blocks
    }

    fn commits_each_segment(&self) -> bool {
        self.found.commits_each_segment
    }

    fn is_ending(&self) -> bool {
        self.ask(Of::IsEnding).unwrap_or(false)
    }

    fn segment_size(&self) -> Option<u64> {
        self.ask::<Option<u64>>(Of::SegmentSize).flatten()
    }

    fn take_lost(&mut self) -> Vec<LostMember> {
        self.ask(Of::TakeLost).unwrap_or_default()
    }

    fn take_lost_spool(&mut self) -> Option<String> {
        self.ask::<Option<String>>(Of::TakeLostSpool).flatten()
    }

    fn compresses(&mut self) -> bool {
        self.ask(Of::Compresses).unwrap_or(false)
    }

    fn set_compression(&mut self, on: bool) -> Result<(), DeviceError> {
        self.call(Of::SetCompression(on))
    }

    fn speeds(&self) -> Option<Speeds> {
        self.ask::<Option<Speeds>>(Of::Speeds).flatten()
    }

    fn drive_sessions(&mut self) -> Vec<DriveSession> {
        self.ask(Of::DriveSessions).unwrap_or_default()
    }

    fn handle(&self) -> Option<Handle> {
        Some(self.stand.handle())
    }

    fn is_instant(&self) -> bool {
        self.found.is_instant
    }
}
