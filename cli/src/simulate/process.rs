//! The life of one process of a simulated job.

use crate::HEAP;
use crate::memory::pages;
use crate::stencil::{NEIGHBOURS, directions};
use rankway::boot::Boot;
use rankway::boot::simulated::Simulated;
use rankway::device::{Context, Device};
use rankway::netmod::null::Null;
use rankway::rankmap::RankMap;
use rankway::rma::{Assert, Communicator, SimulatedMembers, Window};
use rankway_cli::observe::memory::Heap;
use serde::Serialize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The steps, in the order in which they are taken.
pub(super) const STEPS: [&str; 7] = [
    "start",
    "first put to a peer",
    "split",
    "split of all but one",
    "window",
    "put to 26 and flush",
    "end",
];

/// What each took.
pub(super) type Steps = [Counts; STEPS.len()];

/// So often a step is measured whose time depends on what was in the caches.
const ROUNDS: u32 = 5;
const DISPLACEMENT_UNIT: usize = 8;

/// What a step took.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Counts {
    pub(super) microseconds: f64,
    pub(super) kept_bytes: u64,
    pub(super) peak_bytes: u64,
    pub(super) questions: u64,
    pub(super) messages: u64,
    pub(super) message_bytes: u64,
}

impl Counts {
    /// What the clock and the heap tell.
    fn of(took: Duration, heap: Heap) -> Counts {
        Counts {
            microseconds: took.as_secs_f64() * 1e6,
            kept_bytes: heap.live as u64,
            peak_bytes: heap.peak as u64,
            ..Counts::default()
        }
    }

    /// Of one of so many.
    fn each(self, of: u32) -> Counts {
        let each = |count: u64| count.div_ceil(u64::from(of));
        Counts {
            microseconds: self.microseconds / f64::from(of),
            kept_bytes: each(self.kept_bytes),
            peak_bytes: self.peak_bytes,
            questions: each(self.questions),
            messages: each(self.messages),
            message_bytes: each(self.message_bytes),
        }
    }
}

pub(super) struct Process {
    size: u32,
    ppn: u32,
    splits: u32,
}

fn say(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Odd and even ranks.
fn odd_even(rank: u32) -> (Option<u32>, i32) {
    (Some(rank % 2), 0)
}

/// What is looked at before a step and after it.
struct Meter<'a> {
    boot: &'a Simulated,
    members: &'a SimulatedMembers,
    questions: u64,
    messages: u64,
    message_bytes: u64,
    elsewhere: Duration,
    pages: u64,
}

impl<'a> Meter<'a> {
    fn new(boot: &'a Simulated, members: &'a SimulatedMembers, pages: u64) -> Meter<'a> {
        Meter {
            boot,
            members,
            questions: boot.questions().unwrap_or(0),
            messages: members.messages(),
            message_bytes: members.bytes(),
            elsewhere: members.elsewhere(),
            pages,
        }
    }

    fn counts(&self, took: Duration, heap: Heap, pages: u64) -> Counts {
        let elsewhere = self.members.elsewhere() - self.elsewhere;
        let told = Counts::of(took.saturating_sub(elsewhere), heap);
        Counts {
            kept_bytes: told.kept_bytes + pages.saturating_sub(self.pages),
            questions: self.boot.questions().unwrap_or(0) - self.questions,
            messages: self.members.messages() - self.messages,
            message_bytes: self.members.bytes() - self.message_bytes,
            ..told
        }
    }
}

/// Times what is done, with what the heap had to give for it.
fn measured<T>(act: impl FnOnce() -> Result<T, String>) -> Result<(T, Duration, Heap), String> {
    let ((result, took), heap) = HEAP.during(|| {
        let start = Instant::now();
        let result = act();
        (result, start.elapsed())
    });
    Ok((result?, took, heap))
}

impl Process {
    pub(super) fn new(size: u32, ppn: u32, splits: u32) -> Process {
        Process { size, ppn, splits }
    }

    /// Ranks at a distance of the sides of a cube.
    fn neighbours(&self, rank: u32) -> Vec<u32> {
        let side = f64::from(self.size).cbrt() as i64;
        let at = |step: i64| (i64::from(rank) + step).rem_euclid(i64::from(self.size)) as u32;
        let steps = directions().map(|by| {
            let [z, y, x] = by.map(i64::from);
            (z * side + y) * side + x
        });
        steps.map(at).collect()
    }

    /// Odd and even members, so often as splits are asked for.
    fn split(&self, all: &Communicator<Null>) -> Result<Vec<Option<Communicator<Null>>>, String> {
        let rank = all.rank();
        let (color, key) = odd_even(rank);
        let members = (all.size() + 1 - rank % 2) / 2;
        let mut kept = Vec::with_capacity(self.splits as usize);
        for _ in 0..self.splits {
            let half = all.split(color, key).map_err(say)?;
            if half.as_ref().is_none_or(|it| (it.size(), it.rank()) != (members, rank / 2)) {
                return Err("a split is not what it should be".into());
            }
            kept.push(half);
        }
        Ok(kept)
    }

    /// From its start to its end.
    pub(super) fn lives(&self) -> Result<Steps, String> {
        let mut steps = Steps::default();
        // (In a gather of all, rank 0 comes amidst one of the messages of a rank here, as of
        // ranks on the average.)
        let rank = self.size / 4 * 3 / self.ppn * self.ppn;
        let members = Rc::new(SimulatedMembers::new(self.size, rank, odd_even));
        let open = || -> Result<(Arc<Simulated>, Rc<Context<Null>>), String> {
            let boot = Arc::new(Simulated::new(self.size, rank, self.ppn).map_err(say)?);
            let context = Device::open(boot.clone(), Some(Null::open()), Some(Null::open()), false);
            Ok((boot, context.map_err(say)?))
        };
        let mut best: Option<Counts> = None;
        for _ in 0..ROUNDS {
            let ((boot, context), took, heap) = measured(open)?;
            // (Nobody has said anything before.)
            let mut counts = Counts::of(took, heap);
            counts.kept_bytes += pages(context.device())?;
            counts.questions = boot.questions().unwrap_or(0);
            if best.is_none_or(|best| counts.microseconds < best.microseconds) {
                best = Some(counts);
            }
        }
        steps[0] = best.unwrap_or_default();

        let (boot, context) = open()?;
        let device = Arc::clone(context.device());
        let world = Communicator::world(&context);
        let world = world.with_allgather(world.map().clone(), rank, 0, members.clone());
        let begin =
            || -> Result<Meter<'_>, String> { Ok(Meter::new(&boot, &members, pages(&device)?)) };
        let neighbours = self.neighbours(rank);

        let meter = begin()?;
        let ((), took, heap) = measured(|| {
            neighbours.iter().try_for_each(|&peer| {
                let process = rankway::rankmap::Process { pg: 0, lpid: peer };
                context.connect(process).map(drop).map_err(say)
            })
        })?;
        steps[1] = meter.counts(took, heap, pages(&device)?).each(NEIGHBOURS as u32);

        let meter = begin()?;
        let (kept, took, heap) = measured(|| self.split(&world))?;
        steps[2] = meter.counts(took, heap, pages(&device)?).each(self.splits);
        // Of an even job without its first rank, even ranks are one more than odd ones, and this
        // process has an odd one: what members say does not come round.
        let skip = u32::from(rank > 0);
        let fewer = RankMap::affine(0, skip, 1, self.size - 1).map_err(say)?;
        let members = Rc::new(SimulatedMembers::new(self.size - 1, rank - skip, odd_even));
        let fewer = world.with_allgather(fewer, rank - skip, 1, members.clone());
        let meter = Meter::new(&boot, &members, pages(&device)?);
        let (_, took, heap) = measured(|| self.split(&fewer))?;
        steps[3] = meter.counts(took, heap, pages(&device)?).each(self.splits);
        drop(fewer);

        let meter = begin()?;
        let mut memory = vec![0_u64; 1024];
        let (start, bytes) = (memory.as_mut_ptr().cast(), size_of_val(&memory[..]));
        let (window, took, heap) = measured(|| {
            // SAFETY: the memory outlives the window, and nobody else is there.
            unsafe { Window::create(&world, start, bytes, DISPLACEMENT_UNIT) }.map_err(say)
        })?;
        steps[4] = meter.counts(took, heap, pages(&device)?);
        let puts = || -> Result<(), String> {
            for &peer in &neighbours {
                window.put(&[1; 8], peer, 0).map_err(say)?;
            }
            window.flush_all().map_err(say)
        };
        window.lock_all_with(Assert::NOCHECK).map_err(say)?;
        puts()?;
        let meter = begin()?;
        let ((), took, heap) = measured(|| (0..ROUNDS).try_for_each(|_| puts()))?;
        steps[5] = meter.counts(took, heap, pages(&device)?).each(ROUNDS);
        window.unlock_all().map_err(say)?;
        drop(window);
        drop(memory);

        let meter = begin()?;
        let ((), took, heap) = measured(|| {
            drop(kept);
            drop(world);
            drop(context);
            boot.finalize().map_err(say)
        })?;
        steps[6] = meter.counts(took, heap, 0);
        Ok(steps)
    }
}
