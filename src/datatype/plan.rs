//! Which plan a copy takes: from the machine's caches and TLB, or by hand.

use super::error::BadPlan;
use super::form::{Form, Kind};
use super::kernels::{BAND, LINE, Level, Plan};
use super::machine::Machine;
use std::fmt;
use std::sync::OnceLock;

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From memory into the packed stream.
    Pack,
    /// From the packed stream into memory.
    Unpack,
}

/// The plan for a stretch of so many bytes of a form.
///
/// Tiles are Byna et al.'s (2004): rows whose pages take half of the TLB, and only
/// where those that a sweep touches exceed it. Without AVX-512 whole rows go before tiles
/// where both sides together exceed it. Where buffers are shared, so they do where what is
/// written exceeds it, which goes past the caches then, many lines together; short runs, each
/// line of which is put together alone, do not.
pub(super) fn choose(form: &Form, direction: Direction, left: u64) -> Plan {
    let rule = Rule::get();
    let span = (form.high - form.low) as u64;
    // What is written: this stretch of the stream, or in the end all of the form's bytes.
    let written = if direction == Direction::Pack { left } else { form.size };
    let shared = rule.machine.shared_buffers;
    let matrix = shared && written > rule.reach && form.matrix().is_some();
    let along = matrix || (rule.level < Level::Avx512 && span.saturating_add(left) > rule.reach);
    let short = form.size / (LINE as u64) < form.runs;
    let streaming = matrix || (written > rule.streaming && !(shared && short));
    let tiled = !along && span > rule.tiled && pages(form, rule.machine) > rule.machine.tlb_pages;
    let plan = Plan {
        level: rule.level,
        tile: if tiled { rule.machine.tile_rows() } else { usize::MAX },
        along,
        streaming,
        prefetch: span > rule.prefetch,
    };
    rule.hand.map_or(plan, |hand| hand.over(plan))
}

/// What plans follow from, read once.
struct Rule {
    machine: &'static Machine,
    level: Level,
    hand: Option<ByHand>,
    /// Bytes of all pages that the TLB has; of memory beyond which a sweep may touch more
    /// than these, of written ones beyond which they go past the caches, of memory beyond which it is
    /// asked for ahead.
    reach: u64,
    tiled: u64,
    streaming: u64,
    prefetch: u64,
}

impl Rule {
    fn get() -> &'static Rule {
        static RULE: OnceLock<Rule> = OnceLock::new();
        RULE.get_or_init(|| {
            let machine = Machine::get();
            let pages = machine.tlb_pages.saturating_sub(8 * BAND + 1);
            Rule {
                machine,
                level: Level::best(),
                hand: by_hand().as_ref().ok().copied().flatten(),
                reach: machine.tlb_pages as u64 * machine.page as u64,
                tiled: pages as u64 * machine.page as u64,
                streaming: machine.last_cache as u64 / 2,
                prefetch: 16 * machine.first_cache as u64,
            }
        })
    }
}

/// Pages that a sweep down the innermost loop touches, on both sides.
fn pages(form: &Form, machine: &Machine) -> usize {
    let (mut touched, mut inner) = (0, form);
    while let Kind::Loop { count, stride, body } = &inner.kind {
        let apart = stride.unsigned_abs().min(machine.page as u64);
        touched = (count.saturating_mul(apart) >> machine.page.trailing_zeros()) as usize;
        inner = body;
    }
    // Those of the other side that a band of doubles goes on with.
    touched.saturating_add(8 * BAND)
}

/// Plans that differ in what matters for a form, the chosen one first: of a matrix tiles
/// do, too.
pub(super) fn candidates(form: &Form, direction: Direction) -> Vec<Plan> {
    let chosen = choose(form, direction, form.size);
    let all = usize::MAX;
    // In the stream's order, in tiles, in diagonals over all, along rows.
    let orders = match form.matrix().is_some() {
        true => vec![(0, false), (Machine::get().tile_rows(), false), (all, false), (all, true)],
        false => vec![(chosen.tile, chosen.along)],
    };
    let mut plans = vec![chosen];
    for (tile, along) in orders {
        for streaming in [false, true] {
            for prefetch in [false, true] {
                let plan = Plan { tile, along, streaming, prefetch, ..chosen };
                if !plans.contains(&plan) {
                    plans.push(plan);
                }
            }
        }
    }
    plans
}

/// What stands in `RANKWAY_DATATYPE_PLAN`, read once; `None` if it is not set.
pub(super) fn by_hand() -> &'static Result<Option<ByHand>, BadPlan> {
    static HAND: OnceLock<Result<Option<ByHand>, BadPlan>> = OnceLock::new();
    HAND.get_or_init(|| match std::env::var_os(Plan::VARIABLE) {
        Some(text) if !text.is_empty() => ByHand::parse(&text.to_string_lossy()).map(Some),
        _ => Ok(None),
    })
}

/// What a text says of a plan; the rest is left as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ByHand {
    level: Option<Level>,
    tile: Option<usize>,
    along: Option<bool>,
    streaming: Option<bool>,
    prefetch: Option<bool>,
}

impl ByHand {
    fn parse(text: &str) -> Result<ByHand, BadPlan> {
        let bad = || BadPlan(text.to_owned());
        let mut hand = ByHand::default();
        for word in text.split(',') {
            let (key, value) = word.split_once('=').ok_or_else(bad)?;
            let twice = match (key.trim(), value.trim()) {
                ("tile", "none") => hand.tile.replace(0).is_some(),
                ("tile", "all") => hand.tile.replace(usize::MAX).is_some(),
                ("tile", rows) => {
                    let rows = rows.parse().ok().filter(|&rows| rows > 0).ok_or_else(bad)?;
                    hand.tile.replace(rows).is_some()
                }
                ("order", "rows") => hand.along.replace(true).is_some(),
                ("order", "diagonals") => hand.along.replace(false).is_some(),
                ("stores", "cached") => hand.streaming.replace(false).is_some(),
                ("stores", "past") => hand.streaming.replace(true).is_some(),
                ("prefetch", "on") => hand.prefetch.replace(true).is_some(),
                ("prefetch", "off") => hand.prefetch.replace(false).is_some(),
                ("level", name) => {
                    let level = Level::ALL.into_iter().find(|level| level.name() == name);
                    let there = level.filter(|level| *level <= Level::best());
                    hand.level.replace(there.ok_or_else(bad)?).is_some()
                }
                _ => return Err(bad()),
            };
            if twice {
                return Err(bad());
            }
        }
        Ok(hand)
    }

    fn over(self, plan: Plan) -> Plan {
        Plan {
            level: self.level.unwrap_or(plan.level),
            tile: self.tile.unwrap_or(plan.tile),
            along: self.along.unwrap_or(plan.along),
            streaming: self.streaming.unwrap_or(plan.streaming),
            prefetch: self.prefetch.unwrap_or(plan.prefetch),
        }
    }
}

impl Plan {
    /// The environment variable that takes a plan by hand.
    pub const VARIABLE: &'static str = "RANKWAY_DATATYPE_PLAN";

    /// What the variable takes, and [`Plan::with`].
    pub const TAKES: &'static str = "any of tile=ROWS, tile=none or tile=all, order=rows or order=diagonals, \
         stores=cached or stores=past, prefetch=on or prefetch=off, and level=portable, level=avx2 or level=avx512 where the \
         processor has it, with a comma between; what it leaves out is as without it";

    /// Returns if the variable takes `text`.
    ///
    /// # Errors
    /// It does not; [`Plan::TAKES`] says what it takes.
    pub fn check(text: &str) -> Result<(), BadPlan> {
        ByHand::parse(text).map(drop)
    }

    /// This plan with what `text` says in place of its own: `tile=256,stores=past`.
    ///
    /// # Errors
    /// [`Plan::TAKES`] says what it may be.
    pub fn with(self, text: &str) -> Result<Plan, BadPlan> {
        Ok(ByHand::parse(text)?.over(self))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tile {
            0 => f.write_str("tile=none")?,
            usize::MAX => f.write_str("tile=all")?,
            rows => write!(f, "tile={rows}")?,
        }
        let order = if self.along { "rows" } else { "diagonals" };
        let stores = if self.streaming { "past" } else { "cached" };
        let prefetch = if self.prefetch { "on" } else { "off" };
        write!(f, ",order={order},stores={stores},prefetch={prefetch},level={}", self.level.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_by_hand_are_what_they_print() {
        let (level, tile) = (Level::Portable, 64);
        let plan = Plan { level, tile, along: false, streaming: false, prefetch: false };
        for (text, want) in [
            ("tile=none", Plan { tile: 0, ..plan }),
            ("tile=all,stores=past", Plan { tile: usize::MAX, streaming: true, ..plan }),
            ("prefetch=on, tile=7", Plan { tile: 7, prefetch: true, ..plan }),
            ("order=rows", Plan { along: true, ..plan }),
            ("level=portable", plan),
        ] {
            assert_eq!(plan.with(text), Ok(want), "{text}");
            assert_eq!(plan.with(&want.to_string()), Ok(want), "{want}");
        }
        let nonsense =
            ["", "tile", "tile=0", "tile=-1", "tile=1,tile=2", "stores=", "level=mmx", "fast"];
        for text in nonsense {
            let error = plan.with(text).unwrap_err().to_string();
            assert!(error.contains(Plan::VARIABLE) && error.contains("tile=ROWS"), "{error}");
        }
    }
}
