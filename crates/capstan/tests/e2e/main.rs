//! End-to-end tests: the real binary on real file systems, compared by other programs (rsync, getfacl, getfattr, lsattr,
//! find, the independent reader of media). One test binary, because each links everything.
//!
//! Tests that a machine cannot run (no root, no loop devices) say so and pass; the gate runs as root. With `CAPSTAN_SOAK=1`
//! they run with more data. What needs the machine for itself is ignored, and run by `make test` when the others are done.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

mod anomaly;
mod bad_input;
mod base_anywhere;
mod by_hand;
mod changed_media;
mod clocks;
mod compare;
mod consolidate;
mod consolidate_tape;
mod copy;
mod damaged;
mod differences;
mod drill;
mod drive_encryption;
mod drive_wait;
mod durable_names;
mod expired;
mod export;
mod feed;
mod filesystems;
mod find;
mod foreseen;
mod full;
mod give_up;
mod gone_media;
mod gone_tapes;
mod guide;
mod hangs;
mod healing;
mod hosts;
mod idb;
mod import_beside;
mod incomplete;
mod incremental;
mod independent_reader;
mod input;
mod inputs_on_tape;
mod kernel_drivers;
mod keys;
mod kills;
mod known_damage;
mod labels;
mod lacking_copies;
mod leases;
mod library;
mod listing;
mod long_names;
mod machine;
mod media;
mod mirror;
mod mirror_behind;
mod moved;
mod names_key;
mod naming;
mod not_imported;
mod noted_damage;
mod oddities;
mod one_of_many;
mod other_cells;
mod package;
mod page_cache;
mod places;
mod policies;
mod pool_keeps;
mod postgres;
mod presence;
mod protection;
mod rait;
mod rait_members;
mod rait_tape;
mod refusals;
mod repair;
mod restore_some;
mod retire;
mod runs;
mod secrets;
mod selection;
#[path = "../../../idb/tests/common/server.rs"]
mod server;
mod shared_library;
mod spool;
mod stage;
mod stand_ins;
mod status;
mod support;
mod tape;
mod tape_attachments;
mod tape_faults;
mod tape_goes_on;
#[path = "../../../scsi/tests/support/mod.rs"]
mod tape_software;
mod threads;
mod times;
mod to_tar;
mod together;
mod unit_rights;
mod untouched;
mod verdict;
mod verify;
mod waiting;
