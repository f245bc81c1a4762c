//! What is known of a segment only when all of it was read: what lacks at its end, and what the catalog has in place of it.

use std::collections::HashSet;

use crate::read::scan::Scanner;
use capstan_port::media::read::findings::{Damage, Scan, poor};

impl Scanner<'_, '_> {
    pub(super) fn finish(mut self) -> Scan {
        let partial: Vec<_> = self
            .streams
            .iter()
            .filter(|(_, p)| p.partial.is_some())
            .map(|(s, p)| (*s, p.logical))
            .collect();
        for (stream, logical) in partial {
            let end = logical.saturating_add(1);
            let what = format!("stream {}: its last frame is cut short", stream.short());
            self.damage(what, Some((stream, logical, end)));
        }
        if self.scan.contents.end.is_none() {
            self.damage("it has no end record".to_owned(), None);
        }
        self.scan.catalog_whole = self.catalog_frames.complete && !self.catalog_broken;
        if !self.scan.catalog_whole {
            self.damage("its catalog is damaged or missing".to_owned(), None);
        }
        let contents = &mut self.scan.contents;
        contents.segment = self.id;
        if contents.header.is_none() {
            contents.header = self.catalog.header.clone();
        }
        if contents.end.is_none() {
            contents.end = self.catalog.end.clone();
        }
        // Metadata that are damaged in the streams are taken from what there is of the catalog.
        for copied in &self.catalog.streams {
            contents.stream(copied.stream).take_missing(copied);
        }
        self.scan.poor = match self.whole_until_catalog {
            Some(true) => HashSet::new(),
            _ => poor(&self.scan.contents, &self.data_lost),
        };
        let contents = &mut self.scan.contents;
        // Frames missing at a stream's begin or end are seen only by what the end record promises.
        let ends: Vec<_> = contents.end.iter().flat_map(|e| e.streams.clone()).collect();
        for extent in ends {
            let stream = contents.stream(extent.stream);
            let (from, to) = (extent.logical_start, extent.logical_end);
            let first = stream.index.first();
            let begun = first.map_or(to, |p| p.logical);
            let late = first.is_none_or(|p| p.sequence != extent.first_sequence);
            let found = stream.logical_end.max(from);
            stream.logical_end = found.max(to);
            let name = format!("{}: stream {}", self.segment.path, extent.stream.short());
            let mut damage = |what: &str, range| {
                let what = format!("{name} {what}");
                self.scan.damage.push(Damage { what, range, batch: None });
            };
            if late {
                damage("begins late", (from < begun).then_some((extent.stream, from, begun)));
            }
            if found < to {
                damage("ends early", Some((extent.stream, found, to)));
            }
        }
        if self.scan.catalog_whole {
            self.scan.catalog = Some(self.catalog);
        }
        self.scan
    }
}
