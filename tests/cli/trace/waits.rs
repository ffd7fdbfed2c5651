//! `rankway trace waits`: seconds of calls whose times are known.

use crate::command::{array, named, number, prints};
use crate::job::{Directory, Process, WORLD};
use rankway::track::{Constructor, Event, EventFlags, Identity, Kind, NO_PEER};
use serde_json::Value;

fn ns(report: &Value, rank: u32, key: &str) -> u64 {
    let one = named(report, "ranks", "rank", &rank.to_string());
    (number(one, key) * 1e9).round() as u64
}

/// Each of these processes, which it writes.
fn job(directory: &Directory, size: u32, write: impl Fn(&mut Process, u32)) {
    for rank in 0..size {
        let mut process = Process::new(6, rank, size);
        write(&mut process, rank);
        process.end(directory);
    }
}

#[test]
fn late_senders_and_receivers() {
    let directory = Directory::new();
    job(&directory, 2, |process, rank| {
        if rank == 0 {
            process.call(Kind::Send, (400, 450), WORLD, 1, 8);
            process.call(Kind::Ssend, (1000, 1600), WORLD, 1, 8);
            // Eager: it was over before the receive came.
            process.call(Kind::Send, (2000, 2010), WORLD, 1, 8);
            // Rendezvous.
            process.call(Kind::Send, (3000, 3900), WORLD, 1, 1 << 20);
            process.call(Kind::Isend, (5000, 5001), WORLD, 1, 8);
            process.call(Kind::Isend, (5300, 5301), WORLD, 1, 8);
        } else {
            process.call(Kind::Recv, (100, 460), WORLD, 0, 8);
            process.call(Kind::Recv, (1500, 1600), WORLD, 0, 8);
            process.call(Kind::Recv, (2500, 2510), WORLD, 0, 8);
            process.call(Kind::Recv, (3700, 3900), WORLD, 0, 1 << 20);
            process.call(Kind::Irecv, (4000, 4001), WORLD, 0, 8);
            process.call(Kind::Irecv, (4001, 4002), WORLD, NO_PEER, 8);
            // Both end in one call, which waits for the later.
            process.call(Kind::Received, (5310, 5310), WORLD, 0, 8);
            process.call(Kind::Received, (5310, 5310), WORLD, 0, 8);
            process.call(Kind::Waitall, (4900, 5310), WORLD, NO_PEER, 0);
        }
    });
    let report = directory.json("waits", &[]);
    assert_eq!(ns(&report, 1, "late_sender"), 300 + 400, "{report}");
    assert_eq!(ns(&report, 0, "late_receiver"), 500 + 700, "{report}");
    assert_eq!(ns(&report, 0, "caused"), 700);
    assert_eq!(ns(&report, 1, "caused"), 1200);
    assert_eq!((&report["messages"], array(&report, "unmatched").len()), (&6.into(), 0));
    let waits = array(&report, "waits");
    let of = |call: &str, cause: &str| {
        let one = waits.iter().find(|one| one["call"] == call && one["cause"] == cause);
        let one = one.unwrap_or_else(|| panic!("no {call}, {cause} in {report}"));
        (one["calls"].as_u64(), (number(one, "seconds") * 1e9).round() as u64)
    };
    assert_eq!(of("MPI_Waitall", "late_sender"), (Some(1), 400));
    assert_eq!(of("MPI_Recv", "late_sender"), (Some(1), 300));
    assert_eq!(of("MPI_Ssend", "late_receiver"), (Some(1), 500));
    assert_eq!(of("MPI_Send", "late_receiver"), (Some(1), 700));
    prints("trace", &["waits", directory.text()], &["late sender", "MPI_Ssend", "6 messages"]);
}

/// The k-th send has the k-th receive of its communicator and tag, however the threads
/// wrote them down; what has no other side is named.
#[test]
fn messages_are_matched_in_order() {
    let directory = Directory::new();
    const COPY: u32 = 9;
    job(&directory, 2, |process, rank| {
        let identity = Identity::world(6).child(0, 0);
        process.define(COPY, 1, identity, (rank, 2), WORLD, 0, Constructor::Dup);
        let kind = if rank == 0 { Kind::Ssend } else { Kind::Recv };
        for n in 0..10 {
            // In the duplicate each receive is 50 late, in the world none.
            let start = 1000 * n + if rank == 0 { 100 } else { 150 };
            process.call(kind, (start, 1000 * n + 200), COPY, 1 - rank, 8);
            process.call(kind, (1000 * n + 300, 1000 * n + 310), WORLD, 1 - rank, 8);
        }
        if rank == 0 {
            (0..3).for_each(|_| process.call(Kind::Isend, (20_000, 20_001), COPY, 1, 8));
            let failed = Event::new(Kind::Send, 1, 2).with(WORLD, 1, 7);
            process.event(failed.flagged(EventFlags::FAILED));
        } else {
            process.event(Event::new(Kind::Recv, 30_000, 30_001).with(WORLD, 0, 99));
        }
    });
    let report = directory.json("waits", &[]);
    assert_eq!(ns(&report, 0, "late_receiver"), 500);
    assert_eq!(report["messages"], 20);
    let unmatched = array(&report, "unmatched");
    assert_eq!(unmatched.len(), 2, "{report}");
    for (tag, sends, receives) in [(7, 3, 0), (99, 0, 1)] {
        let one = unmatched.iter().find(|one| one["tag"] == tag).expect("there");
        assert_eq!((&one["sends"], &one["receives"]), (&sends.into(), &receives.into()), "{one}");
        assert_eq!((&one["source"], &one["destination"]), (&"0".into(), &"1".into()));
    }
    prints("trace", &["waits", directory.text()], &["sends without", "99"]);
}

/// Collectives against a sum over all starts.
#[test]
fn all_wait_for_the_last_to_come() {
    let directory = Directory::new();
    const SIZE: u32 = 7;
    const WINDOW: u32 = 3;
    let starts = |k: u64, rank: u32| 10_000 * k + 100 * ((u64::from(rank) * 5 + k * 3) % 11);
    let kinds = [
        (Kind::Barrier, "barrier"),
        (Kind::Allreduce, "collective"),
        (Kind::Fence, "fence"),
        (Kind::Alltoall, "collective"),
        (Kind::Bcast, "collective"),
        (Kind::Reduce, "collective"),
        (Kind::Scan, "collective"),
    ];
    const ROOT: u32 = 2;
    job(&directory, SIZE, |process, rank| {
        let window = Identity::world(6).child(0, 0);
        process.define(WINDOW, 1, window, (rank, SIZE), WORLD, 0, Constructor::WinCreate);
        for (k, (kind, _)) in kinds.iter().enumerate() {
            let start = starts(k as u64, rank);
            let comm = if *kind == Kind::Fence { WINDOW } else { WORLD };
            let root = if matches!(kind, Kind::Bcast | Kind::Reduce) { ROOT } else { NO_PEER };
            // Long enough for the last to come.
            process.call(*kind, (start, 10_000 * k as u64 + 2000), comm, root, 8);
        }
    });
    let report = directory.json("waits", &[]);
    for rank in 0..SIZE {
        for key in ["barrier", "collective", "fence"] {
            let mut expected = 0;
            for (k, (kind, word)) in kinds.iter().enumerate().filter(|(_, (_, word))| *word == key)
            {
                let own = starts(k as u64, rank);
                let last = (0..SIZE).map(|other| starts(k as u64, other)).max().expect("some");
                expected += match kind {
                    Kind::Bcast => starts(k as u64, ROOT).saturating_sub(own),
                    Kind::Reduce if rank == ROOT => last - own,
                    Kind::Reduce | Kind::Scan => 0,
                    _ => last - own,
                };
                assert_eq!(*word, key);
            }
            assert_eq!(ns(&report, rank, key), expected, "{rank} {key}: {report}");
        }
    }
    assert_eq!((&report["collectives"], &report["unmatched_collectives"]), (&7.into(), &0.into()));
}

/// A rank that was killed misses calls: what does not fit together is not guessed.
#[test]
fn what_does_not_fit_is_counted() {
    let directory = Directory::new();
    job(&directory, 3, |process, rank| {
        for k in 0..if rank == 1 { 2 } else { 5 } {
            let start = 1000 * k + 100 * u64::from(rank);
            process.call(Kind::Barrier, (start, 1000 * k + 300), WORLD, NO_PEER, 0);
        }
    });
    let report = directory.json("waits", &[]);
    assert_eq!((&report["collectives"], &report["unmatched_collectives"]), (&2.into(), &3.into()));
    assert_eq!(ns(&report, 0, "barrier"), 400);
    prints("trace", &["waits", directory.text()], &["3 collectives do not fit together"]);
    let quiet = Directory::new();
    Process::new(1, 0, 1).end(&quiet);
    prints("trace", &["waits", quiet.text()], &["0 messages"]);
}

/// On one node all read the same clock: what each thinks its ticks are in ns differs a little.
#[test]
fn one_clock_for_a_node() {
    let directory = Directory::new();
    for rank in 0..2 {
        let mut process = Process::with_clock(6, rank, 2, u64::from(rank) * 777);
        let start = if rank == 0 { 100 } else { 400 };
        process.call(Kind::Barrier, (start, 500), WORLD, NO_PEER, 0);
        process.end(&directory);
    }
    assert_eq!(ns(&directory.json("waits", &[]), 0, "barrier"), 300);
}

/// The end of a receive says which it is: one that was cancelled, and one that was posted for
/// another message, are not taken for it.
#[test]
fn receives_are_as_old_as_their_posts() {
    let directory = Directory::new();
    job(&directory, 2, |process, rank| {
        if rank == 0 {
            process.call(Kind::Ssend, (1000, 1600), WORLD, 1, 8);
            process.call(Kind::Ssend, (2000, 2900), WORLD, 1, 8);
            return;
        }
        process.call(Kind::Irecv, (100, 110), WORLD, 0, 0);
        process.call(Kind::Cancel, (120, 130), WORLD, NO_PEER, 0);
        process.call(Kind::Wait, (140, 150), WORLD, NO_PEER, 0);
        let cancelled = Event::new(Kind::Received, 100, 150).with(WORLD, NO_PEER, -1);
        process.event(cancelled.flagged(EventFlags::CANCELLED));
        process.call(Kind::Irecv, (1500, 1510), WORLD, 0, 0);
        process.call(Kind::Wait, (1520, 1600), WORLD, NO_PEER, 0);
        process.call(Kind::Received, (1500, 1600), WORLD, 0, 8);
        // (A wildcard that takes nothing in the end.)
        process.call(Kind::Irecv, (1700, 1710), WORLD, NO_PEER, 0);
        process.call(Kind::Irecv, (2800, 2810), WORLD, 0, 0);
        process.call(Kind::Wait, (2820, 2900), WORLD, NO_PEER, 0);
        process.call(Kind::Received, (2800, 2900), WORLD, 0, 8);
    });
    let report = directory.json("waits", &[]);
    assert_eq!(ns(&report, 0, "late_receiver"), 500 + 800, "{report}");
    assert_eq!((&report["messages"], array(&report, "unmatched").len()), (&2.into(), 0));
}
