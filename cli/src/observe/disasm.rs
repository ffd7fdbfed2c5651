//! Listings of a [`Trace`]: the instructions in the order in which they ran, in
//! AT&T syntax, with the functions they belong to, in the manner of Figures 1
//! and 2 of Guo et al. (2017).
//!
//! ```text
//! outer:
//!     1  +0x0   sub $8,%rsp
//!     2  +0x4   call inner
//! inner:
//!     3  +0x0   test %edi,%edi
//!     4  +0x2   je inner+8                      taken
//!     5  +0x8   mov %edi,%eax
//!     6  +0xa   ret
//! outer+0x9:
//!     7  +0x9   add $8,%rsp
//! ```

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;

use iced_x86::{
    Code, Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, Mnemonic, OpKind,
    SymbolResolver, SymbolResult,
};

use super::step::Trace;
use super::symbols::{Name, Symbols};

/// One executed instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where it is in memory.
    pub address: usize,
    /// Function and offset in it, where known.
    pub name: Option<Name>,
    /// Machine code.
    pub bytes: Vec<u8>,
    /// Mnemonic and operands in AT&T syntax.
    pub text: String,
    /// Of a conditional jump: whether it jumped.
    pub taken: Option<bool>,
    /// First instruction of the trace, or reached by a call, a return or a
    /// jump into another function.
    pub enters: bool,
}

/// How [`listing`] prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Print the machine code too.
    pub bytes: bool,
    /// At most so many instructions, the rest is left out in the middle; 0 for
    /// all.
    pub limit: usize,
}

/// Decodes the instructions of `trace` in the order in which they ran.
pub fn lines(trace: &Trace) -> Vec<Line> {
    let symbols = Rc::new(RefCell::new(Symbols::new(&trace.modules)));
    let mut formatter = GasFormatter::with_options(Some(Box::new(Targets(symbols.clone()))), None);
    let options = formatter.options_mut();
    options.set_uppercase_hex(false);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_branch_leading_zeros(false);
    options.set_small_hex_numbers_in_decimal(true);

    let following = trace.steps.iter().skip(1).chain(std::iter::once(&trace.end));
    let mut before: Option<(bool, Option<Name>)> = None;
    let mut lines = Vec::with_capacity(trace.steps.len());
    for (&address, &next) in trace.steps.iter().zip(following) {
        let code = trace.code.get(&address).map_or(&[][..], Vec::as_slice);
        let instruction = decode(code, address);
        let name = symbols.borrow_mut().name(address);
        let (text, len) = if instruction.code() == Code::INVALID {
            ("(bad)".to_owned(), code.len().min(1))
        } else {
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            (text, instruction.len())
        };
        let taken = conditional(&instruction).then(|| next != address + instruction.len());
        let enters = match &before {
            None => true,
            Some((call_or_return, last)) => *call_or_return || function(last) != function(&name),
        };
        before = Some((call_or_return(&instruction), name.clone()));
        lines.push(Line { address, name, bytes: code[..len].to_vec(), text, taken, enters });
    }
    lines
}

fn function(name: &Option<Name>) -> Option<&str> {
    name.as_ref().map(|name| name.function.as_str())
}

/// Jumps of which the next instruction tells whether they were taken.
fn conditional(instruction: &Instruction) -> bool {
    let branch = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64;
    branch && !matches!(instruction.mnemonic(), Mnemonic::Jmp | Mnemonic::Call)
}

fn call_or_return(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Call | Mnemonic::Ret)
}

fn decode(code: &[u8], address: usize) -> Instruction {
    Decoder::with_ip(64, code, address as u64, DecoderOptions::NONE).decode()
}

/// The listing of `trace` as text, a line for each instruction and a head line
/// wherever another function goes on.
pub fn listing(trace: &Trace, style: Style) -> String {
    let lines = lines(trace);
    let (first, skipped) = match style.limit {
        limit if limit > 0 && lines.len() > limit => (limit.div_ceil(2), lines.len() - limit),
        _ => (lines.len(), 0),
    };
    let offsets = lines.iter().map(|line| offset_text(line).len()).max().unwrap_or(0);
    let longest = lines.iter().map(|line| line.text.len()).max().unwrap_or(0).min(48);

    let mut out = String::new();
    let mut left_out = false;
    for (i, line) in lines.iter().enumerate() {
        if (first..first + skipped).contains(&i) {
            if !left_out {
                out += &format!("  ... {skipped} instructions left out ...\n");
                left_out = true;
            }
            continue;
        }
        if line.enters || (left_out && i == first + skipped) {
            out += &format!("{}:\n", place(line));
        }
        let mut row = format!("{:>5}  {:<offsets$}  ", i + 1, offset_text(line));
        if style.bytes {
            let hex: Vec<String> = line.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let _ = write!(row, "{:<24}  ", hex.join(" "));
        }
        let mark = match line.taken {
            Some(true) => "taken",
            Some(false) => "not taken",
            None => "",
        };
        let _ = write!(row, "{:<longest$}  {mark}", line.text);
        out += row.trim_end();
        out.push('\n');
    }
    out
}

fn place(line: &Line) -> String {
    match &line.name {
        Some(name) if name.offset == 0 => name.function.clone(),
        Some(name) => format!("{}+{:#x}", name.function, name.offset),
        None => format!("{:#x}", line.address),
    }
}

fn offset_text(line: &Line) -> String {
    match &line.name {
        Some(name) => format!("+{:#x}", name.offset),
        None => format!("{:#x}", line.address),
    }
}

/// Names for the targets of calls and jumps.
struct Targets(Rc<RefCell<Symbols>>);

impl SymbolResolver for Targets {
    fn symbol(
        &mut self,
        _instruction: &Instruction,
        _operand: u32,
        _instruction_operand: Option<u32>,
        address: u64,
        _address_size: u32,
    ) -> Option<SymbolResult<'_>> {
        let name = self.0.borrow_mut().name(usize::try_from(address).ok()?)?;
        name.exact.then(|| SymbolResult::with_string(address - name.offset as u64, name.function))
    }
}
