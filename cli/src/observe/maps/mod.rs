//! Communicators to measure rank maps on, as the lpids of their ranks.
//!
//! [`CATALOG`] has three groups: the classes of experiments of the thesis, the
//! communicators of its applications, and shapes that programs make. "The
//! thesis" is Mir Taheri (2011), *Scalability of Communicators in MPI*.
//!
//! | question | here |
//! |---|---|
//! | what are the lpids? | [`Builtin::make`] |
//! | how few bits could tell this map from the others of its class? | [`Bound`] |
//! | what would the thesis's representations take? | [`thesis::weigh`] |
//! | how long is a lookup? | [`clock`] |
//!
//! Knows lists of numbers only, no rank map of this crate: what measures and
//! what is measured share nothing. Draws are the same on every machine.

mod bound;
mod classes;
pub mod clock;
mod random;
mod shapes;
mod table61;
pub mod thesis;

pub use self::bound::Bound;
pub use self::random::Random;

/// Where a [`Builtin`] comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Chapter 5 of the thesis, and three lists.
    Classes,
    /// Table 6.1 of the thesis.
    Table61,
    /// What programs make.
    Shapes,
}

impl Group {
    /// All of them.
    pub const ALL: [Group; 3] = [Group::Classes, Group::Table61, Group::Shapes];

    /// Its name in a list of names.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Classes => "classes",
            Group::Table61 => "table6.1",
            Group::Shapes => "shapes",
        }
    }

    /// What it is.
    pub const fn what(self) -> &'static str {
        match self {
            Group::Classes => "experiments of Mir Taheri (2011), chapter 5, and three lists",
            Group::Table61 => "communicators of Mir Taheri (2011), Table 6.1",
            Group::Shapes => "what programs make",
        }
    }
}

/// A communicator of a world, written out.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Ranks of the world.
    pub universe: u32,
    /// Radices of the topology it was cut from, slowest first; empty for none.
    pub radices: Vec<u32>,
    /// The lpid of each rank.
    pub lpids: Vec<u32>,
    /// The fewest bits.
    pub bound: Bound,
}

impl Sample {
    fn new(universe: u32, lpids: Vec<u32>, bound: Bound) -> Sample {
        Sample { universe, radices: Vec::new(), lpids, bound }
    }

    fn on(self, radices: Vec<u32>) -> Sample {
        Sample { radices, ..self }
    }

    /// Returns true if the lpids rise: a set needs no order of its own.
    pub fn is_set(&self) -> bool {
        self.lpids.is_sorted_by(|a, b| a < b)
    }
}

/// A world that a communicator does not fit into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{name}' takes a universe of {least} ranks at least, not of {universe}; give a larger one"
)]
pub struct TooSmall {
    /// The communicator.
    pub name: &'static str,
    /// The smallest world.
    pub least: u32,
    /// The world that was asked for.
    pub universe: u32,
}

/// A communicator that can be made for any world that is large enough.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// What it is called.
    pub name: &'static str,
    /// Where it comes from.
    pub group: Group,
    /// What it is.
    pub what: &'static str,
    /// The world it is measured on elsewhere.
    pub universe: u32,
    least: u32,
    make: fn(u32, Draw) -> Sample,
}

/// What may differ from draw to draw.
#[derive(Clone, Debug)]
struct Draw {
    random: Random,
    /// The sizes of the measured figures, not drawn ones.
    typical: bool,
}

impl Draw {
    /// `typical`, or what is drawn.
    fn or(&mut self, typical: u32, drawn: impl FnOnce(&mut Random) -> u32) -> u32 {
        if self.typical { typical } else { drawn(&mut self.random) }
    }
}

impl Builtin {
    /// The communicator on a world of so many ranks. Seed 0 has the sizes that
    /// figures are told of; others draw sizes as the thesis does where it does.
    ///
    /// # Errors
    /// [`TooSmall`].
    pub fn make(&self, universe: u32, seed: u64) -> Result<Sample, TooSmall> {
        if universe < self.least {
            return Err(TooSmall { name: self.name, least: self.least, universe });
        }
        // A stream of its own for each, so that one alone is what it is among all.
        let named = self.name.bytes().fold(seed, |state, byte| Random::mix(state, byte.into()));
        Ok((self.make)(universe, Draw { random: Random::new(named), typical: seed == 0 }))
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<&'static Builtin> {
        CATALOG.iter().find(|one| one.name.eq_ignore_ascii_case(name))
    }
}

/// A line of the catalogue.
const fn entry(
    group: Group,
    name: &'static str,
    what: &'static str,
    universe: u32,
    least: u32,
    make: fn(u32, Draw) -> Sample,
) -> Builtin {
    Builtin { name, group, what, universe, least, make }
}

/// Ranks of the worlds of the thesis's chapter 5.
pub const MILLION: u32 = 1_000_000;
/// Ranks of the world of the thesis's chapter 6.
pub const WORLD_61: u32 = 200_000;

/// All there are, group by group.
pub static CATALOG: &[Builtin] = &{
    use Group::{Classes, Shapes, Table61};
    [
        entry(Classes, "A", "members at random", MILLION, 100, classes::a),
        entry(Classes, "B", "a stride", MILLION, 1000, classes::b),
        entry(Classes, "C", "rising ranges", MILLION, 4000, classes::c),
        entry(Classes, "D", "faces of a hypercube of side 10", MILLION, 100, classes::d),
        entry(Classes, "E", "falling ranges", MILLION, 1000, classes::e),
        entry(Classes, "P", "any order of the world", 1 << 20, 2, classes::p),
        entry(Classes, "T", "a transpose of many dimensions of 4", 1 << 20, 16, classes::t),
        entry(Classes, "N", "nodes of 32 in any order, mixed inside", 1 << 20, 64, classes::n),
        entry(Table61, "even", "1: even numbers", WORLD_61, 2, table61::even),
        entry(Table61, "stride-81", "2: y = 81x + 11453, x > 0", WORLD_61, 11_700, table61::line),
        entry(
            Table61,
            "cube",
            "3: [0,*,*,0,*,*] of a cube of side 10",
            WORLD_61,
            100_000,
            table61::cube,
        ),
        entry(
            Table61,
            "alternate",
            "4: every other range of 100",
            WORLD_61,
            300,
            table61::alternate,
        ),
        entry(Table61, "thirds", "5: multiples of 3", WORLD_61, 7, table61::thirds),
        entry(Table61, "fifths", "6: multiples of 5", WORLD_61, 11, table61::fifths),
        entry(Table61, "sevenths", "7: multiples of 7", WORLD_61, 15, table61::sevenths),
        entry(
            Table61,
            "random-5k",
            "8: 5,000 at random, in order",
            WORLD_61,
            5_001,
            table61::random_5k,
        ),
        entry(
            Table61,
            "random-50k",
            "9: 50,000 at random, in order",
            WORLD_61,
            50_001,
            table61::random_50k,
        ),
        entry(
            Table61,
            "permuted-10k",
            "10: 10,000 at random, in any order",
            WORLD_61,
            10_001,
            table61::permuted_10k,
        ),
        entry(
            Table61,
            "permuted-20k",
            "11: 20,000 at random, in any order",
            WORLD_61,
            20_001,
            table61::permuted_20k,
        ),
        entry(
            Table61,
            "permuted-100k",
            "12: 100,000 at random, in any order",
            WORLD_61,
            100_001,
            table61::permuted_100k,
        ),
        entry(
            Table61,
            "ranges-1k",
            "13: 10 ranges of 1,000, mixed inside",
            WORLD_61,
            20_000,
            table61::ranges_1k,
        ),
        entry(
            Table61,
            "ranges-10k",
            "14: 10 ranges of 10,000, mixed inside",
            WORLD_61,
            200_000,
            table61::ranges_10k,
        ),
        entry(Shapes, "row", "a row of a square grid", MILLION, 9, shapes::row),
        entry(Shapes, "column", "a column of it", MILLION, 9, shapes::column),
        entry(
            Shapes,
            "transpose",
            "the square grid, column by column",
            MILLION,
            9,
            shapes::transpose,
        ),
        entry(Shapes, "plane", "a plane across a cubic grid", MILLION, 27, shapes::plane),
        entry(Shapes, "box", "a box of half its side in it", MILLION, 64, shapes::inner),
        entry(
            Shapes,
            "hypercube-face",
            "three bits fixed in a hypercube",
            MILLION,
            1024,
            shapes::face,
        ),
        entry(
            Shapes,
            "hypercube-faces",
            "five faces of two bits each",
            MILLION,
            1024,
            shapes::faces,
        ),
        entry(Shapes, "node-leaders", "the first of every 16 ranks", MILLION, 33, shapes::leaders),
        entry(
            Shapes,
            "round-robin",
            "ranks dealt to nodes of 16, by node",
            MILLION,
            48,
            shapes::round_robin,
        ),
        entry(
            Shapes,
            "without-thirds",
            "the world without every third",
            MILLION,
            7,
            shapes::without_thirds,
        ),
        entry(Shapes, "reversed", "the world backwards", MILLION, 2, shapes::reversed),
        entry(
            Shapes,
            "random-nodes",
            "half of the nodes of 16, at random",
            MILLION,
            64,
            shapes::random_nodes,
        ),
        entry(
            Shapes,
            "shuffled-nodes",
            "nodes of 16 in any order",
            MILLION,
            64,
            shapes::shuffled_nodes,
        ),
        entry(
            Shapes,
            "by-color",
            "the world by four random colours",
            MILLION,
            64,
            shapes::by_color,
        ),
        entry(Shapes, "random-subset", "an eighth at random", MILLION, 16, shapes::random_subset),
        entry(
            Shapes,
            "random-permutation",
            "the world in any order",
            MILLION,
            2,
            shapes::random_permutation,
        ),
        entry(
            Shapes,
            "random-graph",
            "random graph: neighbours, nearest first",
            MILLION,
            2_000,
            shapes::random_graph,
        ),
    ]
};

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::figures::MIR_TAHERI_TABLE_6_1;
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique() {
        let names: HashSet<String> = CATALOG.iter().map(|one| one.name.to_lowercase()).collect();
        assert_eq!(names.len(), CATALOG.len());
        assert!(Group::ALL.iter().all(|group| !names.contains(group.name())));
        assert_eq!(Builtin::named("a").unwrap().name, "A");
        assert!(Builtin::named("nothing").is_none());
    }

    #[test]
    fn table_6_1_has_the_sizes_of_the_thesis() {
        let made = CATALOG.iter().filter(|one| one.group == Group::Table61);
        let sizes: Vec<u32> =
            made.map(|one| one.make(WORLD_61, 0).unwrap().lpids.len() as u32).collect();
        let mut expected = MIR_TAHERI_TABLE_6_1;
        expected[5] = 40_000;
        assert_eq!(sizes, expected);
    }

    /// On the smallest world and a larger one, with any seed: members of the
    /// world, none twice, and the same again.
    #[test]
    fn every_one_is_a_communicator() {
        for one in CATALOG {
            let small = one.make(one.least - 1, 0).unwrap_err();
            assert_eq!((small.name, small.least), (one.name, one.least));
            for (universe, seed) in [(one.least, 0), (one.least, 7), (one.least + 4321, 3)] {
                let sample = one.make(universe, seed).unwrap();
                assert!(!sample.lpids.is_empty(), "{}", one.name);
                assert!(sample.lpids.iter().all(|&lpid| lpid < universe), "{}", one.name);
                let unique: HashSet<u32> = sample.lpids.iter().copied().collect();
                assert_eq!(unique.len(), sample.lpids.len(), "{}", one.name);
                let bits = sample.bound.bits;
                assert!(bits.is_finite() && bits >= 0.0, "{} {bits}", one.name);
                let grid: u64 = sample.radices.iter().map(|&radix| u64::from(radix)).product();
                let last = sample.lpids.iter().max().copied().unwrap();
                assert!(sample.radices.is_empty() || u64::from(last) < grid, "{}", one.name);
                assert_eq!(one.make(universe, seed).unwrap().lpids, sample.lpids, "{}", one.name);
            }
        }
    }
}
