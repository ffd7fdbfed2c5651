//! Published and measured figures of others, to print beside ours.
//!
//! Sources:
//! - **Guo et al. (2017)**: Guo, Archer, Blocksome, Parker, Bland, Raffenetti,
//!   Balaji: *Memory Compression Techniques for Network Address Management in
//!   MPI*, IPDPS 2017. Their baseline VC-VCRT is MPICH 3.2.
//! - **MPICH measured**: instructions counted with callgrind, `ret` not
//!   counted, in MPICH 4.0.2 and 5.1.0a1 (git 6a79bf6575) built with
//!   `ch4:ofi` by gcc 12 -O2, x86-64.
//! - **Mir Taheri (2011)**: *Scalability of Communicators in MPI*, thesis,
//!   University of British Columbia: the figures that its text gives. Its plots
//!   give none that can be read off exactly.
//!
//! - **Goodell et al. (2011)**: *Scalable Memory Use in MPI: A Case Study with
//!   MPICH2*; **Geimer et al. (2011)**: *Scaling Performance Tool MPI Communicator
//!   Management*; **Byna et al. (2004)**: *Improving the Performance of MPI Derived
//!   Datatypes by Optimizing Memory-Access Cost*: the figures of their texts.
//!
//! `None` means that the source has no such figure.

pub mod thesis;

/// One figure per rank-map model of the paper, and its baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ByModel<T> {
    /// What the row is.
    pub label: &'static str,
    /// Virtual connections and their reference table (MPICH 3.2).
    pub vc_vcrt: Option<T>,
    /// Identity.
    pub direct: Option<T>,
    /// A constant added.
    pub offset: Option<T>,
    /// A constant factor and a constant.
    pub stride: Option<T>,
    /// Blocks at a constant distance (not in the paper).
    pub block_stride: Option<T>,
    /// Lookup table of lpids.
    pub lut: Option<T>,
    /// Lookup table of (process group, lpid).
    pub mlut: Option<T>,
}

impl<T: Copy> ByModel<T> {
    /// The figure for a model by its name in the paper: `vc-vcrt`, `direct`,
    /// `offset`, `stride`, `blockstride`, `lut` or `mlut`.
    pub fn get(&self, model: &str) -> Option<T> {
        match model {
            "vc-vcrt" => self.vc_vcrt,
            "direct" => self.direct,
            "offset" => self.offset,
            "stride" => self.stride,
            "blockstride" => self.block_stride,
            "lut" => self.lut,
            "mlut" => self.mlut,
            _ => None,
        }
    }
}

const fn paper<T: Copy>(label: &'static str, figures: [T; 6]) -> ByModel<T> {
    let [vc_vcrt, direct, offset, stride, lut, mlut] = figures;
    ByModel {
        label,
        vc_vcrt: Some(vc_vcrt),
        direct: Some(direct),
        offset: Some(offset),
        stride: Some(stride),
        block_stride: None,
        lut: Some(lut),
        mlut: Some(mlut),
    }
}

const fn without_mlut<T: Copy>(label: &'static str, figures: [T; 5]) -> ByModel<T> {
    let [vc_vcrt, direct, offset, stride, lut] = figures;
    ByModel { mlut: None, ..paper(label, [vc_vcrt, direct, offset, stride, lut, lut]) }
}

/// Instructions from rank to address, without `ret`: Guo et al. (2017),
/// Table III.
pub const TABLE_III: ByModel<u32> = paper("Guo et al. 2017, Table III", [7, 9, 11, 13, 11, 15]);

/// Million puts of 8 bytes per second and process: Guo et al. (2017), Table V.
/// "Theoretical" is an infinitely fast network; Blues is an Intel Xeon E5-2670,
/// Mira a Blue Gene/Q.
pub const TABLE_V: [ByModel<f64>; 8] = [
    without_mlut("Mira, 8 processes, real", [0.8999, 0.8989, 0.8994, 0.8963, 0.8969]),
    paper("Blues, 8 processes, real", [4.325, 4.338, 4.334, 4.322, 4.324, 4.318]),
    without_mlut("Mira, 8 processes, theoretical", [11.08, 16.63, 15.48, 15.08, 16.00]),
    paper("Blues, 8 processes, theoretical", [64.76, 98.79, 92.13, 89.64, 96.03, 84.51]),
    without_mlut("Mira, 2 processes, real", [0.8899, 0.8879, 0.8884, 0.8863, 0.8969]),
    paper("Blues, 2 processes, real", [4.302, 4.311, 4.313, 4.303, 4.304, 4.297]),
    without_mlut("Mira, 2 processes, theoretical", [13.08, 16.63, 15.48, 15.08, 16.00]),
    TABLE_V_BLUES_2_THEORETICAL,
];
/// The last line of [`TABLE_V`].
pub const TABLE_V_BLUES_2_THEORETICAL: ByModel<f64> =
    paper("Blues, 2 processes, theoretical", [78.20, 98.89, 93.43, 89.91, 96.96, 85.27]);

/// A communicator made by odd/even splits, one of the other: million puts of 8
/// bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Generation {
    /// Splits between it and the world.
    pub splits: u32,
    /// Open MPI with sparse groups, which asks parent after parent.
    pub sparse_group: f64,
    /// MPICH with AV-Rankmap.
    pub av_rankmap: f64,
}

/// Guo et al. (2017), Table VI; the world first.
pub const TABLE_VI: [Generation; 5] = [
    Generation { splits: 0, sparse_group: 13.0, av_rankmap: 98.78 },
    Generation { splits: 1, sparse_group: 10.27, av_rankmap: 89.65 },
    Generation { splits: 2, sparse_group: 9.26, av_rankmap: 89.63 },
    Generation { splits: 3, sparse_group: 8.41, av_rankmap: 89.65 },
    Generation { splits: 4, sparse_group: 7.57, av_rankmap: 89.64 },
];

/// Cache misses of one process that issues 8 million puts of 8 bytes to each of
/// the other ranks in turn, caches warm: Guo et al. (2017), Table IV. Blues is
/// an Intel Xeon E5-2670, Mira a Blue Gene/Q; there is no mlut on Mira.
pub const TABLE_IV: [ByModel<u32>; 10] = [
    paper("L1D, 8 processes, Blues", [120_491, 103, 168, 141, 98, 192]),
    paper("L2, 8 processes, Blues", [237, 47, 43, 69, 53, 60]),
    paper("L3, 8 processes, Blues", [47, 48, 47, 46, 47, 45]),
    without_mlut("L1D, 8 processes, Mira", [180_491, 184, 191, 189, 178]),
    without_mlut("L2, 8 processes, Mira", [422, 57, 53, 61, 68]),
    paper("L1D, 2 processes, Blues", [4438, 102, 157, 133, 82, 168]),
    paper("L2, 2 processes, Blues", [107, 47, 45, 64, 56, 58]),
    paper("L3, 2 processes, Blues", [48, 46, 43, 45, 46, 47]),
    without_mlut("L1D, 2 processes, Mira", [6540, 186, 189, 190, 180]),
    without_mlut("L2, 2 processes, Mira", [218, 56, 54, 61, 66]),
];

/// Data caches of the Intel Xeon E5-2670 of Blues, bytes and lines of a set, the third
/// of all cores: Intel's data sheet.
pub const XEON_E5_2670: [(u64, u64); 3] = [(32 << 10, 8), (256 << 10, 8), (20 << 20, 20)];

/// Translation in MPICH 4.0.2, rank of the own process group: measured.
pub const MPICH_4_0_TRANSLATION: ByModel<u32> = ByModel {
    label: "MPICH 4.0.2, own process group",
    vc_vcrt: None,
    direct: Some(9),
    offset: Some(11),
    stride: Some(12),
    block_stride: Some(20),
    lut: Some(12),
    mlut: Some(15),
};
/// Translation in MPICH 5.1, where blockstride and mlut are tables: measured.
pub const MPICH_5_1_TRANSLATION: ByModel<u32> = ByModel {
    label: "MPICH 5.1",
    vc_vcrt: None,
    direct: Some(21),
    offset: Some(21),
    stride: Some(21),
    block_stride: Some(21),
    lut: Some(21),
    mlut: Some(21),
};

/// Instructions of a whole call inside the MPI library, up to the network
/// library's entry, 8 bytes: measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeCall {
    /// Library, version and netmod.
    pub label: &'static str,
    /// MPI_Put under MPI_Win_lock_all.
    pub put: u32,
    /// MPI_Put without error checks.
    pub put_unchecked: Option<u32>,
    /// MPI_Isend.
    pub isend: u32,
    /// MPI_Isend without error checks.
    pub isend_unchecked: Option<u32>,
}

/// [`WholeCall`] for each MPICH measured.
pub const MPICH_WHOLE_CALL: [WholeCall; 4] = [
    WholeCall {
        label: "MPICH 4.0.2 ofi, inline",
        put: 248,
        put_unchecked: Some(175),
        isend: 219,
        isend_unchecked: Some(170),
    },
    WholeCall {
        label: "MPICH 4.0.2 ucx, Debian",
        put: 225,
        put_unchecked: None,
        isend: 206,
        isend_unchecked: None,
    },
    WholeCall {
        label: "MPICH 5.0.2, wheel",
        put: 378,
        put_unchecked: None,
        isend: 485,
        isend_unchecked: None,
    },
    WholeCall {
        label: "MPICH 5.1 ofi, inline",
        put: 312,
        put_unchecked: Some(226),
        isend: 370,
        isend_unchecked: Some(293),
    },
];

/// What putting the definitions of all processes together took a performance tool.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct UnificationFigures {
    /// Tool, program and publication.
    pub label: &'static str,
    /// Processes.
    pub processes: u32,
    /// Seconds, with writing them.
    pub seconds: f64,
    /// Megabytes of definitions.
    pub definitions_mb: f64,
    /// Megabytes of what the numbers of each process mean.
    pub mappings_mb: f64,
}

/// [`UnificationFigures`] of Geimer et al. (2011), section 5.
pub const SCALASCA: UnificationFigures = UnificationFigures {
    label: "Scalasca, PFLOTRAN (Geimer et al. 2011)",
    processes: 131_072,
    seconds: 6.7,
    definitions_mb: 10.4,
    mappings_mb: 242.9,
};

/// What Table I of Guo et al. (2017) has columns of.
pub const TABLE_I_COLUMNS: [&str; 6] = ["Dup", "Offset", "Stride", "Irreg.", "Topo", "Intercomm"];
/// Applications with such communicators, of [`TABLE_I_APPLICATIONS`]: Guo et al.
/// (2017), Table I, its marks counted.
pub const TABLE_I: [u32; 6] = [18, 14, 7, 1, 2, 1];
/// Applications of Table I.
pub const TABLE_I_APPLICATIONS: u32 = 24;
/// The line of NWChem in Table I.
pub const TABLE_I_NWCHEM: [bool; 6] = [true, true, true, false, false, true];

/// Table II of Guo et al. (2017): model of a communicator by its parent's (row) and by
/// that of its ranks in the parent (column), both in the order of [`TABLE_II_MODELS`].
/// `(a)`: the parent's table, shared.
pub const TABLE_II: [[&str; 4]; 5] = [
    ["direct", "offset", "stride", "lut"],
    ["offset", "offset", "stride", "lut"],
    ["stride", "lut", "lut", "lut"],
    ["lut(a)", "lut(a)", "lut", "lut"],
    ["mlut(a)", "mlut(a)", "mlut", "mlut"],
];
/// Rows of [`TABLE_II`]; its columns are the first four, the last one "irregular" there.
pub const TABLE_II_MODELS: [&str; 5] = ["direct", "offset", "stride", "lut", "mlut"];

/// Seconds of a time step's benchmark and KiB of a process: Goodell et al. (2011),
/// Table 1, 512 processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Npb {
    /// MPICH2 and how it connects.
    pub label: &'static str,
    /// cg.D.512 and mg.D.512.
    pub seconds: [f64; 2],
    /// Of the same.
    pub kib: [f64; 2],
}

/// [`Npb`] of Goodell et al. (2011), Table 1.
pub const NPB: [Npb; 3] = [
    Npb { label: "Trunk", seconds: [536.77, 18.69], kib: [5149.2, 5154.2] },
    Npb { label: "Eager", seconds: [520.55, 19.19], kib: [5144.7, 5154.3] },
    Npb { label: "Lazy", seconds: [556.82, 19.49], kib: [4588.2, 4602.3] },
];

/// Milliseconds of MPI_Group_translate_ranks for the largest of 131,072 ranks, on Blue
/// Gene/P and on a Cray XT5: Geimer et al. (2011), section 3.
pub const TRANSLATE_MS: [f64; 2] = [3.0, 1.0];
/// Gigabytes that communicator records of 49,152 processes exceeded: Geimer et al.
/// (2011), section 5.
pub const BITSTRINGS_GB: f64 = 1.4;

/// How many times as fast as MPICH's derived datatypes the packing of a transpose was, at
/// least and at most over five sizes: Byna et al. (2004), Figure 1 ("380% to 550%").
pub const TRANSPOSE_SPEEDUP: [f64; 2] = [3.8, 5.5];
/// Most bandwidth of a transpose sent to that of MPICH's: Byna et al. (2004), Figure 7
/// ("as much as 85% higher").
pub const TRANSPOSE_BANDWIDTH: f64 = 1.85;

/// Bytes of an address-vector entry: Guo et al. (2017), section III-B.
pub const AVE_BYTES: usize = 12;
/// Bytes of a virtual connection of MPICH 3.2: Guo et al. (2017), III-B.
pub const VC_BYTES: usize = 480;

/// Bytes of an address-vector entry in MPICH: measured.
pub const MPICH_AVE_BYTES: [(&str, usize); 4] = [
    ("MPICH 4.0.2 ofi", 72),
    ("MPICH 4.0.2 ucx", 16),
    ("MPICH 5.1 ofi", 32),
    ("MPICH 4.1-5.0 wheels, ofi+ucx", 32_776),
];

/// Bytes of a communicator in MPICH, node tables included: measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CommunicatorBytes {
    /// Library and version.
    pub label: &'static str,
    /// Whatever its size.
    pub fixed: f64,
    /// More for each rank: a duplicate of MPI_COMM_WORLD, ranks filling the
    /// nodes in order.
    pub duplicate: f64,
    /// More for each rank: blocks of ranks at a constant distance.
    pub block_stride: Option<f64>,
    /// More for each rank: no pattern.
    pub irregular: Option<f64>,
}

/// [`CommunicatorBytes`] of MPICH 4.0.2: its node tables are for each rank of
/// any communicator.
pub const MPICH_4_0_COMMUNICATOR: CommunicatorBytes = CommunicatorBytes {
    label: "MPICH 4.0.2",
    fixed: 3_300.0,
    duplicate: 7.4,
    block_stride: None,
    irregular: None,
};
/// [`CommunicatorBytes`] of MPICH 5.0.2.
pub const MPICH_5_0_COMMUNICATOR: CommunicatorBytes = CommunicatorBytes {
    label: "MPICH 5.0.2",
    fixed: 5_400.0,
    duplicate: 0.0,
    block_stride: Some(11.0),
    irregular: Some(18.0),
};

/// A published figure about the memory of one process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessMemory {
    /// The case.
    pub label: &'static str,
    /// Processes.
    pub processes: usize,
    /// Megabytes per process with VC-VCRT.
    pub vc_vcrt_mb: Option<f64>,
    /// Megabytes per process with AV-Rankmap.
    pub av_rankmap_mb: Option<f64>,
}

/// 100 odd/even split communicators at the full scale of Mira: Guo et al.
/// (2017), IV-A. VC-VCRT exceeded the memory of the machine.
pub const SPLIT_100: ProcessMemory = ProcessMemory {
    label: "100 odd/even split communicators",
    processes: 786_432,
    vc_vcrt_mb: None,
    av_rankmap_mb: Some(9.0),
};
/// Nek5000 with 24 or 86 duplicates of MPI_COMM_WORLD: Guo et al. (2017),
/// IV-C, Figure 4. AV-Rankmap's is "negligible" there, without a number.
pub const NEK5000: ProcessMemory = ProcessMemory {
    label: "Nek5000, duplicates of MPI_COMM_WORLD",
    processes: 524_288,
    vc_vcrt_mb: Some(250.0),
    av_rankmap_mb: None,
};
/// Mini-applications with two to seven communicators: Guo et al. (2017), IV-C,
/// Figure 5.
pub const MINIAPPS: ProcessMemory = ProcessMemory {
    label: "mini-applications, 2 to 7 communicators",
    processes: 524_288,
    vc_vcrt_mb: Some(244.0),
    av_rankmap_mb: Some(4.0),
};

/// Nanoseconds of a lookup by gap encoding, Core i7 2.67 GHz: Mir Taheri
/// (2011), 4.1.4 ("almost 40").
pub const MIR_TAHERI_GAP_NS: f64 = 40.0;
/// Nanoseconds of a lookup in a bitmap with popcnt: Mir Taheri (2011), 4.1.3
/// ("less than 80").
pub const MIR_TAHERI_BITMAP_NS: f64 = 80.0;
/// Nanoseconds that bit-packed lpids add to a lookup in a table: Mir Taheri
/// (2011), 4.3.1 ("3 to 4").
pub const MIR_TAHERI_PACKED_MORE_NS: [f64; 2] = [3.0, 4.0];
/// Bytes of a two-dimensional part of a grid of 2^20 as a BDD: Mir Taheri
/// (2011), 4.1.2.3.
pub const MIR_TAHERI_SUBMESH_BYTES: u64 = 5;
/// Rising runs of the permutations that had no wavelet tree: Mir Taheri (2011),
/// 6.3, about experiments 12 and 14, which have half as many as members. With
/// 10,000 (11) there was one.
pub const MIR_TAHERI_RUNS_TOO_MANY: u64 = 49_000;
/// Sizes of the communicators of Table 6.1 of Mir Taheri (2011), in its order.
/// The world has 200,000 ranks, so there are 40,000 multiples of 5, one fewer
/// than the table says.
pub const MIR_TAHERI_TABLE_6_1: [u32; 14] = [
    100_000, 2_327, 10_000, 100_000, 66_667, 40_001, 28_572, 5_000, 50_000, 10_000, 20_000,
    100_000, 10_000, 100_000,
];

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The paper's own sentences about its tables.
    #[test]
    fn figures_agree_with_the_text() {
        let baseline = TABLE_III.vc_vcrt.unwrap();
        let models = ["direct", "offset", "stride", "lut", "mlut"];
        let added: Vec<u32> = models.iter().map(|m| TABLE_III.get(m).unwrap() - baseline).collect();
        assert_eq!((added.iter().min(), added.iter().max()), (Some(&2), Some(&8)));
        assert_eq!(TABLE_III.get("lut"), Some(baseline + 4));
        assert_eq!(VC_BYTES / AVE_BYTES, 40);
        assert_eq!(TABLE_III.get("no such model"), None);
    }
}
