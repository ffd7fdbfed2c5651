//! How a copy goes: tiles and stores from the machine's caches and TLB.

use super::form::Form;
use super::kernels::{How, Level};
use super::machine::Machine;

/// The plan for a stretch of so many bytes of a form.
pub(super) fn choose<const PACK: bool>(form: &Form, left: u64) -> How {
    let machine = Machine::get();
    // What is written: the stream, or all of memory that the form spans.
    let span = (form.high - form.low) as u64;
    let written = if PACK { left } else { span };
    How {
        level: Level::best(),
        rows: machine.tile_rows(),
        streaming: written > machine.last_cache as u64 / 2,
        ahead: span > 16 * machine.first_cache as u64,
    }
}
