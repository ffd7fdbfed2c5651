//! Layers (`src/*` and the other crates) import downwards alone, and the files in
//! one import each other in circles only where the documents say so.

use crate::files;
use crate::imports::{self, Crate};
use std::collections::{BTreeMap, BTreeSet};

/// Where the table of circles stands.
const PAGE: &str = "docs/architecture/structure.md";

/// Folders of the sources of a crate.
fn crates() -> Vec<String> {
    let sources = files::sources();
    let roots = sources.iter().filter_map(|source| {
        let root = source.path.strip_suffix("/lib.rs").or(source.path.strip_suffix("/main.rs"))?;
        let is_ours = root.ends_with("src");
        let is_bench = root.starts_with("benches") || root.starts_with("fuzz");
        (is_ours && !is_bench).then(|| root.to_owned())
    });
    let roots: BTreeSet<_> = roots.collect();
    assert!(roots.len() > 4, "crates are not found: {roots:?}");
    roots.into_iter().collect()
}

/// The layer of a file: of the library a module, else the whole crate.
fn layer<'a>(root: &'a str, file: &'a str) -> &'a str {
    let below = &file[root.len() + 1..];
    match below.split_once('/') {
        Some((folder, _)) if root == "src" => &file[..root.len() + 1 + folder.len()],
        None if root == "src" => file.strip_suffix(".rs").unwrap_or(file),
        _ => root,
    }
}

/// The cells of the rows of a table that begins with these titles.
fn table(text: &str, titles: &[&str]) -> Vec<Vec<String>> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = text.lines().skip_while(|line| {
        !line.starts_with('|') || !cells(line).iter().zip(titles).all(|(a, b)| a == b)
    });
    lines.next().unwrap_or_else(|| panic!("there is no table of {titles:?}"));
    lines.skip(1).take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// What is in backquotes.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Imports within each layer.
type Edges<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<&'a str>>>;

fn within<'a>(root: &'a str, edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Edges<'a> {
    let mut layers = Edges::new();
    for (file, imported) in edges {
        let here = layer(root, file);
        let inside = imported.iter().copied().filter(|other| layer(root, other) == here);
        layers.entry(here).or_default().insert(file, inside.collect());
    }
    layers
}

#[test]
fn circles_of_files_are_those_of_the_documents() {
    let documented: BTreeSet<(String, Vec<String>)> =
        table(&files::read(PAGE), &["layer", "files", "why"])
            .iter()
            .map(|row| {
                let mut names = quoted(&row[1]);
                names.sort();
                assert!(!row[2].is_empty(), "{PAGE} does not say why: {row:?}");
                (quoted(&row[0]).join(""), names)
            })
            .collect();
    let sources = files::sources();
    let mut found = BTreeMap::new();
    let mut imports = 0;
    for root in crates() {
        let library = Crate::read(&root, &sources);
        let edges = library.edges();
        imports += edges.values().map(BTreeSet::len).sum::<usize>();
        for (layer, edges) in within(&root, &edges) {
            for circle in imports::circles(&edges) {
                let names = |files: &BTreeSet<&str>| -> Vec<String> {
                    let inside = files.intersection(&circle);
                    inside.map(|file| file[layer.len() + 1..].to_owned()).collect()
                };
                let ties = circle.iter().map(|file| {
                    format!(
                        "  {} imports {}",
                        &file[layer.len() + 1..],
                        names(&edges[file]).join(", ")
                    )
                });
                let ties = ties.collect::<Vec<_>>().join("\n");
                found.insert((layer.to_owned(), names(&circle)), ties);
            }
        }
    }
    assert!(imports > 500, "imports are not found: {imports}");
    let mut faults = Vec::new();
    for ((layer, files), ties) in &found {
        let key = (layer.clone(), files.clone());
        if !documented.contains(&key) {
            faults.push(format!("{layer}: a circle that {PAGE} does not name:\n{ties}"));
        }
    }
    for (layer, files) in documented.iter().filter(|row| !found.contains_key(*row)) {
        faults.push(format!("{layer}: {PAGE} names a circle that is none: {}", files.join(", ")));
    }
    files::none(faults);
}

#[test]
fn modules_import_those_above_them_in_the_table() {
    let rows = table(&files::read("ARCHITECTURE.md"), &["module", "for"]);
    let order: Vec<Vec<String>> = rows.iter().map(|row| quoted(&row[0])).collect();
    let place = |layer: &str| {
        let name = layer.strip_prefix("src/").unwrap_or(layer);
        order.iter().position(|names| names.iter().any(|other| other == name))
    };
    let sources = files::sources();
    let library = Crate::read("src", &sources);
    let edges = library.edges();
    let mut faults = Vec::new();
    for (file, imported) in &edges {
        let here = layer("src", file);
        if here == "src/lib" {
            continue;
        }
        let Some(our_place) = place(here) else {
            faults.push(format!("{file}: no row of ARCHITECTURE.md names `{here}`"));
            continue;
        };
        for other in imported.iter().filter(|other| layer("src", other) != here) {
            if place(layer("src", other)).is_none_or(|place| place >= our_place) {
                faults.push(format!("{file} imports {other}, which is not above it"));
            }
        }
    }
    files::none(faults);
}

#[test]
fn layers_are_modules_and_crates() {
    assert_eq!(layer("src", "src/rma/window.rs"), "src/rma");
    assert_eq!(layer("src", "src/settings.rs"), "src/settings");
    assert_eq!(layer("capi/src", "capi/src/calls/am.rs"), "capi/src");
    let text = "# A\n| a | b |\n|---|---|\n| `x`, `y` | z |\n\n| no |";
    assert_eq!(table(text, &["a", "b"]), [["`x`, `y`", "z"]]);
    assert_eq!(quoted("`x`, `y`"), ["x", "y"]);
}
