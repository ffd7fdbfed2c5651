//! The public interface is the one that is listed: nothing of it vanishes or
//! changes by oversight. `BLESS=1` writes the list anew.

use crate::files;
use crate::imports::{Crate, Target};
use crate::items::{self, Item};
use crate::reader::Token;
use std::collections::{BTreeMap, BTreeSet};

const LIST: &str = "ci/check/public.txt";

/// Where an item is declared: module and name.
type Place = (Vec<String>, String);

struct Interface<'a> {
    library: &'a Crate,
    /// The public paths of each item that has some.
    paths: BTreeMap<Place, BTreeSet<String>>,
    /// Modules by their public paths.
    modules: BTreeSet<String>,
}

impl Interface<'_> {
    /// Adds what is public in a module, under a path.
    fn module(&mut self, at: &[String], path: &str) {
        if !self.modules.insert(path.to_owned()) {
            return;
        }
        let library = self.library;
        self.items(&library.modules[at].tokens, at, path);
    }

    fn items(&mut self, tokens: &[Token], at: &[String], path: &str) {
        let library = self.library;
        for item in items::items(tokens) {
            let exported = item.kind == "macro_rules" && item.has_attribute(&["macro_export"]);
            if exported {
                self.add(at, item.name, format!("rankway::{}", item.name));
            }
            if !item.is_shown() {
                continue;
            }
            let below = format!("{path}::{}", item.name);
            match item.kind {
                "mod" if item.body.is_empty() => {
                    self.module(&[at, &[item.name.to_owned()]].concat(), &below);
                }
                "mod" => self.items(item.body, at, &below),
                "use" => {}
                _ => self.add(at, item.name, below),
            }
        }
        let imports = library.modules[at].imports.iter().filter(|import| import.is_public);
        for import in imports {
            match (library.follow(at, &import.path), &import.name) {
                (Some(Target::Module(module)), Some(name)) => {
                    self.module(&module, &format!("{path}::{name}"));
                }
                (Some(Target::Item(module, name)), Some(here)) => {
                    self.add(&module, &name, format!("{path}::{here}"));
                }
                (Some(Target::Module(module)), None) => {
                    self.items(&library.modules[&module].tokens, &module, path);
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, at: &[String], name: &str, path: String) {
        self.paths.entry((at.to_vec(), name.to_owned())).or_default().insert(path);
    }

    /// The path that an item is listed under, the shortest.
    fn path(&self, place: &Place) -> Option<&str> {
        let paths = self.paths.get(place)?;
        paths.iter().min_by_key(|path| path.len()).map(String::as_str)
    }

    /// Every line of the list.
    fn lines(&self) -> BTreeSet<String> {
        let mut lines = BTreeSet::new();
        for (at, module) in &self.library.modules {
            for item in items::items(&module.tokens) {
                if item.kind == "impl" {
                    self.implementation(at, &item, &mut lines);
                    continue;
                }
                let Some(path) = self.path(&(at.clone(), item.name.to_owned())) else { continue };
                if item.kind != "use" && item.kind != "mod" {
                    describe(path, &item, &mut lines);
                }
            }
        }
        for (place, paths) in &self.paths {
            let first = self.path(place).unwrap_or_default();
            let others = paths.iter().filter(|path| *path != first);
            lines.extend(others.map(|path| format!("{path} is {first}")));
            // What a macro declares is seen by its name alone.
            if !lines.iter().any(|line| line.starts_with(first)) {
                lines.insert(format!("{first}: made by a macro"));
            }
        }
        lines
    }

    /// What an `impl` gives to a public type.
    fn implementation(&self, at: &[String], item: &Item<'_>, lines: &mut BTreeSet<String>) {
        let head = without_generics(&item.head[1 + usize::from(item.head[0].is("unsafe"))..]);
        let head = head.split(|token| token.is("where")).next().unwrap_or(head);
        let (of_trait, of_type) = match head.iter().position(|token| token.is("for")) {
            Some(at) => (Some(&head[..at]), &head[at + 1..]),
            None => (None, head),
        };
        let name = of_type.iter().filter(|t| t.is_ident()).map(|t| t.text.clone());
        let name: Vec<String> = match of_type.iter().position(|token| token.is("<")) {
            Some(angle) => {
                of_type[..angle].iter().filter(|t| t.is_ident()).map(|t| t.text.clone()).collect()
            }
            None => name.collect(),
        };
        if name.is_empty() {
            return;
        }
        let Some(Target::Item(module, name)) = self.library.follow(at, &name) else { return };
        let Some(path) = self.path(&(module, name)) else { return };
        if let Some(of_trait) = of_trait {
            lines.insert(format!("{path}: {} for {}", items::line(of_trait), items::line(of_type)));
            return;
        }
        for item in items::items(item.body).iter().filter(|item| item.is_shown()) {
            describe(&format!("{path}::{}", item.name), item, lines);
        }
    }
}

/// The same without the generics that it begins with.
fn without_generics(head: &[Token]) -> &[Token] {
    if !head.first().is_some_and(|token| token.is("<")) {
        return head;
    }
    let mut depth = 0usize;
    for (i, token) in head.iter().enumerate() {
        depth += usize::from(token.is("<"));
        depth -= usize::from(token.is(">"));
        if depth == 0 {
            return &head[i + 1..];
        }
    }
    &[]
}

fn attributes(tokens: &[Token]) -> &[Token] {
    let mut i = 0;
    while i < tokens.len() && tokens[i].is("#") {
        i = crate::reader::end_of_group(tokens, i + 1);
    }
    &tokens[i..]
}

/// The lines of an item.
fn describe(path: &str, item: &Item<'_>, lines: &mut BTreeSet<String>) {
    let conditions = item.attributes.iter().filter(|attribute| {
        attribute.iter().any(|token| token.is("cfg") || token.is("non_exhaustive"))
    });
    let mut head: String = conditions.map(|condition| items::line(condition) + " ").collect();
    head += &items::line(item.head);
    let fields = items::split(item.body).into_iter().map(attributes);
    match item.kind {
        "struct" | "union" => {
            let public: Vec<_> = fields.clone().filter(|field| is_public(field)).collect();
            let hidden = if fields.count() > public.len() { " .." } else { "" };
            lines.insert(format!("{path}: {head}{hidden}"));
            for field in public {
                lines.insert(format!("{path}: {}", items::line(field)));
            }
        }
        "enum" => {
            lines.insert(format!("{path}: {head}"));
            lines.extend(fields.map(|variant| format!("{path}: {}", items::line(variant))));
        }
        "trait" => {
            lines.insert(format!("{path}: {head}"));
            for inner in items::items(item.body) {
                let provided = if inner.body.is_empty() { "" } else { " { .. }" };
                lines.insert(format!(
                    "{path}::{}: {}{provided}",
                    inner.name,
                    items::line(inner.head)
                ));
            }
        }
        _ => {
            lines.insert(format!("{path}: {head}"));
        }
    }
    for derived in item.attributes.iter().filter(|a| a.iter().any(|token| token.is("derive"))) {
        let names = derived.iter().filter(|token| token.is_ident() && !token.is("derive"));
        lines.extend(names.map(|name| format!("{path}: {} derived", name.text)));
    }
}

fn is_public(field: &[Token]) -> bool {
    field.first().is_some_and(|token| token.is("pub"))
        && !field.get(1).is_some_and(|token| token.is("("))
}

/// The lines of a library's public interface.
fn interface(library: &Crate) -> BTreeSet<String> {
    let mut interface = Interface { library, paths: BTreeMap::new(), modules: BTreeSet::new() };
    interface.module(&[], "rankway");
    // Macros that are exported are at the root, wherever they are declared.
    for (at, module) in &library.modules {
        for item in items::items(&module.tokens) {
            if item.kind == "macro_rules" && item.has_attribute(&["macro_export"]) {
                interface.add(at, item.name, format!("rankway::{}", item.name));
            }
        }
    }
    let mut lines = interface.lines();
    lines.extend(interface.modules.iter().skip(1).map(|module| format!("{module}: mod")));
    lines
}

#[test]
fn the_public_interface_is_the_listed_one() {
    let made = interface(&Crate::read("src", &files::sources()));
    assert!(made.len() > 500, "public items are not found: {}", made.len());
    if std::env::var_os("BLESS").is_some_and(|bless| bless == "1") {
        let text: String = made.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(files::root().join(LIST), text)
            .unwrap_or_else(|why| panic!("{LIST}: {why}"));
        return;
    }
    let kept = files::read(LIST);
    let kept: BTreeSet<String> = kept.lines().map(str::to_owned).collect();
    let gone = kept.difference(&made).map(|line| format!("- {line}"));
    let new = made.difference(&kept).map(|line| format!("+ {line}"));
    let mut faults: Vec<_> = gone.chain(new).collect();
    if !faults.is_empty() {
        faults.push(format!("differs from {LIST}; if that is meant: make public"));
    }
    files::none(faults);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Source;

    fn lines(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| Source {
            path: format!("src/{path}"),
            text: (*text).to_owned(),
        };
        let sources: Vec<_> = files.iter().map(source).collect();
        interface(&Crate::read("src", &sources)).into_iter().collect()
    }

    #[test]
    fn what_can_be_reached_is_listed() {
        let found = lines(&[
            ("lib.rs", "pub mod a; mod b; mod c; pub use c::N; pub(crate) use b::Hidden;"),
            (
                "a.rs",
                "pub use crate::b::{S, F as G}; pub(crate) fn no() {} pub fn yes(x: u8,) -> u8 { x }",
            ),
            (
                "b.rs",
                "#[derive(Clone)] pub struct S<T> { pub t: T, n: u8 } pub fn unreached() {}
                impl<T> S<T> { pub fn new(t: T) -> Self { } fn no() {} } pub type F = u8;
                impl<T: Copy> Default for S<T> {} impl Hidden { pub fn no() {} } struct Hidden;",
            ),
            (
                "c.rs",
                "pub const N: usize = 3; #[macro_export] macro_rules! m { () => {} }
                use crate::a::S; impl S<u8> { pub const fn byte(&self) -> u8 { 0 } }",
            ),
        ]);
        let wanted = [
            "rankway::N: const N: usize",
            "rankway::a: mod",
            "rankway::a::G: type F = u8",
            "rankway::a::S: Clone derived",
            "rankway::a::S: Default for S<T>",
            "rankway::a::S: pub t: T",
            "rankway::a::S: struct S<T> ..",
            "rankway::a::S::byte: const fn byte(&self) -> u8",
            "rankway::a::S::new: fn new(t: T) -> Self",
            "rankway::a::yes: fn yes(x: u8) -> u8",
            "rankway::m: macro_rules!m",
        ];
        assert_eq!(found, wanted);
    }
}
