//! Caches and TLB, by which noncontiguous data is copied; measured where nothing is
//! kept for this host.

use crate::output::{bytes, count};
use rankway::datatype::{self, Origin};
use serde::Serialize;
use std::collections::BTreeMap;

/// What plans of copies are made from.
#[derive(Serialize)]
pub(super) struct Memory {
    pub(super) first_cache_bytes: usize,
    pub(super) last_cache_bytes: usize,
    pub(super) caches_from: &'static str,
    pub(super) tlb_pages: usize,
    pub(super) tlb_from: &'static str,
    pub(super) page_bytes: usize,
    /// Lines that are written past the caches wait in the buffers of reads.
    pub(super) shared_buffers: bool,
    /// Nanoseconds, by what they are spent on.
    pub(super) costs_ns: BTreeMap<&'static str, f64>,
    pub(super) costs_from: &'static str,
    /// Where what was measured now is kept, if it was.
    pub(super) kept: Option<String>,
    pub(super) kept_error: Option<String>,
}

impl Memory {
    /// As it is known; measured and kept where it is not, or where `again`.
    pub(super) fn look(again: bool) -> Memory {
        let mut machine = *datatype::Machine::get();
        let (mut kept, mut kept_error) = (None, None);
        if again || machine.costs_from != Origin::Measured {
            machine = datatype::Machine::calibrate();
            match machine.keep() {
                Ok(file) => kept = Some(file.display().to_string()),
                Err(error) => kept_error = Some(error.to_string()),
            }
        }
        Memory {
            first_cache_bytes: machine.first_cache,
            last_cache_bytes: machine.last_cache,
            caches_from: machine.caches_from.name(),
            tlb_pages: machine.tlb_pages,
            tlb_from: machine.tlb_from.name(),
            page_bytes: machine.page,
            shared_buffers: machine.shared_buffers,
            costs_ns: machine.costs.named().into_iter().collect(),
            costs_from: machine.costs_from.name(),
            kept,
            kept_error,
        }
    }

    /// Names and values, for people.
    pub(super) fn rows(&self) -> [[String; 2]; 3] {
        let caches = format!(
            "{} first, {} last ({}){}",
            bytes(self.first_cache_bytes as u64),
            bytes(self.last_cache_bytes as u64),
            self.caches_from,
            if self.shared_buffers { "; what is written past them holds up reads" } else { "" }
        );
        let tlb = format!(
            "{} pages of {} ({})",
            count(self.tlb_pages as u64),
            bytes(self.page_bytes as u64),
            self.tlb_from
        );
        let of = |name| self.costs_ns.get(name).copied().unwrap_or(0.0);
        let mut costs = format!(
            "line {:.1} ns in order, {:.1} ns apart, {:.1} ns asked for, page {:.1} ns ({}",
            of("line"),
            of("line_apart"),
            of("line_asked"),
            of("page"),
            self.costs_from
        );
        match (&self.kept, &self.kept_error) {
            (Some(file), _) => costs += &format!(", kept in {file})"),
            (None, Some(error)) => costs += &format!(", not kept: {error})"),
            (None, None) => costs += "; --calibrate measures anew)",
        }
        [["caches".into(), caches], ["TLB".into(), tlb], ["memory costs".into(), costs]]
    }
}
