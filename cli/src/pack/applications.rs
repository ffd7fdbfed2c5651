//! Sixteen patterns of real programs, after the descriptions of DDTBench
//! (Schneider, Gerstenberger, Hoefler, 2012): which arrays there are and which
//! elements of them are exchanged. The descriptions and the loops are our own.

use super::manual::{Loops, Piece};
use super::pattern::{Pattern, columns, nest, random};
use super::shape::{Shape, Unit, basic, blocks, contiguous, subarray, vector};

type Made = (Shape, Vec<Piece>, usize);
/// Size, part and start of a dimension.
type Part = (u64, u64, u64);

/// Each at its sizes: the size as the program has it, and the pattern.
pub(super) fn all() -> Vec<(&'static str, Pattern)> {
    let mut all = Vec::new();
    let mut add = |name: &'static str, what: &str, sizes: [u64; 2], make: &dyn Fn(u64) -> Made| {
        for size in sizes {
            let (shape, pieces, element) = make(size);
            let (label, what) = (format!("{name} {size}"), what.to_owned());
            all.push((name, Pattern { name: label, what, shape, pieces, element }));
        }
    };
    let wrf = "halo of 9 arrays of 2, 3 and 4 dimensions";
    add("WRF_x_vec", wrf, [64, 192], &|n| weather(n, true, false));
    add("WRF_y_vec", wrf, [64, 192], &|n| weather(n, false, false));
    add("WRF_x_sa", wrf, [64, 192], &|n| weather(n, true, true));
    add("WRF_y_sa", wrf, [64, 192], &|n| weather(n, false, true));
    add("MILC_su3_zdown", "a face of a lattice of 4 dimensions", [8, 32], &lattice);
    add("NAS_LU_x", "a line of 5 doubles a point, contiguous", [64, 408], &|n| {
        let shape = contiguous(5 * n, basic(Unit::Double));
        (shape, vec![nest(8, 0, &[], 5 * n)], 8)
    });
    add("NAS_LU_y", "a line of 5 doubles a point, apart", [64, 408], &|n| {
        let apart = 5 * (n + 2);
        let shape = vector(n, 5, 8 * apart as i64, basic(Unit::Double));
        (shape, vec![nest(8, 0, &[(n, apart)], 5)], 8)
    });
    add("NAS_MG_x", "a face of a cube, elements apart", [66, 258], &|n| {
        let row = vector(n - 2, 1, 8 * n as i64, basic(Unit::Double));
        let shape = vector(n - 2, 1, 8 * (n * n) as i64, row);
        (shape, vec![nest(8, 0, &[(n - 2, n * n), (n - 2, n)], 1)], 8)
    });
    add("NAS_MG_y", "a face of a cube, rows far apart", [66, 258], &|n| {
        let shape = vector(n - 2, n - 2, 8 * (n * n) as i64, basic(Unit::Double));
        (shape, vec![nest(8, 0, &[(n - 2, n * n)], n - 2)], 8)
    });
    add("NAS_MG_z", "a face of a cube, rows side by side", [66, 258], &|n| {
        let shape = vector(n - 2, n - 2, 8 * n as i64, basic(Unit::Double));
        (shape, vec![nest(8, 0, &[(n - 2, n)], n - 2)], 8)
    });
    add("FFT2", "a quarter of complex rows, transposed", [256, 1024], &|n| {
        let m = n / 4;
        let (_, _, element) = columns(1, 1, 1, Unit::Complex);
        let column = vector(m, 1, 16 * n as i64, basic(Unit::Complex));
        let piece = nest(16, 0, &[(m, 1), (m, n)], 1);
        (vector(m, 1, 16, column), vec![piece], element)
    });
    add("SPECFEM3D_oc", "a float at each of a list", [3_000, 100_000], &|n| {
        let index = rising(n, 6);
        let at = index.iter().map(|&i| 4 * i64::from(i)).collect();
        let loops = Loops::List { at: 0, index, run: 1 };
        (blocks(1, at, basic(Unit::Float)), vec![Piece::new(4, loops)], 4)
    });
    add("SPECFEM3D_cm", "3 floats at each of two lists", [3_000, 100_000], &|n| {
        let lists: Vec<Vec<u32>> =
            [n, n / 2].map(|n| rising(n, 6).iter().map(|i| 3 * i).collect()).into();
        let second = lists[0].last().map_or(0, |last| last + 3) as usize;
        let field = |at: usize, list: &[u32]| {
            let offsets = list.iter().map(|&i| 4 * i64::from(i)).collect();
            (1, 4 * at as i64, blocks(3, offsets, basic(Unit::Float)))
        };
        let shape = Shape::Struct(vec![field(0, &lists[0]), field(second, &lists[1])]);
        let piece =
            |(at, index): (usize, Vec<u32>)| Piece::new(4, Loops::List { at, index, run: 3 });
        (shape, [0, second].into_iter().zip(lists).map(piece).collect(), 4)
    });
    add("SPECFEM3D_mt", "3 floats of each point, planes apart", [32, 128], &|n| {
        let shape = vector(n * n, 3, 4 * 3 * 5, basic(Unit::Float));
        (shape, vec![nest(4, 0, &[(n * n, 15)], 3)], 4)
    });
    add("LAMMPS_full", "six properties of listed atoms", [2_000, 50_000], &|n| {
        atoms(n, &[(8, 3), (4, 1), (4, 1), (4, 1), (8, 1), (4, 1)])
    });
    add("LAMMPS_atomic", "four properties of listed atoms", [2_000, 50_000], &|n| {
        atoms(n, &[(8, 3), (4, 1), (4, 1), (4, 1)])
    });
    all
}

/// A rising list with gaps of at most `gap` between its numbers.
fn rising(n: u64, gap: u64) -> Vec<u32> {
    let mut x = 0x2545_f491_4f6c_dd1d;
    let mut at = 0;
    (0..n)
        .map(|_| {
            at += 1 + random(&mut x) % gap;
            at as u32
        })
        .collect()
}

/// A weather model's halo: of 4 arrays (i, j), 3 (i, k, j) and 2 (i, k, j, scalar),
/// `i` fastest; 3 columns of each (`along_x`), or 3 rows. As vectors or subarrays.
fn weather(n: u64, along_x: bool, parts: bool) -> Made {
    const HALO: u64 = 3;
    const LEVELS: u64 = 35;
    const SCALARS: u64 = 4;
    let wide = n + 2 * HALO;
    // Taken: (size, part, start) of i and of j.
    let (i, j) = match along_x {
        true => ((wide, HALO, HALO), (wide, n, HALO)),
        false => ((wide, n, HALO), (wide, HALO, HALO)),
    };
    let (k, scalars) = ((LEVELS, LEVELS - 1, 0), (SCALARS + 1, SCALARS, 1));
    let arrays: [(usize, &[Part]); 3] = [(4, &[j, i]), (3, &[j, k, i]), (2, &[scalars, j, k, i])];
    let (mut fields, mut pieces, mut at) = (Vec::new(), Vec::new(), 0_u64);
    for (count, dims) in arrays {
        for _ in 0..count {
            let float = || basic(Unit::Float);
            // The first element taken, and (count, stride) of each loop.
            let (mut first, mut step, mut loops) = (0, 1, Vec::new());
            for &(size, some, start) in dims.iter().rev() {
                loops.push((some, step));
                (first, step) = (first + start * step, step * size);
            }
            let run = loops[0].0;
            loops.remove(0);
            let shape = match parts {
                true => (1, 4 * at as i64, subarray(dims.to_vec(), float())),
                false => {
                    let (inner, outer) = (loops[0], &loops[1..]);
                    let rows = vector(inner.0, run, 4 * inner.1 as i64, float());
                    let all = outer
                        .iter()
                        .fold(rows, |of, &(count, by)| vector(count, 1, 4 * by as i64, of));
                    (1, 4 * (at + first) as i64, all)
                }
            };
            fields.push(shape);
            loops.reverse();
            pieces.push(nest(4, (at + first) as usize, &loops, run));
            at += step;
        }
    }
    (Shape::Struct(fields), pieces, 4)
}

/// Quark fields on a lattice of n⁴ points, even points before odd ones: vectors of
/// 3 complex floats at the points of one z, for every t.
fn lattice(n: u64) -> Made {
    let (plane, vector_floats) = (n * n / 2, 6);
    let (by_t, by_parity) = (plane * n * vector_floats, plane * n * n * vector_floats);
    let su3 = contiguous(vector_floats, basic(Unit::Float));
    let half = vector(n, plane, 4 * by_t as i64, su3);
    let shape = vector(2, 1, 4 * by_parity as i64, half);
    (shape, vec![nest(4, 0, &[(2, by_parity), (n, by_t)], plane * vector_floats)], 4)
}

/// Arrays of properties, one behind the other: (unit, how many an atom); of each
/// those of the atoms in a list. Times are for each double of the payload.
fn atoms(n: u64, properties: &[(usize, usize)]) -> Made {
    let list = rising(n, 6);
    let there = list.last().map_or(0, |last| *last as usize + 1);
    let (mut fields, mut pieces, mut at) = (Vec::new(), Vec::new(), 0);
    for &(unit, run) in properties {
        let bytes = unit * run;
        let offsets = list.iter().map(|&i| bytes as i64 * i64::from(i)).collect();
        let of = basic(if unit == 8 { Unit::Double } else { Unit::Int });
        fields.push((1, at as i64, blocks(run as u64, offsets, of)));
        let index = list.iter().map(|i| i * run as u32).collect();
        pieces.push(Piece::new(unit, Loops::List { at: at / unit, index, run }));
        at = (at + bytes * there).next_multiple_of(16);
    }
    (Shape::Struct(fields), pieces, 8)
}
