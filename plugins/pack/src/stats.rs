//! What was taken and what was left to MPI, and why.

use crate::settings::SETTINGS;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A function that may be taken.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Call {
    Pack,
    Unpack,
    Send,
    Ssend,
    Rsend,
    Recv,
    Sendrecv,
    Isend,
    Issend,
    Irsend,
    Irecv,
}

impl Call {
    const ALL: [(Call, &'static str); 11] = [
        (Call::Pack, "MPI_Pack"),
        (Call::Unpack, "MPI_Unpack"),
        (Call::Send, "MPI_Send"),
        (Call::Ssend, "MPI_Ssend"),
        (Call::Rsend, "MPI_Rsend"),
        (Call::Recv, "MPI_Recv"),
        (Call::Sendrecv, "MPI_Sendrecv"),
        (Call::Isend, "MPI_Isend"),
        (Call::Issend, "MPI_Issend"),
        (Call::Irsend, "MPI_Irsend"),
        (Call::Irecv, "MPI_Irecv"),
    ];

    /// Returns true for `MPI_Pack` and `MPI_Unpack`.
    pub(crate) fn is_packing(self) -> bool {
        matches!(self, Call::Pack | Call::Unpack)
    }
}

/// Why a call is left to MPI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// The datatype is a basic one, or was committed out of sight.
    Basic,
    /// Too few bytes to gain by.
    Short,
    /// One stretch of memory.
    Contiguous,
    /// Blocks so long that MPI sends them as fast.
    LongBlocks,
    /// So long a message that MPI, which goes by fragments, sends it as fast.
    Long,
    /// A datatype that is not understood: see the line of types.
    NotLearnt,
    /// MPI is to say what is wrong, or has nothing to do.
    Arguments,
    /// More packed bytes than the buffers may hold.
    Memory,
    /// This MPI cannot be asked for it without a risk.
    Unsafe,
    /// The environment says so, or this MPI is not known.
    Off,
}

impl Reason {
    const ALL: [(Reason, &'static str); 10] = [
        (Reason::Basic, "basic types"),
        (Reason::Short, "short"),
        (Reason::Contiguous, "contiguous"),
        (Reason::LongBlocks, "long blocks"),
        (Reason::Long, "long"),
        (Reason::NotLearnt, "types not learnt"),
        (Reason::Arguments, "arguments"),
        (Reason::Memory, "memory"),
        (Reason::Unsafe, "not safe with this MPI"),
        (Reason::Off, "off"),
    ];
}

static CHOSEN: [AtomicU64; 11] = [const { AtomicU64::new(0) }; 11];
static LEFT: [[AtomicU64; 10]; 11] = [const { [const { AtomicU64::new(0) }; 10] }; 11];
/// Types learnt, and why others were not.
static LEARNT: AtomicU64 = AtomicU64::new(0);
static REFUSED: Mutex<Vec<(String, u64)>> = Mutex::new(Vec::new());

/// Counts a call that was taken.
pub(crate) fn count(call: Call) {
    if SETTINGS.stats {
        CHOSEN[call as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a call that is left.
#[inline]
pub(crate) fn left(call: Call, reason: Reason) {
    if SETTINGS.stats {
        LEFT[call as usize][reason as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a type that was learnt, or why it was not.
pub(crate) fn learnt(refusal: Option<&str>) {
    if !SETTINGS.stats {
        return;
    }
    let Some(refusal) = refusal else {
        LEARNT.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let Ok(mut refused) = REFUSED.lock() else { return };
    match refused.iter_mut().find(|(why, _)| why == refusal) {
        Some((_, count)) => *count += 1,
        None => refused.push((refusal.to_owned(), 1)),
    }
}

/// Prints all that was counted, to standard error in one piece.
pub(crate) fn print(mpi: &str) {
    if !SETTINGS.stats {
        return;
    }
    let rank = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];
    let rank = rank.iter().find_map(|name| std::env::var(name).ok());
    let who = rank.map_or(String::new(), |rank| format!(" (rank {rank})"));
    let mut text = format!("rankway_pack{who}: {mpi}; ");
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let _ = writeln!(text, "types learnt: {}", load(&LEARNT));
    for (why, count) in REFUSED.lock().iter().flat_map(|refused| refused.iter()) {
        let _ = writeln!(text, "rankway_pack{who}: types not learnt: {count}, {why}");
    }
    for (call, name) in Call::ALL {
        let (chosen, left) = (load(&CHOSEN[call as usize]), &LEFT[call as usize]);
        let all: u64 = left.iter().map(load).sum();
        if chosen + all == 0 {
            continue;
        }
        let _ = write!(text, "rankway_pack{who}: {name}: {chosen} taken, {all} left");
        for (reason, words) in Reason::ALL {
            let count = load(&left[reason as usize]);
            if count > 0 {
                let _ = write!(text, "; {words}: {count}");
            }
        }
        text.push('\n');
    }
    eprint!("{text}");
}
