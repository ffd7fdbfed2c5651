//! Which file imports which. A name is followed to the file that declares it:
//! through modules, re-exports and globs, so that a `mod.rs` that hands on what its
//! files declare is not what they import.

use crate::files::Source;
use crate::reader::{self, Kind, Token};
use std::collections::{BTreeMap, BTreeSet};

/// One imported name: `use path as name`, or all of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) path: Vec<String>,
    /// What it is called here; none of a glob.
    pub(crate) name: Option<String>,
    /// For every user of the library.
    pub(crate) is_public: bool,
    /// For others of the crate at least.
    is_handed_on: bool,
}

/// A file of a crate: a module.
#[derive(Default)]
pub(crate) struct Module {
    pub(crate) file: String,
    pub(crate) tokens: Vec<Token>,
    pub(crate) imports: Vec<Import>,
    /// Paths that stand in its code, of two words and more.
    paths: BTreeSet<Vec<String>>,
    /// What it declares at its top.
    pub(crate) declared: BTreeSet<String>,
    idents: BTreeSet<String>,
    macros: BTreeSet<String>,
}

/// A crate: its modules by their paths, without those for tests alone.
pub(crate) struct Crate {
    pub(crate) modules: BTreeMap<Vec<String>, Module>,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Module(Vec<String>),
    /// Declared by this module, under this name.
    Item(Vec<String>, String),
}

const FACES: [&str; 3] = ["mod.rs", "lib.rs", "main.rs"];

pub(crate) fn is_face(file: &str) -> bool {
    FACES.contains(&file.rsplit('/').next().unwrap_or(file))
}

impl Crate {
    /// The crate whose sources are below a folder.
    pub(crate) fn read(root: &str, sources: &[Source]) -> Self {
        let mut modules = BTreeMap::new();
        let mut of_tests = Vec::new();
        for source in sources {
            let below = source.path.strip_prefix(root).and_then(|path| path.strip_prefix('/'));
            let Some(path) = below.and_then(|path| path.strip_suffix(".rs")) else { continue };
            let mut path: Vec<String> = path.split('/').map(str::to_owned).collect();
            if path[0] == "bin" || source.is_generated() {
                continue;
            }
            if is_face(&source.path) {
                path.pop();
            }
            let (tokens, tests) = reader::without_tests(&reader::tokens(&source.text));
            of_tests.extend(tests.into_iter().map(|name| [path.as_slice(), &[name]].concat()));
            modules.insert(path, Module::read(&source.path, tokens));
        }
        modules.retain(|path, _| !of_tests.iter().any(|test| path.starts_with(test)));
        Self { modules }
    }

    /// What a path that stands in a module leads to, if to something of this crate.
    pub(crate) fn follow(&self, from: &[String], path: &[String]) -> Option<Target> {
        self.walk(from, path, &mut BTreeSet::new())
    }

    fn walk(
        &self,
        from: &[String],
        path: &[String],
        seen: &mut BTreeSet<(Vec<String>, String)>,
    ) -> Option<Target> {
        let mut at = from.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (at, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|word| word == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            _ => {}
        }
        let absolute = rest.len() < path.len();
        for (i, name) in rest.iter().enumerate() {
            let child = [at.as_slice(), std::slice::from_ref(name)].concat();
            if self.modules.contains_key(&child) {
                at = child;
                continue;
            }
            match self.item(&at, name, seen) {
                Some(Target::Module(module)) => at = module,
                Some(item) => return Some(item),
                None if at.is_empty() && self.exports(name).is_some() => return self.exports(name),
                // What a macro declares there.
                None if absolute || i > 0 => return Some(Target::Item(at, name.clone())),
                None => return None,
            }
        }
        Some(Target::Module(at))
    }

    /// A macro that the crate has at its root, wherever it is declared.
    fn exports(&self, name: &str) -> Option<Target> {
        let mut modules = self.modules.iter();
        let (path, _) = modules.find(|(_, module)| module.macros.contains(name))?;
        Some(Target::Item(path.clone(), name.to_owned()))
    }

    /// What a name means in a module.
    fn item(
        &self,
        at: &[String],
        name: &str,
        seen: &mut BTreeSet<(Vec<String>, String)>,
    ) -> Option<Target> {
        let module = self.modules.get(at)?;
        if !seen.insert((at.to_vec(), name.to_owned())) {
            return None;
        }
        if module.declared.contains(name) {
            return Some(Target::Item(at.to_vec(), name.to_owned()));
        }
        let named = module.imports.iter().filter(|import| import.name.as_deref() == Some(name));
        for import in named {
            // (`use a` of another crate would lead to itself.)
            if let Some(found) = self.walk(at, &import.path, seen) {
                return Some(found);
            }
        }
        let globs = module.imports.iter().filter(|import| import.name.is_none());
        for import in globs {
            if let Some(Target::Module(module)) = self.walk(at, &import.path, seen)
                && self.modules[&module].has(name)
                && let Some(found) = self.item(&module, name, seen)
            {
                return Some(found);
            }
        }
        None
    }

    /// Files that a module imports something of.
    fn imported(&self, at: &[String]) -> BTreeSet<Vec<String>> {
        let module = &self.modules[at];
        let mut found = BTreeSet::new();
        let mut add = |target: Option<Target>| match target {
            Some(Target::Item(module, _)) => {
                found.insert(module);
            }
            // A module in a file that has no others below it is meant whole.
            Some(Target::Module(module)) if !is_face(&self.modules[&module].file) => {
                found.insert(module);
            }
            _ => {}
        };
        for import in &module.imports {
            // A face that hands on what its files declare imports nothing.
            if import.is_handed_on && is_face(&module.file) {
                continue;
            }
            if import.name.is_some() {
                add(self.follow(at, &import.path));
                continue;
            }
            if let Some(Target::Module(of)) = self.follow(at, &import.path) {
                let used = module.idents.iter().filter(|name| self.modules[&of].has(name));
                used.for_each(|name| add(self.item(&of, name, &mut BTreeSet::new())));
            }
        }
        module.paths.iter().for_each(|path| add(self.follow(at, path)));
        found.remove(at);
        found
    }

    /// Every import between two files of the crate, but those of a module that puts
    /// together the files below it: `x.rs` or `x/mod.rs` of those in `x/`.
    pub(crate) fn edges(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let file = |path: &Vec<String>| self.modules.get(path).map(|module| module.file.as_str());
        let of = |path: &Vec<String>| {
            let imported = self.imported(path);
            imported.iter().filter(|other| !other.starts_with(path)).filter_map(file).collect()
        };
        self.modules.iter().map(|(path, module)| (module.file.as_str(), of(path))).collect()
    }
}

impl Module {
    pub(crate) fn read(file: &str, tokens: Vec<Token>) -> Self {
        let mut module = Self { file: file.to_owned(), ..Self::default() };
        // Of each brace that is open, whether it is an inline module's.
        let mut open = Vec::new();
        let mut i = 0;
        while i < tokens.len() {
            let token = &tokens[i];
            let inline = open.iter().filter(|is_module| **is_module).count();
            let next = tokens.get(i + 1);
            match token.text.as_str() {
                _ if token.kind == Kind::Literal => {}
                "{" => open.push(i > 1 && tokens[i - 2].is("mod")),
                "}" => {
                    open.pop();
                }
                "use" if next.is_some_and(|next| !next.is("<")) => {
                    let is_public = i > 0 && tokens[i - 1].is("pub");
                    let is_handed_on = is_public || i > 0 && tokens[i - 1].is(")");
                    let mut imports = Vec::new();
                    i = tree(&tokens, i + 1, &[], &mut imports);
                    module.imports.extend(imports.into_iter().filter_map(|(path, name)| {
                        Some(Import {
                            path: outside(&path, inline)?,
                            name,
                            is_public,
                            is_handed_on,
                        })
                    }));
                    continue;
                }
                _ if token.is_ident() => {
                    module.idents.insert(token.text.clone());
                    if next.is_some_and(|next| next.is("::")) {
                        let (path, end) = path_at(&tokens, i);
                        module.paths.extend(outside(&path, inline));
                        module.idents.extend(path);
                        i = end;
                        continue;
                    }
                }
                _ => {}
            }
            if open.len() == inline
                && let Some(name) = declares(&tokens, i)
            {
                module.declared.insert(name.to_owned());
                if token.is("macro_rules") {
                    module.macros.insert(name.to_owned());
                }
            }
            i += 1;
        }
        module.tokens = tokens;
        module
    }

    /// Whether it gives a name to those that take all of it.
    fn has(&self, name: &str) -> bool {
        self.declared.contains(name)
            || self.imports.iter().any(|import| import.name.as_deref().is_none_or(|n| n == name))
    }
}

/// The name of the item whose keyword is at `i`.
pub(crate) fn declares(tokens: &[Token], i: usize) -> Option<&str> {
    const ITEMS: [&str; 9] =
        ["struct", "enum", "union", "trait", "fn", "type", "const", "static", "mod"];
    let next = tokens.get(i + 1)?;
    if tokens[i].is("macro_rules") {
        return tokens.get(i + 2).map(|name| name.text.as_str());
    }
    let next = if next.is("mut") { tokens.get(i + 2)? } else { next };
    let inner = ["fn", "unsafe", "extern", "async", "_"].contains(&next.text.as_str());
    // (`mod x;` is a file.)
    let is_file = tokens[i].is("mod") && tokens.get(i + 2).is_some_and(|after| after.is(";"));
    let is_item = tokens[i].is_ident() && ITEMS.contains(&tokens[i].text.as_str());
    (is_item && next.is_ident() && !inner && !is_file).then_some(next.text.as_str())
}

/// A path in an inline module as its file has it; none if it stays in there.
fn outside(path: &[String], mut inline: usize) -> Option<Vec<String>> {
    let mut rest = path;
    while inline > 0 && rest.first().is_some_and(|word| word == "super") {
        rest = &rest[1..];
        inline -= 1;
        if rest.first().is_none_or(|word| word != "super") {
            return Some([&["self".to_owned()], rest].concat());
        }
    }
    Some(rest.to_vec())
}

/// The path that begins at a word, and where it ends.
fn path_at(tokens: &[Token], mut i: usize) -> (Vec<String>, usize) {
    let mut path = vec![tokens[i].text.clone()];
    while tokens.get(i + 1).is_some_and(|sign| sign.is("::"))
        && tokens.get(i + 2).is_some_and(Token::is_ident)
    {
        i += 2;
        path.push(tokens[i].text.clone());
    }
    (path, i + 1)
}

/// The imports of a tree of `use`, and where it ends.
fn tree(
    tokens: &[Token],
    mut i: usize,
    before: &[String],
    found: &mut Vec<(Vec<String>, Option<String>)>,
) -> usize {
    let mut path = before.to_vec();
    while let Some(token) = tokens.get(i) {
        match token.text.as_str() {
            "{" => {
                let end = reader::end_of_group(tokens, i);
                i += 1;
                while i + 1 < end {
                    i = tree(tokens, i, &path, found);
                    i += usize::from(tokens[i].is(","));
                }
                return end;
            }
            "*" => {
                found.push((path, None));
                return i + 1;
            }
            "as" => {
                let name = tokens.get(i + 1).map(|name| name.text.clone());
                found.push((path, name));
                return i + 2;
            }
            "::" => i += 1,
            _ if token.is_ident() => {
                // `{self, ...}` is what stands before it.
                if token.text != "self" || path.is_empty() {
                    path.push(token.text.clone());
                }
                i += 1;
            }
            _ => break,
        }
    }
    if let Some(name) = path.last().cloned() {
        found.push((path, Some(name)));
    }
    i
}

/// The circles among files: sets of more than one that all reach each other.
pub(crate) fn circles<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<BTreeSet<&'a str>> {
    let reach = |from: &'a str| {
        let (mut found, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(file) = left.pop() {
            let next = edges.get(file).into_iter().flatten();
            left.extend(next.filter(|next| found.insert(**next)));
        }
        found
    };
    let reached: BTreeMap<_, _> = edges.keys().map(|file| (*file, reach(file))).collect();
    let mut circles: Vec<BTreeSet<&str>> = Vec::new();
    for (file, below) in &reached {
        if below.contains(file) && !circles.iter().any(|circle| circle.contains(file)) {
            let both = below.iter().filter(|other| reached[*other].contains(file));
            circles.push(both.copied().collect());
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(files: &[(&str, &str)]) -> Crate {
        let source = |(path, text): &(&str, &str)| Source {
            path: format!("src/{path}"),
            text: (*text).to_owned(),
        };
        Crate::read("src", &files.iter().map(source).collect::<Vec<_>>())
    }

    #[test]
    fn imports_lead_to_the_files_that_declare() {
        let library = library(&[
            ("lib.rs", "mod a; mod b; mod e;"),
            ("a/mod.rs", "mod c; mod d; pub use c::{C, One as Two}; pub use d::*; struct Own;"),
            ("a/c.rs", "pub struct C; pub struct One; #[cfg(test)] mod tests { use crate::b::B; }"),
            ("a/d.rs", "use super::C; pub struct D; mod inside { use super::super::Own; }"),
            (
                "b.rs",
                "use crate::a::{self, Two}; fn f() { a::D::new(); std::mem::swap() } struct B;",
            ),
            ("e.rs", "macro_rules! list { () => {} } fn f() { crate::list!() }"),
            ("f.rs", "crate::list!();"),
        ]);
        let edges = library.edges();
        let of = |file: &str| edges[file].iter().copied().collect::<Vec<_>>();
        assert_eq!(of("src/a/mod.rs"), [""; 0]);
        assert_eq!(of("src/a/c.rs"), [""; 0]);
        assert_eq!(of("src/a/d.rs"), ["src/a/c.rs", "src/a/mod.rs"]);
        assert_eq!(of("src/b.rs"), ["src/a/c.rs", "src/a/d.rs"]);
        assert_eq!(of("src/e.rs"), [""; 0]);
        assert_eq!(of("src/f.rs"), ["src/e.rs"]);
        assert!(circles(&edges).is_empty());
    }

    #[test]
    fn circles_are_found() {
        let library = library(&[
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "pub struct B(crate::c::C);"),
            ("c.rs", "use super::a::*; pub struct C(A);"),
            ("d.rs", "use crate::a::A;"),
        ]);
        let circle = BTreeSet::from(["src/a.rs", "src/b.rs", "src/c.rs"]);
        assert_eq!(circles(&library.edges()), [circle]);
    }
}
