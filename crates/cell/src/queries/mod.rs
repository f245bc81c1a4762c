//! Answers to questions: what is in versions, which sessions there were, and how it stands with each object.

pub(crate) mod diff;
pub(crate) mod export;
pub(crate) mod find;
pub(crate) mod leads;
pub(crate) mod object_detail;
pub(crate) mod other_names;
pub(crate) mod query;
pub(crate) mod states;
pub(crate) mod status;
pub(crate) mod versions;
