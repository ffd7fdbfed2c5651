//! Traces of a job of four, written as a recording writes them: one rank has two threads,
//! one lost events, one was killed, of one there is none.

use crate::job::{Directory, Process, WORLD};
use rankway::track::{
    Chunk, Constructor, Definition, DefinitionFlags, Event, EventFlags, Identity, Kind, NO_PEER,
};
use std::fs;
use std::path::PathBuf;

const JOB: u64 = 0xabc;
/// When they began, in ns since 1970; ticks are ns from there.
pub(crate) const BEGIN: u64 = 1_700_000_000_000_000_000 + JOB;

/// The name of the duplicate: what must be quoted in a table.
pub(crate) fn dup_name() -> &'static str {
    "pressure, \"fine\""
}

/// A directory with them, and one for what is made of them.
pub(crate) struct Made {
    traces: Directory,
    beside: Directory,
}

impl Made {
    pub(crate) fn new() -> Made {
        let made = Made { traces: Directory::new(), beside: Directory::new() };
        (0..3).for_each(|rank| process(rank, &made.traces));
        made
    }

    /// The directory of the traces.
    pub(crate) fn path(&self) -> &str {
        self.traces.text()
    }

    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.beside.path().join(name)
    }

    /// All that is recorded.
    pub(crate) fn events(&self) -> usize {
        (0..3).flat_map(threads).map(|(_, events)| events.len()).sum()
    }

    /// Those of them that are calls.
    pub(crate) fn calls(&self) -> usize {
        let events = (0..3).flat_map(threads).flat_map(|(_, events)| events);
        events.filter(|event| !event.kind().is_some_and(Kind::is_end)).count()
    }

    /// Exactly these were made.
    pub(crate) fn holds(&self, names: &[&str]) {
        let mut there: Vec<String> = fs::read_dir(self.beside.path())
            .expect("there")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        there.sort();
        assert_eq!(there, names);
    }
}

const DUP: u32 = 3;
const WINDOW: u32 = 4;
const LEAKED: u32 = 5;
/// Ranks 0 and 1 to rank 2.
const BETWEEN: u32 = 6;

/// By thread.
pub(crate) fn threads(rank: u32) -> Vec<(u32, Vec<Event>)> {
    let of = |kind, start, end| Event::new(kind, start, end);
    let all = |kind, start, end, on| of(kind, start, end).with(on, NO_PEER, 0);
    let mut main = vec![
        of(Kind::Init, 1000, 1200),
        all(Kind::CommConstruct, 1250, 1350, DUP),
        all(Kind::WinConstruct, 1400, 1500, WINDOW),
        all(Kind::CommConstruct, 1550, 1600, LEAKED),
        all(Kind::CommConstruct, 1650, 1700, BETWEEN),
    ];
    let mut second = Vec::new();
    match rank {
        0 => {
            main.extend([
                of(Kind::Send, 2000, 2100).with(DUP, 1, 7).of_bytes(64),
                of(Kind::Isend, 2200, 2250).with(DUP, 1, 7).of_bytes(128),
                of(Kind::Wait, 2300, 2400),
                of(Kind::Completed, 2200, 2400).with(DUP, NO_PEER, 0),
                of(Kind::Send, 2420, 2430).with(BETWEEN, 0, 3).of_bytes(32),
                of(Kind::Ssend, 2500, 2600).with(WORLD, 2, 1).flagged(EventFlags::FAILED),
            ]);
            second.push(of(Kind::Bsend, 2010, 2050).with(WORLD, 1, 9).of_bytes(8));
        }
        1 => main.extend([
            of(Kind::Irecv, 1900, 1950).with(DUP, 0, 7),
            of(Kind::Recv, 2000, 2150).with(DUP, 0, 7).of_bytes(64),
            of(Kind::Received, 1900, 2390).with(DUP, 0, 7).of_bytes(128),
            of(Kind::Waitall, 2200, 2400),
            of(Kind::Mrecv, 2500, 2600).with(WORLD, 0, 9).of_bytes(8),
        ]),
        // Killed.
        _ => {
            // One whose call found no space.
            main.pop();
            main.extend([
                of(Kind::Irecv, 1710, 1720).with(WORLD, NO_PEER, -1),
                of(Kind::Cancel, 1730, 1740),
                of(Kind::Wait, 1750, 1760),
                of(Kind::Received, 1710, 1760)
                    .with(WORLD, NO_PEER, -1)
                    .flagged(EventFlags::CANCELLED),
            ]);
            main.push(of(Kind::Recv, 2000, 2440).with(BETWEEN, 0, 3).of_bytes(32));
            return vec![(0, main)];
        }
    }
    main.extend([
        all(Kind::Barrier, 3000, 3100, WORLD),
        of(Kind::Bcast, 3200, 3300).with(DUP, 0, 0).of_bytes(1 << 33),
        of(Kind::Iallreduce, 3310, 3320).with(DUP, NO_PEER, 0).of_bytes(24),
        // (Of this one no end was recorded.)
        all(Kind::Ibarrier, 3330, 3340, WORLD),
        of(Kind::Waitall, 3350, 3360),
        of(Kind::Completed, 3310, 3360).with(DUP, NO_PEER, 0),
        all(Kind::Fence, 4000, 4100, WINDOW),
        of(Kind::Put, 4200, 4210).with(WINDOW, 1 - rank, 0).of_bytes(4096),
        of(Kind::Get, 4220, 4230).with(WINDOW, 1 - rank, 0).of_bytes(16),
        of(Kind::FetchAndOp, 4240, 4250).with(WINDOW, 2, 0).of_bytes(8),
        of(Kind::Rput, 4260, 4265).with(WINDOW, 2, 0).of_bytes(40),
        of(Kind::Wait, 4270, 4280),
        of(Kind::Completed, 4260, 4280).with(WINDOW, NO_PEER, 0),
        all(Kind::Fence, 4300, 4400, WINDOW),
        all(Kind::WinFree, 8900, 9000, WINDOW),
        all(Kind::CommFree, 9000, 9200, DUP),
        of(Kind::Finalize, 9300, 9400),
    ]);
    if second.is_empty() { vec![(0, main)] } else { vec![(0, main), (1, second)] }
}

fn process(rank: u32, directory: &Directory) {
    let mut process = Process::new(JOB, rank, 4);
    let host = format!("host{}", rank / 2);
    process.add(Chunk::Fact { key: "host", text: &host });
    process.add(Chunk::Fact { key: "program", text: "solver, \"big\"" });
    process.add(Chunk::Fact { key: "mpi", text: "an MPI,\r\nof \"here\"" });
    process.add(Chunk::Site { site: 1, text: "solver.c:12" });
    let world = Identity::world(JOB);
    let own = Identity::of_lead(JOB, rank, 0);
    let dup = world.child(0, 0);
    process.define(2, 1000, own, (0, 1), 0, 0, Constructor::ItSelf);
    process.define(DUP, 1300, dup, (rank, 4), WORLD, 1, Constructor::Dup);
    process.define(WINDOW, 1450, dup.child(0, 0), (rank, 4), DUP, 1, Constructor::WinAllocate);
    // Each alone: of three processes made by one call.
    let alone = world.child(1, rank.into());
    process.define(LEAKED, 1580, alone, (0, 1), WORLD, 1, Constructor::Split);
    let mut between = Definition {
        identity: world.child(2, 0),
        rank: rank % 2,
        size: 2,
        parent: WORLD,
        site: 1,
        constructor: Constructor::IntercommCreate,
        flags: DefinitionFlags::NONE,
    };
    if rank == 2 {
        between = Definition { size: 1, flags: DefinitionFlags::SECOND_GROUP, ..between };
    }
    process.add(Chunk::Defined { id: BETWEEN, ticks: 1680, definition: between });
    process.add(Chunk::Name { id: DUP, text: dup_name() });
    for (thread, events) in threads(rank) {
        // In pieces, as buffers are written.
        for piece in events.chunks(3) {
            let bytes: Vec<u8> = piece.iter().flat_map(Event::to_bytes).collect();
            process.add(Chunk::Events { thread, bytes: &bytes });
        }
    }
    if rank == 2 {
        process.add(Chunk::Freed { id: LEAKED, ticks: 2500 });
    } else {
        process.add(Chunk::Freed { id: WINDOW, ticks: 8950 });
        process.add(Chunk::Freed { id: DUP, ticks: 9100 });
        process.add(Chunk::Clock { ticks: 10_000, unix_nanos: BEGIN + 10_000 });
        process.add(Chunk::End { dropped: if rank == 1 { 5 } else { 0 }, lost: 0 });
    }
    process.killed(directory);
}
