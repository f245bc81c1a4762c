# Two commands matter: `make demo` and `make test`. Both set up what they need.
# The rest is for those who work on Capstan; `make help` lists all.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

CARGO ?= cargo
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
CAPSTAN := $(TARGET)/release/capstan
export CARGO_TARGET_DIR := $(TARGET)
# The venv of the independent reader: where tools/setup.sh makes it and the tests look for it.
export CAPSTAN_VENV ?= $(TARGET)/venv

.PHONY: help setup build demo demo-tape test fmt lint bench soak man deb docs clean setup-build setup-demo setup-demo-tape setup-deb setup-docs

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## install what the tests need and this machine lacks (as root; else say what)
	@tools/setup.sh test

# Each of the others installs what it needs, and no more.
setup-build setup-demo setup-demo-tape setup-deb setup-docs: setup-%:
	@tools/setup.sh $*

build: setup-build ## build target/release/capstan
	$(CARGO) build --release --locked -p capstan

demo: setup-demo build ## back up and restore real directories, compare, print the verdict
	@tools/demo.sh $(CAPSTAN)

demo-tape: setup-demo-tape build ## the same on tape: a virtual library, an array, a real library over iSCSI
	@tools/demo-tape.sh $(CAPSTAN)

# Those of the database, and those end to end, run on either store; of the latter not what it makes no difference to.
ON_BOTH := $(addprefix --test ,changed media opening pruning sessions e2e campaign)
ON_ONE := by_hand differences drive_encryption durable_names failing feed filesystems guide hostile independent_reader kernel_drivers \
	machine oddities page_cache policies rait rait_tape refusals selection spool
# What is about files or drives, and asks the database for little: the gate runs it on SQLite alone, `make soak` on both.
ON_ONE_IN_GATE := acl_names automount bad_input cold_files documents drill failing_drives generations hangs input inputs_on_tape \
	kept_links killed_restore linked_paths listing long_names mail mirror mirror_goes_on mirror_sides mirror_spans mounted_over moved \
	no_ctime no_room package poor_disk put_right rait_half_made rait_members rait_vault read_errors reconnects restore_some secrets \
	source_disks stand_ins tape tape_attachments tape_faults tape_header tape_order threads times to_tar unit_rights unopened \
	unread_files unreadable_tape untouched verify vtl_faults
# What measures runs when the others are done, for itself.
ALONE := page_cache verdict
# Tests wait more than they compute.
export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))

test: setup ## run all tests
	$(CARGO) test --workspace --locked
	$(CARGO) test --workspace --locked --test e2e -- --ignored --test-threads 1 $(ALONE:%=%::)
	CAPSTAN_TEST_STORE=postgres $(CARGO) test --workspace --locked $(ON_BOTH) -- $(ON_ONE:%=--skip %::) $(ON_ONE_IN_GATE:%=--skip %::)

fmt: ## format the sources
	$(CARGO) fmt --all

lint: ## formatting, the order of the modules, and clippy, as the gate runs them
	$(CARGO) fmt --all --check
	tools/house.py --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

bench: setup build ## run the benchmarks
	$(CARGO) run --release --locked -p capstan-bench -- all

# How long a campaign goes on at most, in minutes; it says how far it came.
MINUTES ?= 180
soak: export CAPSTAN_SOAK := $(MINUTES)
soak: setup ## run the tests for long: more kills, more seeds, more data; MINUTES=20: no campaign for longer
	$(CARGO) test --profile soak --workspace --locked -- --nocapture
	$(CARGO) test --profile soak --workspace --locked --test e2e -- --ignored --test-threads 1 $(ALONE:%=%::)
	env -u CAPSTAN_SOAK CAPSTAN_TEST_STORE=postgres $(CARGO) test --profile soak --workspace --locked $(ON_BOTH) -- $(ON_ONE:%=--skip %::)
	CAPSTAN_TEST_STORE=postgres $(CARGO) test --profile soak --workspace --locked --test campaign -- --nocapture $(ON_ONE:%=--skip %::)

man: build ## write the man pages to target/man
	@mkdir -p $(TARGET)/man
	$(CAPSTAN) man --dir $(TARGET)/man

deb: setup-deb build ## build a Debian package in target/deb
	@tools/deb.sh $(CAPSTAN) $(TARGET)/deb

docs: setup-docs ## build a site of docs in target/docs/site, with a search
	@tools/docs.sh $(TARGET)/tools/bin/mdbook $(TARGET)/docs

clean: ## remove what was built
	$(CARGO) clean
