//! Which communicators: built in, named on the command line, or in a file.

use super::{Args, input};
use rankway_cli::observe::maps::{Bound, Builtin, CATALOG, Group, MILLION, Sample};
use std::path::PathBuf;

/// Most ranks of a built-in's world: it is written out, and so is every form.
pub(super) const BUILTIN_MAX: u32 = 1 << 26;

/// A communicator to be.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) group: Option<&'static str>,
    pub(super) what: String,
    from: From,
}

enum From {
    Builtin(&'static Builtin),
    List(String),
    File(PathBuf),
}

/// What is wrong with the arguments, or with what they name.
pub(super) enum Wrong {
    Arguments(String),
    Input(String),
}

/// One or more built-ins by the name of one or of a group.
pub(crate) fn named(name: &str) -> Result<Vec<&'static Builtin>, String> {
    let of = |group: Group| CATALOG.iter().filter(move |one| one.group == group).collect();
    if let Some(one) = Builtin::named(name) {
        return Ok(vec![one]);
    }
    if let Some(group) = Group::ALL.into_iter().find(|g| g.name().eq_ignore_ascii_case(name)) {
        return Ok(of(group));
    }
    if name.eq_ignore_ascii_case("all") {
        return Ok(CATALOG.iter().collect());
    }
    Err(format!(
        "'{name}' is no communicator; take a class from A to E, classes, table6.1, shapes, all, \
         or a name that rankway maps --list shows"
    ))
}

/// What the arguments ask for; the classes if nothing.
pub(super) fn sources(args: &Args) -> Vec<Source> {
    let mut sources: Vec<Source> = args.maps.iter().flatten().map(|&one| Source::of(one)).collect();
    if let Some(list) = &args.ranks {
        sources.push(Source::own("--ranks", From::List(list.clone())));
    }
    if let Some(path) = &args.file {
        let name =
            if path.as_os_str() == "-" { "stdin".into() } else { path.display().to_string() };
        sources.push(Source::own(&name, From::File(path.clone())));
    }
    if sources.is_empty() {
        let classes = CATALOG.iter().filter(|one| one.group == Group::Classes);
        sources.extend(classes.map(Source::of));
    }
    sources
}

impl Source {
    fn of(one: &'static Builtin) -> Source {
        Source {
            name: one.name.to_owned(),
            group: Some(one.group.name()),
            what: one.what.to_owned(),
            from: From::Builtin(one),
        }
    }

    fn own(name: &str, from: From) -> Source {
        Source { name: name.to_owned(), group: None, what: "your ranks".to_owned(), from }
    }

    /// The world it is on and its lpids.
    pub(super) fn sample(&self, args: &Args) -> Result<Sample, Wrong> {
        let universe = args.universe.unwrap_or(MILLION);
        let lpids = match &self.from {
            From::Builtin(one) => {
                let universe = args.universe.unwrap_or(one.universe);
                if universe > BUILTIN_MAX {
                    return Err(Wrong::Arguments(format!(
                        "'{}' is written out: at most --universe {BUILTIN_MAX}",
                        one.name
                    )));
                }
                return one.make(universe, args.seed).map_err(|e| Wrong::Arguments(e.to_string()));
            }
            From::List(text) => input::list(text, universe)
                .map_err(|why| Wrong::Arguments(format!("--ranks: {why}")))?,
            From::File(path) => input::file(path, universe).map_err(Wrong::Input)?,
        };
        let radices = args.radices.clone().unwrap_or_default();
        let grid = radices.iter().fold(1u64, |all, &one| all.saturating_mul(one.into()));
        let last = lpids.iter().max().copied().unwrap_or(0);
        if !radices.is_empty() && u64::from(last) >= grid {
            return Err(Wrong::Arguments(format!(
                "rank {last} is not in the grid of --radices, which has {grid}; give larger ones"
            )));
        }
        let bound = Bound::of(universe, &lpids);
        Ok(Sample { universe, radices, lpids, bound })
    }
}
