//! `capstan run`: all that a specification says, unattended.

mod letter;
mod requests;
mod unsaid;

use capstan_address::HostName;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use capstan_cell::enough_drives::refuse_too_few_drives;
use capstan_cell::observe::Stop;
use capstan_cell::prune::{Action, KeepRules, PruneRequest, Pruned};
use capstan_cell::report::Report;
use capstan_cell::request::BackupRequest;
use capstan_cell::{Cell, CellError, ObjectStatus};
use capstan_disk_agent::linux::command::wait_for_command;
use capstan_engine::clock;
use capstan_engine::message::shell_word;
use capstan_medium::WAYS_TO_ROOM;
use jiff::Timestamp;
use requests::Untold;
use serde::Serialize;

use crate::args::{BackupArgs, Destination, Global, RunArgs, StageArgs};
use crate::exit::{COMPLETED, COMPLETED_WITH_ERRORS, FAILED, Failure, one_line};
use crate::output::progress::Console;
use crate::output::report_text::View;
use crate::output::{Output, json_line};
use crate::process::home;
use crate::work::session::{failed, gravest, on_signals};
use crate::work::spec::{self, Spec};
use crate::work::{backup, mail, prune, stage, webhook};

/// How old a last complete version may be, where a letter says how it stands.
const DAY: Duration = Duration::from_secs(26 * 3600);

/// What a run came to; what a webhook gets.
#[derive(Debug, Serialize)]
pub struct RunReport {
    /// The specification's file.
    spec: String,
    host: HostName,
    /// As of a session: the gravest of all.
    status: &'static str,
    exit_code: u8,
    start: String,
    end: String,
    /// What failed beside the backups: commands, the webhook.
    errors: Vec<String>,
    /// The backups' reports, in order.
    sessions: Vec<Report>,
    /// What `capstan prune` did with the keep rules, where there are any.
    pruned: Option<serde_json::Value>,
    /// The report of what was staged, where anything is.
    staged: Option<Report>,
}

/// Runs the command.
pub fn run(global: &Global, args: &RunArgs) -> Result<u8, Failure> {
    let place = std::path::absolute(&args.spec).unwrap_or_else(|_| args.spec.clone());
    if args.failed {
        return unsaid::tell(global, &place);
    }
    let spec = match spec::read(&args.spec) {
        Ok(spec) => spec,
        Err(failure) if args.check => return Err(failure),
        Err(failure) => {
            unsaid::refused(global, &place, &failure);
            return Err(failure);
        }
    };
    if args.check {
        spec.objects.iter().try_for_each(|object| check_drives(global, object))?;
        check_stage(global, &spec)?;
        let mut out = Output::new();
        let n = spec.objects.len();
        let objects = if n == 1 { "object" } else { "objects" };
        out.text(&format!("{}: ok, {n} {objects}\n", spec.path.display()))?;
        return out.finish().map(|()| COMPLETED);
    }
    let (untold, host) = (Untold::default(), capstan_cell::system_host());
    let global = global.of_home(spec.home.clone(), requests::told(&spec, &host, &untold));
    let stop = Arc::new(Stop::default());
    on_signals(&stop, &Arc::new(Console::new(&global)?))?;
    let mut run = Run::of(&spec);
    if let Err(failure) = run.before(&spec, &global, args.json, &stop)
        && !failure.error.is_empty()
    {
        run.error(FAILED, global.named(failure).error);
    }
    let untold = std::mem::take(&mut *untold.lock());
    untold.into_iter().for_each(|why| run.error(COMPLETED_WITH_ERRORS, why));
    run.after(&spec, &stop);
    let report = run.finish();
    let report = tell(&global, &spec, report);
    record(&global, &place, &report);
    if args.json {
        let mut out = Output::new();
        out.text(&json_line(&report))?;
        out.finish()?;
    }
    Ok(report.exit_code)
}

/// Refuses an object whose tapes need more drives than their library has. Of a pool it is known when its media are looked at.
fn check_drives(global: &Global, object: &BackupArgs) -> Result<(), Failure> {
    let device = object.to.pool().is_none().then(|| object.to.device());
    refuse_too_few_drives(&global.devices, device.iter().chain(&object.mirror)).map_err(|e| {
        let failure = Failure::from(e);
        let name =
            object.name.clone().or_else(|| Some(object.paths.first()?.display().to_string()));
        let name = name.map_or_else(String::new, |name| format!("'{name}': "));
        Failure { error: format!("{name}{}", failure.error), ..failure }
    })
}

/// Refuses to stage to rotation sets. Where there is no home yet, it is known when something is staged.
fn check_stage(global: &Global, spec: &Spec) -> Result<(), Failure> {
    let Some(args) = &spec.stage else { return Ok(()) };
    let global = global.of_home(spec.home.clone(), None);
    let Ok(Some(cell)) = home::open_to_share(&global) else { return Ok(()) };
    let refused = cell.refuse_sets(args.to.pool().as_deref(), &args.to.device(), "staged");
    refused.map_err(|e| {
        let failure = Failure::from(e);
        Failure { error: format!("[stage]: {}", failure.error), ..failure }
    })
}

/// A run as far as it has come.
struct Run {
    start: Timestamp,
    /// The same by the cell's clock: its backups are of one night.
    run_us: i64,
    report: RunReport,
    /// What the keep rules did so far.
    pruned: Option<Pruned>,
}

impl Run {
    fn of(spec: &Spec) -> Self {
        let start = Timestamp::now();
        let report = RunReport {
            spec: spec.path.display().to_string(),
            host: capstan_cell::system_host(),
            status: "completed",
            exit_code: COMPLETED,
            start: format!("{start:.3}"),
            end: String::new(),
            errors: Vec::new(),
            sessions: Vec::new(),
            pruned: None,
            staged: None,
        };
        Self { start, run_us: clock::now_us(), report, pruned: None }
    }

    /// The commands before, and the backups.
    fn before(
        &mut self,
        spec: &Spec,
        global: &Global,
        json: bool,
        stop: &Stop,
    ) -> Result<(), Failure> {
        for line in &spec.pre {
            if let Err(why) = shell(line, spec, &[], stop) {
                let why = format!("nothing was backed up: {why}");
                self.none_begun(spec, global, &why);
                self.error(FAILED, why);
                return Ok(());
            }
        }
        let secrets = home::secrets()?;
        let secrets = match &spec.key_file {
            Some(file) if std::env::var_os("CAPSTAN_KEY_FILE").is_none() => {
                secrets.with_key_file(file)
            }
            _ => secrets,
        };
        let home = home::home(global)?;
        let cell = home::open_at(global, &home, secrets)?;
        self.report.host = cell.host().to_owned();
        // Where the database is what fails, the backups say so.
        let _ = cell.record_run_begun(&self.report.spec);
        let all: Vec<_> = spec.objects.iter().map(|args| (args, false)).collect();
        let groups = together(&all, spec.together, self.run_us);
        let mut without_room = self.back_up_all(&cell, global, groups, json, stop)?;
        if let Some(rules) = &spec.keep {
            // What of earlier runs did not complete is not worth more than the next backup.
            let unended = (!without_room.is_empty()).then(|| self.start.as_microsecond());
            let pruned = self.prune(&cell, global, (rules, unended), json, stop);
            let gave_back = pruned.unwrap_or_else(|failure| {
                let why = format!("nothing was pruned: {}", global.named(failure).error);
                self.error(COMPLETED_WITH_ERRORS, why);
                false
            });
            if gave_back && !stop.0.load(Ordering::SeqCst) {
                let again: Vec<_> = without_room.iter().map(|of| (of.args, of.begun)).collect();
                let groups = together(&again, spec.together, self.run_us);
                without_room.iter().for_each(WithoutRoom::say_again);
                let before = self.report.sessions.len();
                without_room = self.back_up_all(&cell, global, groups, json, stop)?;
                let mut since = self.report.sessions.iter().skip(before);
                let is_newer = since.any(|r| r.exit_code() != FAILED);
                // The rules count what there is now, too.
                if is_newer
                    && !stop.0.load(Ordering::SeqCst)
                    && let Err(failure) = self.prune(&cell, global, (rules, None), json, stop)
                {
                    let why =
                        format!("nothing was pruned once more: {}", global.named(failure).error);
                    self.error(COMPLETED_WITH_ERRORS, why);
                }
            } else {
                without_room.iter().for_each(|of| self.error(of.code, of.text()));
            }
        }
        without_room.iter().for_each(|of| self.worse(of.code));
        if let Some(args) = &spec.stage
            && !stop.0.load(Ordering::SeqCst)
            && let Err(failure) = self.stage(&cell, global, args, json, stop)
        {
            let why = format!("nothing was staged: {}", global.named(failure).error);
            self.error(COMPLETED_WITH_ERRORS, why);
        }
        Ok(())
    }

    /// Says of each object that it was not backed up, and puts it on record, so that `status` knows of it.
    fn none_begun(&mut self, spec: &Spec, global: &Global, why: &str) {
        let cell = home::open(global).ok();
        let again = format!(
            "mend what the command says, and then `capstan run {}`",
            shell_word(spec.path.display().to_string())
        );
        let failure = Failure::of(FAILED, why, Some(&again));
        for args in &spec.objects {
            let mut report =
                failed(&global.devices, &self.report.host, "backup", self.start, &failure);
            report.name = args.name.clone().unwrap_or_default();
            // Where the database is what is away, the report says it alone.
            if let Some(cell) = &cell {
                let bare = backup::bare(args);
                let _ = cell.record_unbegun(&bare, true, failure.code, &mut report);
            }
            self.report.sessions.push(report);
        }
    }

    /// Puts on record that objects were not begun, as the run was stopped.
    fn stopped_before(&self, cell: &Cell, groups: &[Vec<Object<'_>>]) {
        let failure = Failure::of(FAILED, "the run was stopped before it was backed up", None);
        for (args, _) in groups.iter().flatten() {
            let mut report = failed(&**cell.devices(), cell.host(), "backup", self.start, &failure);
            // Where the database is what fails, the report says so.
            let _ = cell.record_unbegun(&backup::bare(args), true, failure.code, &mut report);
        }
    }

    /// Backs up groups. Those that had no room are given back: their codes do not count yet.
    fn back_up_all<'a>(
        &mut self,
        cell: &Cell,
        global: &Global,
        groups: Vec<Vec<Object<'a>>>,
        json: bool,
        stop: &Stop,
    ) -> Result<Vec<WithoutRoom<'a>>, Failure> {
        let mut without_room = Vec::new();
        let mut groups = groups.into_iter();
        while let Some(objects) = groups.next() {
            if stop.0.load(Ordering::SeqCst) {
                self.error(FAILED, "stopped before all was backed up".to_owned());
                let left: Vec<_> = std::iter::once(objects).chain(groups).collect();
                self.stopped_before(cell, &left);
                break;
            }
            let args: Vec<_> = objects.iter().map(|(args, _)| *args).collect();
            let reports = back_up(cell, global, objects, stop)?;
            // Other sessions may want them more than what comes next.
            cell.devices().release_idle();
            for (args, report) in args.into_iter().zip(reports) {
                show(&report, json || global.quiet)?;
                let (name, code) = (report.name.clone(), report.exit_code());
                let begun = !report.media.is_empty();
                match report.device_full {
                    true => without_room.push(WithoutRoom { args, name, code, begun }),
                    false => self.worse(code),
                }
                self.report.sessions.push(report);
            }
        }
        Ok(without_room)
    }

    /// Stages, also where a backup failed: what lies on disk longer than it should has its own schedule.
    fn stage(
        &mut self,
        cell: &Cell,
        global: &Global,
        args: &StageArgs,
        json: bool,
        stop: &Stop,
    ) -> Result<(), Failure> {
        let console = Console::new(global)?;
        let result = stage::request(args, cell)
            .and_then(|request| Ok(cell.stage(&request, &console, stop)?));
        console.finish();
        let report = result?;
        show(&report, json || global.quiet)?;
        self.worse(report.exit_code());
        self.report.staged = Some(report);
        Ok(())
    }

    /// Applies the keep rules to the objects that were backed up now: of one whose backup failed nothing goes, unless it failed
    /// for want of the room that they give back. Backups that were begun before a time, in microseconds since 1970, and did not
    /// complete go too, where one is given. Returns whether anything was given back.
    fn prune(
        &mut self,
        cell: &Cell,
        global: &Global,
        (rules, unended_before_us): (&KeepRules, Option<i64>),
        json: bool,
        stop: &Stop,
    ) -> Result<bool, Failure> {
        let done = |r: &&Report| r.exit_code() != FAILED || r.device_full && !r.name.is_empty();
        let names = self.report.sessions.iter().filter(done).map(|r| r.name.clone());
        // Another host's object of that name has rules of its own.
        let host = &self.report.host;
        let is_known = |name: &String| cell.is_known(name, host).unwrap_or(false);
        let names: Vec<_> = names.filter(is_known).collect();
        if names.is_empty() {
            return Ok(false);
        }
        let host = Some(host.clone());
        let rules = rules.clone();
        let request = PruneRequest {
            names,
            host,
            rules,
            unended_before_us,
            clocks_said: true,
            ..PruneRequest::default()
        };
        let console = Console::new(global)?;
        let pruned = cell.prune(&request, &console, stop)?;
        console.finish();
        if !json && !global.quiet {
            let mut out = Output::new();
            out.text(&prune::text_of(&pruned))?;
            out.finish()?;
        }
        self.worse(prune::exit_code(&pruned));
        // A tape that holds nothing more that must stay is had again as a whole.
        let gave_back = pruned.freed_bytes > 0 || pruned.count(Action::Remove) > 0;
        let pruned = match self.pruned.take() {
            Some(before) => before.and(pruned),
            None => pruned,
        };
        self.report.pruned = Some(prune::json_of(&pruned));
        self.pruned = Some(pruned);
        Ok(gave_back)
    }

    /// The commands after: all of them, whatever happened. In a run that was stopped they clear up, and are let do it.
    fn after(&mut self, spec: &Spec, stop: &Stop) {
        let stopped = stop.0.load(Ordering::SeqCst);
        let stop = if stopped { &Stop::default() } else { stop };
        let ids: Vec<&str> = self.report.sessions.iter().map(|r| r.session.as_str()).collect();
        let ids = ids.into_iter().filter(|id| !id.is_empty()).collect::<Vec<_>>().join(" ");
        let code = self.report.exit_code.to_string();
        let env = [
            ("CAPSTAN_STATUS", self.report.status.to_owned()),
            ("CAPSTAN_EXIT_CODE", code),
            ("CAPSTAN_SESSIONS", ids),
        ];
        for line in &spec.post {
            if let Err(why) = shell(line, spec, &env, stop) {
                self.error(COMPLETED_WITH_ERRORS, why);
            }
        }
    }

    fn finish(mut self) -> RunReport {
        let end = Timestamp::now().max(self.start);
        self.report.end = format!("{end:.3}");
        self.report
    }

    fn error(&mut self, code: u8, why: String) {
        say(&format!("error: {why}"));
        self.report.errors.push(why);
        self.worse(code);
    }

    fn worse(&mut self, code: u8) {
        self.report.worse(code);
    }
}

/// A backup that had no room.
struct WithoutRoom<'a> {
    args: &'a BackupArgs,
    name: String,
    code: u8,
    /// Whether it began, so that another session goes on with it.
    begun: bool,
}

impl WithoutRoom<'_> {
    /// That it is tried again.
    fn say_again(&self) {
        say(&format!(
            "'{}' had no room, and is backed up again: the keep rules gave some back",
            self.name
        ));
    }

    /// Why it is not tried again, and what to do.
    fn text(&self) -> String {
        if let Destination::Pool(pool) = &self.args.to {
            return format!(
                "'{}' was not backed up, as pool '{pool}' has no medium for it, and the keep rules freed none; `capstan pool show {}` \
                 says what its media hold, and what it lacks",
                self.name,
                shell_word(pool)
            );
        }
        format!(
            "'{}' was not backed up, as there is no room, and the keep rules gave nothing back; keep fewer versions, or \
             {WAYS_TO_ROOM}",
            self.name
        )
    }
}

impl RunReport {
    /// Takes a further code into account: failed is worse than completed with errors.
    fn worse(&mut self, code: u8) {
        (self.exit_code, self.status) = match gravest(self.exit_code, code) {
            COMPLETED => (COMPLETED, "completed"),
            COMPLETED_WITH_ERRORS => (COMPLETED_WITH_ERRORS, "completed_with_errors"),
            _ => (FAILED, "failed"),
        };
    }
}

/// Prints a session's report, unless it is left out: as the run's own is printed as JSON, or only errors are.
fn show(report: &Report, left_out: bool) -> Result<(), Failure> {
    if left_out {
        return Ok(());
    }
    let mut out = Output::new();
    out.text(&View::of(report)?.text(false))?;
    out.text("\n")?;
    out.finish()
}

/// An object of the specification, with what is asked for, or why that cannot be.
type Object<'a> = (&'a BackupArgs, Result<BackupRequest, Failure>);

/// The objects in their order, those together that go to the same media, at most so many. With each comes whether it goes on with
/// what was begun.
fn together<'a>(
    objects: &[(&'a BackupArgs, bool)],
    most: usize,
    run_us: i64,
) -> Vec<Vec<Object<'a>>> {
    let mut groups: Vec<Vec<Object<'a>>> = Vec::new();
    for (args, resume) in objects.iter().copied() {
        let request = backup::request(args);
        let request = request.map(|r| BackupRequest { resume: r.resume || resume, run_us, ..r });
        let has_room = |group: &&mut Vec<Object<'_>>| {
            let first = group.first().map(|(_, first)| first);
            group.len() < most
                && matches!((first, &request), (Some(Ok(a)), Ok(b)) if a.goes_with(b))
        };
        match groups.iter_mut().find(has_room) {
            Some(group) => group.push((args, request)),
            None => groups.push(vec![(args, request)]),
        }
    }
    groups
}

/// Backups of a group; what cannot begin has a report too.
fn back_up(
    cell: &Cell,
    global: &Global,
    objects: Vec<Object<'_>>,
    stop: &Stop,
) -> Result<Vec<Report>, Failure> {
    let start = Timestamp::now();
    let console = Console::new(global)?;
    let requests: Vec<BackupRequest> =
        objects.iter().filter_map(|(_, request)| request.as_ref().ok().cloned()).collect();
    let refused = |e: CellError| (e.is_of_room(), global.named(e.into()));
    let mut results = match cell.backup_together(&requests, &console, stop) {
        Ok(results) => results.into_iter().map(|r| r.map_err(refused)).collect(),
        Err(e) => {
            let refused = refused(e);
            requests.iter().map(|_| Err(refused.clone())).collect::<Vec<_>>()
        }
    }
    .into_iter();
    console.finish();
    let report = |(args, request): Object<'_>| {
        let result = match &request {
            Ok(_) => results.next().unwrap_or_else(|| {
                Err((false, Failure::bad_input("it was not begun", "run it again")))
            }),
            Err(failure) => Err((false, failure.clone())),
        };
        result.unwrap_or_else(|(device_full, failure)| {
            failure.say();
            let mut report = failed(&**cell.devices(), cell.host(), "backup", start, &failure);
            report.name = args.name.clone().unwrap_or_default();
            report.device_full = device_full;
            // On record, so that `status` knows of it; where the database is what fails, the report says so.
            let _ = cell.record_unbegun(&backup::bare(args), true, failure.code, &mut report);
            report
        })
    };
    Ok(objects.into_iter().map(report).collect())
}

/// Tells the webhook, and then people by mail; that somebody could not be told is in the report that is printed.
fn tell(global: &Global, spec: &Spec, mut report: RunReport) -> RunReport {
    let untold = |report: &mut RunReport, why: String| {
        say(&format!("error: {why}"));
        report.errors.push(why);
        report.worse(COMPLETED_WITH_ERRORS);
    };
    if let Some(hook) = &spec.webhook
        && let Err(why) = webhook::post(hook, &json_line(&report))
    {
        let why = format!("the webhook {} did not take the report: {why}", hook.url);
        untold(&mut report, why);
    }
    if let Some(notify) = &spec.notify
        && (notify.always || report.exit_code != COMPLETED)
    {
        let letter = letter::of(&report, &stands(global, spec));
        if let Err(why) = mail::send(notify, &letter) {
            untold(&mut report, format!("the report was not sent by mail: {why}"));
        }
    }
    report
}

/// How it stands with the objects; nothing where the database is away.
fn stands(global: &Global, spec: &Spec) -> Vec<ObjectStatus> {
    let names: Vec<String> = spec.objects.iter().filter_map(|args| args.name.clone()).collect();
    let Ok(cell) = home::open(global) else { return Vec::new() };
    let is_of_it = |o: &ObjectStatus| o.host == cell.host() && names.contains(&o.name);
    cell.status(&[], DAY).unwrap_or_default().into_iter().filter(is_of_it).collect()
}

/// Puts on record what went wrong with a run beside its backups, which have sessions of their own, or that nothing did.
fn record(global: &Global, spec: &Path, report: &RunReport) {
    let Ok(cell) = home::open(global) else { return };
    let spec = spec.display().to_string();
    // Where the database is what fails, the report says so.
    let _ = cell.record_run_ended(&spec);
    let _ = match report.errors.is_empty() {
        true => cell.record_run_well(&spec),
        false => cell.record_run_refused(&spec, report.exit_code, &report.errors.join("; ")),
    };
}

/// Runs a command of the specification; its output goes to standard error, as standard output has reports. One that is at work when
/// the run is to end is told to end, with all that it started.
fn shell(line: &str, spec: &Spec, env: &[(&str, String)], stop: &Stop) -> Result<(), String> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line).stdin(Stdio::null());
    command.stdout(std::io::stderr()).env("CAPSTAN_SPEC", &spec.path);
    command.envs(env.iter().map(|(name, value)| (name, value)));
    match command.spawn().and_then(|mut child| wait_for_command(&mut child, &stop.0)) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the command '{line}' failed: {status}")),
        Err(e) => Err(format!("the command '{line}' could not be started: {e}")),
    }
}

fn say(text: &str) {
    // Where nobody reads it, the report and the exit code remain.
    let _ = writeln!(std::io::stderr().lock(), "capstan: {}", one_line(text));
}
