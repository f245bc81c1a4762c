//! Errors on their way between two hosts, and what becomes of a call whose connection breaks.

use std::io::{Error, ErrorKind};

use capstan_engine::problem::{Explain, Problem};
use capstan_medium::DeviceError;
use capstan_medium::os_form;
use capstan_medium::tape::TapeError;
use capstan_port::media::read::error::ReadError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connection::Broken;

/// An error that crosses a connection and acts and reads as before.
pub trait Crosses: Sized {
    /// Its form in messages.
    type Form: Serialize + DeserializeOwned;
    /// As it is sent.
    fn into_form(self) -> Self::Form;
    /// As it came.
    fn of_form(form: Self::Form) -> Self;
    /// That the connection broke.
    fn lost(why: Problem) -> Self;
}

impl Crosses for DeviceError {
    type Form = Self;

    fn into_form(self) -> Self {
        self
    }

    fn of_form(form: Self) -> Self {
        form
    }

    fn lost(why: Problem) -> Self {
        Self::HostLost(why)
    }
}

impl Crosses for TapeError {
    type Form = Self;

    fn into_form(self) -> Self {
        self
    }

    fn of_form(form: Self) -> Self {
        form
    }

    fn lost(why: Problem) -> Self {
        Self::Unreachable(why)
    }
}

impl Crosses for Error {
    type Form = os_form::Form;

    fn into_form(self) -> Self::Form {
        os_form::Form(self)
    }

    fn of_form(form: Self::Form) -> Self {
        form.0
    }

    fn lost(why: Problem) -> Self {
        Self::new(ErrorKind::ConnectionAborted, why.to_string())
    }
}

impl Crosses for ReadError {
    type Form = Self;

    fn into_form(self) -> Self {
        self
    }

    fn of_form(form: Self) -> Self {
        form
    }

    fn lost(why: Problem) -> Self {
        DeviceError::HostLost(why).into()
    }
}

/// That a device host does not answer any more.
pub fn lost(why: &Broken) -> Problem {
    let sentence = format!("the connection to the device host broke: {}", why.sentence());
    Problem { sentence, hint: why.hint() }
}
