//! What `rankway memory` says: a table for people, CSV, JSON and a chart.
//!
//! The JSON object's keys are the field names here and do not change. All
//! bytes are of one process.

use super::baseline::Weight;
use super::kind::{Kind, Layout};
use super::world::{Measured, World};
use crate::output::{NONE, Table, bytes, count, maybe, number};
use crate::plot;
use rankway::av::Entry;
use rankway::netmod::null::Null;
use rankway::rankmap::RankMap;
use rankway::rma::Communicator;
use rankway_cli::observe::figures::{self, ProcessMemory};
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

#[derive(Serialize)]
pub(super) struct Report {
    command: &'static str,
    version: &'static str,
    /// Processes of the simulated job; null in a sweep.
    processes: Option<u32>,
    /// Communicators of each kind.
    communicators: u32,
    processes_per_node: u32,
    /// The world rank whose structures these are; null in a sweep.
    rank: Option<u32>,
    sizes: Sizes,
    /// Null in a sweep.
    device: Option<DeviceReport>,
    pub(super) kinds: Vec<KindReport>,
    pub(super) figures: Vec<Figure>,
    published: Vec<Published>,
    pub(super) sweep: Vec<SweepPoint>,
    #[serde(skip)]
    layout: Option<Layout>,
}

/// Bytes of single structures.
#[derive(Serialize)]
struct Sizes {
    communicator: usize,
    rank_map: usize,
    entry: usize,
    vc: usize,
    vcrt_entry: usize,
}

/// What a process has without communicators of its own.
#[derive(Serialize)]
struct DeviceReport {
    /// Device, context and the world's communicator.
    heap_bytes: u64,
    /// Of those: world rank → node, world rank → rank on the node. All that
    /// communicators need to compose theirs.
    node_tables_bytes: u64,
    /// Pages of the address vector when no peer was inserted.
    av_bytes_none: u64,
    /// Pages when `touched_peers` were.
    av_bytes_touched: Option<u64>,
    touched_peers: u32,
    /// Heap those peers added: what is kept about peers on the node.
    touch_heap_bytes: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct KindReport {
    pub(super) kind: Kind,
    what: &'static str,
    /// The model detection found.
    model: String,
    /// Ranks of the first communicator.
    ranks: u32,
    /// One communicator: struct and heap; node tables included, which are
    /// compositions and hold nothing.
    communicator_bytes: f64,
    communicators_built: u32,
    /// All communicators together.
    communicators_bytes: u64,
    /// The whole process before any peer was inserted, and after.
    total_bytes_none: u64,
    total_bytes_touched: Option<u64>,
    /// Whether fewer communicators were built than asked for.
    computed: bool,
    vc_vcrt: Weight,
    mpich_4_bytes: Option<u64>,
    mpich_5_bytes: Option<u64>,
}

impl KindReport {
    pub(super) fn new(
        measured: &Measured,
        communicators: u32,
        vc_vcrt: Weight,
        mpich_4_bytes: Option<u64>,
        mpich_5_bytes: Option<u64>,
    ) -> KindReport {
        KindReport {
            kind: measured.kind,
            what: measured.kind.what(),
            model: measured.model.to_string(),
            ranks: measured.ranks,
            communicator_bytes: measured.each(),
            communicators_built: measured.built,
            communicators_bytes: measured.all_bytes,
            total_bytes_none: measured.total_none,
            total_bytes_touched: measured.total_touched,
            computed: measured.built < communicators,
            vc_vcrt,
            mpich_4_bytes,
            mpich_5_bytes,
        }
    }
}

/// A figure to reach, on 786,432 processes and 100 odd/even communicators.
#[derive(Serialize)]
pub(super) struct Figure {
    name: &'static str,
    value: f64,
    at_most: f64,
    unit: &'static str,
    pass: bool,
}

impl Figure {
    pub(super) fn new(name: &'static str, value: f64, at_most: f64) -> Figure {
        Figure { name, value, at_most, unit: "bytes", pass: value <= at_most }
    }

    fn words(&self) -> &'static str {
        match self.name {
            "av_bytes_per_inserted_peer" => "address vector, each inserted peer",
            "av_bytes_per_untouched_peer" => "address vector, each untouched peer",
            "split_100_bytes_all_touched" => "786,432 processes, 100 odd/even splits, all touched",
            "split_100_bytes_none_touched" => {
                "786,432 processes, 100 odd/even splits, none touched"
            }
            "regular_communicator_bytes" => "a regular communicator, node tables included",
            "random_half_bytes_per_member" => "a communicator of a random half, each member",
            "merge_of_two_jobs_bytes" => "a communicator of two process groups",
            other => other,
        }
    }
}

/// Somebody else's figure.
#[derive(Serialize)]
struct Published {
    source: String,
    processes: usize,
    vc_vcrt_mb: Option<f64>,
    av_rankmap_mb: Option<f64>,
}

fn published(memory: ProcessMemory) -> Published {
    Published {
        source: format!("Guo et al. 2017, {}", memory.label),
        processes: memory.processes,
        vc_vcrt_mb: memory.vc_vcrt_mb,
        av_rankmap_mb: memory.av_rankmap_mb,
    }
}

/// One job size of a sweep.
#[derive(Serialize)]
pub(super) struct SweepPoint {
    pub(super) kind: Kind,
    processes: u32,
    total_bytes_none: u64,
    total_bytes_touched: Option<u64>,
    computed: bool,
    vc_vcrt: Weight,
    mpich_4_bytes: Option<u64>,
    mpich_5_bytes: Option<u64>,
}

impl SweepPoint {
    pub(super) fn new(processes: u32, kind: &KindReport) -> SweepPoint {
        SweepPoint {
            kind: kind.kind,
            processes,
            total_bytes_none: kind.total_bytes_none,
            total_bytes_touched: kind.total_bytes_touched,
            computed: kind.computed,
            vc_vcrt: kind.vc_vcrt,
            mpich_4_bytes: kind.mpich_4_bytes,
            mpich_5_bytes: kind.mpich_5_bytes,
        }
    }
}

/// Bytes for people; a `*` where they were computed, else a blank that keeps
/// the column in line.
fn weight(of: u64, computed: bool) -> String {
    format!("{}{}", bytes(of), if computed { '*' } else { ' ' })
}

fn some_bytes(of: Option<u64>) -> String {
    of.map_or_else(|| NONE.to_owned(), bytes)
}

/// Megabytes of a million bytes, as the paper has them.
fn megabytes(of: Option<f64>) -> String {
    of.map_or_else(|| NONE.to_owned(), |mb| format!("{mb} MB"))
}

impl Report {
    pub(super) fn new(communicators: u32, processes_per_node: u32) -> Report {
        Report {
            command: "memory",
            version: env!("CARGO_PKG_VERSION"),
            processes: None,
            communicators,
            processes_per_node,
            rank: None,
            sizes: Sizes {
                communicator: size_of::<Communicator<Null>>(),
                rank_map: size_of::<RankMap>(),
                entry: size_of::<Entry>(),
                vc: figures::VC_BYTES,
                vcrt_entry: size_of::<*const u8>(),
            },
            device: None,
            kinds: Vec::new(),
            figures: Vec::new(),
            published: [figures::SPLIT_100, figures::NEK5000, figures::MINIAPPS]
                .map(published)
                .into(),
            sweep: Vec::new(),
            layout: None,
        }
    }

    pub(super) fn world(&mut self, world: &World) {
        self.processes = Some(world.layout.processes);
        self.rank = Some(world.layout.me);
        self.layout = Some(world.layout);
        self.device = Some(DeviceReport {
            heap_bytes: world.heap,
            node_tables_bytes: world.node_tables(),
            av_bytes_none: world.av_none,
            av_bytes_touched: world.touched.map(|t| t.av),
            touched_peers: world.touched.map_or(0, |t| t.peers),
            touch_heap_bytes: world.touched.map(|t| t.heap),
        });
    }

    pub(super) fn text(&self, out: &mut impl Write) -> io::Result<()> {
        if let (Some(layout), Some(device)) = (&self.layout, &self.device) {
            self.kinds_text(layout, device, out)?;
        } else {
            self.sweep_text(out)?;
        }
        writeln!(
            out,
            "# Not counted, for nobody: the network library's own tables, the launcher's, and what \
             the system's"
        )?;
        writeln!(out, "#   allocator and page tables add.")?;
        writeln!(out, "#")?;
        writeln!(
            out,
            "# VC-VCRT: MPICH 3.2's scheme, {} B a peer and {} B a rank of every communicator but \
             duplicates;",
            self.sizes.vc, self.sizes.vcrt_entry
        )?;
        writeln!(out, "#   really allocated and written, * where computed.")?;
        writeln!(
            out,
            "# MPICH: computed from measured sizes: 4.0 is entries and communicators of 4.0.2 ofi \
             (72 B a peer,"
        )?;
        writeln!(
            out,
            "#   3.3 KB + 7.4 B a rank); 5 is entries of 5.1 ofi (32 B) and communicators of \
             5.0.2 (5.4 KB + 0, 11 or 18 B a rank)."
        )?;
        for p in &self.published {
            writeln!(
                out,
                "# {}, {} processes: VC-VCRT {}, AV-Rankmap {}",
                p.source,
                count(p.processes as u64),
                megabytes(p.vc_vcrt_mb),
                megabytes(p.av_rankmap_mb)
            )?;
        }
        writeln!(out, "#")?;
        self.figures_text(out)
    }

    fn kinds_text(
        &self,
        layout: &Layout,
        device: &DeviceReport,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let touched = match device.touched_peers {
            n if n == layout.processes => "all peers\ntouched".into(),
            n => format!("{} peers\ntouched", count(u64::from(n))),
        };
        let head = [
            "kind",
            "processes in it",
            "model",
            "ranks",
            "bytes\neach",
            "no peer\ntouched",
            &touched,
            "VC-VCRT",
            "MPICH 4.0\ncomputed",
            "MPICH 5\ncomputed",
        ];
        let mut table = Table::new(&head);
        table.title(format!(
            "rankway memory: one process of {}, {} on a node; {} communicators of each kind",
            count(u64::from(layout.processes)),
            count(u64::from(layout.per_node)),
            count(u64::from(self.communicators)),
        ));
        table.title(
            "A simulated job, real structures: heap as allocated, address vector by its pages; \
             * computed.",
        );
        table.title("");
        for kind in &self.kinds {
            table.row(&[
                kind.kind.name().into(),
                kind.what.into(),
                kind.model.clone(),
                count(u64::from(kind.ranks)),
                each(kind.communicator_bytes),
                weight(kind.total_bytes_none, kind.computed),
                kind.total_bytes_touched.map_or(NONE.into(), |t| weight(t, kind.computed)),
                weight(kind.vc_vcrt.bytes, kind.vc_vcrt.computed),
                some_bytes(kind.mpich_4_bytes),
                some_bytes(kind.mpich_5_bytes),
            ]);
        }
        table.print(out)?;
        writeln!(out, "#")?;
        writeln!(
            out,
            "# Each communicator: {} B of struct, {} B of it the rank map, and the map's own heap. \
             Its node tables are",
            self.sizes.communicator, self.sizes.rank_map
        )?;
        writeln!(
            out,
            "#   compositions with the device's, 0 B; the device's two take {}, once.",
            bytes(device.node_tables_bytes)
        )?;
        write!(
            out,
            "# Without communicators: {} of heap, {} of address vector",
            bytes(device.heap_bytes),
            bytes(device.av_bytes_none)
        )?;
        if let (Some(av), Some(heap)) = (device.av_bytes_touched, device.touch_heap_bytes) {
            write!(
                out,
                ", which {} inserted peers made {} and {} of heap about peers on the node",
                count(u64::from(device.touched_peers)),
                bytes(av),
                bytes(heap)
            )?;
        }
        writeln!(out, ".")
    }

    fn sweep_text(&self, out: &mut impl Write) -> io::Result<()> {
        let head = [
            "kind",
            "processes",
            "no peer\ntouched",
            "peers\ntouched",
            "VC-VCRT",
            "MPICH 4.0\ncomputed",
            "MPICH 5\ncomputed",
        ];
        let mut table = Table::new(&head);
        table.title(format!(
            "rankway memory: bytes of a process with {} communicators, {} processes on a node",
            count(u64::from(self.communicators)),
            count(u64::from(self.processes_per_node)),
        ));
        table.title(
            "Simulated jobs, real structures: heap as allocated, address vector by its pages; \
             * computed.",
        );
        table.title("");
        for point in &self.sweep {
            table.row(&[
                point.kind.name().into(),
                count(u64::from(point.processes)),
                weight(point.total_bytes_none, point.computed),
                point.total_bytes_touched.map_or(NONE.into(), |t| weight(t, point.computed)),
                weight(point.vc_vcrt.bytes, point.vc_vcrt.computed),
                some_bytes(point.mpich_4_bytes),
                some_bytes(point.mpich_5_bytes),
            ]);
        }
        table.print(out)
    }

    fn figures_text(&self, out: &mut impl Write) -> io::Result<()> {
        let mut table = Table::new(&["figure to reach", "bytes", "at most", ""]);
        for figure in &self.figures {
            let bytes = |v: f64| match v.fract() == 0.0 && v >= 0.0 {
                true => count(v as u64),
                false => number(v, 2),
            };
            let pass = if figure.pass { "pass" } else { "MISSED" };
            table.row(&[figure.words(), &bytes(figure.value), &bytes(figure.at_most), pass]);
        }
        table.print(out)
    }

    pub(super) fn csv(&self, out: &mut impl Write) -> io::Result<()> {
        let mut table;
        if self.sweep.is_empty() {
            table = Table::new(&[
                "kind",
                "model",
                "ranks",
                "communicator_bytes",
                "communicators_built",
                "communicators_bytes",
                "total_bytes_none",
                "total_bytes_touched",
                "computed",
                "vc_vcrt_bytes",
                "vc_vcrt_computed",
                "mpich_4_bytes",
                "mpich_5_bytes",
            ]);
            for kind in &self.kinds {
                table.row(&[
                    kind.kind.name().to_owned(),
                    kind.model.clone(),
                    kind.ranks.to_string(),
                    kind.communicator_bytes.to_string(),
                    kind.communicators_built.to_string(),
                    kind.communicators_bytes.to_string(),
                    kind.total_bytes_none.to_string(),
                    maybe(kind.total_bytes_touched),
                    kind.computed.to_string(),
                    kind.vc_vcrt.bytes.to_string(),
                    kind.vc_vcrt.computed.to_string(),
                    maybe(kind.mpich_4_bytes),
                    maybe(kind.mpich_5_bytes),
                ]);
            }
        } else {
            table = Table::new(&[
                "kind",
                "processes",
                "total_bytes_none",
                "total_bytes_touched",
                "computed",
                "vc_vcrt_bytes",
                "vc_vcrt_computed",
                "mpich_4_bytes",
                "mpich_5_bytes",
            ]);
            for point in &self.sweep {
                table.row(&[
                    point.kind.name().to_owned(),
                    point.processes.to_string(),
                    point.total_bytes_none.to_string(),
                    maybe(point.total_bytes_touched),
                    point.computed.to_string(),
                    point.vc_vcrt.bytes.to_string(),
                    point.vc_vcrt.computed.to_string(),
                    maybe(point.mpich_4_bytes),
                    maybe(point.mpich_5_bytes),
                ]);
            }
        }
        table.csv(out)
    }

    /// The sweep as a chart: for each kind ours with and without peers, and
    /// VC-VCRT.
    pub(super) fn svg(&self, path: &Path) -> Result<(), String> {
        let mut kinds: Vec<Kind> = self.sweep.iter().map(|point| point.kind).collect();
        kinds.dedup();
        let alone = kinds.len() == 1;
        type Value = fn(&SweepPoint) -> Option<u64>;
        let values: [(&str, Value); 3] = [
            ("VC-VCRT", |p| Some(p.vc_vcrt.bytes)),
            ("Rankway, peers touched", |p| p.total_bytes_touched),
            ("Rankway, none touched", |p| Some(p.total_bytes_none)),
        ];
        let mut series = Vec::new();
        for &kind in &kinds {
            for (name, value) in &values {
                let name = match alone {
                    true => (*name).to_owned(),
                    false => format!("{name}, {}", kind.name()),
                };
                let points: Vec<(f64, f64)> = self
                    .sweep
                    .iter()
                    .filter(|point| point.kind == kind)
                    .filter_map(|p| Some((f64::from(p.processes), value(p)? as f64)))
                    .collect();
                if !points.is_empty() {
                    series.push((name, points));
                }
            }
        }
        let what = match (alone, kinds.first()) {
            (true, Some(kind)) => format!(" ({})", kind.what()),
            _ => String::new(),
        };
        let title = format!(
            "Memory of a process with {} communicators{what}",
            count(u64::from(self.communicators))
        );
        plot::lines(path, &title, &series, "processes of the job", "bytes per process")
            .map_err(|e| e.to_string())
    }
}

/// Bytes of one communicator: a whole number where it is one.
fn each(value: f64) -> String {
    if value < 1024.0 {
        format!("{} B", number(value, if value.fract() == 0.0 { 0 } else { 1 }))
    } else {
        bytes(value.round() as u64)
    }
}
