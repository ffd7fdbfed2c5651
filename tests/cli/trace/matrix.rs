//! `rankway trace matrix`: bytes and calls by world ranks, whatever communicator they went in.

use crate::command::{array, chart, closed_pipe, has, prints, refuses_chart, run};
use crate::job::{Directory, Process, WORLD};
use rankway::track::{Chunk, Constructor, Identity, Kind};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;

/// A communicator that has the world's ranks backwards, and a window of it.
const BACK: u32 = 5;
const WINDOW: u32 = 6;

/// What was moved by (source, destination): messages, their bytes, puts, gets.
type Moved = BTreeMap<(u32, u32), [u64; 6]>;

/// Calls drawn by a congruential generator, and what they move by world ranks.
fn written(directory: &Directory, size: u32, only: Option<u32>) -> Moved {
    let mut moved = Moved::new();
    let mut state = 12345_u32;
    let mut draw = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    for rank in 0..size {
        let mut process = Process::new(8, rank, size);
        let (own, world) = (size - 1 - rank, Identity::world(8));
        process.define(BACK, 1, world.child(0, 0), (own, size), WORLD, 0, Constructor::Split);
        process.add(Chunk::Name { id: BACK, text: "back" });
        let window = world.child(1, 0);
        process.define(WINDOW, 2, window, (own, size), BACK, 0, Constructor::WinAllocate);
        for n in 0..40 {
            let (peer, bytes) = (draw(size), u64::from(draw(5000)));
            let kinds = [
                (Kind::Send, WORLD, 0),
                (Kind::Isend, BACK, 0),
                (Kind::Put, WINDOW, 2),
                (Kind::Accumulate, WINDOW, 2),
                (Kind::Get, WINDOW, 4),
                (Kind::Recv, BACK, 9),
                (Kind::Allreduce, WORLD, 9),
            ];
            let (kind, comm, at) = kinds[draw(kinds.len() as u32) as usize];
            process.call(kind, (100 * n, 100 * n + 50), comm, peer, bytes);
            if at == 9 || only.is_some_and(|only| only != comm) {
                continue;
            }
            let to = if comm == WORLD { peer } else { size - 1 - peer };
            let between = if kind == Kind::Get { (to, rank) } else { (rank, to) };
            let sums = moved.entry(between).or_default();
            sums[at] += 1;
            sums[at + 1] += bytes;
        }
        process.end(directory);
    }
    moved
}

fn told(directory: &Directory, args: &[&str]) -> Moved {
    let report = directory.json("matrix", args);
    let keys = ["messages", "message_bytes", "puts", "put_bytes", "gets", "get_bytes"];
    let rank =
        |text: &serde_json::Value| text.as_str().and_then(|t| t.parse().ok()).expect("a rank");
    let pairs = array(&report, "pairs").iter().map(|pair| {
        let sums = keys.map(|key| pair[key].as_u64().expect("a number"));
        ((rank(&pair["source"]), rank(&pair["destination"])), sums)
    });
    pairs.collect()
}

#[test]
fn all_that_moved_is_there() {
    for size in [1, 2, 5, 19] {
        let directory = Directory::new();
        let expected = written(&directory, size, None);
        assert!(size == 1 || expected.len() > 3);
        assert_eq!(told(&directory, &[]), expected, "{size}");
    }
}

#[test]
fn of_one_communicator() {
    let directory = Directory::new();
    let expected = written(&directory, 5, Some(BACK));
    assert_eq!(told(&directory, &["--comm", "back"]), expected);
    let directory = Directory::new();
    let expected = written(&directory, 5, Some(WINDOW));
    assert_eq!(told(&directory, &["--comm", "MPI_Win_allocate"]), expected);
    let out = run("trace", &["matrix", directory.text(), "--comm", "none such"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && said.contains("'none such'"), "{said}");
    assert!(said.contains("rankway trace comms"), "{said}");
}

#[test]
fn tables_and_pictures() {
    let few = Directory::new();
    let moved = written(&few, 4, None);
    let text = prints("trace", &["matrix", few.text(), "--calls"], &["from \\ to", "together"]);
    let calls: u64 = moved.values().map(|sums| sums[0] + sums[2] + sums[4]).sum();
    assert!(text.contains(&format!("together {calls} in {} pairs", moved.len())), "{text}");
    let many = Directory::new();
    written(&many, 300, None);
    let text = chart("trace", &["matrix", many.text()], &["Bytes from rank", "0-2", "<title>"]);
    has(&text, &["pairs more", "chart:"]);
    refuses_chart("trace", &["matrix", few.text()]);
    closed_pipe("trace", &["matrix", few.text()]);
    let none = Directory::new();
    Process::new(1, 0, 2).end(&none);
    chart("trace", &["matrix", none.text()], &["Bytes from rank"]);
}

/// What a PNG has where an attribute of a shape of SVG says: a square's middle, its fill and
/// how much of it is seen on white.
#[test]
fn pixels_are_what_the_drawing_says() {
    for (size, squares) in [(4, 9), (300, 500)] {
        let directory = Directory::new();
        written(&directory, size, None);
        let [svg, png] = ["chart.svg", "chart.png"].map(|name| directory.path().join(name));
        let text = |path: &std::path::Path| path.to_str().expect("a plain path").to_owned();
        let (svg_name, png_name) = (text(&svg), text(&png));
        let args = ["matrix", directory.text(), "--svg", &svg_name, "--png", &png_name];
        prints("trace", &args, &[&svg_name, &png_name]);

        let decoder = png::Decoder::new(BufReader::new(File::open(&png).expect("written")));
        let mut reader = decoder.read_info().expect("a PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
        let info = reader.next_frame(&mut pixels).expect("whole");
        assert_eq!(info.color_type, png::ColorType::Rgb);
        let pixel = |x: f64, y: f64| -> [u8; 3] {
            let at = y as usize * info.width as usize + x as usize;
            std::array::from_fn(|i| pixels[3 * at + i])
        };
        let drawing = std::fs::read_to_string(&svg).expect("written");
        let mut colors = BTreeMap::new();
        for line in drawing.lines().filter(|line| line.contains("<title>")) {
            let value = |name: &str| {
                let rest = line.split_once(&format!(" {name}=\""))?.1;
                Some(rest.split('"').next().expect("an end"))
            };
            let number = |name: &str| value(name).map(|text| text.parse().expect("a number"));
            let [x, y, width, height] =
                ["x", "y", "width", "height"].map(|name| number(name).expect("there"));
            let opacity: f64 = number("fill-opacity").unwrap_or(1.0);
            let fill = u32::from_str_radix(&value("fill").expect("a fill")[1..], 16).expect("hex");
            let seen = pixel(2.0 * x + width, 2.0 * y + height);
            for (channel, byte) in fill.to_be_bytes()[1..].iter().enumerate() {
                let mixed = 255.0 * (1.0 - opacity) + f64::from(*byte) * opacity;
                // (The opacity has two digits there.)
                assert!((f64::from(seen[channel]) - mixed).abs() < 3.0, "{seen:?}: {line}");
            }
            *colors.entry(seen).or_insert(0) += 1;
        }
        assert!(colors.len() > 3 && colors.values().sum::<i32>() >= squares, "{colors:?}");
        // Most is darkest, and beside the squares is nothing.
        assert!(colors.contains_key(&[0, 114, 178]), "{colors:?}");
        assert_eq!(pixel(1.0, 1.0), [255; 3]);
    }
    let directory = Directory::new();
    written(&directory, 2, None);
    let out = run("trace", &["matrix", directory.text(), "--png", "/nonexistent/chart.png"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("/nonexistent/chart.png"));
}
