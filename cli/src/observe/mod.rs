//! Measuring tools: what an operation costs, in instructions and in bytes.
//!
//! | question | tool |
//! |---|---|
//! | exactly how many instructions does this call run? | [`step`], by single-stepping a child process |
//! | how many cache lines does it touch? | [`lines`], from what was stepped |
//! | how many of such accesses miss? | [`cache`], a simulation |
//! | which instructions? | [`disasm`], a listing of them |
//! | how many on average, how many cycles, how many cache misses? | [`perf`], where the machine has counters |
//! | how many bytes are allocated, how many pages really touched? | [`memory`] |
//! | what did others publish? | [`figures`] |
//! | which communicators is a rank map measured on, and how small could it be? | [`maps`] |
//!
//! It imports nothing of the library. Below it stand only the operating
//! system's own measuring interfaces: ptrace(2), perf_event_open(2),
//! mincore(2) and proc(5).

pub mod cache;
pub mod disasm;
pub mod figures;
pub mod lines;
pub mod maps;
pub mod memory;
pub mod perf;
pub mod step;
pub mod symbols;
