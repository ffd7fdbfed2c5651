//! The files that are ours, and their lengths.

use std::fs;
use std::path::Path;

/// The longest that a file may be which nothing generates.
const LINES: usize = 700;

/// What is not written by hand.
const GENERATED: [&str; 3] =
    ["src/netmod/ofi/bindings.rs", "src/netmod/ucx/bindings.rs", "include/rankway.h"];

/// A file and its text.
pub(crate) struct Source {
    /// From the root of the package.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn ending(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.rsplit_once('.').map_or("", |(_, ending)| ending)
    }

    pub(crate) fn is_generated(&self) -> bool {
        GENERATED.contains(&self.path.as_str())
    }
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// The paths of files at or below a path, from the root, without what was built.
fn paths(at: &str, found: &mut Vec<String>) {
    const OTHERS: [&str; 8] =
        ["target", ".git", "out", "seeds", "corpus", "artifacts", "docs", "proptest-regressions"];
    let path = root().join(at);
    if path.is_file() {
        found.push(at.to_owned());
        return;
    }
    for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !OTHERS.contains(&name.as_str()) {
            paths(&if at.is_empty() { name } else { format!("{at}/{name}") }, found);
        }
    }
}

/// Every source: Rust, C, shell, Python.
pub(crate) fn sources() -> Vec<Source> {
    let mut all = Vec::new();
    paths("", &mut all);
    all.sort();
    let read = all.into_iter().filter_map(|path| {
        let text = fs::read_to_string(root().join(&path)).ok()?;
        Some(Source { path, text })
    });
    let is_source = |source: &Source| {
        ["rs", "c", "h", "sh", "py"].contains(&source.ending()) || source.text.starts_with("#!")
    };
    let sources: Vec<_> = read.filter(is_source).collect();
    assert!(sources.len() > 250, "sources are not found");
    sources
}

/// Fails with all that is wrong.
pub(crate) fn none(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn files_are_short() {
    let mut faults = Vec::new();
    for source in sources() {
        let lines = source.text.lines().count();
        if !source.is_generated() && lines > LINES {
            faults.push(format!("{}: {lines} lines, of at most {LINES}", source.path));
        }
    }
    none(faults);
}
