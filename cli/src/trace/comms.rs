//! `rankway trace comms`: the tree of communicators, and the census of their maps.

use super::calls::{Call, Process, Program, key};
use super::leaks::is_left;
use super::load::{Source, Traces};
use super::replay::{Visitor, replay};
use super::site::{Sites, told};
use crate::output::{NONE, Table, bytes, count, several};
use rankway::rankmap::{Model, RankMap};
use rankway::track::{CallClass, ObjectKind};
use serde::Serialize;
use std::collections::BTreeMap;

/// The tree of communicators: who made them, their maps, what went through each
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,

    /// Each communicator in a line of its own, though many are alike
    #[arg(short, long)]
    all: bool,

    /// For programs: one JSON object
    #[arg(long)]
    json: bool,
}

/// A communicator, window or file.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Communicator {
    id: usize,
    parent: Option<usize>,
    kind: &'static str,
    constructor: &'static str,
    name: Option<String>,
    key: Option<(u32, u32)>,
    site: Option<String>,
    function: Option<String>,
    size: u64,
    reported: u64,
    maps: Vec<Map>,
    freed: u64,
    /// How many may have freed it: records of theirs found no space.
    freed_unknown: u64,
    messages: u64,
    message_bytes: u64,
    puts: u64,
    put_bytes: u64,
    collectives: u64,
    collective_bytes: u64,
}

/// The members of a group, as they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Map {
    model: &'static str,
    map_bytes: u64,
}

/// How many maps are of a model.
#[derive(Debug, Serialize)]
struct Row {
    model: &'static str,
    communicators: u64,
    alive_at_once: u64,
    map_bytes: u64,
}

#[derive(Serialize)]
pub(super) struct Comms {
    communicators: Vec<Communicator>,
    census: Vec<Row>,
    distinct_maps: usize,
    distinct_map_bytes: u64,
    alive_at_once: u64,
    /// Which the census does not count.
    windows: u64,
    files: u64,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let traces = args.source.load()?;
    let comms = Comms::of(&traces)?;
    if args.json {
        return traces.json("comms", comms);
    }
    let mut table = comms.tree(args.all);
    traces.head(&mut table);
    crate::output::print(|out| {
        table.print(out)?;
        comms.census_table().print(out)
    })
}

/// What `--json` prints.
pub(crate) fn value(args: &Args) -> Result<serde_json::Value, String> {
    let traces = args.source.load()?;
    crate::output::value(&traces.answer("comms", Comms::of(&traces)?))
}

/// Communicators, windows and files by number, and what goes through them as calls come by.
pub(super) struct Tree(BTreeMap<usize, Communicator>);

impl Tree {
    pub(super) fn new(program: &Program<'_>) -> Tree {
        let unified = &program.unified;
        let sites = Sites::default();
        let mut all: BTreeMap<usize, Communicator> = BTreeMap::new();
        for (id, object) in unified.objects.iter().enumerate() {
            let kind = object.constructor.object();
            if !kind.has_communicator() {
                continue;
            }
            let maps = object.groups.iter().flatten().map(|&group| match object.family {
                // Each has itself alone.
                true => Map { model: Model::Offset.name(), map_bytes: size_of::<RankMap>() as u64 },
                false => {
                    let group = &unified.groups[group];
                    Map { model: group.map().model().name(), map_bytes: group.bytes() as u64 }
                }
            });
            let place = object.site.as_ref().map(|site| sites.place(site, object.made.0));
            all.insert(
                id,
                Communicator {
                    id,
                    parent: object.parent,
                    kind: kind.name(),
                    constructor: object.constructor.name(),
                    name: object.name.as_ref().map(ToString::to_string),
                    key: object.key,
                    site: place.as_ref().map(|place| place.text.clone()),
                    function: place.and_then(|place| place.function),
                    size: object.size.into(),
                    reported: object.seen.into(),
                    maps: maps.collect(),
                    freed: object.freed.into(),
                    freed_unknown: 0,
                    messages: 0,
                    message_bytes: 0,
                    puts: 0,
                    put_bytes: 0,
                    collectives: 0,
                    collective_bytes: 0,
                },
            );
        }
        for process in program.processes.iter().filter(|process| process.trace.lost > 0) {
            let defined = process.trace.definitions.iter();
            for one in defined.filter(|one| is_left(one)) {
                let into = process.object(one.id).and_then(|id| all.get_mut(&id));
                into.into_iter().for_each(|into| into.freed_unknown += 1);
            }
        }
        Tree(all)
    }
}

impl Visitor for Tree {
    fn call(&mut self, _: &Program<'_>, _: &Process<'_>, call: &Call) {
        let into = call.object.filter(|_| !call.failed).and_then(|id| self.0.get_mut(&id));
        let Some(into) = into else { return };
        let (calls, bytes) = match call.class {
            // To no process.
            CallClass::Send | CallClass::OneSided if call.rank.is_none() => return,
            CallClass::Send => (&mut into.messages, &mut into.message_bytes),
            CallClass::OneSided => (&mut into.puts, &mut into.put_bytes),
            CallClass::Collective | CallClass::CollectiveStart => {
                (&mut into.collectives, &mut into.collective_bytes)
            }
            _ => return,
        };
        *calls += 1;
        *bytes += call.bytes;
    }
}

impl Comms {
    fn of(traces: &Traces) -> Result<Comms, String> {
        let program = Program::of(traces);
        let mut tree = Tree::new(&program);
        replay(&program, false, &mut [&mut tree])?;
        Ok(Comms::new(&program, tree))
    }

    pub(super) fn new(program: &Program<'_>, tree: Tree) -> Comms {
        let (unified, all) = (&program.unified, tree.0);
        let (census, alive_at_once) = census(program, &all);
        let of =
            |kind: ObjectKind| all.values().filter(|one| one.kind == kind.name()).count() as u64;
        let (windows, files) = (of(ObjectKind::Window), of(ObjectKind::File));
        Comms {
            communicators: all.into_values().collect(),
            census,
            distinct_maps: unified.groups.len(),
            distinct_map_bytes: unified.group_bytes() as u64,
            alive_at_once,
            windows,
            files,
        }
    }

    /// The tree, children under what they were made of; those that are alike as one line
    /// unless `all` are asked for.
    pub(super) fn tree(&self, all: bool) -> Table {
        let mut table = Table::new(&[
            "communicator",
            "key",
            "size",
            "map",
            "map\nbytes",
            "reported\nby",
            "messages",
            "bytes",
            "puts,\ngets",
            "bytes",
            "collective\ncalls",
            "bytes",
            "freed",
            "made at",
        ]);
        let known: std::collections::BTreeSet<usize> =
            self.communicators.iter().map(|one| one.id).collect();
        let mut children: BTreeMap<Option<usize>, Vec<&Communicator>> = BTreeMap::new();
        for one in &self.communicators {
            let parent = one.parent.filter(|parent| known.contains(parent) && *parent != one.id);
            children.entry(parent).or_default().push(one);
        }
        let mut stack: Vec<(usize, Vec<&Communicator>)> = Vec::new();
        let push = |stack: &mut Vec<_>, depth, of| {
            let mut groups: Vec<Vec<&Communicator>> = Vec::new();
            for &one in children.get(&of).into_iter().flatten() {
                let alike = |group: &&mut Vec<&Communicator>| {
                    let leaf = |one: &Communicator| !children.contains_key(&Some(one.id));
                    !all && leaf(one) && leaf(group[0]) && one.alike(group[0])
                };
                match groups.iter_mut().find(alike) {
                    Some(group) => group.push(one),
                    None => groups.push(vec![one]),
                }
            }
            stack.extend(groups.into_iter().rev().map(|group| (depth, group)));
        };
        push(&mut stack, 0, None);
        while let Some((depth, group)) = stack.pop() {
            table.row(&Communicator::cells(&group, depth));
            if let [one] = group[..] {
                push(&mut stack, depth + 1, Some(one.id));
            }
        }
        table
    }

    pub(super) fn census_table(&self) -> Table {
        let mut table =
            Table::new(&["map", "communicators", "alive at once\non a process", "map bytes"]);
        table.title("");
        for row in &self.census {
            table.row(&[
                row.model.to_owned(),
                count(row.communicators),
                count(row.alive_at_once),
                count(row.map_bytes),
            ]);
        }
        let others = match (self.windows, self.files) {
            (0, 0) => String::new(),
            (windows, files) => {
                let windows = several(windows, "window", "windows");
                format!("; {windows} and {} are not among them", several(files, "file", "files"))
            }
        };
        table.note(format!(
            "at most {} communicators alive at once on a process{others}",
            count(self.alive_at_once)
        ));
        table.note(format!(
            "{} different maps of {} together",
            count(self.distinct_maps as u64),
            bytes(self.distinct_map_bytes)
        ));
        table
    }
}

impl Communicator {
    /// Returns true if a line can say both.
    fn alike(&self, other: &Communicator) -> bool {
        (self.constructor, &self.site, &self.name, self.size, self.freed, self.freed_unknown)
            == (
                other.constructor,
                &other.site,
                &other.name,
                other.size,
                other.freed,
                other.freed_unknown,
            )
            && self.maps.iter().map(|map| map.model).eq(other.maps.iter().map(|map| map.model))
    }

    /// A line for those that are alike.
    fn cells(group: &[&Communicator], depth: usize) -> Vec<String> {
        let one = group[0];
        let sum = |of: fn(&Communicator) -> u64| group.iter().map(|one| of(one)).sum::<u64>();
        let called = one.name.clone().unwrap_or_else(|| one.constructor.to_owned());
        let made_by = match &one.name {
            Some(name) if name != one.constructor => format!(" ({})", one.constructor),
            _ => String::new(),
        };
        let times = match group.len() {
            1 => String::new(),
            n => format!(" ×{}", count(n as u64)),
        };
        let models: Vec<&str> = one.maps.iter().map(|map| map.model).collect();
        let or_none = |text: String| if text.is_empty() { NONE.to_owned() } else { text };
        let some = |calls: u64, text: String| if calls == 0 { NONE.to_owned() } else { text };
        let through =
            |calls: u64, moved: u64| [some(calls, count(calls)), some(calls, bytes(moved))];
        let [messages, message_bytes] =
            through(sum(|one| one.messages), sum(|one| one.message_bytes));
        let [puts, put_bytes] = through(sum(|one| one.puts), sum(|one| one.put_bytes));
        let [collectives, collective_bytes] =
            through(sum(|one| one.collectives), sum(|one| one.collective_bytes));
        vec![
            format!("{}{called}{made_by}{times}", "  ".repeat(depth)),
            if group.len() > 1 { NONE.to_owned() } else { or_none(key(one.key)) },
            count(one.size),
            or_none(models.join("+")),
            count(sum(|one| one.maps.iter().map(|map| map.map_bytes).sum())),
            count(one.reported),
            messages,
            message_bytes,
            puts,
            put_bytes,
            collectives,
            collective_bytes,
            match (one.freed, one.freed_unknown) {
                (0, 0) => "no".to_owned(),
                (all, _) if all >= one.reported => "yes".to_owned(),
                (some, 0) => format!("by {some}"),
                (0, all) if all >= one.reported => "unknown".to_owned(),
                (some, unknown) => format!("by {some}, {unknown} unknown"),
            },
            told(one.site.as_deref(), one.function.as_deref()),
        ]
    }
}

/// Maps of communicators by model, as the paper's Table I counts them, and how many of these a
/// process had at once. Windows and files are none.
fn census(program: &Program<'_>, all: &BTreeMap<usize, Communicator>) -> (Vec<Row>, u64) {
    let mut rows: Vec<Row> = (Model::ALL.iter())
        .map(|model| Row { model: model.name(), communicators: 0, alive_at_once: 0, map_bytes: 0 })
        .collect();
    let row_of = |model: &str| Model::ALL.iter().position(|one| one.name() == model);
    let is_one = |one: &&Communicator| {
        [ObjectKind::Communicator, ObjectKind::Intercommunicator]
            .iter()
            .any(|of| of.name() == one.kind)
    };
    for map in all.values().filter(is_one).flat_map(|one| &one.maps) {
        if let Some(row) = row_of(map.model) {
            rows[row].communicators += 1;
            rows[row].map_bytes += map.map_bytes;
        }
    }
    let mut most = 0;
    for process in &program.processes {
        let mut changes: Vec<(u64, i64, usize)> = Vec::new();
        for defined in &process.trace.definitions {
            let one = process.object(defined.id).and_then(|id| all.get(&id));
            let Some(one) = one.filter(is_one) else { continue };
            for row in one.maps.iter().filter_map(|map| row_of(map.model)) {
                changes.push((defined.made, 1, row));
                changes.extend(defined.freed.map(|ticks| (ticks, -1, row)));
            }
        }
        changes.sort_unstable();
        let mut now = vec![0_i64; rows.len()];
        for (_, change, row) in changes {
            now[row] += change;
            rows[row].alive_at_once = rows[row].alive_at_once.max(now[row] as u64);
            most = most.max(now.iter().sum::<i64>() as u64);
        }
    }
    rows.retain(|row| row.communicators > 0);
    (rows, most)
}
