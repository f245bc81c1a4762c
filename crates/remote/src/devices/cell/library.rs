//! What stands at a cell for a library that was opened at its host.

use std::sync::Arc;

use capstan_medium::tape::{DriveInfo, Elements, Held, Place, TapeError, TapeLibrary};
use serde::de::DeserializeOwned;

use crate::devices::far::{Far, Stand};
use crate::devices::message::{Kind, LibraryFound, OfLibrary as Of, Question};

/// What stands for a library.
pub struct RemoteLibrary {
    stand: Stand,
    name: String,
    robot: String,
    elements: Elements,
}

impl RemoteLibrary {
    /// For what was found.
    pub fn new(far: &Arc<Far>, found: LibraryFound) -> Self {
        let LibraryFound { number, name, robot, elements } = found;
        Self { stand: Stand::new(far, Kind::Library, number), name, robot, elements }
    }

    fn of(&self, question: Of) -> Question {
        Question::Library(self.stand.number, question)
    }

    fn call<T: DeserializeOwned>(&self, question: Of) -> Result<T, TapeError> {
        self.stand.far.call(&self.of(question))
    }
}

impl TapeLibrary for RemoteLibrary {
    fn name(&self) -> &str {
        &self.name
    }

    fn robot(&self) -> String {
        self.robot.clone()
    }

    fn elements(&self) -> Elements {
        self.elements
    }

    fn inventory(&mut self) -> Result<Vec<Held>, TapeError> {
        self.call(Of::Inventory)
    }

    fn rescan(&mut self) -> Result<(), TapeError> {
        self.call(Of::Rescan)
    }

    fn unload_drive(&mut self, number: u32) -> Result<(), TapeError> {
        self.call(Of::UnloadDrive(number))
    }

    fn move_tape(&mut self, from: Place, to: Place) -> Result<(), TapeError> {
        self.call(Of::MoveTape(from, to))
    }

    fn drive_info(&mut self, number: u32) -> Result<DriveInfo, TapeError> {
        self.call(Of::DriveInfo(number))
    }

    fn cleanings_left(&mut self, barcode: &str) -> Option<u32> {
        let question = self.of(Of::CleaningsLeft(barcode.to_owned()));
        self.stand.far.ask::<Option<u32>>(&question).ok().flatten()
    }

    fn clean(&mut self, drive: u32, tape_at: Place) -> Result<Option<u32>, TapeError> {
        self.call(Of::Clean(drive, tape_at))
    }
}
