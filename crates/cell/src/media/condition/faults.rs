//! What is wrong with media that are at hand, as far as a cheap look tells: a header that is lost, members of arrays that are lost, behind
//! or damaged. What was read of the medium stays to be had, so nothing is decided on it; but somebody should mend it before more is lost.

use std::collections::HashSet;

use capstan_address::{Address, ArrayAddress};
use capstan_engine::message::{Code, shell_word};
use capstan_idb::{Management, Medium};
use capstan_medium::host::KnownMembers;
use serde::Deserialize;

use crate::Cell;
use crate::error::Result;
use crate::media::hosts::look_here;
use crate::media::is_place_here;

/// So many sessions are looked back on for what was found in members of arrays.
const LOOKED_BACK: usize = 500;

/// What of a report is asked for.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OfReport {
    name: String,
    media: Vec<String>,
    errors: Vec<Said>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    error: String,
    code: String,
}

impl Cell {
    /// What is wrong with a medium on disk that is at hand: a sentence each, with what to do.
    pub(crate) fn faults_at_hand(
        &self,
        medium: &Medium,
        management: &Management,
    ) -> Result<Vec<String>> {
        // Of an array single tapes may be out.
        let is_out = management.exported_us.is_some() && management.tapes_out.is_empty();
        let on_purpose = is_out || management.retired_us.is_some();
        if on_purpose || !is_place_here(&self.idb, medium) {
            return Ok(Vec::new());
        }
        match &medium.device {
            Address::Store(_) => {
                let found = look_here(self, medium);
                let problem = found.problem.filter(|_| found.there.is_some());
                let text = |why| {
                    format!(
                        "medium '{}' takes no more backups until it is mended: {why}",
                        medium.label
                    )
                };
                Ok(problem.map(text).into_iter().collect())
            }
            address @ Address::Array(_) if address.is_sequential() => self.faults_noted(medium),
            Address::Array(array) => self.faults_of_members(medium, array),
            _ => Ok(Vec::new()),
        }
    }

    /// What is wrong with the members of an array. Of one that is broken others say that it is away.
    fn faults_of_members(&self, medium: &Medium, array: &ArrayAddress) -> Result<Vec<String>> {
        let Ok(opened) = self.devices.array(array, &()) else { return Ok(Vec::new()) };
        let label = &medium.label;
        let rebuild = |member: &Address| {
            let (label, member) = (shell_word(label), shell_word(member));
            format!("`capstan rait rebuild {label} --member {member} --onto NEW` writes it anew")
        };
        let mut faults = Vec::new();
        for lost in opened.lost() {
            faults.push(format!(
                "member {} ({}) of array '{label}' is lost ({}); bring it back, or {}",
                lost.member + 1,
                lost.device,
                lost.error,
                rebuild(&opened.address().members[lost.member])
            ));
        }
        for (place, why) in self.known_members().unfit(&*opened) {
            let member = &opened.address().members[place];
            faults.push(format!("member {} ({member}) of array '{label}': {why}", place + 1));
        }
        for said in self.found_in_members(label)? {
            // One that was replaced since is no member any more.
            let of = opened.address().members.iter().find(|m| said.contains(&format!("({m})")));
            if let Some(member) = of {
                faults.push(format!("of array '{label}' {said}; {}", rebuild(member)));
            }
        }
        Ok(faults)
    }

    /// What the last verification of each version, or of the whole array, found damaged in its members.
    fn found_in_members(&self, label: &str) -> Result<Vec<String>> {
        let mut names: HashSet<String> = HashSet::new();
        let mut found: Vec<String> = Vec::new();
        for session in self.idb.sessions(LOOKED_BACK)? {
            if session.kind != "verify" {
                continue;
            }
            let report = session.report.as_deref().map(serde_json::from_str::<OfReport>);
            let Some(Ok(report)) = report else { continue };
            if !report.media.iter().any(|of| of == label) || !names.insert(report.name) {
                continue;
            }
            let is_damage = |said: &Said| {
                said.code == Code::MemberLost.name() && said.error.contains(" blocks ")
            };
            for said in report.errors.into_iter().filter(is_damage) {
                if !found.contains(&said.error) {
                    found.push(said.error);
                }
            }
        }
        Ok(found)
    }
}
