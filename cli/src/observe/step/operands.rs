//! What an instruction reads and writes, by its operands and the registers
//! before it.

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, Register, UsedMemory,
};

use super::Access;

/// The accesses of a trace so far.
pub(super) struct Operands {
    factory: InstructionInfoFactory,
    pub(super) accesses: Vec<Access>,
    pub(super) unresolved: usize,
}

impl Operands {
    pub(super) fn new() -> Operands {
        let factory = InstructionInfoFactory::new();
        Operands { factory, accesses: Vec::new(), unresolved: 0 }
    }

    /// Adds those of the instruction in `code`, the `step`th, which is about to
    /// run.
    pub(super) fn record(&mut self, code: &[u8], step: usize, before: &libc::user_regs_struct) {
        let instruction = Decoder::with_ip(64, code, before.rip, DecoderOptions::NONE).decode();
        if skips(&instruction, before) {
            return;
        }
        for used in self.factory.info(&instruction).used_memory() {
            let (read, write) = match used.access() {
                // A condition decides what becomes of the value: memory is
                // accessed all the same (`cmov`, `cmpxchg`).
                OpAccess::Read | OpAccess::CondRead => (true, false),
                OpAccess::Write | OpAccess::CondWrite => (false, true),
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
                OpAccess::None | OpAccess::NoMemAccess => continue,
            };
            match address(used, before) {
                Some(address) => {
                    // (Of a repeated instruction the decoder leaves the size open.)
                    let sizes = [used.memory_size(), instruction.memory_size()];
                    let bytes = sizes.map(|s| s.size()).into_iter().find(|&s| s > 0).unwrap_or(1);
                    self.accesses.push(Access { step, address, bytes, read, write });
                }
                None => self.unresolved += 1,
            }
        }
    }

    /// Takes away those from the `step`th instruction on.
    pub(super) fn forget(&mut self, step: usize) {
        while self.accesses.last().is_some_and(|access| access.step >= step) {
            self.accesses.pop();
        }
    }
}

/// A `rep` string instruction whose count is 0 accesses nothing. (What is
/// stepped is one iteration.)
fn skips(instruction: &Instruction, before: &libc::user_regs_struct) -> bool {
    let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    instruction.is_string_instruction() && repeats && before.rcx == 0
}

fn address(used: &UsedMemory, before: &libc::user_regs_struct) -> Option<usize> {
    let found = used.virtual_address(0, |register, _, _| match register {
        // Other segments begin at 0 in 64-bit mode.
        Register::FS => Some(before.fs_base),
        Register::GS => Some(before.gs_base),
        Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
        _ => general(register, before),
    });
    found.map(|address| address as usize)
}

/// The value of a general-purpose register, of its lower half for a 32-bit one.
fn general(register: Register, before: &libc::user_regs_struct) -> Option<u64> {
    let whole = match register.full_register() {
        Register::RAX => before.rax,
        Register::RBX => before.rbx,
        Register::RCX => before.rcx,
        Register::RDX => before.rdx,
        Register::RSI => before.rsi,
        Register::RDI => before.rdi,
        Register::RBP => before.rbp,
        Register::RSP => before.rsp,
        Register::R8 => before.r8,
        Register::R9 => before.r9,
        Register::R10 => before.r10,
        Register::R11 => before.r11,
        Register::R12 => before.r12,
        Register::R13 => before.r13,
        Register::R14 => before.r14,
        Register::R15 => before.r15,
        _ => return None,
    };
    Some(if register.size() == 4 { whole & 0xffff_ffff } else { whole })
}
