//! `rankway trace leaks`: what was never freed, by the line that made it.

use super::load::{Source, Traces};
use super::site::{Place, Sites, told};
use crate::output::{Table, count, maybe};
use rankway::track::{Constructor, Defined, DefinitionFlags, ObjectKind, ProcessTrace};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What was never freed, by the line that made it, and how far the MPI's limit is
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,

    /// For programs: one JSON object
    #[arg(long)]
    json: bool,
}

/// What one line made and nobody freed.
#[derive(Serialize)]
pub(super) struct Leak {
    kind: &'static str,
    constructor: &'static str,
    site: Option<String>,
    function: Option<String>,
    /// Distinct communicators, windows or files; of what one process has alone all.
    objects: u64,
    ranks: u64,
    most_on_a_rank: u64,
    on_rank: String,
    names: Vec<String>,
}

/// How much of what the MPI has is in use.
#[derive(Serialize)]
pub(super) struct Limit {
    limit: Option<u64>,
    /// The most that a rank had then, of those whose record says what they freed.
    alive_at_the_end: Option<u64>,
    at_the_end_on_rank: Option<String>,
    most_at_once: u64,
    on_rank: String,
}

#[derive(Serialize)]
pub(super) struct Leaks {
    leaks: Vec<Leak>,
    communicators: Limit,
    internal: u64,
    /// What may have been freed: records of its process found no space.
    unknown: u64,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let traces = args.source.load()?;
    let leaks = Leaks::of(&traces);
    if args.json {
        return traces.json("leaks", leaks);
    }
    crate::output::print(|out| leaks.table(&traces).print(out))
}

/// What the program has made, of which no record says that it was freed.
pub(super) fn is_left(defined: &Defined) -> bool {
    use Constructor::{ItSelf, Parent, World};
    let predefined = matches!(defined.definition.constructor, World | ItSelf | Parent);
    defined.freed.is_none() && !predefined
}

/// How many were alive at the end and how many at most at once, of those that count.
fn alive(trace: &ProcessTrace, counts: impl Fn(&Defined) -> bool) -> (u64, u64) {
    let mut changes: Vec<(u64, i64)> = Vec::new();
    for defined in trace.definitions.iter().filter(|one| counts(one)) {
        changes.push((defined.made, 1));
        changes.extend(defined.freed.map(|ticks| (ticks, -1)));
    }
    // What is freed at a tick is gone before something is made at it.
    changes.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in changes {
        now += change;
        most = most.max(now);
    }
    (now as u64, most as u64)
}

impl Leaks {
    pub(super) fn of(traces: &Traces) -> Leaks {
        #[derive(Default)]
        struct Found {
            identities: BTreeSet<u64>,
            handles: u64,
            by_process: BTreeMap<(u64, u32), u64>,
            names: BTreeSet<String>,
        }
        let mut found: BTreeMap<(ObjectKind, Constructor, Option<Place>), Found> = BTreeMap::new();
        let (mut internal, mut unknown) = (0, 0);
        let sites = Sites::default();
        for trace in traces.processes() {
            for defined in trace.definitions.iter().filter(|one| is_left(one)) {
                if trace.lost > 0 {
                    unknown += 1;
                    continue;
                }
                let definition = &defined.definition;
                if definition.flags.has(DefinitionFlags::INTERNAL) {
                    internal += 1;
                    continue;
                }
                let site = sites.of(trace, definition.site);
                let key = (definition.constructor.object(), definition.constructor, site);
                let into = found.entry(key).or_default();
                into.identities.insert(definition.identity.0);
                into.handles += 1;
                *into.by_process.entry((trace.header.job, trace.header.rank)).or_default() += 1;
                into.names.extend(trace.names.get(&defined.id).cloned());
            }
        }
        let mut leaks: Vec<Leak> = found
            .into_iter()
            .map(|((kind, constructor, site), found)| {
                let most =
                    found.by_process.iter().max_by_key(|&(at, &n)| (n, std::cmp::Reverse(at)));
                Leak {
                    kind: kind.name(),
                    constructor: constructor.name(),
                    site: site.as_ref().map(|place| place.text.clone()),
                    function: site.and_then(|place| place.function),
                    objects: match kind.has_communicator() {
                        true => found.identities.len() as u64,
                        false => found.handles,
                    },
                    ranks: found.by_process.len() as u64,
                    most_on_a_rank: most.map_or(0, |(_, &n)| n),
                    on_rank: most
                        .map_or_else(String::new, |(&(job, rank), _)| traces.label(job, rank)),
                    names: found.names.into_iter().take(8).collect(),
                }
            })
            .collect();
        leaks.sort_by_key(|leak| std::cmp::Reverse(leak.most_on_a_rank));
        Leaks { leaks, communicators: Limit::of(traces), internal, unknown }
    }

    pub(super) fn table(&self, traces: &Traces) -> Table {
        let mut table =
            Table::new(&["made by", "objects", "ranks", "most on\na rank", "which", "where"]);
        traces.head(&mut table);
        for leak in &self.leaks {
            let site = told(leak.site.as_deref(), leak.function.as_deref());
            let cells = [
                leak.constructor.to_owned(),
                count(leak.objects),
                count(leak.ranks),
                count(leak.most_on_a_rank),
                leak.on_rank.clone(),
                site,
            ];
            table.row(&cells);
            if !leak.names.is_empty() {
                table.note(format!("  named {}", leak.names.join(", ")));
            }
        }
        let is_known = traces.processes().all(|trace| trace.lost == 0);
        if self.leaks.is_empty() && is_known {
            table.note("all that was made was freed");
        }
        if self.unknown > 0 {
            table.note(format!(
                "and {} of which it is not known whether they were freed",
                count(self.unknown)
            ));
        }
        if self.internal > 0 {
            table.note(format!("and {} that the MPI made for itself", count(self.internal)));
        }
        let Limit { limit, alive_at_the_end, at_the_end_on_rank, most_at_once, on_rank } =
            &self.communicators;
        let at_the_end = match (alive_at_the_end, at_the_end_on_rank) {
            (Some(alive), Some(rank)) => {
                format!("at most {} at the end (rank {rank})", count(*alive))
            }
            _ => "how many at the end is not known".to_owned(),
        };
        table.note(format!(
            "communicators, windows and files alive on a rank: at most {} at once (rank {on_rank}), \
             {at_the_end}; the MPI's limit: {}",
            count(*most_at_once),
            maybe(limit.map(count))
        ));
        table
    }
}

impl Limit {
    /// What to say where a rank had nine tenths of what the MPI has space for, or more.
    pub(super) fn warning(&self) -> Option<String> {
        let limit = self.limit.filter(|&limit| self.most_at_once >= limit / 10 * 9)?;
        Some(format!(
            "rank {} had {} communicators, windows and files at once; the MPI's limit: {}",
            self.on_rank,
            count(self.most_at_once),
            count(limit)
        ))
    }

    pub(super) fn of(traces: &Traces) -> Limit {
        use std::cmp::Reverse;
        let of = |trace: &ProcessTrace| {
            alive(trace, |one| one.definition.constructor.object().has_communicator())
        };
        let all: Vec<_> = traces.processes().map(|trace| (of(trace), trace)).collect();
        let label = |trace: &ProcessTrace| traces.label(trace.header.job, trace.header.rank);
        let limits = traces.processes().filter_map(|one| one.facts.get("limit")?.parse().ok());
        let most = all.iter().max_by_key(|((_, most), trace)| (*most, Reverse(trace.header.rank)));
        let known = all.iter().filter(|(_, trace)| trace.lost == 0);
        let end = known.max_by_key(|((end, _), trace)| (*end, Reverse(trace.header.rank)));
        Limit {
            limit: limits.min(),
            alive_at_the_end: end.map(|((end, _), _)| *end),
            at_the_end_on_rank: end.map(|(_, trace)| label(trace)),
            most_at_once: most.map_or(0, |((_, most), _)| *most),
            on_rank: most.map_or_else(String::new, |(_, trace)| label(trace)),
        }
    }
}
