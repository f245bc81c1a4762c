//! What is attached to a medium that takes nothing but at its end, a tape: locks of versions, backups of internal databases.

use capstan_format::attachment::Attachment;
use capstan_format::id::SegmentNumber;

use crate::error::io_error;
use crate::storage::NewAttachment;
use crate::{DeviceError, OpenMedium};

impl OpenMedium {
    /// Whether it takes attachments. A directory has files for what they are. An array takes them whose members all do.
    pub fn takes_attachments(&self) -> bool {
        self.storage.takes_attachments()
    }

    /// What has that number, if it is an attachment and no segment.
    pub fn attachment(&self, number: SegmentNumber) -> Result<Option<Attachment>, DeviceError> {
        let found = self.storage.attachment(number);
        found.map_err(io_error("read", &self.name_of_attachment(number)))
    }

    /// The contents of an attachment, checked.
    pub fn read_attachment(&self, of: &Attachment) -> Result<Vec<u8>, DeviceError> {
        let read = self.storage.read_attachment(of);
        read.map_err(io_error("read", &self.name_of_attachment(of.number)))
    }

    /// Whether both of its records can be read; either is enough to have it. Of an array's, which has it on all members, it is not asked.
    pub fn has_both_records(&self, of: &Attachment) -> Result<bool, DeviceError> {
        let has = self.storage.has_both_records(of);
        has.map_err(io_error("read", &self.name_of_attachment(of.number)))
    }

    /// Writes an attachment behind all that the medium has. On return it is durable.
    pub fn attach(&self, new: &NewAttachment) -> Result<SegmentNumber, DeviceError> {
        self.storage.attach(new, SegmentNumber(1))
    }

    fn name_of_attachment(&self, number: SegmentNumber) -> String {
        format!("attachment {} of {}", number.0, self.path())
    }
}
