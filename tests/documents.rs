//! The documents say what there is: variables, `make` targets, files, links,
//! keys of `--json`, options and names of the code are looked up in the sources,
//! and pages stay short. Needs no feature and no network library.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The longest a page may be, in bytes.
const README: usize = 9_000;
const PAGE: usize = 8_000;

/// Where the sources are, from the root of the package.
const SOURCES: [&str; 19] = [
    ".ci",
    "Cargo.toml",
    "Makefile",
    "benches",
    "build.rs",
    "capi",
    "ci",
    "cli",
    "examples",
    "fuzz/Cargo.toml",
    "fuzz/fuzz_targets",
    "fuzz/src",
    "hwtests",
    "include",
    "plugins",
    "proofs",
    "rustfmt.toml",
    "src",
    "tests",
];

/// Files and names of others that pages name: Open MPI's, UCX's, the kernel's, and
/// a program of MPICH's test suite.
const FOREIGN: [&str; 11] = [
    "MEMBARRIER_CMD_GLOBAL_EXPEDITED",
    "large_acc_flush_local",
    "mpi.h",
    "mpif.h",
    "pending_count",
    "tcp_ep.c",
    "ucp_atomic_req_handler",
    "ucp_get_req_handler",
    "ucp_put_handler",
    "ucp_request.c",
    "wireup_ep.c",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// The files at or below a path, from the root, without what was built.
fn files(at: &str, found: &mut Vec<String>) {
    let path = root().join(at);
    if path.is_file() {
        found.push(at.to_owned());
        return;
    }
    let Ok(entries) = fs::read_dir(&path) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "target" && name != ".git" && name != "out" {
            files(&if at.is_empty() { name } else { format!("{at}/{name}") }, found);
        }
    }
}

/// A page: its path from the root, and its text.
struct Page {
    path: String,
    text: String,
}

/// Every page that speaks of the present; a changelog speaks of the past.
fn pages() -> Vec<Page> {
    let mut paths = Vec::new();
    for at in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs"] {
        files(at, &mut paths);
    }
    paths.retain(|path| path.ends_with(".md"));
    paths.sort();
    assert!(paths.len() > 15, "pages are not found: {paths:?}");
    paths.into_iter().map(|path| Page { text: read(&path), path }).collect()
}

impl Page {
    /// What is in backquotes, and the lines of fenced blocks of these languages.
    fn code(&self, languages: &[&str]) -> Vec<String> {
        let mut code = Vec::new();
        let mut prose = String::new();
        let mut fence: Option<bool> = None;
        for line in self.text.lines() {
            if let Some(language) = line.strip_prefix("```") {
                fence = if fence.is_some() { None } else { Some(languages.contains(&language)) };
            } else if let Some(wanted) = fence {
                if wanted {
                    code.push(line.split(" #").next().unwrap_or(line).to_owned());
                }
            } else {
                prose.push_str(line);
                prose.push('\n');
            }
        }
        // A span may go on in the next line.
        let spans = prose.split('`').skip(1).step_by(2);
        code.extend(spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")));
        code
    }

    /// Where its links lead: (path from the root, anchor).
    fn links(&self) -> Vec<(PathBuf, Option<String>)> {
        let here = Path::new(&self.path).parent().unwrap_or(Path::new(""));
        let targets = self.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let ours = targets.filter(|target| !target.contains("://"));
        ours.map(|target| {
            let (file, anchor) =
                target.split_once('#').map_or((target, None), |(f, a)| (f, Some(a)));
            let mut path = PathBuf::new();
            let whole = if file.is_empty() { PathBuf::from(&self.path) } else { here.join(file) };
            for part in &whole {
                if part == ".." {
                    path.pop().then_some(())
                } else {
                    path.push(part);
                    None
                };
            }
            (path, anchor.map(str::to_owned))
        })
        .collect()
    }

    /// The anchors of its headings, as they are made of them.
    fn anchors(&self) -> Vec<String> {
        let headings = self.text.lines().filter(|line| line.starts_with('#'));
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        headings
            .map(|line| line.trim_start_matches('#').trim().to_lowercase())
            .map(|text| text.chars().filter(kept).collect::<String>().replace(' ', "-"))
            .collect()
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Every file of the sources but this one, with its text.
fn sources() -> BTreeMap<String, String> {
    let mut paths = Vec::new();
    SOURCES.iter().for_each(|at| files(at, &mut paths));
    paths.retain(|path| path != "tests/documents.rs");
    let text = |path: &String| fs::read_to_string(root().join(path)).ok();
    let all: BTreeMap<_, _> =
        paths.into_iter().filter_map(|path| text(&path).map(|text| (path, text))).collect();
    assert!(all.len() > 200, "sources are not found");
    all
}

/// The words of the sources, and the names of their files.
fn known(sources: &BTreeMap<String, String>) -> BTreeSet<&str> {
    sources.iter().flat_map(|(path, text)| words(path).chain(words(text))).collect()
}

/// Fails with all that is wrong.
fn none(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

fn is_variable(word: &str) -> bool {
    let upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    word.starts_with("RANKWAY_") && word.chars().all(upper) && !word.ends_with('_')
}

#[test]
fn pages_are_short() {
    let limit = |page: &Page| match page.path.as_str() {
        "README.md" => README,
        "docs/device-layer.md" | "docs/papers.md" => PAGE,
        path if !path.starts_with("docs/") || path.starts_with("docs/architecture/") => PAGE,
        _ => usize::MAX,
    };
    let long = pages().into_iter().filter(|page| page.text.len() > limit(page));
    none(long.map(|page| format!("{}: {} bytes", page.path, page.text.len())).collect());
}

#[test]
fn variables_are_read_by_the_sources() {
    let sources = sources();
    let known = known(&sources);
    let mut faults = Vec::new();
    for page in pages() {
        let named: BTreeSet<_> = words(&page.text).filter(|word| is_variable(word)).collect();
        let unknown = named.into_iter().filter(|word| !known.contains(word));
        faults.extend(unknown.map(|word| format!("{}: {word} is in no source", page.path)));
    }
    none(faults);
}

#[test]
fn settings_are_documented() {
    let page = read("docs/settings.md");
    let documented: BTreeSet<_> = words(&page).collect();
    let mut read_by_us = BTreeSet::new();
    for (path, text) in sources() {
        if [
            "src/",
            "cli/src/",
            "plugins/null-provider/src/",
            "plugins/pack/src/",
            "plugins/track/src/",
        ]
        .iter()
        .any(|at| path.starts_with(at))
        {
            // (What a build script sets is no setting.)
            let text = text.replace("env!(\"", "");
            let quoted = text.split('"').skip(1);
            read_by_us.extend(quoted.filter(|word| is_variable(word)).map(str::to_owned));
        }
    }
    assert!(read_by_us.contains("RANKWAY_TIMEOUT"), "settings are not found: {read_by_us:?}");
    let missing = read_by_us.iter().filter(|name| !documented.contains(name.as_str()));
    none(missing.map(|name| format!("docs/settings.md has no {name}")).collect());
}

/// `rankway info` takes what the page has not for misspelled.
#[test]
fn settings_are_known_to_info() {
    let listed = read("cli/src/info/settings.rs");
    let listed: BTreeSet<_> = listed.split('"').skip(1).collect();
    let page = read("docs/settings.md");
    let missing = words(&page).filter(|word| is_variable(word) && !listed.contains(word));
    none(missing.map(|name| format!("cli/src/info/settings.rs has no {name}")).collect());
}

#[test]
fn make_targets_exist() {
    let makefile = read("Makefile");
    let targets: BTreeSet<_> =
        makefile.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
    let mut faults = Vec::new();
    let mut seen = 0;
    for page in pages() {
        for line in page.code(&["sh"]) {
            let mut words = line.split_whitespace().peekable();
            while let Some(word) = words.next() {
                if word != "make" {
                    continue;
                }
                let Some(target) = words.next_if(|next| !next.contains('=')) else { continue };
                seen += 1;
                if !targets.contains(target.trim_end_matches(|c: char| !c.is_alphanumeric())) {
                    faults.push(format!("{}: there is no target in {line:?}", page.path));
                }
            }
        }
    }
    assert!(seen > 20, "targets are not found");
    none(faults);
}

#[test]
fn files_exist() {
    let mut all = Vec::new();
    files("", &mut all);
    let tops: BTreeSet<_> =
        all.iter().filter_map(|path| path.split_once('/')).map(|(top, _)| top).collect();
    let is_path =
        |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c));
    let is_file = |word: &str| {
        let ending = word.rsplit_once('.').map(|(_, ending)| ending);
        matches!(ending, Some("rs" | "sh" | "md" | "c" | "h" | "toml" | "svg"))
    };
    let mut faults = Vec::new();
    let mut seen = 0;
    for page in pages() {
        for line in page.code(&["sh", "text"]) {
            for word in
                line.split_whitespace().map(|word| word.trim_end_matches([',', ';', '.', ')']))
            {
                let below = word.split_once('/').is_some_and(|(top, _)| tops.contains(top));
                if !is_path(word) || !(below || is_file(word)) || FOREIGN.contains(&word) {
                    continue;
                }
                seen += 1;
                let whole = word.trim_end_matches('/');
                let tail = format!("/{whole}");
                let exists = root().join(whole).exists()
                    || (!below && all.iter().any(|path| path.ends_with(&tail)))
                    // In a table of a plug-in's own files.
                    || root().join("plugins/openmpi").join(whole).exists();
                if !exists {
                    faults.push(format!("{}: there is no {word}", page.path));
                }
            }
        }
    }
    assert!(seen > 150, "files are not found");
    // And the pages that the sources name.
    for (path, text) in sources() {
        let named = text.split(|c: char| !c.is_ascii_alphanumeric() && !"_./-".contains(c));
        let named = named.map(|word| word.trim_end_matches('.').trim_start_matches("../"));
        let named = named.filter(|word| word.starts_with("docs/") || word.ends_with(".md"));
        let lost = named.filter(|word| !root().join(word).exists());
        faults.extend(lost.map(|word| format!("{path}: there is no {word}")));
    }
    none(faults);
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    let mut faults = Vec::new();
    let mut linked = BTreeSet::new();
    for page in &pages {
        for (path, anchor) in page.links() {
            if !root().join(&path).exists() {
                faults.push(format!("{}: no {}", page.path, path.display()));
            }
            let target = pages.iter().find(|other| Path::new(&other.path) == path);
            if let (Some(target), Some(anchor)) = (target, anchor)
                && !target.anchors().contains(&anchor)
            {
                faults.push(format!("{}: {} has no heading #{anchor}", page.path, target.path));
            }
            linked.insert(path);
        }
    }
    let lost = pages.iter().filter(|page| page.path != "README.md");
    let lost = lost.filter(|page| !linked.contains(Path::new(&page.path)));
    faults.extend(lost.map(|page| format!("no page leads to {}", page.path)));
    none(faults);
}

/// Fields of the structures of the command that are written as JSON.
fn fields(sources: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for text in
        sources.iter().filter(|(path, _)| path.starts_with("cli/src/")).map(|(_, text)| text)
    {
        for structure in text.split("#[derive(").skip(1) {
            let (derived, rest) = structure.split_once(')').unwrap_or_default();
            if !words(derived).any(|word| word == "Serialize") {
                continue;
            }
            let (head, body) = rest.split_once('{').unwrap_or_default();
            let Some(head) = head.split_once("struct ").map(|(_, head)| head) else { continue };
            if head.contains([';', '}']) {
                continue;
            }
            let mut hidden = false;
            for line in body.split("\n}").next().unwrap_or("").lines().map(str::trim) {
                if line.starts_with('#') {
                    hidden |= line.contains("(skip)") || line.contains("(flatten)");
                } else if !line.starts_with("//") {
                    let name = line.split_once(':').map(|(name, _)| name);
                    let name = name.and_then(|name| name.split_whitespace().last());
                    let name = name.map(|name| name.trim_start_matches("r#"));
                    let name = name.filter(|name| !hidden && words(name).eq([*name]));
                    found.extend(name.map(str::to_owned));
                    hidden = false;
                }
            }
        }
    }
    found
}

#[test]
fn json_keys_are_the_command_s() {
    let sources = sources();
    let fields = fields(&sources);
    assert!(fields.len() > 100, "fields are not found: {fields:?}");
    // Keys of maps are words in quotes.
    let quoted: BTreeSet<_> = sources
        .iter()
        .filter(|(path, _)| path.starts_with("src/") || path.starts_with("cli/src/"))
        .flat_map(|(_, text)| text.split('"').skip(1))
        .collect();
    let text = read("docs/json.md");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let page = Page { path: "docs/json.md".into(), text: lines.collect::<Vec<_>>().join("\n") };
    let spans = page.code(&[]);
    let keys: BTreeSet<_> = spans
        .iter()
        .filter(|span| !span.contains(['-', ' ']))
        .flat_map(|span| words(span))
        .filter(|key| key.chars().any(|c| c.is_ascii_lowercase()))
        .collect();
    assert!(keys.len() > 100, "keys are not found: {keys:?}");
    let none_such = keys.iter().filter(|key| !fields.contains(**key) && !quoted.contains(**key));
    let mut faults: Vec<_> = none_such.map(|key| format!("{key} is no key")).collect();
    let unsaid = fields.iter().filter(|field| !keys.contains(field.as_str()));
    faults.extend(unsaid.map(|field| format!("docs/json.md has no {field}")));
    none(faults);
}

#[test]
fn commands_have_these_options_and_tests_these_names() {
    let sources = sources();
    let command: Vec<_> = sources.iter().filter(|(path, _)| path.starts_with("cli/src/")).collect();
    let has = |option: &str| {
        let field = format!("{}:", option.replace('-', "_"));
        command
            .iter()
            .any(|(_, text)| words(text).any(|word| word == option) && text.contains(&field))
            || command.iter().any(|(_, text)| text.contains(&field))
    };
    let cargo = read("Cargo.toml") + &read("cli/Cargo.toml");
    let mut faults = Vec::new();
    let mut seen = 0;
    for page in pages() {
        for line in page.code(&["sh"]) {
            let words: Vec<_> = line.split_whitespace().collect();
            for pair in words.windows(2) {
                let folder = match pair[0] {
                    "--test" => "tests",
                    "--bench" => "benches",
                    _ => continue,
                };
                seen += 1;
                let declared = cargo.contains(&format!("name = \"{}\"", pair[1]));
                if !declared && !root().join(format!("{folder}/{}.rs", pair[1])).exists() {
                    faults.push(format!("{}: there is no {} {}", page.path, pair[0], pair[1]));
                }
            }
            if words.first() == Some(&"rankway") {
                let options = words.iter().filter_map(|word| word.strip_prefix("--"));
                let unknown = options.filter(|option| *option != "json" && !has(option));
                faults
                    .extend(unknown.map(|option| format!("{}: no --{option}: {line}", page.path)));
                seen += 1;
            }
        }
    }
    assert!(seen > 30, "commands are not found");
    none(faults);
}

/// Names of the code, in the pages for those who change it.
#[test]
fn names_are_those_of_the_code() {
    let sources = sources();
    let known = known(&sources);
    let mut faults = Vec::new();
    let mut seen = 0;
    for page in pages() {
        let ours = page.path == "CONTRIBUTING.md" || page.path.starts_with("docs/architecture/");
        for span in page.code(&[]) {
            let name = span.trim_end_matches("()").trim_end_matches('!');
            let plain = !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
            let of_code = name.contains("::") || (ours && (name.contains('_') || is_camel(name)));
            if !plain || !of_code || name.ends_with('_') || name.starts_with('_') {
                continue;
            }
            seen += 1;
            let unknown =
                words(name).filter(|word| !known.contains(word) && !FOREIGN.contains(word));
            faults.extend(unknown.map(|word| format!("{}: no {word} ({span})", page.path)));
        }
    }
    assert!(seen > 150, "names are not found");
    none(faults);
}

fn is_camel(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.contains(|c: char| c.is_ascii_lowercase())
}
