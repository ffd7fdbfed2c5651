//! `rankway trace waits`: who waited for whom.
//!
//! ```text
//! late sender     a receive, or a wait for one, that began before its send did
//! late receiver   a send that was still there when its receive was posted
//! barrier         all wait for the last to come
//! collective      all for the last, those of a broadcast for its root, the root of a
//!                 reduction for the last
//! fence           all wait for the last to come
//! ```

use super::calls::{Call, Process, Program};
use super::load::{Source, Traces};
use super::messages::{Key, Message, Unmatched};
use super::replay::{Visitor, replay};
use super::word::word;
use crate::output::{NONE, Table, count, number};
use rankway::track::{CallClass, Kind, ObjectKind};
use serde::Serialize;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Who waited for whom: late senders and receivers, barriers, collectives, fences
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,

    /// For programs: one JSON object
    #[arg(long)]
    json: bool,
}

/// Why a process waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    LateSender,
    LateReceiver,
    Barrier,
    Collective,
    Fence,
}

const CAUSES: [(Cause, &str); 5] = [
    (Cause::LateSender, "late_sender"),
    (Cause::LateReceiver, "late_receiver"),
    (Cause::Barrier, "barrier"),
    (Cause::Collective, "collective"),
    (Cause::Fence, "fence"),
];

impl Cause {
    fn word(self) -> &'static str {
        CAUSES.iter().find(|(cause, _)| *cause == self).map_or("", |(_, word)| word)
    }
}

/// What a rank waited, and what others waited for it, in seconds.
#[derive(Clone, Debug, Default, Serialize)]
struct RankWaits {
    rank: String,
    late_sender: f64,
    late_receiver: f64,
    barrier: f64,
    collective: f64,
    fence: f64,
    total: f64,
    in_mpi: f64,
    caused: f64,
}

/// Where a rank waited.
#[derive(Serialize)]
struct Wait {
    cause: &'static str,
    rank: String,
    communicator: String,
    object: Option<usize>,
    call: &'static str,
    calls: u64,
    seconds: f64,
}

/// Messages of which one side is missing.
#[derive(Serialize)]
struct UnmatchedMessages {
    communicator: String,
    source: String,
    destination: String,
    tag: i32,
    sends: u64,
    receives: u64,
}

#[derive(Serialize)]
pub(super) struct Waits {
    ranks: Vec<RankWaits>,
    waits: Vec<Wait>,
    messages: u64,
    unmatched: Vec<UnmatchedMessages>,
    collectives: u64,
    unmatched_collectives: u64,
}

/// The most lines of each list.
const LINES: usize = 12;

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let traces = args.source.load()?;
    let program = Program::of(&traces);
    let mut waiting = Waiting::default();
    let unmatched = replay(&program, true, &mut [&mut waiting])?;
    let waits = Waits::new(&program, waiting, &unmatched);
    if args.json {
        return traces.json("waits", waits);
    }
    let tables = waits.tables(&traces);
    crate::output::print(|out| tables.iter().try_for_each(|table| table.print(out)))
}

/// Why, who, in which object, in which call.
type Where = (Cause, usize, Option<usize>, Kind);

/// Calls that waited and ns by place; ns that others waited for each process.
#[derive(Default)]
struct Sums {
    waits: BTreeMap<Where, (u64, u64)>,
    caused: HashMap<usize, u64>,
}

impl Sums {
    fn add(&mut self, cause: Cause, who: usize, at: (Option<usize>, Kind), ns: u64, by: usize) {
        if ns > 0 {
            let (calls, sum) = self.waits.entry((cause, who, at.0, at.1)).or_default();
            *calls += 1;
            *sum += ns;
            *self.caused.entry(by).or_default() += ns;
        }
    }

    /// As if it had not been added.
    fn take_back(
        &mut self,
        cause: Cause,
        who: usize,
        at: (Option<usize>, Kind),
        ns: u64,
        by: usize,
    ) {
        if ns > 0
            && let Entry::Occupied(mut waits) = self.waits.entry((cause, who, at.0, at.1))
        {
            let (calls, sum) = waits.get_mut();
            *calls -= 1;
            *sum -= ns;
            if *calls == 0 {
                waits.remove();
            }
            *self.caused.entry(by).or_default() -= ns;
        }
    }
}

/// How long a call that lasts from `start` to `end` waited for what came at `came`.
fn waited(start: u64, end: u64, came: u64) -> u64 {
    came.min(end).saturating_sub(start)
}

impl Waits {
    pub(super) fn new(
        program: &Program<'_>,
        waiting: Waiting,
        unmatched: &BTreeMap<Key, Unmatched>,
    ) -> Waits {
        let Waiting { sums, in_mpi, messages, collectives } = waiting;
        let (collectives, unmatched_collectives) =
            collectives.into_iter().fold((0, 0), |(fit, unfit), (_, one)| {
                (fit + one.fit, unfit + one.longest() - one.fit)
            });
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut by_process: HashMap<usize, [u64; CAUSES.len()]> = HashMap::new();
        for (&(cause, who, ..), (_, ns)) in &sums.waits {
            by_process.entry(who).or_default()[cause as usize] += ns;
        }
        let mut ranks: Vec<RankWaits> = Vec::new();
        for process in &program.processes {
            let [late_sender, late_receiver, barrier, collective, fence] =
                by_process.get(&process.place).copied().unwrap_or_default().map(seconds);
            ranks.push(RankWaits {
                rank: program.label(process.place),
                late_sender,
                late_receiver,
                barrier,
                collective,
                fence,
                total: late_sender + late_receiver + barrier + collective + fence,
                in_mpi: seconds(in_mpi.get(&process.at).copied().unwrap_or(0)),
                caused: seconds(sums.caused.get(&process.place).copied().unwrap_or(0)),
            });
        }
        let mut waits: Vec<Wait> = (sums.waits.iter())
            .map(|(&(cause, who, object, kind), &(calls, ns))| Wait {
                cause: cause.word(),
                rank: program.label(who),
                communicator: program.object_label(object),
                object,
                call: kind.name(),
                calls,
                seconds: seconds(ns),
            })
            .collect();
        waits.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let unmatched = unmatched.iter().map(|(&(object, source, destination, tag), sides)| {
            UnmatchedMessages {
                communicator: program.object_label(Some(object)),
                source: program.label(source),
                destination: program.label(destination),
                tag,
                sends: sides.sends,
                receives: sides.receives,
            }
        });
        Waits {
            ranks,
            waits,
            messages,
            unmatched: unmatched.collect(),
            collectives,
            unmatched_collectives,
        }
    }

    pub(super) fn tables(&self, traces: &Traces) -> Vec<Table> {
        let some = |seconds: f64| match seconds {
            0.0 => NONE.to_owned(),
            seconds => number(seconds, 6),
        };
        let mut ranks = Table::new(&[
            "rank",
            "late\nsender s",
            "late\nreceiver s",
            "barrier\ns",
            "collective\ns",
            "fence\ns",
            "together\ns",
            "in MPI\ns",
            "others waited\nfor it s",
        ]);
        traces.head(&mut ranks);
        // Of many those that waited longest.
        let mut shown: Vec<&RankWaits> = self.ranks.iter().collect();
        if shown.len() > 4 * LINES {
            shown.sort_by(|a, b| b.total.total_cmp(&a.total));
            shown.truncate(2 * LINES);
        }
        for one in &shown {
            let values = [
                one.late_sender,
                one.late_receiver,
                one.barrier,
                one.collective,
                one.fence,
                one.total,
                one.in_mpi,
                one.caused,
            ];
            let mut cells = vec![one.rank.clone()];
            cells.extend(values.map(some));
            ranks.row(&cells);
        }
        let hidden = self.ranks.len() - shown.len();
        if hidden > 0 {
            ranks.note(format!("and {} ranks that waited less", count(hidden as u64)));
        }
        ranks.note(format!(
            "{} messages and {} collectives have all their sides",
            count(self.messages),
            count(self.collectives)
        ));
        if self.unmatched_collectives > 0 {
            ranks.note(format!(
                "{} collectives do not fit together: calls are missing",
                count(self.unmatched_collectives)
            ));
        }
        let mut tables = vec![ranks];
        if !self.waits.is_empty() {
            tables.push(self.places(some));
        }
        if !self.unmatched.is_empty() {
            tables.push(self.unmatched_table());
        }
        tables
    }

    fn places(&self, some: impl Fn(f64) -> String) -> Table {
        let mut sums: BTreeMap<(&str, &str, &str), (u64, f64, usize)> = BTreeMap::new();
        for one in &self.waits {
            let sum = sums.entry((&one.communicator, one.call, one.cause)).or_default();
            *sum = (sum.0 + one.calls, sum.1 + one.seconds, sum.2 + 1);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by(|a, b| b.1.1.total_cmp(&a.1.1));
        let mut table = Table::new(&["communicator", "call", "waits for", "calls", "ranks", "s"]);
        table.title("");
        for ((communicator, call, cause), (calls, seconds, ranks)) in sums.iter().take(LINES) {
            table.row(&[
                (*communicator).to_owned(),
                (*call).to_owned(),
                cause.replace('_', " "),
                count(*calls),
                count(*ranks as u64),
                some(*seconds),
            ]);
        }
        if sums.len() > LINES {
            table.note(format!("and {} more", count((sums.len() - LINES) as u64)));
        }
        table
    }

    fn unmatched_table(&self) -> Table {
        let head = [
            "communicator",
            "from",
            "to",
            "tag",
            "sends without\nreceive",
            "receives\nwithout send",
        ];
        let mut table = Table::new(&head);
        table.title("");
        for one in self.unmatched.iter().take(LINES) {
            table.row(&[
                one.communicator.clone(),
                one.source.clone(),
                one.destination.clone(),
                one.tag.to_string(),
                count(one.sends),
                count(one.receives),
            ]);
        }
        if self.unmatched.len() > LINES {
            table.note(format!("and {} more", count((self.unmatched.len() - LINES) as u64)));
        }
        table
    }
}

/// Who waits, as calls and messages come by.
#[derive(Default)]
pub(super) struct Waiting {
    sums: Sums,
    in_mpi: HashMap<usize, u64>,
    messages: u64,
    /// By object.
    collectives: BTreeMap<usize, Collectives>,
}

impl Visitor for Waiting {
    fn call(&mut self, program: &Program<'_>, process: &Process<'_>, call: &Call) {
        if word(call.kind).is_some() {
            *self.in_mpi.entry(process.at).or_default() += call.end.saturating_sub(call.start);
        }
        let counts = matches!(call.class, CallClass::Collective | CallClass::CollectiveStart)
            || call.kind == Kind::Fence;
        let Some(object) = call.object.filter(|_| counts) else { return };
        let about = &program.unified.objects[object];
        // Of a family each has its own.
        if !about.family {
            let between = about.constructor.object() == ObjectKind::Intercommunicator;
            let of = self.collectives.entry(object).or_default();
            if let Some(instance) = of.call(process.place, call, about.seen as usize) {
                instance.add_to(&mut self.sums, object, between);
            }
        }
    }

    fn message(&mut self, message: &Message) {
        self.messages += 1;
        let (object, source, destination, _) = message.key;
        let (send, receive) = (&message.send, &message.receive);
        let waits = |kind| {
            use Kind::{Mrecv, Recv, Sendrecv, SendrecvReplace, Wait, Waitall, Waitany, Waitsome};
            matches!(
                kind,
                Recv | Mrecv | Wait | Waitall | Waitany | Waitsome | Sendrecv | SendrecvReplace
            )
        };
        // A call that waits for several waits for the last of them.
        if let Some(call) = receive.waited.as_ref().filter(|call| waits(call.kind)) {
            let ns = waited(call.start, call.end, send.start);
            let (most, of, from) = call.late.get();
            if ns > most {
                let cause = Cause::LateSender;
                self.sums.take_back(cause, destination, (Some(of), call.kind), most, from);
                self.sums.add(cause, destination, (Some(object), call.kind), ns, source);
                call.late.set((ns, object, source));
            }
        }
        // Others return when the message is on its way, so that one that is there still
        // when the receive comes has waited for it.
        let waits = match send.kind {
            Kind::Ssend => true,
            Kind::Send | Kind::Rsend => send.end > receive.posted,
            _ => false,
        };
        if waits {
            let ns = waited(send.start, send.end, receive.posted);
            self.sums.add(Cause::LateReceiver, source, (Some(object), send.kind), ns, destination);
        }
    }

    fn gone(&mut self, program: &Program<'_>, process: &Process<'_>) {
        for object in process.all_objects() {
            let about = &program.unified.objects[object];
            if about.constructor.object().has_communicator() && !about.family {
                self.collectives.entry(object).or_default().gone(process.place);
            }
        }
    }
}

/// Whom the callers of a collective wait for.
enum Pattern {
    /// All for all.
    All(Cause),
    /// All for the root.
    Root,
    /// The root for all.
    ToRoot,
    /// It is not known, or nobody waits.
    None,
}

fn pattern(kind: Kind) -> Pattern {
    use Kind::{
        Allgather, Allgatherv, Allreduce, Alltoall, Alltoallv, Alltoallw, Barrier, Bcast, Fence,
        Gather, Gatherv, Reduce, ReduceScatter, ReduceScatterBlock, Scatter, Scatterv,
    };
    match kind {
        Barrier => Pattern::All(Cause::Barrier),
        Fence => Pattern::All(Cause::Fence),
        Allgather | Allgatherv | Allreduce | Alltoall | Alltoallv | Alltoallw | ReduceScatter
        | ReduceScatterBlock => Pattern::All(Cause::Collective),
        Bcast | Scatter | Scatterv => Pattern::Root,
        Gather | Gatherv | Reduce => Pattern::ToRoot,
        _ => Pattern::None,
    }
}

/// Calls of all members of an object, in the order in which each made them.
#[derive(Default)]
struct Collectives {
    /// How many each has made.
    made: HashMap<usize, u64>,
    /// How many have all their calls, and those behind them, from the next.
    fit: u64,
    open: VecDeque<Instance>,
    /// Those from here do not come together any more: a member makes none, or another call.
    broken: Option<u64>,
}

/// A call that all members make.
struct Instance {
    kind: Kind,
    calls: Vec<Member>,
}

/// What one of them does there.
#[derive(Clone, Copy)]
struct Member {
    who: usize,
    start: u64,
    end: u64,
    is_root: bool,
}

impl Collectives {
    /// Takes a call. Returns the instance of which it was the last of `members`.
    fn call(&mut self, who: usize, call: &Call, members: usize) -> Option<Instance> {
        let made = self.made.entry(who).or_default();
        let number = *made;
        *made += 1;
        if self.broken.is_some_and(|broken| number >= broken) {
            return None;
        }
        let at = usize::try_from(number.checked_sub(self.fit)?).ok()?;
        if at == self.open.len() {
            // (The one before it has this process's call, so it is the next.)
            self.open.push_back(Instance { kind: call.kind, calls: Vec::new() });
        }
        let instance = self.open.get_mut(at)?;
        if instance.kind != call.kind {
            // Those behind it may be shifted against each other.
            self.stop(number);
            return None;
        }
        let &Call { start, end, peer, .. } = call;
        instance.calls.push(Member { who, start, end, is_root: peer == Some(who) });
        if at == 0 && instance.calls.len() >= members {
            self.fit += 1;
            return self.open.pop_front();
        }
        None
    }

    /// A member makes no more.
    fn gone(&mut self, who: usize) {
        let made = self.made.get(&who).copied().unwrap_or(0);
        self.stop(made);
    }

    fn stop(&mut self, from: u64) {
        let broken = self.broken.map_or(from, |broken| broken.min(from));
        self.broken = Some(broken);
        self.open.truncate(usize::try_from(broken.saturating_sub(self.fit)).unwrap_or(0));
    }

    /// The most that one has made.
    fn longest(&self) -> u64 {
        self.made.values().copied().max().unwrap_or(0)
    }
}

impl Instance {
    fn add_to(&self, sums: &mut Sums, object: usize, between: bool) {
        let at = (Some(object), self.kind);
        let Some(last) = self.calls.iter().max_by_key(|one| (one.start, one.who)) else { return };
        let root = self.calls.iter().find(|one| one.is_root);
        match pattern(self.kind) {
            Pattern::All(cause) => {
                for one in &self.calls {
                    sums.add(cause, one.who, at, waited(one.start, one.end, last.start), last.who);
                }
            }
            // (Between two groups the root is one of the other.)
            Pattern::Root if !between => {
                let Some(root) = root else { return };
                for one in &self.calls {
                    let ns = waited(one.start, one.end, root.start);
                    sums.add(Cause::Collective, one.who, at, ns, root.who);
                }
            }
            Pattern::ToRoot if !between => {
                let Some(root) = root else { return };
                let ns = waited(root.start, root.end, last.start);
                sums.add(Cause::Collective, root.who, at, ns, last.who);
            }
            _ => (),
        }
    }
}
