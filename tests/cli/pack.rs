//! `rankway pack`: what is compared and measured, keys, charts, an MPI that is not
//! there, nonsense, Ctrl-C.
#![cfg(target_os = "linux")]

#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/command.rs"]
mod command;
#[allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#[path = "../harness/processes.rs"]
mod processes;

use command::{array, chart, closed_pipe, json, number, prints, refuses, refuses_chart, run};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Without MPIs and with one round each.
const ALONE: [&str; 6] =
    ["--openmpi", "/nonexistent/a", "--mpich", "/nonexistent/b", "--repetitions", "1"];

fn alone(args: &[&str]) -> Value {
    json("pack", &[args, &ALONE].concat())
}

/// Whatever is measured was compared with the reference first: that it is there
/// says that ours and all loops are right.
#[test]
fn every_named_pattern_has_its_times() {
    let report = alone(&["--size", "64k", "--model", "--explain"]);
    let patterns = array(&report, "patterns");
    assert_eq!(patterns.len(), 11, "{report}");
    for row in patterns {
        assert!(number(row, "bytes") > 50_000.0 && number(row, "blocks") >= 1.0, "{row}");
        for direction in ["pack", "unpack"] {
            let times = &row[direction];
            for who in ["memcpy", "ours", "naive", "manual"] {
                assert!(number(times, who) > 0.0, "{who}: {row}");
            }
            for who in ["memcpy", "manual"] {
                let ratio = number(times, who) / number(times, "ours");
                assert!((number(times, &format!("to_{who}")) / ratio - 1.0).abs() < 1e-9, "{row}");
            }
            assert!(times["openmpi"].is_null() && times["to_mpich"].is_null(), "{row}");
            let plans =
                array(row, "candidates").iter().filter(|plan| plan["direction"] == direction);
            let (chosen, others): (Vec<_>, Vec<_>) = plans.partition(|plan| plan["chosen"] == true);
            assert!(chosen.len() == 1 && !others.is_empty(), "{row}");
            for plan in chosen.into_iter().chain(others) {
                assert!(number(plan, "predicted") > 0.0 && number(plan, "measured") > 0.0);
            }
        }
        let transfers = array(row, "transfers");
        assert!(transfers.iter().any(|one| one["network"] == "tcp"), "{row}");
        for one in transfers {
            let costs = one["costs"].as_object().expect("costs");
            assert!(costs.contains_key(one["method"].as_str().expect("a name")), "{one}");
        }
    }
}

#[test]
fn sixteen_applications_are_judged() {
    let report = alone(&["--applications"]);
    let names = array(&report, "patterns").iter().map(|row| row["name"].as_str().expect("text"));
    let mut names: Vec<_> = names.filter_map(|name| name.split_once(' ')).collect();
    assert_eq!(names.len(), 32, "two sizes each");
    names.dedup_by_key(|(name, _)| *name);
    assert_eq!(names.len(), 16, "{names:?}");
    let figures = array(&report, "figures");
    assert_eq!(figures.len(), 2, "those of MPIs are absent: {figures:?}");
    for figure in figures {
        let met = number(figure, "measured") >= number(figure, "at_least");
        assert_eq!(figure["met"], met, "{figure}");
    }
}

/// Levels, descriptions and files are measured; what they pack is known.
#[test]
fn descriptions() {
    let path = std::env::temp_dir().join(format!("rankway-pack-{}.txt", std::process::id()));
    let file = path.to_str().expect("a plain path");
    std::fs::write(&path, "# places\n0\n5 3\n\n100 # far\n").expect("written");
    let described =
        ["--vector", "32x24:4", "--subarray", "8x9/3x4@5x5", "--indexed", file, "--element"];
    for (element, bytes) in [("double", 8), ("float", 4), ("byte", 1), ("complex", 16)] {
        for level in ["portable", "avx2", "avx512"] {
            let args = [&described[..], &[element, "--level", level, "--json"], &ALONE].concat();
            let out = run("pack", &args);
            if !out.status.success() {
                // A processor that does not have it says so.
                let said = String::from_utf8_lossy(&out.stderr).into_owned();
                assert!(level != "portable" && said.contains("at best"), "{said}");
                continue;
            }
            let report: Value = serde_json::from_slice(&out.stdout).expect("JSON");
            assert_eq!(report["level"], level);
            let found: Vec<_> =
                array(&report, "patterns").iter().map(|row| &row["bytes"]).collect();
            assert_eq!(found, [32 * 24 * bytes, 3 * 4 * bytes, 5 * bytes], "{element}");
        }
    }
    for (text, hint) in [
        ("1\nbanana\n", "line 2: not a place"),
        ("1 0\n", "line 1: not a place"),
        ("1 5\n\n3\n", "line 3: element 3 is there twice, also by line 1"),
        ("7\n268435456\n", "line 2: beyond"),
        ("", "there are no places"),
    ]
    .map(|(text, hint)| (text.as_bytes(), hint))
    .into_iter()
    .chain([(&b"\x7fELF\x02\xff\n"[..], "line 1: not a place")])
    {
        std::fs::write(&path, text).expect("written");
        let out = run("pack", &["--indexed", file]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains(hint) && said.contains(file) && out.stdout.is_empty(), "{said}");
        let twice = hint.contains("twice");
        assert!(twice || said.contains("a place in each line"), "{said}");
    }
    for (file, hint) in [("/nonexistent", "No such file"), ("/dev/null", "no places")] {
        let out = run("pack", &["--indexed", file]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains(file) && said.contains(hint), "{said}");
        assert!(said.contains("a place in each line"), "{said}");
    }
    let _ = std::fs::remove_file(&path);
}

/// Folders for temporary files of commands that are no more.
fn folders_of_the_dead() -> Vec<String> {
    let all = std::fs::read_dir(std::env::temp_dir()).expect("a folder").flatten();
    let names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let dead = |name: &String| {
        let pid = name.strip_prefix("rankway-pack-").and_then(|rest| rest.split('-').next());
        pid.and_then(|pid| pid.parse().ok()).is_some_and(|pid| !processes::alive(pid))
    };
    names.filter(dead).collect()
}

/// The MPIs of the machine, each in a process of its own; one that is not there
/// says why and what to install.
#[test]
fn mpis_that_are_there_and_that_are_not() {
    let before = folders_of_the_dead();
    let args = ["vector-2", "structs", "--size", "64k", "--repetitions", "1"];
    let report = json("pack", &args);
    for (name, key) in [("Open MPI", "openmpi"), ("MPICH", "mpich")] {
        let library = command::named(&report, "libraries", "name", name);
        let there = library["error"].is_null();
        if !there {
            eprintln!("skipped: {library}");
        }
        assert_eq!(library["version"].is_string(), there, "{library}");
        for row in array(&report, "patterns") {
            assert_eq!(row["pack"][key].is_number(), there, "{row}");
            assert_eq!(row["unpack"][&format!("to_{key}")].is_number(), there, "{row}");
            assert!(row["failed"].as_object().is_some_and(|all| all.is_empty()), "{row}");
        }
    }
    // What is no MPI at all is no worse than what is not there.
    let args = [&args[..], &["--mpich", "libc.so.6", "--openmpi", "/nonexistent/a"]].concat();
    let text = prints("pack", &args, &["apt install libopenmpi3", "/nonexistent/a"]);
    assert!(text.contains("apt install libmpich12"), "{text}");
    let left = folders_of_the_dead();
    let left: Vec<_> = left.iter().filter(|name| !before.contains(name)).collect();
    assert!(left.is_empty(), "{left:?} are left in the folder for temporary files");
}

#[test]
fn bandwidth_by_size_as_a_chart() {
    let parts = ["Packing: vector-8", "Rankway", "memcpy", "by hand", "GB/s"];
    let sizes = ["vector-8", "--size", "1k,16k,256k"];
    let text = chart("pack", &[&sizes[..], &ALONE].concat(), &parts);
    assert!(text.contains("256 KiB"), "{text}");
    refuses_chart("pack", &["vector-8"]);
}

#[test]
fn wrong_arguments_are_explained() {
    let cases: [(&[&str], &str); 17] = [
        (&["banana"], "--list"),
        (&["--vector", "8"], "8192x8192"),
        (&["--vector", "0x8"], "8192x8192"),
        (&["--vector", "8x9:2"], "do not divide 9"),
        (&["--vector", "99999x99999"], "more than"),
        (&["--subarray", "8x8"], "510x510@1x1"),
        (&["--subarray", "8x8/4x4@5x0"], "leave a size of 8"),
        (&["--subarray", "8x8/4"], "as many parts"),
        (&["--subarray", "8x8/4x4@0x18446744073709551615"], "leave a size"),
        (&["--element", "quaternion"], "double"),
        (&["--size", "many"], "64k"),
        (&["--size", "4G"], "1 GiB"),
        (&["--level", "mmx"], "avx512"),
        (&["--repetitions", "0"], "--repetitions"),
        (&["--svg", "/tmp/rankway-none.svg"], "one named pattern"),
        (&["--applications", "--svg", "/tmp/rankway-none.svg"], "cannot be used with"),
        (&["--list", "--json"], "cannot be used with"),
    ];
    refuses("pack", &cases);
    prints("pack", &["--list"], &["transpose", "512 MiB", "gather", "MILC_su3_zdown", "LAMMPS"]);
    prints("pack", &["--help"], &["Examples:", "--vector", "to_manual", "--explain"]);
}

/// Before a pattern is made or an MPI started.
#[test]
fn a_plan_that_is_none_is_named() {
    let out = command::command("pack", &["--size", "1G"])
        .env("RANKWAY_DATATYPE_PLAN", "tile=fast")
        .output()
        .expect("the command starts");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.starts_with("rankway: \"tile=fast\" is no plan"), "{said}");
    assert!(said.contains("RANKWAY_DATATYPE_PLAN") && out.stdout.is_empty(), "{said}");
}

#[test]
fn a_closed_pipe_is_no_error() {
    closed_pipe("pack", &[&["vector-2", "--size", "8k"][..], &ALONE].concat());
}

/// Ctrl-C amidst a measurement, and the death of the command alone: its processes
/// with an MPI end and leave nothing on disk.
#[test]
fn interrupted() {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Stdio;
    for (signal, everyone) in [
        (libc::SIGINT, true),
        (libc::SIGTERM, true),
        (libc::SIGTERM, false),
        (libc::SIGKILL, false),
    ] {
        let args = ["transpose", "--size", "32M", "--repetitions", "100000"];
        let mut command = command::command("pack", &args);
        command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
        processes::interruptible(&mut command);
        let mut child = command.spawn().expect("the command starts");
        let start = Instant::now();
        // The command and those MPIs that are there.
        let mut members = Vec::new();
        while members.len() < 3 && start.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(50));
            members = processes::group(child.id());
        }
        let leader = child.id() as i32;
        // SAFETY: our child, not reaped; the group is its own.
        unsafe { libc::kill(if everyone { -leader } else { leader }, signal) };
        let status = child.wait().expect("ends");
        let left = processes::ended(&members);
        // SAFETY: as above; whoever is left of the group is of this test.
        unsafe { libc::kill(-leader, libc::SIGKILL) };
        assert_eq!(status.signal(), Some(signal), "{status}");
        assert_eq!(left, Ok(()));
        let mine = format!("rankway-pack-{leader}-");
        let names = || {
            let all = std::fs::read_dir(std::env::temp_dir()).expect("a folder").flatten();
            let names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
            names.filter(|name| name.starts_with(&mine)).collect::<Vec<_>>()
        };
        if !members.is_empty() {
            assert!(names().is_empty(), "{:?} are left", names());
            processes::gone(&members).expect("nothing in /dev/shm");
        }
    }
}

/// Without memory it ends at once, and its folders go all the same.
#[test]
fn refused_memory_leaves_no_folder() {
    let program = env!("CARGO_BIN_EXE_rankway");
    let run = format!("ulimit -v 2000000; exec {program} pack --vector 16384x8192 --repetitions 1");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &run]).stdout(std::process::Stdio::null());
    let child = shell.stderr(std::process::Stdio::piped()).spawn().expect("a shell");
    let mine = format!("rankway-pack-{}-", child.id());
    let out = child.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("ulimit -v"), "{said}");
    let all = std::fs::read_dir(std::env::temp_dir()).expect("a folder").flatten();
    let names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let left: Vec<String> = names.filter(|name| name.starts_with(&mine)).collect();
    assert!(left.is_empty(), "{left:?}");
}
