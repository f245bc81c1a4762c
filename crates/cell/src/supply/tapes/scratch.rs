//! Blank tapes of libraries: what a pool takes that may, and many made media at once.

use capstan_address::{Address, LibraryName, TapeAddress};
use capstan_engine::problem::Problem;
use capstan_idb::{Medium, Pool, RotationSet};
use globset::GlobBuilder;

use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{CellError, PoolRefusal, Result, SupplyRefusal, chain};
use crate::media::MediumInfo;
use crate::media::libraries::libraries_of;
use crate::supply::init::Initialise;
use crate::supply::labels::rule::LabelRule;
use crate::supply::tapes::Candidate;
use crate::supply::unfit::Unfit;

/// What becomes of a tape, of many that are to be made media.
#[derive(Debug)]
pub enum Made {
    /// It is a medium now.
    Medium(Box<MediumInfo>),
    /// It would be one, with that label.
    Would(String),
    /// It is a medium of that label already, and stays so.
    Is(String),
    /// It cannot be one.
    Failed(String),
}

/// How several media are made.
struct Making<'a> {
    wanted: &'a Initialise,
    dry_run: bool,
    /// The labels that were given so far.
    given: Vec<String>,
    /// Whether drives and tapes that others have are waited for.
    is_patient: bool,
}

impl Cell {
    /// A blank tape that becomes a medium of a pool which takes such; or why there is none. Where it is `only_asked` for, it stays
    /// blank, and nothing is loaded; as many others come before it as are given.
    pub(crate) fn take_scratch(
        &self,
        pool: &Pool,
        set: Option<RotationSet>,
        by_drive: ByDrive,
        only_ask: Option<usize>,
    ) -> Result<Medium> {
        let mut before = only_ask.unwrap_or(0);
        let mut unfit = Unfit::default();
        let libraries = self.libraries_of_pool(pool)?;
        for library in &libraries {
            let candidates = match self.tapes_in_order(library, by_drive) {
                Ok(candidates) => candidates,
                // Another library may be at hand.
                Err(e) => {
                    let name = library.library.to_string();
                    unfit.say(&name, format!("is not to be had: {}", chain(&e)));
                    continue;
                }
            };
            for Candidate { barcode, known, why_not, is_seen } in candidates {
                if known.is_some() {
                    continue;
                }
                if let Some(why) = why_not {
                    match is_seen {
                        true => unfit.say_seen(&barcode, why, &library.library),
                        false => unfit.say(&barcode, why),
                    }
                    continue;
                }
                let tape = library.with_tape(&barcode);
                let address = Address::from(tape.clone());
                if before > 0 {
                    before -= 1;
                    unfit.say(&barcode, "is written before it".to_owned());
                    continue;
                }
                if only_ask.is_some() {
                    let (id, label) =
                        (self.new_medium(&barcode, crate::media::BLOCK_SIZE), barcode);
                    let id = id.map_err(CellError::io("read", "/dev/urandom"))?.medium;
                    return Ok(Medium {
                        id,
                        label,
                        device: address.clone(),
                        block_size: crate::media::BLOCK_SIZE,
                        created_us: 0,
                        hosts: Vec::new(),
                    });
                }
                let wanted =
                    Initialise { pool: Some(pool.name.clone()), set, ..Initialise::default() };
                match self.media_init_now(&address, &wanted) {
                    Ok(info) => return Ok(info.medium),
                    Err(e) => {
                        self.remember_unfit(&tape, &e)?;
                        unfit.add(&barcode, e)?;
                    }
                }
            }
        }
        Err(match libraries.is_empty() {
            true => CellError::NoMedium(
                Problem::new("it takes blank tapes, and no library is known to take them from")
                    .hint(format!("`capstan pool set {} --library LIBRARY` names one", pool.name)),
            ),
            false => unfit.error("blank tape", |found| format!("of blank tapes: {found}").into()),
        })
    }

    /// The libraries into which somebody may bring tapes that a pool takes; none of one that has disks alone.
    pub(crate) fn libraries_to_fill(&self, name: &str) -> Result<Vec<LibraryName>> {
        let pool = self.pool(name)?;
        let mut libraries: Vec<LibraryName> = Vec::new();
        if pool.scratch {
            let of_scratch = self.libraries_of_pool(&pool)?.into_iter();
            libraries.extend(of_scratch.map(|of| of.library));
        }
        for info in self.media_list(Some(name))? {
            let device = &info.medium.device;
            for tape in device.tapes().into_iter().filter(|tape| tape.tape.is_some()) {
                let library = tape.recorded().library;
                if !libraries.contains(&library) {
                    libraries.push(library);
                }
            }
        }
        Ok(libraries)
    }

    /// The libraries from which a pool takes blank tapes: those that it names, else those in which the cell has media.
    fn libraries_of_pool(&self, pool: &Pool) -> Result<Vec<TapeAddress>> {
        let of =
            |library: LibraryName| TapeAddress { library, drive: None, tape: None, spool: None };
        if !pool.libraries.is_empty() {
            return pool.libraries.iter().map(|name| Ok(of(name.parse()?))).collect();
        }
        let mut libraries: Vec<TapeAddress> = Vec::new();
        for medium in self.idb.media()? {
            let device = &medium.device;
            for library in libraries_of(device) {
                let is_new = libraries.iter().all(|known| known.library != library.library);
                // Into a drive that stands alone somebody puts tapes.
                if is_new && !device.tapes().iter().any(|tape| tape.tape.is_none()) {
                    libraries.push(of(library.library));
                }
            }
        }
        Ok(libraries)
    }

    /// Makes media of the tapes of a library whose barcodes match a pattern, as far as they are blank; what is on any of them stays.
    /// `each` is told of every tape. Returns how many could not be made, or would not. With `dry_run` nothing is loaded or written.
    pub fn media_init_many(
        &self,
        library: &TapeAddress,
        barcodes: &str,
        wanted: &Initialise,
        dry_run: bool,
        each: &mut dyn FnMut(&str, &Made),
    ) -> Result<u64> {
        if library.tape.is_some() || self.devices.is_by_hand(library)? {
            return Err(SupplyRefusal::OneTape { library: library.to_string() }.into());
        }
        let pattern =
            GlobBuilder::new(barcodes).build().map_err(|e| SupplyRefusal::BadBarcodePattern {
                pattern: barcodes.to_owned(),
                why: e.kind().to_string(),
            })?;
        let pattern = pattern.compile_matcher();
        if let Some(rule) = &wanted.label
            && !rule.tells_apart()
        {
            return Err(PoolRefusal::OneLabelForSeveral { rule: rule.to_string() }.into());
        }
        if let Some(pool) = &wanted.pool {
            self.pool(pool)?;
        }
        let held = self
            .devices
            .inventory(&library.resolved().library)
            .map_err(capstan_medium::DeviceError::from)?;
        let mut known: Vec<Candidate> =
            self.tapes_in_order(&library.resolved(), ByDrive::default())?;
        let (mut matched, mut failed) = (0, 0);
        let mut making = Making { wanted, dry_run, given: Vec::new(), is_patient: true };
        for tape in held.iter().filter(|tape| pattern.is_match(&tape.barcode)) {
            let barcode = tape.barcode.as_str();
            let Some(at) = known.iter().position(|c| c.barcode == barcode && !barcode.is_empty())
            else {
                continue;
            };
            let candidate = known.swap_remove(at);
            matched += 1;
            let made = self.make_one(library, candidate, &mut making);
            failed += u64::from(matches!(made, Made::Failed(_)));
            each(barcode, &made);
        }
        match matched {
            0 => Err(SupplyRefusal::NoSuchBarcode {
                library: library.to_string(),
                pattern: barcodes.to_owned(),
            }
            .into()),
            _ => Ok(failed),
        }
    }

    fn make_one(
        &self,
        library: &TapeAddress,
        Candidate { barcode, known, why_not, .. }: Candidate,
        Making { wanted, dry_run, given, is_patient }: &mut Making<'_>,
    ) -> Made {
        if let Some((id, _)) = known {
            let label = self.idb.medium(id).ok().flatten().map(|medium| medium.label);
            return Made::Is(label.unwrap_or_default());
        }
        if let Some(why) = why_not {
            return Made::Failed(why);
        }
        let tape = TapeAddress { drive: library.drive, ..library.with_tape(&barcode) };
        let address = Address::from(tape.clone());
        if *dry_run {
            return match self.label_by_rule(&address, wanted, given) {
                Ok(label) => {
                    given.push(label.clone());
                    Made::Would(label)
                }
                Err(e) => Made::Failed(chain(&e)),
            };
        }
        let made = match *is_patient {
            true => self.media_init(&address, wanted),
            false => self.media_init_now(&address, wanted),
        };
        let made = match made {
            Ok(info) => Made::Medium(Box::new(info)),
            Err(e) => {
                // Who was waited for in vain is not waited for again for each of them.
                *is_patient &= !e.is_busy();
                // What could not be remembered is found again.
                let seen = self.remember_unfit(&tape, &e).ok().flatten();
                Made::Failed(
                    seen.and_then(|seen| crate::supply::tapes::seen::why_not(&seen))
                        .unwrap_or_else(|| chain(&e)),
                )
            }
        };
        // Others get its drive.
        self.devices.done_reading(&address);
        made
    }

    /// What a new medium is called: by its own rule, else by that of its pool, else as its directory or tape. Labels that were `given`
    /// are taken.
    pub(crate) fn label_by_rule(
        &self,
        address: &Address,
        wanted: &Initialise,
        given: &[String],
    ) -> Result<String> {
        let of_pool = wanted.pool.as_deref().map(|pool| self.pool(pool)).transpose()?;
        let of_pool = of_pool.and_then(|pool| pool.label_rule);
        let of_pool: Option<LabelRule> = of_pool.map(|rule| rule.parse()).transpose()?;
        let Some(rule) = wanted.label.as_ref().or(of_pool.as_ref()) else {
            return self.new_label(address);
        };
        let barcode = match address {
            Address::Tape(tape) => tape.tape.as_deref(),
            _ => None,
        };
        let media = self.idb.media()?;
        let is_free = |label: &str| {
            media.iter().all(|medium| medium.label != label) && !given.iter().any(|g| g == label)
        };
        rule.label(barcode, wanted.pool.as_deref(), &is_free)
    }
}
