//! What the plans need to know of the machine, and where each figure is from.
//!
//! Caches are the system's word (sysfs). Pages of the TLB are the processor's
//! (cpuid), else a table's of models; a measurement that was kept for this host may
//! make them fewer, as a virtual machine's are, and has the costs. Nothing is
//! measured unless [`Machine::calibrate`] is called.

mod calibrate;
mod processor;

use crate::kept;
use std::sync::OnceLock;

/// What measurements of machines are called, and what is kept of them.
const KIND: &str = "machine";
const KEPT: [&str; 9] = [
    "tlb_pages",
    "run",
    "byte",
    "next_line",
    "line",
    "line_apart",
    "line_asked",
    "line_past",
    "page",
];

/// Where a figure is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The operating system.
    System,
    /// The processor.
    Processor,
    /// A table of processor models.
    Table,
    /// A measurement on this host.
    Measured,
    /// Nobody knows: what is common.
    Assumed,
}

impl Origin {
    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Origin::System => "system",
            Origin::Processor => "processor",
            Origin::Table => "table",
            Origin::Measured => "measured",
            Origin::Assumed => "assumed",
        }
    }
}

/// Sizes of caches and of the TLB in bytes and pages, and what a miss costs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Machine {
    /// Bytes of the first data cache.
    pub first_cache: usize,
    /// Bytes of the last cache.
    pub last_cache: usize,
    /// Where the caches' sizes are from.
    pub caches_from: Origin,
    /// Pages that the last level of the TLB holds.
    pub tlb_pages: usize,
    /// Where that is from.
    pub tlb_from: Origin,
    /// Bytes of a page.
    pub page: usize,
    /// Lines that are written past the caches wait in the buffers of those that are read
    /// (Intel's): they hold up a copy unless many go together.
    pub shared_buffers: bool,
    /// What a copy's steps cost.
    pub costs: Costs,
    /// Where the costs are from.
    pub costs_from: Origin,
}

/// What steps of a copy cost, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Costs {
    /// A run of a few bytes, all in the first cache.
    pub run: f64,
    /// Each byte of long runs, all in the first cache.
    pub byte: f64,
    /// A line from the cache behind the first.
    pub next_line: f64,
    /// A line from memory, in order.
    pub line: f64,
    /// A line from memory, far from the one before.
    pub line_apart: f64,
    /// Such a line that was asked for ahead of its use.
    pub line_asked: f64,
    /// A line written past the caches.
    pub line_past: f64,
    /// A page that the TLB does not hold.
    pub page: f64,
}

impl Costs {
    /// Of a common server.
    const ASSUMED: Costs = Costs {
        run: 0.4,
        byte: 0.015,
        next_line: 1.0,
        line: 3.0,
        line_apart: 12.0,
        line_asked: 6.0,
        line_past: 2.5,
        page: 8.0,
    };

    /// Each by its name, as files and reports have them.
    #[must_use]
    pub fn named(&self) -> [(&'static str, f64); 8] {
        [
            ("run", self.run),
            ("byte", self.byte),
            ("next_line", self.next_line),
            ("line", self.line),
            ("line_apart", self.line_apart),
            ("line_asked", self.line_asked),
            ("line_past", self.line_past),
            ("page", self.page),
        ]
    }
}

impl Machine {
    /// This machine's, with what was measured and kept for it, if that was when it was
    /// first asked for.
    #[must_use]
    pub fn get() -> &'static Machine {
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        MACHINE.get_or_init(Machine::read)
    }

    /// Rows of a tile whose rows each lie on a page of their own: they take half of
    /// the TLB (Byna et al., 2004); the other side's, of a band at a time, are few.
    #[must_use]
    pub fn tile_rows(&self) -> usize {
        (self.tlb_pages / 2).max(64)
    }

    /// What the system and the processor say.
    fn told() -> Machine {
        let mut machine = Machine {
            first_cache: 32 << 10,
            last_cache: 8 << 20,
            caches_from: Origin::Assumed,
            tlb_pages: 2048,
            tlb_from: Origin::Assumed,
            page: page(),
            shared_buffers: processor::name().starts_with("intel-"),
            costs: Costs::ASSUMED,
            costs_from: Origin::Assumed,
        };
        if let Some((pages, from)) = processor::tlb_pages() {
            (machine.tlb_pages, machine.tlb_from) = (pages, from);
        }
        let mut deepest = 0;
        for index in 0..8 {
            let file = |name: &str| {
                let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}");
                std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
            };
            let (Some(level), Some(kind), Some(size)) = (file("level"), file("type"), file("size"))
            else {
                continue;
            };
            let (Ok(level), Some(size)) = (level.parse::<u32>(), bytes(&size)) else { continue };
            if kind == "Instruction" || size == 0 {
                continue;
            }
            machine.caches_from = Origin::System;
            if level == 1 {
                machine.first_cache = size;
            }
            if level > deepest {
                (deepest, machine.last_cache) = (level, size);
            }
        }
        machine
    }

    /// What was told, and what was measured and kept.
    fn read() -> Machine {
        let told = Machine::told();
        match kept::read(KIND, &processor::name(), KEPT).and_then(of_kept) {
            Some((pages, costs)) => told.measured(pages, costs),
            None => told,
        }
    }

    fn measured(mut self, pages: usize, costs: Costs) -> Machine {
        // Of a TLB that a hypervisor's pages share less is left than there is.
        if self.tlb_from == Origin::Assumed || pages < self.tlb_pages {
            (self.tlb_pages, self.tlb_from) = (pages, Origin::Measured);
        }
        (self.costs, self.costs_from) = (costs, Origin::Measured);
        self
    }

    /// Measures the TLB and the costs, for under a second and with up to 256 MiB of
    /// memory. This process goes on with what [`Machine::get`] has; [`Machine::keep`]
    /// keeps it for those that come.
    #[must_use]
    pub fn calibrate() -> Machine {
        let told = Machine::told();
        let (pages, costs) = calibrate::measure(&told);
        told.measured(pages, costs)
    }

    /// Keeps what was measured for this host and processor, for the same user:
    /// in `rankway` under `XDG_CACHE_HOME`, else `HOME/.cache`. Returns the file.
    ///
    /// # Errors
    /// Neither variable is set, or the file cannot be written.
    pub fn keep(&self) -> std::io::Result<std::path::PathBuf> {
        let pages = std::iter::once(("tlb_pages", self.tlb_pages as f64));
        let all: Vec<_> = pages.chain(self.costs.named()).collect();
        kept::write(KIND, &processor::name(), &all)
    }
}

/// Pages of the TLB and costs, of what was kept in the order of [`KEPT`].
fn of_kept(all: [f64; 9]) -> Option<(usize, Costs)> {
    let [pages, run, byte, next_line, line, line_apart, line_asked, line_past, page] = all;
    let costs = Costs { run, byte, next_line, line, line_apart, line_asked, line_past, page };
    (pages >= 16.0 && pages.fract() == 0.0).then_some((pages as usize, costs))
}

/// Bytes of a page: the sixth entry of the auxiliary vector.
fn page() -> usize {
    const PAGE: usize = 6;
    let vector = std::fs::read("/proc/self/auxv").unwrap_or_default();
    let word = |bytes: &[u8]| bytes.try_into().map(usize::from_ne_bytes).unwrap_or(0);
    let entries = vector.chunks_exact(2 * size_of::<usize>());
    let mut pairs = entries.map(|entry| entry.split_at(size_of::<usize>()));
    let found = pairs.find(|(key, _)| word(key) == PAGE).map(|(_, value)| word(value));
    found.filter(|bytes| bytes.is_power_of_two()).unwrap_or(4096)
}

/// `32K`, `8M`, in bytes.
fn bytes(text: &str) -> Option<usize> {
    let (number, unit) = text.split_at(text.trim_end_matches(char::is_alphabetic).len());
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_shl(shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_kept_by_their_names() {
        assert_eq!(KEPT[1..], Costs::ASSUMED.named().map(|(name, _)| name));
        let all = std::array::from_fn(|at| if at == 0 { 2048.0 } else { at as f64 });
        let (pages, costs) = of_kept(all).expect("a machine");
        assert_eq!(pages, 2048);
        assert_eq!(costs.named().map(|(_, ns)| ns)[..], all[1..]);
        for wrong in [0.0, 15.0, 2048.5] {
            assert_eq!(of_kept([wrong, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), None, "{wrong}");
        }
    }
}
