//! The factors of the matrix and their levels, which of them cannot be
//! combined and why, and a choice of cases in which all pairs of levels occur.

use crate::harness::Dice;

/// Processes of a job.
pub const RANKS: u32 = 4;

/// A factor: its levels in order, each with the name that it goes by.
macro_rules! factor {
    ($(#[$doc:meta])* $name:ident { $($(#[$more:meta])* $level:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$more])* $level),* }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$level),*];

            pub fn name(self) -> &'static str {
                [$($text),*][self as usize]
            }
        }
    };
}

factor! {
    /// Where a window's memory is from.
    Memory {
        Created = "created",
        Allocated = "allocated",
        /// The regions of all ranks contiguous.
        Shared = "shared",
        /// Shared, not contiguous (`alloc_shared_noncontig`).
        Apart = "apart",
        Dynamic = "dynamic",
        /// The network library's own, with its own puts or with stores.
        Provided = "provided",
        Direct = "direct",
    }
}
factor! { Units { Same = "units same", Differ = "units differ" } }
factor! { Sizes { Same = "sizes same", Differ = "sizes differ", Zero = "some empty" } }
factor! {
    /// Who is at work in a process at one time.
    Threads {
        One = "one thread",
        /// One thread, where there may be several.
        Multiple = "one of several",
        /// Two threads, each with a window of its own.
        Own = "two windows",
        /// Two threads on one window, with different targets.
        Same = "two threads",
    }
}
factor! {
    Length {
        None = "0 bytes",
        One = "1 byte",
        Eight = "8 bytes",
        /// The longest that the provider injects.
        Inject = "inject size",
        Longer = "inject size + 1",
        Long = "64 KiB",
        Longest = "1 MiB",
    }
}
factor! {
    Align {
        Even = "aligned",
        Origin = "odd origin",
        Target = "odd target",
        /// The memory of the window begins at an odd address.
        Base = "odd window",
    }
}
factor! {
    Epoch {
        Fence = "fence",
        Lock = "lock one",
        Locks = "lock several",
        LockAll = "lock_all",
        Start = "PSCW one",
        Starts = "PSCW several",
    }
}
factor! {
    Completion {
        /// What ends the epoch: another fence, unlock, complete.
        End = "end of epoch",
        Flush = "flush",
        FlushLocal = "flush_local",
        FlushAll = "flush_all",
        Request = "request",
    }
}
factor! {
    Operation {
        Put = "put",
        Get = "get",
        Accumulate = "accumulate",
        GetAccumulate = "get_accumulate",
        FetchAndOp = "fetch_and_op",
        CompareAndSwap = "compare_and_swap",
    }
}

factor! {
    /// How the bytes lie at both ends.
    Layout {
        Contiguous = "contiguous",
        Origin = "strided origin",
        Target = "strided target",
        Both = "strided, from behind",
    }
}

/// How many factors there are.
const FACTORS: usize = 10;

/// Levels of each factor. The first ones change slowest from case to case, so
/// that neighbours can share a window.
const LEVELS: [usize; FACTORS] = [
    Memory::ALL.len(),
    Units::ALL.len(),
    Sizes::ALL.len(),
    Threads::ALL.len(),
    Align::ALL.len(),
    Length::ALL.len(),
    Layout::ALL.len(),
    Epoch::ALL.len(),
    Completion::ALL.len(),
    Operation::ALL.len(),
];

/// What a case is played over.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Under MPI, not on the library itself.
    pub mpi: bool,
    pub one_node: bool,
}

/// One cell of the matrix.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub number: usize,
    pub memory: Memory,
    pub units: Units,
    pub sizes: Sizes,
    pub threads: Threads,
    pub align: Align,
    pub length: Length,
    pub layout: Layout,
    pub epoch: Epoch,
    pub completion: Completion,
    pub operation: Operation,
}

fn digits(mut number: usize) -> [usize; FACTORS] {
    let mut digits = [0; FACTORS];
    for (digit, levels) in digits.iter_mut().zip(LEVELS).rev() {
        *digit = number % levels;
        number /= levels;
    }
    digits
}

impl Case {
    /// Cells of the whole matrix, with those that are impossible.
    pub fn count() -> usize {
        LEVELS.iter().product()
    }

    pub fn numbered(number: usize) -> Case {
        let d = digits(number);
        Case {
            number,
            memory: Memory::ALL[d[0]],
            units: Units::ALL[d[1]],
            sizes: Sizes::ALL[d[2]],
            threads: Threads::ALL[d[3]],
            align: Align::ALL[d[4]],
            length: Length::ALL[d[5]],
            layout: Layout::ALL[d[6]],
            epoch: Epoch::ALL[d[7]],
            completion: Completion::ALL[d[8]],
            operation: Operation::ALL[d[9]],
        }
    }

    pub fn name(&self) -> String {
        [
            self.memory.name(),
            self.units.name(),
            self.sizes.name(),
            self.threads.name(),
            self.align.name(),
            self.length.name(),
            self.layout.name(),
            self.epoch.name(),
            self.completion.name(),
            self.operation.name(),
        ]
        .join("/")
    }

    /// Why there is no such case, if there is none.
    pub fn impossible(&self, place: Place) -> Option<&'static str> {
        use {Completion as C, Epoch as E, Memory as M, Operation as O};
        let passive = matches!(self.epoch, E::Lock | E::Locks | E::LockAll);
        let one_element = matches!(self.operation, O::FetchAndOp | O::CompareAndSwap);
        let own_memory = matches!(self.memory, M::Created | M::Dynamic);
        let shared = matches!(self.memory, M::Shared | M::Apart);
        let threads = matches!(self.threads, Threads::Own | Threads::Same);
        let group = matches!(self.epoch, E::Start | E::Starts);
        let laid = self.layout != Layout::Contiguous;
        let rules = [
            (
                self.memory == M::Dynamic && self.units == Units::Differ,
                "displacements are addresses",
            ),
            (self.align == Align::Base && !own_memory, "the window's memory is not the program's"),
            (shared && !place.one_node, "memory is shared on one node only"),
            (one_element && !matches!(self.length, Length::One | Length::Eight), "one element"),
            (one_element && self.completion == C::Request, "MPI has no such request"),
            (one_element && laid, "one element lies nowhere else"),
            (place.mpi && laid, "MPI's player has no datatypes; tests of types have them"),
            (
                place.mpi && !passive && self.completion != C::End,
                "MPI has it in passive epochs only",
            ),
            (place.mpi && matches!(self.memory, M::Provided | M::Direct), "MPI cannot ask for it"),
            (!place.mpi && threads && self.epoch == E::Fence, "a fence is the window's own"),
            (
                !place.mpi && self.threads == Threads::Same && group,
                "a group hears of one start from each rank",
            ),
        ];
        rules.into_iter().find(|(so, _)| *so).map(|(_, why)| why)
    }
}

/// The numbers of all cases there are.
pub fn possible(place: Place) -> Vec<usize> {
    let there = |&number: &usize| Case::numbered(number).impossible(place).is_none();
    (0..Case::count()).filter(there).collect()
}

/// The factors of which all triples occur, too: those that choose the path of an
/// operation. What went wrong once took three of them.
const PATH_FACTORS: [usize; 6] = [0, 1, 3, 5, 7, 9];

/// Levels of all factors: a level's own number is its place among them.
const ALL: usize = {
    let (mut all, mut i) = (0, 0);
    while i < LEVELS.len() {
        all += LEVELS[i];
        i += 1;
    }
    all
};

/// The pairs and triples of levels in a case, as places in a table.
fn sets_of(digits: [usize; FACTORS]) -> impl Iterator<Item = usize> {
    let mut flat = [0; FACTORS];
    let mut before = 0;
    for (i, levels) in LEVELS.into_iter().enumerate() {
        flat[i] = before + digits[i];
        before += levels;
    }
    let pairs = (0..FACTORS).flat_map(move |a| (0..a).map(move |b| flat[a] * ALL + flat[b]));
    let triples = (0..PATH_FACTORS.len()).flat_map(move |a| {
        (0..a).flat_map(move |b| {
            (0..b).map(move |c| {
                let [a, b, c] = [a, b, c].map(|i| flat[PATH_FACTORS[i]]);
                ((a + 1) * ALL + b) * ALL + c
            })
        })
    });
    pairs.chain(triples)
}

/// Gives a case the levels of a set.
fn impose(set: usize, digits: &mut [usize; FACTORS]) {
    let mut give = |mut level: usize| {
        for (digit, levels) in digits.iter_mut().zip(LEVELS) {
            if level < levels {
                *digit = level;
                return;
            }
            level -= levels;
        }
    };
    give(set % ALL);
    give(set / ALL % ALL);
    if set >= ALL * ALL {
        give(set / (ALL * ALL) - 1);
    }
}

/// Cases in which every pair of levels occurs that occurs in any case, and every
/// triple of some factors: always one with a set that is missing, of many the
/// one that has most of them.
pub fn pairs(place: Place) -> Vec<usize> {
    let mut missing = vec![false; (ALL + 1) * ALL * ALL];
    for number in possible(place) {
        sets_of(digits(number)).for_each(|set| missing[set] = true);
    }
    let mut dice = Dice::new(9);
    let mut chosen = Vec::new();
    let mut next = 0;
    while let Some(set) = (next..missing.len()).find(|&set| missing[set]) {
        next = set;
        let mut best = (0, 0);
        let mut tried = 0;
        // One of them is there, so chance finds it.
        while tried < 30 || best.0 == 0 {
            tried += 1;
            let mut some = LEVELS.map(|levels| dice.below(levels));
            impose(set, &mut some);
            let number =
                some.iter().zip(LEVELS).fold(0, |all, (digit, levels)| all * levels + digit);
            if Case::numbered(number).impossible(place).is_none() {
                let news = sets_of(some).filter(|&set| missing[set]).count();
                best = best.max((news, number));
            }
        }
        sets_of(digits(best.1)).for_each(|set| missing[set] = false);
        chosen.push(best.1);
    }
    chosen.sort_unstable();
    chosen
}
