//! Calls of all processes on one clock, with peers as processes and communicators as the
//! objects that all members know.

use super::load::{Recorded, Traces};
use rankway::track::{CallClass, Event, Header, Kind, NO_PEER, Object, ProcessTrace, Unified};
use std::collections::{BTreeMap, HashMap};

/// All jobs, put together.
pub(super) struct Program<'a> {
    pub(super) unified: Unified,
    /// Processes that left a trace.
    pub(super) processes: Vec<Process<'a>>,
    worlds: Worlds,
}

/// The processes of all jobs: of each job its number, that of its rank 0 among them, and its
/// size. (Most may have left no trace: nothing is kept for each.)
#[derive(Clone)]
pub(super) struct Worlds(Vec<(u64, usize, u32)>);

impl Worlds {
    /// Processes of all jobs, with those that left no trace.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|(_, _, size)| *size as usize).sum()
    }

    /// How a process is called.
    pub(super) fn label(&self, place: usize) -> String {
        let of = |(_, (_, first, size)): &(usize, &(u64, usize, u32))| {
            (*first..first + *size as usize).contains(&place)
        };
        match self.0.iter().enumerate().find(of) {
            Some((at, (_, first, _))) if self.0.len() > 1 => {
                format!("{}:{}", at + 1, place - first)
            }
            _ => place.to_string(),
        }
    }
}

/// A process that left a trace.
pub(super) struct Process<'a> {
    pub(super) trace: &'a ProcessTrace,
    /// Where its events are.
    pub(super) file: &'a Recorded,
    /// Its number among those that left a trace.
    pub(super) at: usize,
    /// Its number among the processes of all jobs.
    pub(super) place: usize,
    /// Objects by the number that it gave them, and the group that ranks name in its calls.
    objects: HashMap<u32, (usize, Option<usize>)>,
    /// Ticks to time: processes of one node read the same clock, so that one of them says for
    /// all.
    clock: Header,
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) kind: Kind,
    pub(super) class: CallClass,
    /// In ns since 1970.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) object: Option<usize>,
    /// The peer's rank as the program said it.
    pub(super) rank: Option<u32>,
    /// The peer's number among the processes of all jobs.
    pub(super) peer: Option<usize>,
    pub(super) tag: i32,
    pub(super) bytes: u64,
    /// Returned an error or was cancelled: nothing moved.
    pub(super) failed: bool,
}

/// How far clocks of one node may seem apart by two looks at them.
const APART_NS: u64 = 1_000_000;

impl<'a> Program<'a> {
    pub(super) fn of(traces: &'a Traces) -> Program<'a> {
        let unified = traces.unified();
        let mut jobs = Vec::new();
        let mut total = 0;
        for job in &traces.jobs {
            jobs.push((job.number, total, job.size));
            total += job.size as usize;
        }
        let mut nodes: BTreeMap<&str, &ProcessTrace> = BTreeMap::new();
        let mut processes = Vec::new();
        let files = traces.jobs.iter().flat_map(|job| &job.files);
        for (at, (trace, file)) in traces.processes().zip(files).enumerate() {
            let Header { job, rank, .. } = trace.header;
            let host = trace.facts.get("host");
            let node = host.map(|host| *nodes.entry(host.as_str()).or_insert(trace));
            let same = node.filter(|node| {
                let told = node.nanos(trace.header.ticks);
                told.abs_diff(trace.header.unix_nanos) < APART_NS
            });
            let mut objects = HashMap::new();
            for defined in &trace.definitions {
                if let Some(object) = unified.object_of(job, rank, defined.id) {
                    let peers = unified.objects[object].peers(defined.definition.flags);
                    objects.insert(defined.id, (object, peers));
                }
            }
            let of_job = jobs.iter().find(|(number, ..)| *number == job);
            processes.push(Process {
                trace,
                file,
                at,
                place: of_job.map_or(0, |(_, first, _)| first + rank as usize),
                objects,
                clock: same.unwrap_or(trace).clock(),
            });
        }
        Program { unified, processes, worlds: Worlds(jobs) }
    }

    /// The processes of all jobs.
    pub(super) fn worlds(&self) -> &Worlds {
        &self.worlds
    }

    /// How a process is called.
    pub(super) fn label(&self, place: usize) -> String {
        self.worlds.label(place)
    }

    /// How an object is called.
    pub(super) fn object_label(&self, object: Option<usize>) -> String {
        let Some(object) = object.and_then(|at| self.unified.objects.get(at)) else {
            return "-".to_owned();
        };
        match &object.name {
            Some(name) => name.to_string(),
            None => {
                format!("{} {}", object.constructor.name(), key(object.key)).trim_end().to_owned()
            }
        }
    }

    /// The object of this name, key or number.
    ///
    /// # Errors
    /// There is none, or several have the name.
    pub(super) fn object_named(&self, asked: &str) -> Result<usize, String> {
        let objects = &self.unified.objects;
        let places = |is: &dyn Fn(&Object) -> bool| -> Vec<usize> {
            (0..objects.len()).filter(|&at| is(&objects[at])).collect()
        };
        let named = places(&|one| {
            one.name.as_deref() == Some(asked)
                || (one.name.is_none() && one.constructor.name() == asked)
        });
        let keyed = places(&|one| one.key.is_some() && key(one.key) == asked);
        let numbered = asked.parse().ok().filter(|&at: &usize| at < objects.len());
        match (&named[..], &keyed[..], numbered) {
            ([one], ..) | ([], [one], _) => Ok(*one),
            ([], [], Some(one)) => Ok(one),
            ([], [], None) => Err(format!(
                "--comm: no communicator or window '{asked}'; `rankway trace comms` shows names and keys"
            )),
            _ => {
                let keys = named.iter().chain(&keyed).map(|&at| key(objects[at].key));
                let keys: Vec<String> = keys.filter(|key| !key.is_empty()).take(8).collect();
                Err(format!("--comm: several are '{asked}'; their keys are {}", keys.join(", ")))
            }
        }
    }

    /// The process that is `rank` in a group.
    fn place(&self, group: usize, rank: u32) -> Option<usize> {
        let process = self.unified.groups.get(group)?.get(rank)?;
        let job = self.unified.jobs.get(process.pg as usize)?.number;
        let (_, first, size) = self.worlds.0.iter().find(|(number, ..)| *number == job)?;
        (process.lpid < *size).then(|| first + process.lpid as usize)
    }

    /// `None` for a kind of a later version.
    pub(super) fn call(&self, process: &Process<'_>, event: &Event) -> Option<Call> {
        let kind = event.kind()?;
        let object = process.objects.get(&event.comm).copied();
        let rank = (event.peer != NO_PEER).then_some(event.peer);
        let peer = object.zip(rank).and_then(|((object, peers), rank)| {
            match self.unified.objects[object].family {
                // Each is alone in its own.
                true => (rank == 0).then_some(process.place),
                false => self.place(peers?, rank),
            }
        });
        Some(Call {
            kind,
            class: kind.class(),
            start: process.nanos(event.start),
            end: process.nanos(event.end()),
            object: object.map(|(object, _)| object),
            rank,
            peer,
            tag: event.tag,
            bytes: event.bytes(),
            failed: event.flags().is_void(),
        })
    }
}

impl Process<'_> {
    /// Ticks of its clock in ns since 1970.
    pub(super) fn nanos(&self, ticks: u64) -> u64 {
        self.clock.nanos(ticks)
    }

    /// The objects that it is in.
    pub(super) fn all_objects(&self) -> impl Iterator<Item = usize> {
        self.objects.values().map(|&(object, _)| object)
    }

    /// The object of this number.
    pub(super) fn object(&self, id: u32) -> Option<usize> {
        self.objects.get(&id).map(|&(object, _)| object)
    }
}

/// The paper's key: the world rank of rank 0, and its counter there.
pub(super) fn key(key: Option<(u32, u32)>) -> String {
    key.map_or_else(String::new, |(lead, counter)| format!("{lead}.{counter}"))
}

impl Call {
    /// Returns true if its bytes come from the peer.
    pub(super) fn is_get(&self) -> bool {
        matches!(self.kind, Kind::Get | Kind::Rget)
    }
}
