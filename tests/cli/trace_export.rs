//! `rankway trace export`: what is written is read back field by field, by readers of our
//! own that follow the formats' definitions; targets that are there, full or not writable.
#![cfg(target_os = "linux")]

#[path = "trace_export/archive.rs"]
mod archive;
#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/command.rs"]
mod command;
#[allow(dead_code, reason = "each test binary uses its part")]
#[path = "trace/job.rs"]
mod job;
#[path = "trace_export/made.rs"]
mod made;
#[path = "trace_export/protobuf.rs"]
mod protobuf;

use command::{array, command, has, json, named, number, refuses, run};
use made::{BEGIN, Made, dup_name};
use protobuf::{Fields, fields};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Rows of a table by RFC 4180, as maps from heads.
fn table(path: &Path) -> Vec<HashMap<String, String>> {
    let all = fs::read_to_string(path).expect("a table");
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut rest = all.chars().peekable();
    let mut inside = false;
    while let Some(c) = rest.next() {
        match (inside, c) {
            (true, '"') if rest.peek() == Some(&'"') => cell.push(rest.next().expect("peeked")),
            (_, '"') => inside = !inside,
            (false, ',') => row.push(std::mem::take(&mut cell)),
            (false, '\r') => {
                assert_eq!(rest.next(), Some('\n'), "{}", path.display());
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            (false, '\n') => panic!("a line ends without CR in {}", path.display()),
            _ => cell.push(c),
        }
    }
    assert!(!inside && cell.is_empty() && row.is_empty(), "{} ends within a line", path.display());
    let heads = rows.remove(0);
    let row = |row: Vec<String>| {
        assert_eq!(row.len(), heads.len(), "{row:?} in {}", path.display());
        heads.iter().cloned().zip(row).collect()
    };
    rows.into_iter().map(row).collect()
}

#[test]
fn tables_have_what_was_recorded() {
    let made = Made::new();
    let to = made.beside("tables");
    let answer = json("trace", &["export", made.path(), "--csv", text(&to)]);
    let [job] = &array(&answer, "jobs")[..] else { panic!("{answer}") };
    for events in [&answer, job] {
        assert_eq!(number(events, "events"), made.events() as f64);
    }
    assert_eq!(number(job, "dropped"), 5.0);
    let written = named(&answer, "exports", "format", "csv");
    let size: u64 = fs::read_dir(&to)
        .expect("there")
        .map(|entry| entry.and_then(|entry| entry.metadata()).expect("a file").len())
        .sum();
    assert_eq!(number(written, "bytes"), size as f64);
    assert!(number(written, "events_per_second") > 0.0 && number(written, "bytes_per_event") > 0.0);

    let processes = table(&to.join("processes.csv"));
    assert_eq!(processes.len(), 3);
    for (rank, row) in processes.iter().enumerate() {
        assert_eq!((row["job"].as_str(), &row["rank"]), ("abc", &rank.to_string()));
        assert_eq!(row["program"], "solver, \"big\"");
        assert_eq!(row["mpi"], "an MPI,\r\nof \"here\"");
        assert_eq!(row["ended"], (rank != 2).to_string());
        assert_eq!(row["dropped"], if rank == 1 { "5" } else { "0" });
    }

    let definitions = table(&to.join("definitions.csv"));
    let dups: Vec<_> = definitions.iter().filter(|row| row["made_by"] == "MPI_Comm_dup").collect();
    assert_eq!(dups.len(), 3);
    let identities: BTreeSet<&String> = dups.iter().map(|row| &row["identity"]).collect();
    assert_eq!(identities.len(), 1);
    for (rank, row) in dups.iter().enumerate() {
        assert_eq!((&row["local_rank"], row["size"].as_str()), (&rank.to_string(), "4"));
        assert_eq!(row["name"], dup_name());
        assert_eq!((row["site"].as_str(), row["kind"].as_str()), ("solver.c:12", "communicator"));
        assert_eq!(row["made_ns"], (BEGIN + 1300).to_string());
        assert_eq!(
            row["freed_ns"],
            if rank == 2 { String::new() } else { (BEGIN + 9100).to_string() }
        );
        let world = definitions.iter().find(|row| row["made_by"] == "MPI_COMM_WORLD");
        assert_eq!(row["parent_identity"], world.expect("the world")["identity"]);
    }

    let events = table(&to.join("events.csv"));
    assert_eq!(events.len(), made.events());
    let find = |rank: &str, call: &str| {
        let of_it = |row: &&HashMap<_, _>| row["rank"] == rank && row["call"] == call;
        let mut all = events.iter().filter(|row| of_it(row) && row["tag"] != "3");
        let one = all.next().unwrap_or_else(|| panic!("no {call} of {rank}"));
        assert!(all.next().is_none(), "two {call} of {rank}");
        one
    };
    let sent = find("0", "MPI_Send");
    let want = [
        ("thread", "0"),
        ("class", "send"),
        ("start_ns", &(BEGIN + 2000).to_string()),
        ("end_ns", &(BEGIN + 2100).to_string()),
        ("object", "3"),
        ("local_rank", "0"),
        ("peer", "1"),
        ("peer_rank", "1"),
        ("tag", "7"),
        ("bytes", "64"),
        ("failed", "false"),
    ];
    for (head, value) in want {
        assert_eq!(sent[head], value, "{head}");
    }
    assert_eq!(&sent["identity"], *identities.first().expect("one"));
    assert_eq!(
        (find("0", "MPI_Barrier")["peer"].as_str(), find("0", "MPI_Bcast")["peer"].as_str()),
        ("", "0")
    );
    assert_eq!(find("1", "(received)")["bytes"], "128");
    assert_eq!(find("0", "MPI_Comm_dup")["class"], "management");
    // Ranks of an intercommunicator are those of the other group.
    let between: Vec<_> = events.iter().filter(|row| row["tag"] == "3").collect();
    for (row, rank, peer) in [(between[0], "0", "2"), (between[1], "2", "0")] {
        let told = [&row["rank"], &row["peer"], &row["peer_rank"]];
        assert_eq!(told, [rank, "0", peer]);
    }

    let objects = table(&to.join("communicators.csv"));
    let made_by: Vec<&str> = objects.iter().map(|row| row["made_by"].as_str()).collect();
    let want = [
        "MPI_COMM_WORLD",
        "MPI_COMM_SELF",
        "MPI_Comm_dup",
        "MPI_Win_allocate",
        "MPI_Comm_split",
        "MPI_Intercomm_create",
    ];
    assert_eq!(made_by, want);
    let dup = &objects[2];
    assert_eq!(dup["parent_identity"], objects[0]["identity"]);
    assert_eq!(&dup["identity"], *identities.first().expect("one"));
    assert_eq!(dup["name"], dup_name());
    assert_eq!(
        [&dup["size"], &dup["seen"], &dup["freed"], &dup["model"]],
        ["4", "3", "2", "direct"]
    );
    assert_eq!(dup["last_freed_ns"], (BEGIN + 9100).to_string());
    assert_eq!([&objects[4]["of_each"], &objects[4]["size"]], ["true", "1"]);
    assert_eq!([&objects[5]["size"], &objects[5]["remote_size"]], ["2", "1"]);
    assert_eq!(find("0", "MPI_Ssend")["failed"], "true");
}

/// Interned texts by field of `InternedData` and number.
type Interned = BTreeMap<(u32, u64), String>;

/// An event of a track: type, time, name, annotations, flows that begin or pass and that
/// end.
struct Slice {
    kind: u64,
    time: u64,
    name: String,
    notes: BTreeMap<String, String>,
    begins: Vec<u64>,
    ends: Vec<u64>,
}

fn slice(time: u64, event: &Fields<'_>, interned: &Interned) -> Slice {
    let said = |field, iid| interned.get(&(field, iid)).cloned().unwrap_or_default();
    let mut notes = BTreeMap::new();
    for note in event.messages(4) {
        let name = said(3, note.number(1).expect("a name"));
        let value = match (note.number(17), note.number(3), note.number(4), note.number(2)) {
            (Some(iid), ..) => said(29, iid),
            (_, Some(unsigned), ..) => unsigned.to_string(),
            (_, _, Some(signed), _) => (signed as i64).to_string(),
            (.., Some(truth)) => (truth == 1).to_string(),
            _ => panic!("no value for {name}"),
        };
        notes.insert(name, value);
    }
    if let Some(category) = event.number(3) {
        notes.insert("category".into(), said(1, category));
    }
    let name = event.number(10).map_or_else(String::new, |iid| said(2, iid));
    assert!(event.number(10).is_none() || !name.is_empty(), "a name that is not interned");
    let (begins, ends) = (event.fixed(47), event.fixed(48));
    Slice { kind: event.number(9).expect("a type"), time, name, notes, begins, ends }
}

#[test]
fn a_timeline_has_every_call_and_message() {
    let made = Made::new();
    let to = made.beside("timeline.pftrace");
    let answer = json("trace", &["export", made.path(), "--perfetto", text(&to)]);
    let bytes = fs::read(&to).expect("written");
    let written = named(&answer, "exports", "format", "perfetto");
    assert_eq!(number(written, "bytes"), bytes.len() as f64);

    let mut interned = Interned::new();
    let mut processes = BTreeMap::new();
    let mut threads: BTreeMap<u64, (u64, String)> = BTreeMap::new();
    let mut slices: BTreeMap<u64, Vec<Slice>> = BTreeMap::new();
    let packets = fields(&bytes).messages(1);
    assert_eq!(number(written, "records"), packets.len() as f64);
    for (at, packet) in packets.iter().enumerate() {
        assert_eq!(packet.number(10), Some(1), "one sequence");
        assert_eq!(packet.number(13), Some(if at == 0 { 1 } else { 2 }), "flags of packet {at}");
        for data in packet.messages(12) {
            for field in [1, 2, 3, 29] {
                for entry in data.messages(field) {
                    let key = (field, entry.number(1).expect("a number"));
                    let old = interned.insert(key, entry.text(2).expect("a text").to_owned());
                    assert!(old.is_none(), "{key:?} is interned twice");
                }
            }
        }
        for track in packet.messages(60) {
            let uuid = track.number(1).expect("a number");
            match track.messages(3).first() {
                Some(process) => {
                    let name = process.text(6).expect("a name").to_owned();
                    processes.insert(uuid, (process.number(1).expect("a pid"), name));
                }
                None => {
                    let parent = track.number(5).expect("a parent");
                    assert!(processes.contains_key(&parent));
                    threads.insert(uuid, (parent, track.text(2).expect("a name").to_owned()));
                }
            }
        }
        for event in packet.messages(11) {
            let track = event.number(11).expect("a track");
            assert!(threads.contains_key(&track), "no track {track}");
            let time = packet.number(8).expect("a time");
            slices.entry(track).or_default().push(slice(time, &event, &interned));
        }
    }
    let names: Vec<_> = processes.values().cloned().collect();
    let name = |rank: u64| (1000 + rank, format!("rank {rank} on host{}", rank / 2));
    assert_eq!(names, [name(0), name(1), name(2)]);
    assert_eq!(threads.len(), 4, "rank 0 has two: {threads:?}");

    // Slices are a stack in order of time, and every call is there.
    let (mut begun, mut flows) = (0, BTreeMap::<u64, (Vec<u64>, Vec<u64>)>::new());
    for (track, slices) in &slices {
        let (mut depth, mut last) = (0, 0);
        for one in slices {
            assert!(one.time >= last, "time goes back on track {track}");
            last = one.time;
            match one.kind {
                1 => depth += 1,
                2 => depth -= 1,
                3 => assert_eq!(one.name, "(received)"),
                other => panic!("type {other}"),
            }
            assert!(depth >= 0);
            begun += usize::from(one.kind == 1);
            one.begins.iter().for_each(|&id| flows.entry(id).or_default().0.push(*track));
            one.ends.iter().for_each(|&id| flows.entry(id).or_default().1.push(*track));
        }
        assert_eq!(depth, 0);
    }
    assert_eq!(begun, made.calls(), "all but what ended in others");
    // Two messages of the same ends and tag, one of another, one between groups; and what
    // failed has none.
    let rank = |track: &u64| processes[&threads[track].0].1.as_str();
    let mut receivers = Vec::new();
    for (id, (from, to)) in &flows {
        assert_eq!((from.len(), to.len()), (1, 1), "flow {id}");
        assert_eq!(rank(&from[0]), "rank 0 on host0");
        receivers.push(rank(&to[0]));
    }
    receivers.sort_unstable();
    let first = "rank 1 on host0";
    assert_eq!(receivers, [first, first, first, "rank 2 on host1"]);

    let all: Vec<&Slice> = slices.values().flatten().collect();
    let sent = all.iter().find(|one| one.name == "MPI_Send").expect("a send");
    assert_eq!((sent.kind, sent.time), (1, 2000));
    let want = [
        ("bytes", "64"),
        ("category", "send"),
        ("communicator", dup_name()),
        ("peer", "1"),
        ("tag", "7"),
    ];
    assert_eq!(sent.notes, want.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    let failed = all.iter().find(|one| one.name == "MPI_Ssend").expect("the one that failed");
    assert_eq!((failed.notes["failed"].as_str(), failed.begins.len()), ("true", 0));
    assert!(all.iter().any(|one| one.name == "MPI_Comm_dup"));
    let put = all.iter().find(|one| one.name == "MPI_Put").expect("a put");
    assert!(put.notes["communicator"].starts_with("MPI_Win_allocate "), "{:?}", put.notes);
}

#[test]
fn what_is_there_is_not_overwritten() {
    let made = Made::new();
    let (file, tables) = (made.beside("a.pftrace"), made.beside("tables"));
    let args = ["export", made.path(), "--perfetto", text(&file), "--csv", text(&tables)];
    fs::write(&file, "mine").expect("written");
    let refused = |what: &Path| {
        let out = run("trace", &args);
        assert_eq!(out.status.code(), Some(1));
        has(&String::from_utf8_lossy(&out.stderr), &[text(what), "already", "--force"]);
    };
    refused(&file);
    assert!(!tables.exists(), "nothing of what could have been written");
    assert_eq!(fs::read_to_string(&file).expect("there"), "mine");
    fs::remove_file(&file).expect("there");
    fs::create_dir(&tables).expect("made");
    fs::write(tables.join("mine"), "mine").expect("written");
    refused(&tables);
    assert!(!file.exists());
    for _ in 0..2 {
        let out = run("trace", &[&args[..], &["--force"]].concat());
        assert!(out.status.success(), "{out:?}");
        assert!(fs::metadata(&file).expect("there").len() > 100);
        assert!(table(&tables.join("events.csv")).len() == made.events());
        assert_eq!(fs::read_to_string(tables.join("mine")).expect("left alone"), "mine");
    }
    made.holds(&["a.pftrace", "tables"]);
    // An empty directory has nothing to overwrite.
    let empty = made.beside("empty");
    fs::create_dir(&empty).expect("made");
    assert!(run("trace", &["export", made.path(), "--csv", text(&empty)]).status.success());
}

#[test]
fn places_that_cannot_be_written_are_named() {
    let made = Made::new();
    let nowhere = made.beside("nowhere/at/all");
    for option in ["--perfetto", "--csv", "--otf2"] {
        let out = run("trace", &["export", made.path(), option, text(&nowhere)]);
        assert_eq!(out.status.code(), Some(1), "{option}");
        has(&String::from_utf8_lossy(&out.stderr), &[text(&nowhere), "No such file"]);
    }
    let out = run("trace", &["export", made.path(), "--perfetto", made.path()]);
    has(&String::from_utf8_lossy(&out.stderr), &[made.path(), "a directory"]);
    // A full disk.
    let out = run("trace", &["export", made.path(), "--perfetto", "/dev/full"]);
    assert_eq!(out.status.code(), Some(1));
    has(&String::from_utf8_lossy(&out.stderr), &["/dev/full", "No space left", "free some space"]);
    // One that gets full on the way: nothing is left behind.
    let (file, tables) = (made.beside("a.pftrace"), made.beside("tables"));
    let archive = made.beside("archive");
    for (option, to) in [("--perfetto", &file), ("--csv", &tables), ("--otf2", &archive)] {
        let mut command = command("trace", &["export", made.path(), option, text(to)]);
        // SAFETY: both calls may be made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                let limit = libc::rlimit { rlim_cur: 500, rlim_max: 500 };
                libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
                Ok(())
            });
        }
        let out = command.output().expect("runs");
        assert_eq!(out.status.code(), Some(1), "{option}: {out:?}");
        has(&String::from_utf8_lossy(&out.stderr), &[text(to)]);
    }
    made.holds(&[]);
    refuses("trace", &[(&["export"], "--csv"), (&["export", "--perfetto"], "FILE")]);
    let out = run("trace", &["export", "/nonexistent/traces", "--csv", text(&tables)]);
    has(&String::from_utf8_lossy(&out.stderr), &["/nonexistent/traces"]);
    made.holds(&[]);
}

/// A pipe gets it as it comes.
#[test]
fn a_pipe_is_written_to() {
    let made = Made::new();
    let plain = made.beside("plain");
    json("trace", &["export", made.path(), "--perfetto", text(&plain)]);
    let mut command = command("trace", &["export", made.path(), "--perfetto", "/dev/stderr"]);
    let out = command.output().expect("runs");
    assert!(out.status.success());
    assert_eq!(out.stderr, fs::read(plain).expect("there"));
}

#[test]
fn people_read_what_was_written() {
    let made = Made::new();
    let to = made.beside("tables");
    let out = run("trace", &["export", made.path(), "--csv", text(&to)]);
    let said = String::from_utf8_lossy(&out.stdout);
    let events = made.events().to_string();
    has(&said, &[text(&to), &events, "rank 2 did not come to the end", "5 events found no space"]);
    assert_eq!(
        array(
            &json("trace", &["export", made.path(), "--csv", text(&made.beside("b"))]),
            "exports"
        )
        .len(),
        1
    );
}
