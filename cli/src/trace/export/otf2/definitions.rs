//! What all locations share: processes, hosts, regions, groups, communicators, windows.
//!
//! Every rank of every job's world is a location group with a location, whether its trace is
//! there or not: groups are of them. `COMM_LOCATIONS` lists one location for each, in order
//! of job and rank, and members of groups are places in that list; a location's number is
//! its place, and further threads come behind all of these.

use super::super::object_name;
use super::UNDEFINED;
use super::events::Used;
use super::ffi::{Archive, DefinitionWriter};
use super::numbers::Numbers;
use rankway::track::{Constructor, Object, ObjectKind, Unified};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};

/// `OTF2_PARADIGM_MPI`.
const MPI: u8 = 4;
/// `OTF2_GROUP_TYPE_COMM_LOCATIONS`, `_COMM_GROUP`, `_COMM_SELF`.
const COMM_LOCATIONS: u8 = 4;
const COMM_GROUP: u8 = 5;
const COMM_SELF: u8 = 6;
/// Numbers of the groups that are always there; others come behind.
const LOCATIONS: u32 = 0;
const SELF: u32 = 1;
const GROUPS: u32 = 2;

/// A process whose trace is there.
pub(super) struct Recorded {
    /// Its place in the list of all.
    pub(super) process: u32,
    pub(super) host: Option<String>,
    /// Threads, their locations and how many events these have.
    pub(super) locations: Vec<(u32, u64, u64)>,
    pub(super) dropped: u64,
    pub(super) lost: u64,
    pub(super) ended: bool,
}

/// Writes definitions and numbers texts.
struct Texts<'a> {
    to: &'a DefinitionWriter<'a>,
    known: RefCell<HashMap<String, u32>>,
    count: Cell<u64>,
}

impl Texts<'_> {
    fn number(&self, text: &str) -> Result<u32, String> {
        if let Some(&number) = self.known.borrow().get(text) {
            return Ok(number);
        }
        let number = self.known.borrow().len() as u32;
        self.counted(self.to.string(number, text))?;
        self.known.borrow_mut().insert(text.to_owned(), number);
        Ok(number)
    }

    fn counted<T>(&self, written: Result<T, String>) -> Result<T, String> {
        self.count.set(self.count.get() + 1);
        written
    }
}

/// Writes them all; `label` calls a process of the job at a place. Returns how many.
pub(super) fn write(
    archive: &Archive,
    unified: &Unified,
    numbers: &Numbers,
    recorded: &[Recorded],
    used: &Used,
    begin: u64,
    label: &dyn Fn(usize, u32) -> String,
) -> Result<u64, String> {
    let to = archive.definitions()?;
    let texts = Texts { to: &to, known: RefCell::default(), count: Cell::new(0) };
    let length = used.end().unwrap_or(begin) - begin + 1;
    texts.counted(to.clock(1_000_000_000, begin, length, begin))?;
    let empty = texts.number("")?;
    for (number, (name, role)) in used.regions() {
        let name = texts.number(name)?;
        texts.counted(to.region(number, name, name, empty, role, MPI, 0, UNDEFINED, 0, 0))?;
    }
    processes(&to, &texts, numbers, recorded, label)?;

    let all: Vec<u64> = (0..numbers.processes().into()).collect();
    texts.counted(to.group(LOCATIONS, empty, COMM_LOCATIONS, MPI, &all))?;
    texts.counted(to.group(SELF, empty, COMM_SELF, MPI, &[]))?;
    let groups = groups(&to, &texts, unified, numbers)?;
    communicators(&to, &texts, unified, numbers, &groups)?;
    let count = texts.count.get();
    to.close()?;
    Ok(count)
}

/// Hosts, processes below them, threads below these.
fn processes(
    to: &DefinitionWriter<'_>,
    texts: &Texts<'_>,
    numbers: &Numbers,
    recorded: &[Recorded],
    label: &dyn Fn(usize, u32) -> String,
) -> Result<(), String> {
    const PROCESS: u8 = 1;
    const THREAD: u8 = 1;
    const MACHINE: u32 = 0;
    let (machine, node) = (texts.number("machine")?, texts.number("node")?);
    texts.counted(to.tree_node(MACHINE, machine, machine, UNDEFINED))?;
    let mut hosts: BTreeMap<&str, u32> = BTreeMap::new();
    for host in recorded.iter().filter_map(|one| one.host.as_deref()) {
        if !hosts.contains_key(host) {
            let number = hosts.len() as u32 + 1;
            texts.counted(to.tree_node(number, texts.number(host)?, node, MACHINE))?;
            hosts.insert(host, number);
        }
    }
    let by_place: HashMap<u32, &Recorded> = recorded.iter().map(|one| (one.process, one)).collect();
    let mut further = Vec::new();
    let first_thread = texts.number("thread 0")?;
    for (job, ends) in numbers.jobs().windows(2).enumerate() {
        for process in ends[0]..ends[1] {
            let name = format!("MPI Rank {}", label(job, process - ends[0]));
            let name = texts.number(&name)?;
            let one = by_place.get(&process);
            let parent = one.and_then(|one| hosts.get(one.host.as_deref()?)).copied();
            let parent = parent.unwrap_or(MACHINE);
            texts.counted(to.location_group(process, name, PROCESS, parent, UNDEFINED))?;
            let mut locations = one.map_or(&[][..], |one| &one.locations).iter();
            let (thread, events) = match locations.next() {
                Some(&(thread, _, events)) => (texts.number(&format!("thread {thread}"))?, events),
                None => (first_thread, 0),
            };
            texts.counted(to.location(process.into(), thread, THREAD, events, process))?;
            further.extend(locations.map(|&one| (one, process)));
        }
    }
    for ((thread, location, events), process) in further {
        let name = texts.number(&format!("thread {thread}"))?;
        texts.counted(to.location(location, name, THREAD, events, process))?;
    }
    for one in recorded {
        let tell = |what: &str, value: u64| {
            let name = texts.number(what)?;
            texts.counted(to.property(one.process, name, value))
        };
        if one.dropped > 0 {
            tell("Rankway::dropped events", one.dropped)?;
        }
        if one.lost > 0 {
            tell("Rankway::lost definitions", one.lost)?;
        }
        if !one.ended {
            tell("Rankway::ended", 0)?;
        }
    }
    Ok(())
}

/// Groups of communicators and windows. Returns the number of each side of each object.
fn groups(
    to: &DefinitionWriter<'_>,
    texts: &Texts<'_>,
    unified: &Unified,
    numbers: &Numbers,
) -> Result<Vec<[u32; 2]>, String> {
    let empty = texts.number("")?;
    let mut known: HashMap<usize, u32> = HashMap::new();
    let mut next = GROUPS;
    let mut all = Vec::with_capacity(unified.objects.len());
    for (at, object) in unified.objects.iter().enumerate() {
        let mut of = [UNDEFINED; 2];
        let both = object.constructor.object() == ObjectKind::Intercommunicator;
        let sides = if both { 2 } else { 1 };
        for (side, number) in of.iter_mut().enumerate().take(sides) {
            if numbers.of(at) == (UNDEFINED, UNDEFINED) {
                continue;
            }
            if object.family {
                *number = SELF;
                continue;
            }
            let group = object.groups[side];
            if let Some(&there) = group.and_then(|group| known.get(&group)) {
                *number = there;
                continue;
            }
            let place = |rank| {
                let process = unified.groups[group?].get(rank)?;
                Some(u64::from(numbers.jobs().get(process.pg as usize)? + process.lpid))
            };
            let size = group.map_or(object.sizes[side], |group| unified.groups[group].size());
            // (Who it is nobody knows who did not report and no parent tells of.)
            let members: Vec<u64> = (0..size).map(|rank| place(rank).unwrap_or(u64::MAX)).collect();
            texts.counted(to.group(next, empty, COMM_GROUP, MPI, &members))?;
            group.and_then(|group| known.insert(group, next));
            *number = next;
            next += 1;
        }
        all.push(of);
    }
    Ok(all)
}

fn communicators(
    to: &DefinitionWriter<'_>,
    texts: &Texts<'_>,
    unified: &Unified,
    numbers: &Numbers,
    groups: &[[u32; 2]],
) -> Result<(), String> {
    /// `OTF2_COMM_FLAG_CREATE_DESTROY_EVENTS`, and that of windows.
    const EVENTS: u32 = 1;
    let made = |object: &Object| match object.constructor {
        Constructor::World | Constructor::ItSelf | Constructor::Parent => 0,
        _ => EVENTS,
    };
    let name = |object: &Object| {
        let name = object.name.as_deref();
        texts.number(&object_name(name, object.constructor, object.identity))
    };
    let mut further = numbers.comms();
    // Windows come behind the communicators that they are made of.
    for (at, object) in unified.objects.iter().enumerate() {
        let (comm, _) = numbers.of(at);
        if comm == UNDEFINED {
            continue;
        }
        let parent = object.parent.map_or(UNDEFINED, |parent| numbers.of(parent).0);
        let (name, flags, [first, second]) = (name(object)?, made(object), groups[at]);
        texts.counted(match object.constructor.object() {
            ObjectKind::Intercommunicator => to.intercomm(comm, name, first, second, parent, flags),
            _ => to.comm(comm, name, first, parent, flags),
        })?;
    }
    for (at, object) in unified.objects.iter().enumerate() {
        let (_, window) = numbers.of(at);
        if window == UNDEFINED {
            continue;
        }
        let (name, flags) = (name(object)?, made(object));
        let mut comm = object.parent.map_or(UNDEFINED, |parent| numbers.of(parent).0);
        if comm == UNDEFINED {
            comm = further;
            further += 1;
            texts.counted(to.comm(comm, name, groups[at][0], UNDEFINED, 0))?;
        }
        texts.counted(to.window(window, name, comm, flags))?;
    }
    Ok(())
}
