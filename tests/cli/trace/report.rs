//! `rankway trace report`: a page that needs nothing from outside.

use crate::command::{has, prints, run};
use crate::job::{Directory, Process, WORLD};
use rankway::track::{Chunk, Constructor, Identity, Kind, NO_PEER};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NASTY: &str = "</td><script>alert('x')</script>&\"\u{1}";
const SECTIONS: [&str; 6] = ["communicators", "census", "matrix", "leaks", "timeline", "waits"];

fn written(directory: &Directory) -> PathBuf {
    for rank in 0..3 {
        let mut process = Process::new(2, rank, 3);
        process.add(Chunk::Fact { key: "program", text: NASTY });
        process.add(Chunk::Site { site: 1, text: NASTY });
        let copy = Identity::world(2).child(0, 0);
        process.define(4, 1, copy, (rank, 3), WORLD, 1, Constructor::Dup);
        process.add(Chunk::Name { id: 4, text: NASTY });
        process.call(Kind::Isend, (10, 20), 4, (rank + 1) % 3, 100);
        process.call(Kind::Recv, (30, 60), 4, (rank + 2) % 3, 100);
        process.call(Kind::Barrier, (70 + u64::from(rank), 90), WORLD, NO_PEER, 0);
        process.end(directory);
    }
    let page = directory.path().join("page.html");
    let args = ["report", directory.text(), "-o", page.to_str().expect("text")];
    prints("trace", &args, &["page.html"]);
    page
}

/// Elements in order, each with its attributes; every one closed, every `&` an entity.
fn elements(page: &str) -> Vec<(String, String)> {
    let (mut open, mut found) = (Vec::new(), Vec::new());
    let body = page.strip_prefix("<!DOCTYPE html>").expect("its type first");
    let mut rest = body;
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        assert!(!text.contains('>') || open.last().is_some_and(|name| name == "style"), "{text}");
        for entity in text.split('&').skip(1) {
            let name = entity.split(';').next().expect("something");
            assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "&{entity}");
        }
        let end = at + rest[at..].find('>').expect("an end of the tag");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "in {tag}");
            continue;
        }
        let (name, attributes) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        let name = name.trim_end_matches('/').to_owned();
        assert_eq!(attributes.matches('"').count() % 2, 0, "{tag}");
        found.push((name.clone(), attributes.to_owned()));
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
    found
}

#[test]
fn the_page_is_well_formed_and_alone() {
    let directory = Directory::new();
    let page = std::fs::read_to_string(written(&directory)).expect("written");
    let elements = elements(&page);
    for section in SECTIONS {
        let id = format!("id=\"{section}\"");
        assert!(elements.iter().any(|(name, has)| name == "section" && *has == id), "{section}");
    }
    let count = |name: &str| elements.iter().filter(|(other, _)| other == name).count();
    assert_eq!((count("svg"), count("script"), count("link"), count("img")), (2, 0, 0, 0));
    assert!(count("table") >= 7 && count("line") >= 3, "{page}");
    for (name, attributes) in &elements {
        for word in ["src=", "url(", "onload"] {
            assert!(!attributes.contains(word), "{name} {attributes}");
        }
        let leads = attributes.contains("href=");
        assert!(!leads || attributes.starts_with("href=\"#"), "{attributes}");
        let outside = attributes.replace("http://www.w3.org/2000/svg", "");
        assert!(!outside.contains("://"), "{attributes}");
    }
    has(&page, &["prefers-color-scheme: dark", "&lt;script&gt;", "MPI_Comm_dup", "MPI_Barrier"]);
    assert!(!page.contains('\u{1}') && !page.contains("@import"));
}

#[test]
fn empty_traces_make_a_page_and_a_wrong_place_none() {
    let directory = Directory::new();
    Process::new(2, 0, 1).killed(&directory);
    let page = directory.path().join("page.html");
    let path = page.to_str().expect("text");
    prints("trace", &["report", directory.text(), "-o", path], &["page.html"]);
    elements(&std::fs::read_to_string(&page).expect("written"));
    let out = run("trace", &["report", directory.text(), "-o", "/nonexistent/page.html"]);
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    assert!(String::from_utf8_lossy(&out.stderr).contains("/nonexistent/page.html"));
}

fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell"];
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let all = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    all.into_iter().find(|file| file.is_file())
}

/// What it prints; pages say nothing on its console.
fn headless(browser: &Path, home: &Directory, args: &[&str], page: &str) -> String {
    let profile = format!("--user-data-dir={}", home.path().join("profile").display());
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    command.args(["--hide-scrollbars", "--enable-logging=stderr", &profile]).args(args);
    command.arg(format!("file://{page}"));
    let out = command.stdin(Stdio::null()).output().expect("the browser runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && !said.contains("CONSOLE"), "{said}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Looks at a page from within: words on words in pictures, or past their edge; words past
/// the cell of a table; pages wider than the window; what was fetched.
const LOOK: &str = r#"<script>
const told = [], width = Number(location.hash.slice(1)), root = document.documentElement;
// (Windows have no less than 500.)
root.style.width = width + "px";
const box = (of) => of.getBoundingClientRect();
for (const svg of document.querySelectorAll("svg")) {
  const edge = box(svg), words = [...svg.querySelectorAll("text")];
  if (edge.width < 100 || edge.height < 50) told.push("a picture of " + edge.width);
  const boxes = words.map(box);
  boxes.forEach((one, i) => {
    const name = words[i].textContent;
    if (one.left < edge.left - 1 || one.right > edge.right + 1 || one.top < edge.top - 1
      || one.bottom > edge.bottom + 1) told.push(name + " is cut");
    boxes.slice(i + 1).forEach((two, j) => {
      if (Math.min(one.right, two.right) - Math.max(one.left, two.left) > one.height / 8
        && Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top) > one.height / 8)
        told.push(name + " is on " + words[i + 1 + j].textContent);
    });
  });
}
for (const cell of document.querySelectorAll("td, th"))
  if (cell.scrollWidth > cell.clientWidth + 1) told.push(cell.textContent + " is cut");
let under = 0;
for (const part of document.body.children) {
  if (part.tagName === "SCRIPT") continue;
  if (box(part).top < under - 1) told.push(part.id + " is on another");
  under = box(part).bottom;
}
if (document.body.scrollWidth > width) told.push("wider than " + width);
if (performance.getEntriesByType("resource").length) told.push("fetches something");
document.body.insertAdjacentHTML("beforeend", "<pre id='told'></pre>");
document.getElementById("told").textContent = "looked at " + box(root).width + ": " + told.join("; ");
</script>"#;

/// What a browser makes of pages of few processes and of many, in a wide window and a narrow
/// one: all sections, no script, nothing on something else or cut, and something to see.
#[test]
fn a_browser_shows_it() {
    let Some(browser) = browser() else {
        println!("skipped: no Chromium in PATH (ci/deps --browser); another test reads the page");
        return;
    };
    let few = Directory::new();
    let page_of_few = written(&few);
    let many = Directory::new();
    crate::halo::written(many.path(), 3000, 5);
    let page_of_many = many.path().join("page.html");
    let text = page_of_many.to_str().expect("text");
    prints("trace", &["report", many.text(), "-o", text], &["page.html"]);
    for (directory, page) in [(&few, page_of_few), (&many, page_of_many)] {
        let address = page.to_str().expect("text");
        let seen = headless(&browser, directory, &["--dump-dom"], address);
        for section in SECTIONS {
            assert!(seen.contains(&format!("<section id=\"{section}\">")), "{section}");
        }
        assert!(!seen.contains("<script"), "{seen}");
        let probe = directory.path().join("look.html");
        let whole = std::fs::read_to_string(&page).expect("written");
        std::fs::write(&probe, whole.replace("</body>", &format!("{LOOK}</body>")))
            .expect("the directory can be written");
        for width in [1280, 400] {
            let window = format!("--window-size={width},1600");
            let asked = format!("{}#{width}", probe.display());
            let told = headless(&browser, directory, &["--dump-dom", &window], &asked);
            let said = told.split("<pre id=\"told\">").nth(1).expect("the script ran");
            let said = said.split("</pre>").next().expect("an end");
            assert_eq!(said, format!("looked at {width}: "));

            let picture = directory.path().join("page.png");
            let shot = format!("--screenshot={}", picture.display());
            headless(&browser, directory, &[&shot, &window], address);
            let file = std::io::BufReader::new(std::fs::File::open(&picture).expect("a picture"));
            let mut reader = png::Decoder::new(file).read_info().expect("a PNG");
            let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
            let info = reader.next_frame(&mut pixels).expect("whole");
            let colors: std::collections::BTreeSet<&[u8]> =
                pixels.chunks_exact(info.color_type.samples()).collect();
            // Letters have many shades of the ink, pictures colours of their own.
            assert!(info.width == width && colors.len() > 50, "{} colours", colors.len());
            assert!(colors.iter().any(|color| color[..3] == [0, 114, 178]), "no blue");
        }
    }
}
