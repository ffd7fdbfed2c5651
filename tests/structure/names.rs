//! The field's own words: names that have been replaced do not come back.

use crate::files::{self, Source};
use crate::reader::{self, Declared};

/// Which names an entry is about.
enum Form {
    /// Those that have this word, or these words one after the other, split at `_`
    /// and at capitals; also names of files.
    Words(&'static [&'static str]),
    /// Those that are exactly this.
    Names(&'static [&'static str]),
    /// Files of this name, whatever their ending.
    Files(&'static [&'static str]),
}
use Form::{Files, Names, Words};

/// A word that was replaced.
struct Entry {
    form: Form,
    /// What the field says.
    term: &'static str,
    /// Where it is looked for: files that begin so; everywhere where this is empty.
    below: &'static [&'static str],
    /// Names and files that are allowed, and why.
    allowed: &'static [(&'static str, &'static str)],
}

const fn entry(form: Form, term: &'static str) -> Entry {
    Entry { form, term, below: &[], allowed: &[] }
}

const RSS: (&str, &str) = ("resident", "of memory: the pages that are there");
const UNDER_WAY: (&str, &str) = ("under_way", "plain English: begun and not over");
const MESSAGES: [&str; 4] = ["src/msg/", "tests/msg", "capi/src/", "plugins/"];

const TABLE: [Entry; 30] = [
    entry(
        Words(&["room", "rooms"]),
        "PacketHandler for the trait; capacity or space for what is left",
    ),
    Entry {
        allowed: &[RSS],
        ..entry(Words(&["settle", "settles", "settled", "resident"]), "register_handler, handler")
    },
    entry(Words(&["stir", "stirs", "stirred", "restless"]), "schedule, pending, poll_deferred"),
    Entry {
        below: &["src/"],
        allowed: &[("src/boot/", "processes that sweep at once take turns, by a lock")],
        ..entry(Words(&["turn"]), "schedule")
    },
    entry(Words(&["meanwhile"]), "progress hook"),
    entry(Words(&["noted", "ticket", "tickets"]), "completion queue, RequestId"),
    entry(Names(&["Begun", "Ended"]), "Started, Completion"),
    Entry { below: &MESSAGES, ..entry(Names(&["Select"]), "MatchSpec") },
    Entry {
        below: &MESSAGES,
        ..entry(Names(&["OFFER", "Offer", "GRANT", "Grant", "ENOUGH", "Enough"]), "RTS, CTS, FIN")
    },
    Entry {
        below: &MESSAGES,
        ..entry(
            Names(&["SETTLE", "SETTLED", "MATCHED"]),
            "delivery query, synchronous-send acknowledgement",
        )
    },
    entry(Words(&["letter", "letters"]), "AmMessage"),
    entry(Names(&["Verdict"]), "HandlerStatus"),
    Entry {
        allowed: &[("business_card", "the field's term"), ("business_cards", "the same")],
        ..entry(Words(&["card", "cards"]), "business card")
    },
    Entry {
        allowed: &[("shapes.rs", "the planes of a grid of three dimensions")],
        ..entry(Words(&["plane", "planes", "desk", "desks"]), "VCI, forwarder")
    },
    entry(Words(&["wire", "wires"]), "inject handle"),
    Entry {
        allowed: &[
            ("src/boot/", "of TCP"),
            ("plugins/openmpi/tests/spawn.c", "of MPI_Open_port"),
            ("plugins/mpich/", "the same"),
            ("plugins/track/src/", "the same"),
        ],
        ..entry(Words(&["port", "ports"]), "endpoint")
    },
    Entry {
        allowed: &[UNDER_WAY],
        ..entry(Words(&["way", "ways"]), "route, put vtable, access path, send mode")
    },
    entry(Names(&["More", "Foreign", "Reach"]), "cold state, C ABI, remote key"),
    Entry {
        below: &["src/rma/", "src/device/"],
        ..entry(Words(&["part"]), "exposed region, device extension")
    },
    Entry {
        below: &["src/rma/"],
        ..entry(Words(&["ask", "agent", "agents"]), "active-message fallback, opcode, RMA handler")
    },
    Entry { below: &["src/rma/"], ..entry(Files(&["active", "core"]), "am_fallback, state") },
    entry(Words(&["bury", "buries", "buried"]), "mark failed"),
    entry(Words(&["blame", "blames", "blamed"]), "attribute failure"),
    entry(Words(&["look after"]), "check liveness"),
    entry(
        Words(&["abroad", "introduce", "introduces", "introduced"]),
        "enable dynamic processes, resolve name",
    ),
    entry(Words(&["duty", "duties", "warden", "wardens"]), "requires registration, lock reaper"),
    Entry {
        below: &["src/netmod/", "src/rma/keys", "src/device/keys"],
        ..entry(Words(&["publish", "import", "direct"]), "rkey pack, unpack, ptr")
    },
    Entry { below: &["src/rma/", "src/netmod/", "src/msg/"], ..entry(Words(&["blocks"]), "iov") },
    Entry {
        below: &MESSAGES,
        allowed: &[
            ("plugins/null-provider/", "completions that were read off a queue"),
            ("tests/msg", "counts and values that were taken from a queue"),
        ],
        ..entry(Names(&["taken", "Taken"]), "matched (MPI_Message)")
    },
    Entry {
        below: &["tests/"],
        allowed: &[("tests/cli/", "named for the subcommand")],
        ..entry(
            Files(&["scenes", "operations", "talk", "wire", "jobs"]),
            "rma, rma, msg, netmod, harness",
        )
    },
];

impl Entry {
    /// The word of this entry that a name has, if it has one.
    fn finds(&self, path: &str, name: &str, is_file: bool) -> Option<&'static str> {
        let spaced = |words: &str| format!(" {words} ");
        let whole = spaced(&reader::words(name).join(" "));
        let found = match (&self.form, is_file) {
            (Words(list), _) => list.iter().find(|word| whole.contains(&spaced(word))),
            (Names(list), false) => list.iter().find(|word| **word == name),
            (Files(list), true) => list.iter().find(|word| **word == name),
            _ => None,
        }?;
        let looked_for = self.below.is_empty() || self.below.iter().any(|b| path.starts_with(b));
        let allowed = self.allowed.iter().any(|(what, _)| {
            let of_path = what.contains(['/', '.']) && path.contains(what);
            of_path || whole.contains(&spaced(&reader::words(what).join(" ")))
        });
        (looked_for && !allowed).then_some(found)
    }
}

/// What is wrong with a name.
fn faults(path: &str, declared: &Declared, is_file: bool) -> Vec<String> {
    let found = TABLE.iter().filter_map(|entry| {
        let word = entry.finds(path, &declared.name, is_file)?;
        let at = if is_file { String::new() } else { format!(":{}", declared.line) };
        Some(format!("{path}{at}: {}: not `{word}`; the field says {}", declared.name, entry.term))
    });
    found.collect()
}

/// The names that a source declares.
fn declared(source: &Source) -> Vec<Declared> {
    match source.ending() {
        "rs" => reader::declared(&reader::tokens(&source.text)),
        "c" | "h" => of_c(&source.text),
        _ => of_script(&source.text),
    }
}

/// Every word of a C source, but those of MPI and of the system's functions.
fn of_c(text: &str) -> Vec<Declared> {
    let lines =
        text.lines().map(|line| if line.trim_start().starts_with("#inc") { "" } else { line });
    let text = lines.collect::<Vec<_>>().join("\n");
    let foreign = ["MPI_", "OMPI_", "fi_", "ucp_"];
    let ours = reader::tokens(&text)
        .into_iter()
        .filter(|token| token.is_ident() && !foreign.iter().any(|f| token.text.starts_with(f)));
    ours.map(|token| Declared { name: token.text, line: token.line }).collect()
}

/// Functions and variables of shell and Python.
fn of_script(text: &str) -> Vec<Declared> {
    let mut found = Vec::new();
    for (line, words) in (1..).zip(text.lines()) {
        let words = words.trim_start();
        let words = ["local ", "export ", "readonly ", "def ", "class "]
            .iter()
            .find_map(|word| words.strip_prefix(word))
            .unwrap_or(words);
        let end = words.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(words.len());
        let (name, rest) = words.split_at(end);
        if !name.is_empty()
            && ["=", "+=", " = ", "(", " ("].iter().any(|sign| rest.starts_with(sign))
        {
            found.push(Declared { name: name.to_owned(), line });
        }
    }
    found
}

#[test]
fn names_are_the_field_s() {
    let mut wrong = Vec::new();
    let mut names = 0;
    for source in files::sources() {
        for name in source.path.split('/') {
            let name = name.split('.').next().unwrap_or(name).to_owned();
            wrong.extend(faults(&source.path, &Declared { name, line: 0 }, true));
        }
        if !source.is_generated() && source.path != "tests/structure/names.rs" {
            let declared = declared(&source);
            names += declared.len();
            wrong.extend(declared.iter().flat_map(|name| faults(&source.path, name, false)));
        }
    }
    assert!(names > 10_000, "names are not found: {names}");
    wrong.sort();
    wrong.dedup();
    files::none(wrong);
}

#[test]
fn a_replaced_word_is_found() {
    let words = |path: &str, text: &str| {
        let source = Source { path: path.to_owned(), text: text.to_owned() };
        let names = declared(&source);
        names.iter().flat_map(|name| faults(path, name, false)).count()
    };
    // (A whole name is put together, so that no line here declares it.)
    let rust = format!(
        "fn bury_it(n: u8) {{}} enum E {{ WireRoom }} struct {}; const fn go(ports: u8) {{}}",
        "Reach"
    );
    assert_eq!(words("src/msg/a.rs", &rust), 5);
    assert_eq!(words("src/msg/a.rs", "fn f(mark_failed: u8) { peer.bury(room) }"), 0);
    assert_eq!(words("src/boot/a.rs", "fn f(port: u16, business_card: u8) {}"), 0);
    assert_eq!(words("src/rma/a.rs", "struct S { part: u8, blocks: u8 }"), 2);
    assert_eq!(words("src/rankmap/a.rs", "struct S { part: u8, blocks: u8 }"), 0);
    assert_eq!(words("ci/a.sh", "settle() { local desk=1; x=1; }\nlocal wire=2\n# way=3"), 2);
    assert_eq!(words("a.c", "static int room; // card\nint MPI_Open_port(char *letter);"), 2);
    let file = Declared { name: "scenes".to_owned(), line: 0 };
    assert_eq!(faults("tests/scenes.rs", &file, true).len(), 1);
    assert_eq!(faults("benches/scenes.rs", &file, true).len(), 0);
}
