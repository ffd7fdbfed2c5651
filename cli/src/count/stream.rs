//! What a call touches for any rank, derived from traces of some ranks.
//!
//! Every access of a call is at an address that follows nothing, the rank, the
//! rank modulo a power of two, or the process that the rank is. Which one is
//! fitted to traced ranks and held against others: one address that is not as
//! derived is an error, and nothing is simulated.

use rankway::rankmap::Process;
use rankway_cli::observe::lines::is_stack;
use rankway_cli::observe::step::Trace;

/// Where an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Region {
    /// The structure that the call is given: each communicator has its own.
    Own,
    /// Below the caller's frame; offsets count down from the return address.
    Stack,
    /// One for all communicators: the directory of the address vectors.
    Shared,
    /// A table by lpid, an array for each process group: the address vector.
    Entries,
    /// A table by rank: each communicator has its own.
    Table,
}

/// What an address follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    Nothing,
    /// The rank modulo this.
    Modulo(u64),
    Rank,
    Group,
    Lpid,
}

/// One access of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Touch {
    pub(super) region: Region,
    pub(super) follows: Follows,
    /// Bytes from one value of what it follows to the next.
    pub(super) pitch: u64,
    /// In the region, of the first.
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// A call that was traced.
pub(super) struct Sample<'a> {
    pub(super) rank: u32,
    pub(super) process: Process,
    pub(super) trace: &'a Trace,
}

/// The call's accesses, in order, such that each sample has them. `own` is the
/// size of the structure that the call is given.
///
/// The first half of the samples is fitted to, the others are held against that.
pub(super) fn derive(samples: &[Sample<'_>], own: usize) -> Result<Vec<Touch>, String> {
    let (fitted, held) = samples.split_at(samples.len() / 2);
    let first = fitted.first().ok_or("nothing was traced")?;
    let count = first.trace.accesses.len();
    for sample in samples {
        let trace = sample.trace;
        if trace.unresolved > 0 || trace.accesses.len() != count {
            let (rank, made) = (sample.rank, trace.accesses.len());
            return Err(format!("rank {rank} makes {made} accesses, rank {} {count}", first.rank));
        }
    }
    let one = |index| {
        let fit = Fit::of(fitted, index, own)
            .ok_or_else(|| format!("access {index} follows neither the rank nor its process"))?;
        match held.iter().find(|sample| !fit.agrees(sample, index, own)) {
            Some(s) => Err(format!("access {index} of rank {} is not where derived", s.rank)),
            None => Ok(fit.touch),
        }
    };
    (0..count).map(one).collect()
}

/// An access as derived, with its real places.
struct Fit {
    touch: Touch,
    /// Of the region, by process group.
    bases: Vec<(u32, u64)>,
}

/// An access of one sample: its region as far as the address tells, and where
/// it is there.
fn place(sample: &Sample<'_>, index: usize, own: usize) -> (Option<Region>, u64) {
    let trace = sample.trace;
    let (address, start) = (trace.accesses[index].address, trace.arguments[0]);
    if is_stack(trace, address) {
        (Some(Region::Stack), (trace.stack + size_of::<usize>() - address) as u64)
    } else if (start..start + own).contains(&address) {
        (Some(Region::Own), (address - start) as u64)
    } else {
        (None, address as u64)
    }
}

/// The value of what an address may follow.
fn value(follows: Follows, rank: u32, process: Process) -> u64 {
    match follows {
        Follows::Nothing => 0,
        Follows::Modulo(modulus) => u64::from(rank) % modulus,
        Follows::Rank => rank.into(),
        Follows::Group => process.pg.into(),
        Follows::Lpid => process.lpid.into(),
    }
}

impl Fit {
    fn of(samples: &[Sample<'_>], index: usize, own: usize) -> Option<Fit> {
        // (A modulus above all ranks is none.)
        let largest = samples.iter().map(|s| u64::from(s.rank)).max()?;
        let moduli = (1..16).map(|bits| 1 << bits).take_while(|&modulus| modulus <= largest);
        let moduli = moduli.map(Follows::Modulo);
        // The simplest that all samples agree with. (A formula's lpid follows
        // the rank: its entries are the address vector's all the same.)
        [Follows::Nothing, Follows::Group]
            .into_iter()
            .chain(moduli)
            .chain([Follows::Lpid, Follows::Rank])
            .find_map(|follows| Fit::by(follows, samples, index, own))
    }

    fn by(follows: Follows, samples: &[Sample<'_>], index: usize, own: usize) -> Option<Fit> {
        let group = |sample: &Sample<'_>| match follows {
            Follows::Lpid => sample.process.pg,
            _ => 0,
        };
        let at = |sample: &Sample<'_>| {
            (value(follows, sample.rank, sample.process), place(sample, index, own).1)
        };
        let first = samples.first()?;
        let (known, origin) = at(first);
        // The pitch by any other sample of its group that has another value.
        let other = samples.iter().find(|s| group(s) == group(first) && at(s).0 != known);
        let pitch = match (follows, other) {
            (Follows::Nothing, _) => 0,
            (_, None) => return None,
            (_, Some(other)) => {
                let (value, address) = at(other);
                let span = address.wrapping_sub(origin) as i64;
                let pitch = span / (value as i64 - known as i64);
                u64::try_from(pitch).ok().filter(|&pitch| pitch > 0)?
            }
        };
        let mut bases: Vec<(u32, u64)> = Vec::new();
        for sample in samples {
            let (value, address) = at(sample);
            if bases.iter().all(|(pg, _)| *pg != group(sample)) {
                bases.push((group(sample), address.wrapping_sub(pitch.wrapping_mul(value))));
            }
        }
        let (told, _) = place(first, index, own);
        let region = told.unwrap_or(match follows {
            Follows::Nothing | Follows::Group => Region::Shared,
            Follows::Lpid => Region::Entries,
            Follows::Rank | Follows::Modulo(_) => Region::Table,
        });
        let offset = match region {
            // Where in its line or page matters: arrays begin at a line.
            Region::Own | Region::Stack => bases[0].1,
            Region::Shared => bases[0].1 & 0xfff,
            Region::Entries | Region::Table => 0,
        };
        let bytes = first.trace.accesses[index].bytes as u64;
        let fit = Fit { touch: Touch { region, follows, pitch, offset, bytes }, bases };
        samples.iter().all(|sample| fit.agrees(sample, index, own)).then_some(fit)
    }

    /// Returns true if the sample's access is where this has it.
    fn agrees(&self, sample: &Sample<'_>, index: usize, own: usize) -> bool {
        let touch = &self.touch;
        let (told, address) = place(sample, index, own);
        let by_address = matches!(touch.region, Region::Own | Region::Stack);
        let group = if touch.follows == Follows::Lpid { sample.process.pg } else { 0 };
        let Some((_, base)) = self.bases.iter().find(|(pg, _)| *pg == group) else { return false };
        let value = value(touch.follows, sample.rank, sample.process);
        told == by_address.then_some(touch.region)
            && sample.trace.accesses[index].bytes as u64 == touch.bytes
            && address == base.wrapping_add(touch.pitch.wrapping_mul(value))
    }
}

/// Where simulated regions begin: far apart, and not all at the same set of a
/// cache.
const fn base(region: Region) -> u64 {
    let number = region as u64 + 1;
    (number << 44) + number * 37 * 64
}

/// What `touches` are for `ranks` ranks, by communicator and rank.
pub(super) struct Stream<'a> {
    pub(super) touches: &'a [Touch],
    /// Bytes of the structure that a communicator has.
    pub(super) own: u64,
    pub(super) processes: &'a [Process],
}

impl Stream<'_> {
    /// Shows the accesses of one call, as addresses and bytes.
    #[inline]
    pub(super) fn call(&self, communicator: u64, rank: u32, mut access: impl FnMut(u64, u64)) {
        let process = self.processes[rank as usize];
        for touch in self.touches {
            let within = touch.offset + touch.pitch * value(touch.follows, rank, process);
            let base = base(touch.region);
            let address = match touch.region {
                // What grows down ends at a line.
                Region::Stack => base - within,
                Region::Own => base + communicator * self.own.next_multiple_of(64) + within,
                Region::Shared => base + within,
                // An array that begins at a line, no matter how large.
                Region::Entries => base + (u64::from(process.pg) << 40) + within,
                Region::Table => {
                    let bytes = touch.pitch * self.processes.len() as u64;
                    base + communicator * bytes.next_multiple_of(64) + within
                }
            };
            access(address, touch.bytes);
        }
    }
}
