//! What all processes recorded, put together: objects, and who is in them as rank maps.

use super::definition::{Constructor, DefinitionFlags, Identity, ObjectKind};
use super::partial::{Entry, Partial};
use super::runs::{Run, Runs};
use crate::rankmap::{Detector, Process, RankMap, Translation};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The number that no other has.
    pub number: u64,
    /// Processes of its world.
    pub size: u32,
    /// How many of them reported.
    pub seen: u32,
}

/// Members by rank. Process groups are places in [`Unified::jobs`].
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    map: RankMap,
    /// What finds ranks faster than the map, of a map that divides.
    translation: Option<Box<Translation>>,
    /// Ranks of which the members are known, where that is not all.
    known: Option<RankMap>,
    size: u32,
}

impl Group {
    fn new(map: RankMap, known: Option<RankMap>, size: u32) -> Group {
        let translation = Translation::of(&map).map(Box::new);
        Group { map, translation, known, size }
    }

    /// Its size, members that are not known included.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The members that are known, in the order of their ranks; all, unless some did not
    /// report.
    pub fn map(&self) -> &RankMap {
        &self.map
    }

    /// Returns true if all members are known.
    pub fn is_complete(&self) -> bool {
        self.known.is_none()
    }

    /// The process that is `rank`; `None` from the size on, or where it is not known.
    pub fn get(&self, rank: u32) -> Option<Process> {
        let rank = match &self.known {
            None => rank,
            Some(known) => known.rank_of(Process::new(0, rank))?,
        };
        match (&self.translation, self.map.pg()) {
            (Some(translation), Some(pg)) if rank < self.map.len() => {
                Some(Process::new(pg, translation.get(rank)))
            }
            _ => self.map.get(rank),
        }
    }

    /// The rank of a process; `None` if it is not a known member.
    pub fn rank_of(&self, process: Process) -> Option<u32> {
        let at = self.map.rank_of(process)?;
        match &self.known {
            None => Some(at),
            Some(known) => known.get(at).map(|rank| rank.lpid),
        }
    }

    /// Bytes of its maps. Of blocks, boxes and tiles there are some reciprocals beside them.
    pub fn bytes(&self) -> usize {
        self.map.bytes() + self.known.as_ref().map_or(0, RankMap::bytes)
    }
}

/// A communicator, window or file of all its members; or what each of some processes made
/// for itself in the same manner.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Object {
    /// What names it.
    pub identity: Identity,
    /// The paper's key of a communicator: the world rank of its rank 0, and how many
    /// communicators that process had been rank 0 of before. Not known if it did not
    /// report; a family has none.
    pub key: Option<(u32, u32)>,
    /// What made it.
    pub constructor: Constructor,
    /// What else is to be known.
    pub flags: DefinitionFlags,
    /// Each of the processes in the group has one of its own: `MPI_COMM_SELF`,
    /// communicators of one process, groups, datatypes, requests.
    pub family: bool,
    /// What it was made of: a place in [`Unified::objects`].
    pub parent: Option<usize>,
    /// Places in [`Unified::groups`]; two for an intercommunicator, as far as members of
    /// them reported. Of a family: the processes that have one, by rank in their world.
    pub groups: [Option<usize>; 2],
    /// Members of each group; of a family of each of its objects.
    pub sizes: [u32; 2],
    /// Members of both groups.
    pub size: u32,
    /// How many of them reported; of a family how many processes have one.
    pub seen: u32,
    /// When the first and the last of those who reported made it, in nanoseconds since
    /// 1970.
    pub made: (u64, u64),
    /// How many of those who reported freed it.
    pub freed: u32,
    /// When the last of these did, in nanoseconds since 1970.
    pub last_freed: Option<u64>,
    /// The place in the program that made it, as the least member says.
    pub site: Option<Arc<str>>,
    /// The name that the program gave it, as the least member says.
    pub name: Option<Arc<str>>,
}

/// Members of an object that call it by one number, upwards.
#[derive(Clone, Copy, Debug)]
struct Members {
    first: u32,
    last: u32,
    stride: u32,
    /// The largest `last` of these and of those before.
    reach: u32,
    object: usize,
}

/// What all processes recorded, put together.
pub struct Unified {
    /// Ordered by number; the process groups of the maps.
    pub jobs: Vec<Job>,
    /// Different from each other.
    pub groups: Vec<Group>,
    /// In the order in which they were made.
    pub objects: Vec<Object>,
    /// Who calls an object so, by job and number.
    by_id: HashMap<(u64, u32), Vec<Members>>,
}

impl fmt::Debug for Unified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unified")
            .field("jobs", &self.jobs)
            .field("groups", &self.groups)
            .field("objects", &self.objects)
            .finish_non_exhaustive()
    }
}

impl Object {
    /// Whom the ranks are of that a member with these flags names in calls: a place in
    /// [`Unified::groups`]. Of an intercommunicator that is the other group. `None` of a
    /// family, and where nobody of the group reported.
    pub fn peers(&self, member: DefinitionFlags) -> Option<usize> {
        let between = self.constructor.object() == ObjectKind::Intercommunicator;
        let second = between && !member.has(DefinitionFlags::SECOND_GROUP);
        self.groups[usize::from(second)].filter(|_| !self.family)
    }
}

impl Unified {
    /// The object that a process calls by this number: a place in
    /// [`objects`](Unified::objects).
    pub fn object_of(&self, job: u64, rank: u32, id: u32) -> Option<usize> {
        let members = self.by_id.get(&(job, id))?;
        let behind = members.partition_point(|members| members.first <= rank);
        let reaching = members[..behind].iter().rev().take_while(|members| members.reach >= rank);
        let mut in_them =
            reaching.filter(|m| m.last >= rank && (rank - m.first).is_multiple_of(m.stride));
        in_them.next().map(|members| members.object)
    }

    /// The place of a job in [`jobs`](Unified::jobs): the process group of its processes.
    pub fn job(&self, number: u64) -> Option<u32> {
        self.jobs.binary_search_by_key(&number, |job| job.number).ok().map(|at| at as u32)
    }

    /// Bytes of all groups.
    pub fn group_bytes(&self) -> usize {
        self.groups.iter().map(Group::bytes).sum()
    }
}

impl Partial {
    /// Objects with their members as rank maps.
    pub fn finish(self) -> Unified {
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let job = |job: &super::partial::JobSeen| {
            let (size, seen) = (job.size, number(job.present.members()));
            Job { number: job.number, size, seen }
        };
        let jobs: Vec<Job> = self.jobs.iter().map(job).collect();
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_key(|&at| {
            let entry = &self.entries[at];
            (entry.made.0, entry.lead, entry.counter, entry.identity)
        });
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(to, &from)| place[from] = to);
        let Groups { groups, of, .. } = Groups::new(&jobs, &self.entries).all();
        let parent = |entry: &Entry| {
            let of = (entry.parent != 0).then_some(entry.parent)?;
            self.entry(of).map(|at| place[at])
        };
        let object = |&at: &usize| {
            let entry = &self.entries[at];
            let seen = entry.runs.iter().map(Runs::members).sum();
            let lead = entry.runs[0].as_slice().first().filter(|run| run.local == 0);
            Object {
                identity: entry.identity,
                key: lead.zip(entry.counter).map(|(run, counter)| (run.world, counter)),
                constructor: entry.constructor,
                flags: entry.flags,
                family: entry.family,
                parent: parent(entry),
                groups: of[at],
                sizes: entry.sizes,
                size: entry.sizes[0].saturating_add(entry.sizes[1]),
                seen: number(seen),
                made: entry.made,
                freed: entry.freed.0,
                last_freed: (entry.freed.0 > 0).then_some(entry.freed.1),
                site: entry.site.as_ref().map(|(_, text)| Arc::clone(text)),
                name: entry.name.as_ref().map(|(_, text)| Arc::clone(text)),
            }
        };
        let objects = order.iter().map(object).collect();
        let mut by_id: HashMap<(u64, u32), Vec<Members>> = HashMap::new();
        for (entry, &object) in self.entries.iter().zip(&place) {
            for run in entry.runs.iter().flat_map(Runs::as_slice) {
                let ends = [run.world, run.world_at(run.count - 1)];
                let (first, last) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
                let stride = run.stride.unsigned_abs().max(1);
                let members = Members { first, last, stride, reach: last, object };
                by_id.entry((run.job, run.id)).or_default().push(members);
            }
        }
        for members in by_id.values_mut() {
            members.sort_by_key(|members| members.first);
            let mut reach = 0;
            for members in members {
                reach = reach.max(members.last);
                members.reach = reach;
            }
        }
        Unified { jobs, groups, objects, by_id }
    }

    /// The place of the entry that is named so.
    fn entry(&self, identity: u64) -> Option<usize> {
        find(&self.entries, identity)
    }
}

fn find(entries: &[Entry], identity: u64) -> Option<usize> {
    entries.binary_search_by_key(&identity, |entry| entry.identity.0).ok()
}

/// Members by rank, one form for each list: no run could have ended later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct MemberList {
    size: u32,
    runs: Vec<Run>,
}

impl MemberList {
    /// Numbers by which members call the object are left out, and so are members of a rank
    /// that another has already.
    fn of(size: u32, runs: &Runs) -> MemberList {
        let mut list = MemberList { size, runs: Vec::new() };
        let mut next = 0;
        for run in runs.as_slice() {
            let over = next.max(run.local) - run.local;
            if over < run.count {
                let run = Run { id: 0, ..run.behind(over) };
                next = run.local_at(run.count - 1) + 1;
                list.push(run);
            }
        }
        list
    }

    /// Of a family: members are numbered by job and rank of the world.
    fn of_family(runs: &Runs) -> MemberList {
        let mut list = MemberList { size: 0, runs: Vec::new() };
        let apart = runs.as_slice().windows(2).all(|two| {
            let last = two[0].world_at(two[0].count - 1);
            (two[0].job, last) < (two[1].job, two[1].world)
        });
        let number = |list: &mut MemberList, run: Run| {
            list.push(Run { id: 0, local: list.size, step: 1, ..run });
            list.size += run.count;
        };
        if apart {
            runs.as_slice().iter().for_each(|&run| number(&mut list, run));
        } else {
            let members = |run: &Run| {
                let run = *run;
                (0..run.count).map(move |i| (run.job, run.world_at(i)))
            };
            let mut all: Vec<_> = runs.as_slice().iter().flat_map(members).collect();
            all.sort_unstable();
            all.dedup();
            all.into_iter().for_each(|(job, world)| number(&mut list, Run::one(job, 0, world, 0)));
        }
        list
    }

    /// Adds a run behind the last.
    fn push(&mut self, mut run: Run) {
        use super::runs::Order::Ranks;
        if let Some(last) = self.runs.last_mut() {
            if let Some(joined) = last.join(&run, Ranks) {
                *last = joined;
                return;
            }
            // Of a run that goes on in another stride the first member may fit.
            let first = Run { count: 1, step: 1, stride: 0, ..run };
            if let Some(joined) = last.join(&first, Ranks) {
                *last = joined;
                if run.count == 1 {
                    return;
                }
                run = run.behind(1);
                return self.push(run);
            }
        }
        self.runs.push(run);
    }

    fn members(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.count)).sum()
    }

    fn group(&self, jobs: &[Job]) -> Group {
        let pg = |run: &Run| {
            jobs.binary_search_by_key(&run.job, |job| job.number).unwrap_or(jobs.len()) as u32
        };
        let complete = self.members() == u64::from(self.size);
        if let [run] = self.runs[..] {
            // Formulas, whatever their size.
            let formula = |pg, base, stride: i32| {
                let map = RankMap::affine(pg, base, stride.into(), run.count);
                map.unwrap_or_else(|_| RankMap::direct(0))
            };
            let known = (!complete).then(|| formula(0, run.local, 1));
            return Group::new(formula(pg(&run), run.world, run.stride), known, self.size);
        }
        let (mut map, mut known) = (Detector::new(), Detector::new());
        for run in &self.runs {
            let pg = pg(run);
            map.extend_processes((0..run.count).map(|i| Process::new(pg, run.world_at(i))));
            if !complete {
                known.extend_lpids((0..run.count).map(|i| run.local_at(i)));
            }
        }
        Group::new(finish(map), (!complete).then(|| finish(known)), self.size)
    }
}

fn finish(detector: Detector) -> RankMap {
    // Ranks and sizes are below the limits, as those of runs are.
    detector.finish().unwrap_or_else(|_| RankMap::direct(0))
}

/// Makes groups of entries, equal ones once.
struct Groups<'a> {
    jobs: &'a [Job],
    entries: &'a [Entry],
    groups: Vec<Group>,
    places: HashMap<MemberList, usize>,
    of: Vec<[Option<usize>; 2]>,
    state: Vec<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    /// Waits for its parent.
    Waits,
    Done,
}

impl<'a> Groups<'a> {
    fn new(jobs: &'a [Job], entries: &'a [Entry]) -> Groups<'a> {
        Groups {
            jobs,
            entries,
            groups: Vec::new(),
            places: HashMap::new(),
            of: vec![[None; 2]; entries.len()],
            state: vec![State::New; entries.len()],
        }
    }

    fn all(mut self) -> Groups<'a> {
        for at in 0..self.entries.len() {
            // Those whose members its parent may know come behind it.
            let mut chain = vec![at];
            while let Some(&last) = chain.last() {
                match self.parent_that_knows(last) {
                    Some(parent) if self.state[parent] == State::New => {
                        self.state[last] = State::Waits;
                        chain.push(parent);
                    }
                    _ => {
                        if self.state[last] != State::Done {
                            self.of[last] = [0, 1].map(|side| self.group(last, side));
                            self.state[last] = State::Done;
                        }
                        chain.pop();
                    }
                }
            }
        }
        self
    }

    /// The parent of one that has the same members, if some of these did not report.
    fn parent_that_knows(&self, at: usize) -> Option<usize> {
        let entry = &self.entries[at];
        let seen: u64 = entry.runs.iter().map(Runs::members).sum();
        let size = u64::from(entry.sizes[0]) + u64::from(entry.sizes[1]);
        let same = seen < size && !entry.family && has_members_of_parent(entry.constructor);
        same.then(|| find(self.entries, entry.parent)).flatten()
    }

    fn group(&mut self, at: usize, side: usize) -> Option<usize> {
        let entry = &self.entries[at];
        if entry.family {
            return (side == 0).then(|| self.place(MemberList::of_family(&entry.runs[0])));
        }
        let size = entry.sizes[side];
        let mut list = MemberList::of(size, &entry.runs[side]);
        if list.members() < u64::from(size) {
            if let Some(parent) = self.parent_that_knows(at)
                && let Some(group) = self.of[parent][side]
                && self.knows_all(group, &list)
            {
                return Some(group);
            }
            // The world's ranks are its processes.
            if entry.constructor == Constructor::World
                && let Some(&first) = list.runs.first()
                && list.runs.iter().all(|run| run.job == first.job && run.world == run.local)
                && list.runs.iter().all(|run| run.count == 1 || run.stride == 1)
            {
                let (count, stride) = (size, i32::from(size > 1));
                let whole = Run { local: 0, world: 0, count, step: 1, stride, ..first };
                list = MemberList { size, runs: vec![whole] };
            }
        }
        // Of an intercommunicator of which no member of this group reported.
        (!list.runs.is_empty()).then(|| self.place(list))
    }

    /// Returns true if this group has all these members, at their ranks.
    fn knows_all(&self, group: usize, list: &MemberList) -> bool {
        let group = &self.groups[group];
        let pg = |job: u64| self.jobs.binary_search_by_key(&job, |other| other.number).ok();
        let has = |run: &Run| {
            let Some(pg) = pg(run.job) else { return false };
            (0..run.count).all(|i| {
                let process = Process::new(pg as u32, run.world_at(i));
                group.get(run.local_at(i)) == Some(process)
            })
        };
        group.size == list.size && list.runs.iter().all(has)
    }

    fn place(&mut self, list: MemberList) -> usize {
        if let Some(&place) = self.places.get(&list) {
            return place;
        }
        let place = self.groups.len();
        self.groups.push(list.group(self.jobs));
        self.places.insert(list, place);
        place
    }
}

/// Returns true if what this makes has its parent's members, rank by rank.
fn has_members_of_parent(constructor: Constructor) -> bool {
    use Constructor::{Dup, DupWithInfo, Idup, IdupWithInfo, IntercommDup};
    matches!(constructor, Dup | DupWithInfo | Idup | IdupWithInfo | IntercommDup)
        || matches!(constructor.object(), ObjectKind::Window | ObjectKind::File)
}

#[cfg(test)]
mod tests;
