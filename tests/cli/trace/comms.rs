//! `rankway trace comms`: the tree, what went through, the census of maps.

use crate::command::{array, has, number, prints};
use crate::job::{Directory, Process, WORLD};
use rankway::rankmap::RankMap;
use rankway::track::{Chunk, Constructor, Identity, Kind, NO_PARENT, NO_PEER};
use serde_json::Value;
use std::collections::BTreeMap;

const SIZE: u32 = 12;
/// Communicators as lists of world ranks: halves by parity, rows, an irregular one, and
/// duplicates of the first half.
const EVEN: u32 = 10;
const ODD: u32 = 11;
const UPPER: u32 = 12;
const BLOCKS: u32 = 13;
const MIXED: u32 = 14;
const COPY: u32 = 20;
const COPIES: u32 = 6;

fn members(id: u32) -> Vec<u32> {
    match id {
        EVEN => (0..SIZE / 2).map(|r| 2 * r).collect(),
        ODD => (0..SIZE / 2).map(|r| 2 * r + 1).collect(),
        UPPER => (4..SIZE).collect(),
        BLOCKS => vec![0, 1, 4, 5, 8, 9],
        MIXED => vec![5, 0, 11, 3, 2, 7, 8],
        id if (COPY..COPY + COPIES).contains(&id) => members(EVEN),
        _ => (0..SIZE).collect(),
    }
}

fn all() -> Vec<u32> {
    [WORLD, EVEN, ODD, UPPER, BLOCKS, MIXED].into_iter().chain(COPY..COPY + COPIES).collect()
}

fn written(directory: &Directory) {
    for rank in 0..SIZE {
        let mut process = Process::new(3, rank, SIZE);
        process.add(Chunk::Site { site: 1, text: "grid.f90:12" });
        process.define(2, 0, Identity(77), (0, 1), NO_PARENT, 0, Constructor::ItSelf);
        for id in all().into_iter().filter(|&id| id != WORLD) {
            let Some(own) = members(id).iter().position(|&member| member == rank) else { continue };
            let of = (own as u32, members(id).len() as u32);
            let (parent, constructor) = match id {
                EVEN | ODD => (WORLD, Constructor::Split),
                UPPER | BLOCKS | MIXED => (WORLD, Constructor::Create),
                _ => (EVEN, Constructor::Dup),
            };
            let identity = Identity::world(3).child(id, 0);
            process.define(id, u64::from(id) * 10, identity, of, parent, 1, constructor);
            if id == UPPER {
                process.add(Chunk::Name { id, text: "upper <&>" });
                process.add(Chunk::Freed { id, ticks: 125 });
            }
            // To the next in it, and a sum.
            process.call(Kind::Send, (1000, 1010), id, (of.0 + 1) % of.1, u64::from(id));
            process.call(Kind::Allreduce, (1020, 1040), id, NO_PEER, 8);
        }
        process.end(directory);
    }
}

#[test]
fn the_tree_has_makers_maps_and_traffic() {
    let directory = Directory::new();
    written(&directory);
    let report = directory.json("comms", &[]);
    let comms = array(&report, "communicators");
    assert_eq!(comms.len(), all().len() + 1, "{report}");
    let ids: BTreeMap<u64, &Value> =
        comms.iter().map(|one| (one["id"].as_u64().expect("a number"), one)).collect();
    let parent = |one: &Value| one["parent"].as_u64().map(|id| ids[&id]["constructor"].clone());
    let world = comms.iter().find(|one| one["constructor"] == "MPI_COMM_WORLD").expect("there");
    assert_eq!((&world["size"], &world["reported"]), (&SIZE.into(), &SIZE.into()));
    assert_eq!(world["maps"][0]["model"], "direct");
    let mut seen = Vec::new();
    for id in all().into_iter().filter(|&id| id != WORLD) {
        let (list, n) = (members(id), members(id).len() as u64);
        // The model by the library's own detection of the list.
        let model = RankMap::from_lpids(0, list.iter().copied()).expect("a map").model().name();
        let mut of = comms.iter().filter(|one| {
            one["message_bytes"] == n * u64::from(id) && one["maps"][0]["model"] == model
        });
        let one = of.next_back().unwrap_or_else(|| panic!("no {id}, {model}, in {report}"));
        assert_eq!((&one["size"], &one["reported"]), (&n.into(), &n.into()), "{one}");
        assert_eq!((&one["messages"], &one["collectives"]), (&n.into(), &n.into()), "{one}");
        assert_eq!(one["collective_bytes"], 8 * n);
        assert_eq!(one["key"][0], list[0], "{one}");
        assert_eq!(one["site"], "grid.f90:12");
        let maker = if id >= COPY { "MPI_Comm_split" } else { "MPI_COMM_WORLD" };
        assert_eq!(parent(one), Some(maker.into()), "{one}");
        assert_eq!(one["freed"], if id == UPPER { n } else { 0 });
        seen.push(model);
    }
    // Naively: what each process has at a time, the world and itself included.
    let alive = |rank: u32| {
        let has = all().into_iter().filter(|&id| members(id).contains(&rank));
        let before = has.clone().filter(|&id| id <= UPPER).count();
        1 + before.max(has.filter(|&id| id != UPPER).count())
    };
    let most = (0..SIZE).map(alive).max().expect("some");
    assert_eq!(number(&report, "alive_at_once") as usize, most);
    for row in array(&report, "census") {
        let model = row["model"].as_str().expect("a name");
        let mut expected = seen.iter().filter(|&&other| other == model).count();
        // The world, and MPI_COMM_SELF.
        expected += usize::from(model == "direct") + usize::from(model == "offset");
        assert_eq!(row["communicators"], expected, "{report}");
    }
    let census: u64 =
        array(&report, "census").iter().filter_map(|r| r["communicators"].as_u64()).sum();
    assert_eq!(census as usize, comms.len());
}

#[test]
fn many_that_are_alike_are_a_line() {
    let directory = Directory::new();
    written(&directory);
    let text = prints("trace", &["comms", directory.text()], &["MPI_Comm_dup ×6", "upper <&>"]);
    let lines: Vec<&str> = text.lines().collect();
    let line = |part: &str| lines.iter().position(|l| l.contains(part)).expect("there");
    assert!(line("MPI_COMM_WORLD") < line("  MPI_Comm_split"), "{text}");
    assert!(text.contains("\n    MPI_Comm_dup"), "{text}");
    has(&text, &["grid.f90:12", "alive at once", "stride"]);
    let all = prints("trace", &["comms", directory.text(), "--all"], &[]);
    assert_eq!(all.matches("MPI_Comm_dup").count(), COPIES as usize, "{all}");
}

/// A job of which some ranks left nothing, and one that did nothing.
#[test]
fn few_ranks_are_enough() {
    let directory = Directory::new();
    written(&directory);
    for rank in [2_u32, 7] {
        let name = format!("3.{rank}.rwt");
        std::fs::remove_file(directory.path().join(name)).expect("there");
    }
    let report = directory.json("comms", &[]);
    let comms = array(&report, "communicators");
    let world = comms.iter().find(|one| one["constructor"] == "MPI_COMM_WORLD").expect("there");
    assert_eq!((&world["size"], &world["reported"]), (&12.into(), &10.into()));
    assert_eq!(world["maps"][0]["model"], "direct");

    let quiet = Directory::new();
    Process::new(1, 0, 1).end(&quiet);
    prints("trace", &["comms", quiet.text()], &["MPI_COMM_WORLD", "direct"]);
}

/// Table I counts communicators: windows and files are said beside it.
#[test]
fn the_census_is_of_communicators() {
    let directory = Directory::new();
    for rank in 0..2 {
        let mut process = Process::new(3, rank, 2);
        for (id, constructor) in [
            (10, Constructor::Dup),
            (11, Constructor::WinAllocate),
            (12, Constructor::WinCreate),
            (13, Constructor::FileOpen),
        ] {
            let identity = Identity::world(3).child(id, 0);
            process.define(id, u64::from(id), identity, (rank, 2), WORLD, 0, constructor);
        }
        process.end(&directory);
    }
    let report = directory.json("comms", &[]);
    assert_eq!(array(&report, "communicators").len(), 5, "{report}");
    let [row] = &array(&report, "census")[..] else { panic!("{report}") };
    assert_eq!((&row["model"], &row["communicators"]), (&"direct".into(), &2.into()));
    assert_eq!((&row["alive_at_once"], &report["alive_at_once"]), (&2.into(), &2.into()));
    assert_eq!((&report["windows"], &report["files"]), (&2.into(), &1.into()));
    let text = prints("trace", &["comms", directory.text()], &["2 windows and 1 file are not"]);
    assert!(text.contains("at most 2 communicators alive at once"), "{text}");
}

/// Names stay in their lines and do nothing to a terminal; as data they are as they were given.
#[test]
fn names_of_any_bytes() {
    const NAMES: [&str; 5] = ["new\nline", "\u{1b}[31mred\u{7}", "\u{202e}evil", "中文", ""];
    let directory = Directory::new();
    for rank in 0..2 {
        let mut process = Process::new(4, rank, 2);
        for (id, name) in (10..).zip(NAMES) {
            let identity = Identity::world(4).child(id, 0);
            process.define(id, id.into(), identity, (rank, 2), WORLD, 0, Constructor::Dup);
            process.add(Chunk::Name { id, text: name });
            let came = 1000 * u64::from(id) + 400 * u64::from(rank);
            process.call(Kind::Barrier, (came, 1000 * u64::from(id) + 500), id, NO_PEER, 0);
        }
        process.end(&directory);
    }
    let report = directory.json("comms", &[]);
    let of = |one: &Value| one["constructor"] == "MPI_Comm_dup";
    let names: Vec<&Value> = array(&report, "communicators")
        .iter()
        .filter(|one| of(one))
        .map(|one| &one["name"])
        .collect();
    let mut want: Vec<Value> = NAMES.map(Value::from).into();
    want[4] = Value::Null;
    assert_eq!(names, want.iter().collect::<Vec<_>>(), "{report}");

    let shown = ["new\\nline", "\\u{1b}[31mred\\u{7}", "\\u{202e}evil", "中文"];
    let page = directory.path().join("page.html");
    let page = page.to_str().expect("a plain path");
    prints("trace", &["report", directory.text(), "-o", page], &["page.html"]);
    let page = std::fs::read_to_string(page).expect("written");
    let matrix = prints("trace", &["matrix", directory.text(), "-m", NAMES[0]], &["in new\\nline"]);
    let texts = ["comms", "waits", "leaks"]
        .map(|what| prints("trace", &[what, directory.text()], &shown))
        .into_iter()
        .chain([page, matrix]);
    for text in texts {
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text}");
        assert!(!text.contains("new\n"), "{text}");
    }
    // What has no name is called by what made it, here with the name of the others behind.
    let tree = prints("trace", &["comms", directory.text()], &["\n  MPI_Comm_dup "]);
    let place = |part: &str| {
        let line = tree.lines().find(|line| line.contains(part)).expect("a line");
        let to = line.find(" direct").expect("a map");
        line[..to].chars().map(|c| if c > '\u{2e80}' { 2 } else { 1 }).sum::<usize>()
    };
    assert_eq!(place("中文"), place("red"), "{tree}");
}
