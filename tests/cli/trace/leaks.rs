//! `rankway trace leaks`: what was never freed, where it was made, and the limit.

use crate::command::{array, prints};
use crate::job::{Directory, Process, WORLD};
use rankway::track::{Chunk, Constructor, Identity};

/// Every rank duplicates the world at one line and frees only every third; rank 1 makes
/// types of its own; a group is freed.
pub(crate) fn leaking(directory: &Directory, copies: u32, later: u64) {
    for rank in 0..3 {
        let mut process = Process::with_clock(5, rank, 3, later);
        process.add(Chunk::Fact { key: "limit", text: "2048" });
        process.add(Chunk::Site { site: 1, text: "halo.c:41" });
        process.add(Chunk::Site { site: 2, text: "/nonexistent/halo+0x12" });
        for n in 0..copies {
            let id = 10 + n;
            let identity = Identity::world(5).child(n, 0);
            let ticks = u64::from(100 * n);
            process.define(id, ticks, identity, (rank, 3), WORLD, 1, Constructor::Dup);
            if n % 3 == 0 {
                process.add(Chunk::Freed { id, ticks: ticks + 150 });
            }
        }
        for n in 0..if rank == 1 { 4 } else { 0 } {
            let identity = Identity(u64::from(n));
            process.define(900 + n, 50, identity, (0, 1), 0, 2, Constructor::TypeConstruct);
        }
        process.define(990, 60, Identity(1), (rank, 3), WORLD, 2, Constructor::CommGroup);
        process.add(Chunk::Freed { id: 990, ticks: 61 });
        process.end(directory);
    }
}

#[test]
fn leaks_are_counted_by_line() {
    let directory = Directory::new();
    leaking(&directory, 30, 0);
    let report = directory.json("leaks", &[]);
    let leaks = array(&report, "leaks");
    assert_eq!(leaks.len(), 2, "{report}");
    let (dup, types) = (&leaks[0], &leaks[1]);
    assert_eq!(
        (&dup["kind"], &dup["constructor"]),
        (&"communicator".into(), &"MPI_Comm_dup".into())
    );
    assert_eq!((&dup["site"], &dup["objects"]), (&"halo.c:41".into(), &20.into()));
    assert_eq!((&dup["ranks"], &dup["most_on_a_rank"]), (&3.into(), &20.into()));
    assert_eq!((&types["kind"], &types["objects"]), (&"datatype".into(), &4.into()));
    assert_eq!((&types["ranks"], &types["on_rank"]), (&1.into(), &"1".into()));
    assert_eq!(types["site"], "/nonexistent/halo+0x12");
    // By hand: the world; 20 of 30 stay; each third lives for one and a half steps.
    let mut alive = vec![1_u32; 31 * 2];
    for n in 0..30_usize {
        let end = if n % 3 == 0 { 2 * n + 3 } else { alive.len() };
        alive[2 * n..end].iter_mut().for_each(|count| *count += 1);
    }
    let most = alive.iter().max().copied();
    let told = &report["communicators"];
    assert_eq!((told["limit"].as_u64(), told["alive_at_the_end"].as_u64()), (Some(2048), Some(21)));
    assert_eq!(told["most_at_once"].as_u64(), most.map(u64::from));
    let text =
        prints("trace", &["leaks", directory.text()], &["MPI_Comm_dup", "halo.c:41", "2,048"]);
    assert!(!text.contains("MPI_Comm_group"), "{text}");
}

#[test]
fn what_frees_all_leaks_nothing() {
    let directory = Directory::new();
    Process::new(5, 0, 1).end(&directory);
    let report = directory.json("leaks", &[]);
    assert!(array(&report, "leaks").is_empty());
    assert_eq!(report["communicators"]["limit"], serde_json::Value::Null);
    prints("trace", &["leaks", directory.text()], &["all that was made was freed"]);
}

/// A process whose record misses ends may have freed what it has left: that is no leak.
#[test]
fn what_may_have_been_freed_is_no_leak() {
    let directory = Directory::new();
    for rank in 0..2 {
        let mut process = Process::new(5, rank, 2);
        let identity = Identity::world(5).child(0, 0);
        process.define(10, 5, identity, (rank, 2), WORLD, 0, Constructor::Dup);
        match rank {
            0 => {
                process.add(Chunk::Freed { id: 10, ticks: 9 });
                process.end(&directory);
            }
            _ => process.end_without(3, &directory),
        }
    }
    let report = directory.json("leaks", &[]);
    assert!(array(&report, "leaks").is_empty(), "{report}");
    assert_eq!(report["unknown"], 1, "{report}");
    let job = &array(&report, "jobs")[0];
    assert_eq!(job["lost"], 3);
    assert_eq!(job["lost_on"], serde_json::json!([{"rank": 1, "lost": 3}]));
    let told = &report["communicators"];
    assert_eq!((&told["alive_at_the_end"], &told["at_the_end_on_rank"]), (&1.into(), &"0".into()));
    let parts =
        ["3 records of what was made or freed", "3 of rank 1", "1 of which it is not known"];
    let text = prints("trace", &["leaks", directory.text()], &parts);
    assert!(!text.contains("was freed\n") && !text.contains("MPI_Comm_dup"), "{text}");
    let text = prints("trace", &["comms", directory.text()], &[parts[0], parts[1]]);
    let line = text.lines().find(|line| line.contains("MPI_Comm_dup")).expect("there");
    assert!(line.contains("by 1, 1 unknown"), "{text}");
    let report = directory.json("comms", &[]);
    let comms = array(&report, "communicators");
    let dup = comms.iter().find(|one| one["constructor"] == "MPI_Comm_dup").expect("there");
    assert_eq!((&dup["freed"], &dup["freed_unknown"]), (&1.into(), &1.into()), "{dup}");
    let page = directory.path().join("page.html");
    let page = page.to_str().expect("text");
    prints("trace", &["report", directory.text(), "-o", page], &[]);
    let page = std::fs::read_to_string(page).expect("written");
    parts.iter().for_each(|part| assert!(page.contains(part), "no {part}"));
}

/// The rank that had most at once is not the one that has most at the end.
#[test]
fn each_most_is_a_rank_s_own() {
    let directory = Directory::new();
    for rank in 0..2 {
        let mut process = Process::new(5, rank, 2);
        for n in 0..if rank == 0 { 29 } else { 100 } {
            let (id, ticks) = (10 + n, u64::from(n));
            let identity = Identity::world(5).child(n, u64::from(rank));
            process.define(id, ticks, identity, (0, 1), WORLD, 0, Constructor::Split);
            if rank == 1 && n >= 19 {
                process.add(Chunk::Freed { id, ticks: 1_000 });
            }
        }
        process.end(&directory);
    }
    let told = &directory.json("leaks", &[])["communicators"];
    assert_eq!((&told["most_at_once"], &told["on_rank"]), (&101.into(), &"1".into()), "{told}");
    assert_eq!((&told["alive_at_the_end"], &told["at_the_end_on_rank"]), (&30.into(), &"0".into()));
    let part = "at most 101 at once (rank 1), at most 30 at the end (rank 0)";
    prints("trace", &["leaks", directory.text()], &[part]);
}
