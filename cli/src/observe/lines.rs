//! Distinct cache lines that a [`Trace`] touches.

use std::collections::BTreeSet;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions};

use super::step::{Access, Trace};
use super::symbols::Symbols;

/// Bytes of a line, of every x86-64 processor.
pub const LINE: usize = 64;

/// Distinct lines of [`LINE`] bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Lines {
    /// Of code, if every function began at a line: what the linker does to one
    /// binary is not in it.
    pub code: usize,
    /// Read, outside of the stack.
    pub read: usize,
    /// Written, outside of the stack.
    pub written: usize,
    /// Of the stack below the caller's frame, if the return address is the end
    /// of a line.
    pub stack: usize,
}

/// Those of `trace`, which begins at a function's first instruction.
pub fn of(trace: &Trace) -> Lines {
    let mut symbols = Symbols::new(&trace.modules);
    let code = instructions(trace).flat_map(|range| {
        let name = symbols.name(range.start);
        let (function, offset) =
            name.map_or((String::new(), range.start), |name| (name.function, name.offset));
        lines(offset..offset + range.len()).map(move |line| (function.clone(), line))
    });
    let code = code.collect::<BTreeSet<_>>().len();
    let data = |pick: fn(&Access) -> bool| {
        let data = trace.accesses.iter().filter(|a| pick(a) && !is_stack(trace, a.address));
        data.flat_map(|a| lines(a.address..a.address + a.bytes)).collect::<BTreeSet<_>>().len()
    };
    let top = top(trace);
    let stack = trace.accesses.iter().filter(|a| is_stack(trace, a.address));
    let stack = stack.flat_map(|a| lines(top - (a.address + a.bytes).min(top)..top - a.address));
    Lines {
        code,
        read: data(|a| a.read),
        written: data(|a| a.write),
        stack: stack.collect::<BTreeSet<_>>().len(),
    }
}

/// Lines of code as they lie in this binary.
pub fn code_as_placed(trace: &Trace) -> usize {
    instructions(trace).flat_map(lines).collect::<BTreeSet<_>>().len()
}

/// Returns true if `address` is on the stack below the frame of the caller of
/// the traced function.
pub fn is_stack(trace: &Trace, address: usize) -> bool {
    /// Deeper than any function that is stepped.
    const DEPTH: usize = 1 << 20;
    (top(trace).saturating_sub(DEPTH)..top(trace)).contains(&address)
}

/// Behind the return address.
fn top(trace: &Trace) -> usize {
    trace.stack + size_of::<usize>()
}

/// The numbers of the lines that a range of bytes lies in.
pub fn lines(bytes: Range<usize>) -> Range<usize> {
    bytes.start / LINE..bytes.end.div_ceil(LINE)
}

/// The bytes of each instruction that ran, once.
fn instructions(trace: &Trace) -> impl Iterator<Item = Range<usize>> {
    let ran: BTreeSet<_> = trace.steps.iter().copied().collect();
    ran.into_iter().filter_map(|address| {
        let code = trace.code.get(&address)?;
        let decoded = Decoder::with_ip(64, code, address as u64, DecoderOptions::NONE).decode();
        Some(address..address + decoded.len())
    })
}
