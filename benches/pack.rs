//! Packing and unpacking beside memcpy and the loops that one writes by hand, in one
//! run, without an MPI: the patterns of `rankway pack`, whose sources these are.
//!
//! `cargo bench --no-default-features --bench pack -- [--level avx512|avx2|portable]
//! [--plan PLAN] [--offset BYTES] [--only NAME] [--applications]`
//!
//! Processor time of the best of many rounds, in nanoseconds for each element of the
//! packed stream; ratios are of speeds. `--plan` is as `RANKWAY_DATATYPE_PLAN` has it,
//! `--offset` as the command. Each copy is compared with the reference first.

#[path = "../cli/src/clock.rs"]
mod clock;
#[allow(dead_code, unused_imports, reason = "the command and its tests use the rest")]
#[path = "../cli/src/pack"]
mod patterns {
    pub(crate) mod applications;
    pub(crate) mod manual;
    pub(crate) mod pattern;
    pub(crate) mod shape;
    pub(crate) mod stage;

    use self::manual::{Piece, Style};
    use self::pattern::Pattern;
    use self::stage::Stage;
    use super::Options;
    use rankway::datatype::{Direction, Level, Plan};
    use std::error::Error;

    /// Rounds of which the best counts.
    const ROUNDS: usize = 5;

    /// Those that are asked for.
    fn all(options: &Options) -> Vec<Pattern> {
        let mut all: Vec<Pattern> = match options.applications {
            true => applications::all().into_iter().map(|(_, pattern)| pattern).collect(),
            false => {
                let named = pattern::NAMED.iter();
                named.flat_map(|named| named.sizes.iter().map(|&bytes| named.of(bytes))).collect()
            }
        };
        if let Some(only) = &options.only {
            all.retain(|pattern| pattern.name.contains(only.as_str()));
        }
        all
    }

    /// By hand, in one style.
    fn by_hand<const PACK: bool>(
        pieces: &[Piece],
        style: Style,
    ) -> impl FnMut(&mut [u8], &mut [u8]) -> Result<(), String> {
        move |m, s| {
            let fits = manual::run::<PACK>(pieces, style, m, s);
            fits.then_some(()).ok_or_else(|| "leaves the memory or the stream".into())
        }
    }

    fn quickest<const PACK: bool>(
        stage: &mut Stage<'_>,
        pieces: &[Piece],
        level: Level,
    ) -> Result<Style, String> {
        let mut best = (f64::INFINITY, Style::NAIVE);
        for style in Style::all(level, pieces) {
            let took = stage.time(&mut by_hand::<PACK>(pieces, style))?;
            if took < best.0 {
                best = (took, style);
            }
        }
        Ok(best.1)
    }

    /// Measures one and prints its row.
    fn measure(options: &Options, pattern: &Pattern) -> Result<(), Box<dyn Error>> {
        let layout = pattern.shape.layout()?;
        let plan = |direction| -> Result<Plan, Box<dyn Error>> {
            let chosen = layout.plans(direction).first().ok_or("no bytes")?.plan;
            Ok(match &options.plan {
                Some(text) => chosen.with(text)?,
                None => chosen,
            })
        };
        let (packing, unpacking) = (plan(Direction::Pack)?, plan(Direction::Unpack)?);
        let mut pack = |m: &mut [u8], s: &mut [u8]| {
            layout.pack_by(&packing, m, 0, 0, s).map(drop).map_err(|e| e.to_string())
        };
        let mut unpack = |m: &mut [u8], s: &mut [u8]| {
            layout.unpack_by(&unpacking, m, 0, 0, s).map(drop).map_err(|e| e.to_string())
        };
        let mut stage = Stage::new(&pattern.shape, options.offset);
        stage.check_pack(&mut pack)?;
        stage.check_unpack(&mut unpack)?;
        let (size, pieces) = (stage.size(), &pattern.pieces[..]);
        let styles = (
            quickest::<true>(&mut stage, pieces, packing.level)?,
            quickest::<false>(&mut stage, pieces, unpacking.level)?,
        );
        let mut best = [f64::INFINITY; 6];
        for _ in 0..ROUNDS {
            let took = [
                stage.time(&mut |m, s| {
                    s.copy_from_slice(&m[..size]);
                    Ok(())
                })?,
                stage.time(&mut |m, s| {
                    m[..size].copy_from_slice(s);
                    Ok(())
                })?,
                stage.time(&mut by_hand::<true>(pieces, styles.0))?,
                stage.time(&mut by_hand::<false>(pieces, styles.1))?,
                stage.time(&mut pack)?,
                stage.time(&mut unpack)?,
            ];
            best.iter_mut().zip(took).for_each(|(best, took)| *best = best.min(took));
        }
        let n = size as f64 / pattern.element as f64;
        let [copied, back, loops, from_loops, packed, unpacked] = best.map(|ns| ns / n);
        println!(
            "{:<22} {:>11} {copied:7.3} {loops:7.3} {from_loops:7.3} {packed:7.3} {unpacked:7.3}   \
             {:9.2} {:9.2} {:9.2} {:9.2}",
            pattern.name,
            size,
            copied / packed,
            back / unpacked,
            loops / packed,
            from_loops / unpacked,
        );
        Ok(())
    }

    pub(super) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
        all(options).iter().try_for_each(|pattern| measure(options, pattern))
    }
}

use std::error::Error;

/// What is asked for on the command line.
struct Options {
    plan: Option<String>,
    only: Option<String>,
    offset: usize,
    applications: bool,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options { plan: None, only: None, offset: 16, applications: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} takes a value"));
        match word.as_str() {
            "--level" => options.plan = Some(format!("level={}", value()?)),
            "--plan" => options.plan = Some(value()?),
            "--only" => options.only = Some(value()?),
            "--offset" => {
                let bytes = value()?.parse().ok().filter(|&bytes: &usize| bytes < 64);
                options.offset = bytes.ok_or("--offset takes 0 to 63")?;
            }
            "--applications" => options.applications = true,
            "--bench" => {}
            other => return Err(format!("{other} is no option of this").into()),
        }
    }
    Ok(options)
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    println!(
        "{:<34} {:>39}   {:>19} {:>19}\n{:<22} {:>11} {:>7} {:>7} {:>7} {:>7} {:>7}   {:>9} {:>9} {:>9} {:>9}",
        "",
        "ns an element",
        "speed to memcpy",
        "speed to by hand",
        "",
        "bytes",
        "memcpy",
        "loops",
        "back",
        "pack",
        "unpack",
        "pack",
        "unpack",
        "pack",
        "unpack",
    );
    patterns::run(&options)
}
