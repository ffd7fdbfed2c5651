//! What was taken and what was left to MPI, and why.

use crate::settings::SETTINGS;
use rankway_preload::say;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// An enumeration, and the words for each of its variants.
macro_rules! worded {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident $words:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            const ALL: [($name, &'static str); [$($words),*].len()] =
                [$(($name::$variant, $words)),*];
        }
    };
}

worded! {
    /// A function that may be taken.
    Call {
        Pack "MPI_Pack",
        Unpack "MPI_Unpack",
        Send "MPI_Send",
        Ssend "MPI_Ssend",
        Rsend "MPI_Rsend",
        Recv "MPI_Recv",
        Sendrecv "MPI_Sendrecv",
        Isend "MPI_Isend",
        Issend "MPI_Issend",
        Irsend "MPI_Irsend",
        Irecv "MPI_Irecv",
    }
}

impl Call {
    /// Returns true for `MPI_Pack` and `MPI_Unpack`.
    pub(crate) fn is_packing(self) -> bool {
        matches!(self, Call::Pack | Call::Unpack)
    }
}

worded! {
    /// Why a call is left to MPI.
    Reason {
        /// The datatype is a basic one, or was committed out of sight.
        Basic "basic types",
        /// Too few bytes to gain by.
        Short "short",
        /// One stretch of memory.
        Contiguous "contiguous",
        /// Blocks so long that MPI sends them as fast.
        LongBlocks "long blocks",
        /// So long a message that MPI, which goes by fragments, sends it as fast.
        Long "long",
        /// A datatype that is not understood: see the line of types.
        NotLearnt "types not learnt",
        /// MPI is to say what is wrong, or has nothing to do.
        Arguments "arguments",
        /// More packed bytes than the buffers may hold.
        Memory "memory",
        /// This MPI cannot be asked for it without a risk.
        Unsafe "not safe with this MPI",
        /// The environment says so, or this MPI is not known.
        Off "off",
    }
}

const CALLS: usize = Call::ALL.len();
const REASONS: usize = Reason::ALL.len();
static CHOSEN: [AtomicU64; CALLS] = [const { AtomicU64::new(0) }; CALLS];
static LEFT: [[AtomicU64; REASONS]; CALLS] =
    [const { [const { AtomicU64::new(0) }; REASONS] }; CALLS];
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
    say(&text);
}
