//! `capstan restore`, `verify`, `drill` and `import`: from arguments to requests.

use std::ffi::OsString;

use capstan_address::SpoolPlan;
use capstan_cell::request::{
    DrillRequest, Pattern, RestoreRequest, RestoreTo, VerifyRequest, VersionName,
};
use capstan_cell::{Cell, RestoreTotals};
use capstan_format::entry::Kind;
use serde_json::{Map, json};

use crate::args::{DrillArgs, Global, ImportArgs, RestoreArgs, VerifyArgs};
use crate::exit::Failure;
use crate::look::as_of::as_of;
use crate::look::ls::{Lines, json_of, suffix};
use crate::output::progress::Console;
use crate::output::shown_path;
use crate::paths;
use crate::process::home;
use crate::text::count;
use crate::text::sizes::{bytes_text, grouped};
use crate::work::selection;
use crate::work::session::{self, Show};

/// Runs `restore`.
pub fn restore(global: &Global, args: &RestoreArgs) -> Result<u8, Failure> {
    let to = match (&args.into, &args.to_tar) {
        (Some(dir), _) => RestoreTo::Into(dir.clone()),
        (None, Some(file)) if file.as_os_str() == "-" => RestoreTo::Tar(None),
        (None, Some(file)) => RestoreTo::Tar(Some(file.clone())),
        (None, None) if args.in_place => RestoreTo::InPlace,
        (None, None) if args.list => RestoreTo::Into("/".into()),
        (None, None) => {
            return Err(Failure::bad_input(
                "it is not said where to restore to: --into DIR, --in-place or --to-tar FILE",
                "give one of them; --list shows what would come",
            ));
        }
    };
    let asked = Asked { global, args, select: RestoreSelect::of(args)?, to };
    if args.list {
        return list(&asked);
    }
    let to_stderr = matches!(asked.to, RestoreTo::Tar(None));
    let show = Show { method: "restore", json: args.json, to_stderr };
    if args.and.is_empty() {
        return session::run(global, &show, |cell, console, stop| {
            Ok(cell.restore(&asked.of(cell, &args.version)?, console, stop)?)
        });
    }
    session::run_all(global, &show, |cell, console, stop| {
        let all = asked.of_all(cell)?;
        let reports = cell.restore_together(&all, console, stop)?;
        Ok(reports.into_iter().map(|report| report.map_err(Failure::from)).collect())
    })
}

/// Paths and patterns that are asked for, those in files too.
struct RestoreSelect {
    paths: Vec<OsString>,
    exclude: Vec<Pattern>,
    include: Vec<Pattern>,
}

impl RestoreSelect {
    fn of(args: &RestoreArgs) -> Result<Self, Failure> {
        let select = &args.select;
        let mut paths = args.paths.clone();
        if let Some(file) = &select.files_from {
            paths.extend(selection::paths_in(file)?);
        }
        let exclude = selection::patterns(&select.exclude_from, &select.exclude)?;
        Ok(Self { paths, exclude, include: Pattern::typed(&select.include) })
    }
}

/// What is asked for, before it is known of which versions.
struct Asked<'a> {
    global: &'a Global,
    args: &'a RestoreArgs,
    select: RestoreSelect,
    to: RestoreTo,
}

impl Asked<'_> {
    /// The request for one object.
    fn of(&self, cell: &Cell, version: &VersionName) -> Result<RestoreRequest, Failure> {
        let args = self.args;
        let version = as_of(self.global, cell, version, args.as_of.as_ref())?;
        Ok(RestoreRequest {
            client: None,
            paths: paths::of_versions(cell, &[&version], &self.select.paths)?,
            version,
            exclude: self.select.exclude.clone(),
            include: self.select.include.clone(),
            to: self.to.clone(),
            strip: args.strip.into(),
            overwrite: args.overwrite.into(),
            dry_run: args.dry_run,
            numeric_ids: args.numeric_ids,
            spool: args.spool.clone().map(|dir| SpoolPlan { dir, size: args.spool_size }),
        })
    }

    /// The requests for all objects that are named.
    fn of_all(&self, cell: &Cell) -> Result<Vec<RestoreRequest>, Failure> {
        let versions = std::iter::once(&self.args.version).chain(&self.args.and);
        versions.map(|version| self.of(cell, version)).collect()
    }
}

/// Lists what a restore would bring.
fn list(asked: &Asked<'_>) -> Result<u8, Failure> {
    let console = Console::new(asked.global)?;
    let cell = home::open(asked.global)?;
    let json = asked.args.json;
    let mut lines = Lines::of_names(&cell, json, "files");
    let mut sum = RestoreTotals::default();
    let requests = asked.of_all(&cell)?;
    if let Err(e) = cell.refuse_meeting(&requests) {
        return lines.end(Map::new(), Some(e.into()));
    }
    for request in requests {
        let name = &request.version.name;
        let listed = cell.list_restore(&request, &console, &mut |listed, bytes| {
            if json {
                let mut object = json_of(listed);
                object.insert("name".to_owned(), name.as_str().into());
                object.insert("bytes".to_owned(), bytes.into());
                return lines.row(&object);
            }
            lines.put(|out, terminal| {
                let size = match listed.entry.kind {
                    Kind::Dir => String::new(),
                    _ => bytes.to_string(),
                };
                out.text(&format!("{size:>15}  "))?;
                out.bytes(&shown_path(&listed.entry.path(), terminal))?;
                out.text(&suffix(listed, false))?;
                out.text("\n")
            });
        });
        let totals = match listed {
            Ok(totals) => totals,
            Err(e) => return lines.end(Map::new(), Some(e.into())),
        };
        sum.files += totals.files;
        sum.dirs += totals.dirs;
        sum.bytes = sum.bytes.saturating_add(totals.bytes);
    }
    console.finish();
    let RestoreTotals { files, dirs, bytes } = sum;
    if !json {
        lines.put(|out, _| {
            let (size, files) = (bytes_text(bytes), count(files, "file"));
            let what = if dirs == 1 { "directory" } else { "directories" };
            out.text(&format!("{size:>15}  in {files} and {} {what} would come\n", grouped(dirs)))
        });
    }
    let total = json!({"files": files, "dirs": dirs, "bytes": bytes});
    lines.end([("total".to_owned(), total)].into_iter().collect(), None)
}

/// Runs `verify`.
pub fn verify(global: &Global, args: &VerifyArgs) -> Result<u8, Failure> {
    let request = match (&args.version, &args.medium) {
        (Some(version), _) => VerifyRequest::Version(version.clone()),
        // One of the two is required.
        (None, medium) => VerifyRequest::Medium(medium.clone().unwrap_or_default()),
    };
    let show = Show { method: "verify", json: args.json, to_stderr: false };
    session::run(global, &show, |cell, console, stop| Ok(cell.verify(&request, console, stop)?))
}

/// Runs `drill`.
pub fn drill(global: &Global, args: &DrillArgs) -> Result<u8, Failure> {
    let request = DrillRequest {
        version: args.version.clone(),
        sample: args.sample,
        scratch: Some(args.scratch.clone()),
    };
    let show = Show { method: "drill", json: args.json, to_stderr: false };
    session::run(global, &show, |cell, console, stop| Ok(cell.drill(&request, console, stop)?))
}

/// Runs `import`.
pub fn import(global: &Global, args: &ImportArgs) -> Result<u8, Failure> {
    let show = Show { method: "import", json: args.json, to_stderr: false };
    session::run(global, &show, |cell, console, stop| {
        Ok(cell.import(&args.device, console, stop)?)
    })
}
