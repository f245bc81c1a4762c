//! The disk agent of a job: what it is told, what it is connected to, what it handed over.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::link::BlockPort;
use capstan_engine::message::Code;
use capstan_engine::meter::Meters;
use capstan_format::id::StreamId;
use capstan_format::keys::{KeyRecord, SessionKeys};
use capstan_format::record::{SessionLabel, StreamNames};
use capstan_port::disk::backup::{EachForeseen, ForeseeError, JobError, Ports, ReadyBackup};
use capstan_port::disk::base::{BaseFiles, BaseRows};
use capstan_stream::options::OptionsError;
use capstan_wire::backup::{BackupJob, JobSource, Streams};
use capstan_wire::compression::Compression;
use capstan_wire::keys::{JobKeys, SecretKey};

use crate::error::{BackupRefusal, CellError, Result};
use crate::kinds::backup::base::resume::Cursor;
use crate::kinds::backup::handed_over::HandedOver;
use crate::kinds::backup::job::Job;
use crate::observe::Stop;
use crate::request::Source;
use crate::{Cell, names};

impl Cell {
    /// The streams of a session, as many as are wanted.
    pub(crate) fn streams(
        &self,
        wanted: usize,
        names: StreamNames,
        label: &SessionLabel,
        keys: Option<&(SessionKeys, KeyRecord)>,
        crc: bool,
        compression: Compression,
    ) -> Result<Streams> {
        let new_id = |_| self.new_id().map(StreamId);
        let keys = keys.map(|(keys, record)| JobKeys {
            names: SecretKey(keys.names.clone()),
            contents: SecretKey(keys.contents.clone()),
            cipher: record.cipher(),
        });
        Ok(Streams {
            ids: (0..wanted).map(new_id).collect::<Result<_>>()?,
            label: label.clone(),
            names,
            keys,
            crc,
            compression,
        })
    }
}

impl Job<'_> {
    /// What its disk agent is told.
    pub fn order(&self, cell: &Cell, keys: Option<&(SessionKeys, KeyRecord)>) -> Result<BackupJob> {
        let Self { request, plan, .. } = self;
        let path = |name| names::input_path(name).map(str::to_owned);
        let source = match &request.source {
            Source::Paths(_) => JobSource::Trees(Box::new(plan.trees.clone())),
            Source::Stdin(name) => JobSource::Stdin { path: path(name)? },
            Source::Command(line, name) => {
                JobSource::Command { line: line.clone(), path: path(name)? }
            }
        };
        let names = StreamNames {
            name: plan.name.clone(),
            host: plan.client.host.to_string(),
            method: plan.method.clone(),
            tags: request.tags.clone(),
        };
        let (crc, compression) = (request.crc, plan.compression);
        let streams = cell.streams(plan.streams, names, &self.label, keys, crc, compression)?;
        Ok(BackupJob { source, builds_on: self.based_on, streams })
    }

    fn ports<'a>(&'a self, meters: Arc<Meters>, stop: &'a Stop) -> Ports<'a> {
        Ports {
            files: self.files.as_ref().map(|files| files as &dyn BaseFiles),
            meters,
            listener: &self.log,
            stop: &stop.0,
        }
    }

    /// Runs the disk agent.
    pub fn run(
        &self,
        blocks: Arc<dyn BlockPort + '_>,
        meters: &Arc<Meters>,
        stop: &Stop,
        mut cursor: Option<Cursor<'_>>,
        ready: Box<dyn ReadyBackup>,
    ) -> HandedOver {
        let base = cursor.as_mut().map(|rows| rows as &mut dyn BaseRows);
        let by_agent = ready.run(blocks, self.ports(meters.clone(), stop), base);
        let handed_over = HandedOver { by_agent, base_failed: None }.built_on(cursor.as_ref());
        // Of an input that is stopped it is said that it was.
        let failed = handed_over.by_agent.input_failed.as_ref().filter(|_| !stop.0.load(Relaxed));
        if let Some(why) = failed {
            self.log.say(Code::InputFailed, "disk agent", &self.plan.name, why.clone());
        }
        self.say_base_failed(&handed_over);
        handed_over
    }

    /// Has the disk agent say what it would do. Of an input it says nothing.
    pub fn foresee_by_agent(
        &self,
        stop: &Stop,
        mut cursor: Option<Cursor<'_>>,
        ready: Box<dyn ReadyBackup>,
        each: &mut EachForeseen<'_>,
    ) -> Result<HandedOver> {
        let base = cursor.as_mut().map(|rows| rows as &mut dyn BaseRows);
        let ports = self.ports(Arc::default(), stop);
        let by_agent = ready.foresee(ports, base, each)?;
        let handed_over = HandedOver { by_agent, base_failed: None }.built_on(cursor.as_ref());
        self.say_base_failed(&handed_over);
        Ok(handed_over)
    }

    /// Says that what it builds on could not be read to its end.
    fn say_base_failed(&self, of: &HandedOver) {
        if let Some(why) = &of.base_failed {
            let text = format!("what this backup builds on could not be read to its end: {why}");
            self.log.say(Code::BaseUnreadable, "cell", &self.plan.name, text);
        }
    }
}

impl From<JobError> for CellError {
    fn from(e: JobError) -> Self {
        match e {
            JobError::Key(e) => Self::NoKey(e),
            JobError::Lost(lost) => lost.into(),
            JobError::Pattern(e) => e.into(),
            JobError::Label(e) => BackupRefusal::LabelNotJson(e).into(),
        }
    }
}

impl From<ForeseeError> for CellError {
    fn from(e: ForeseeError) -> Self {
        match e {
            ForeseeError::NoThread(e) => Self::NoThread(e),
            ForeseeError::Lost(lost) => lost.into(),
        }
    }
}

impl From<OptionsError> for CellError {
    fn from(e: OptionsError) -> Self {
        match e {
            OptionsError::Key(e) => e.into(),
            e @ OptionsError::Label(_) => BackupRefusal::LabelNotJson(e.to_string()).into(),
        }
    }
}
