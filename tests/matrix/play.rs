//! Plays programs over the library: one rank's part of them, compared with
//! what the oracle says.

use super::factors::{Memory, Threads};
use super::oracle::{self, Answers, Touched};
use super::perform::{Guarded, Perform};
use super::program::{Epoch, Frame, Phase, Program, Sync};
use super::watch::{Doing, Watch};
use super::workers::{Job, Workers};
use crate::harness::{Opens, Result, text};
use rankway::device::Context;
use rankway::netmod::Netmod;
use rankway::rma::{Assert, Backing, Communicator, Window};
use std::cell::RefCell;
use std::sync::Arc;

/// A window, the program's own memory where it has some, and where the memory
/// of each rank begins if displacements are addresses.
struct Held<N: Netmod> {
    window: Window<N>,
    memory: Guarded,
    starts: Arc<[usize]>,
    /// The memory that is looked at here: whose it is, where it begins, and what it
    /// has to hold. Places that a phase does not touch keep what they held.
    models: Vec<(u32, *mut u8, RefCell<Vec<u8>>)>,
}

impl<N: Netmod> Held<N> {
    fn make(world: &Communicator<N>, frame: &Frame, looks: &[u32], seed: u64) -> Result<Held<N>> {
        let me = world.rank() as usize;
        let (bytes, unit) = (frame.sizes[me], frame.units[me]);
        let own_memory = matches!(frame.memory, Memory::Created | Memory::Dynamic);
        let memory = Guarded::new(if own_memory { bytes } else { 0 }, frame.skew);
        let made = match frame.memory {
            // SAFETY: the memory is kept beside the window and dropped after it.
            Memory::Created => unsafe { Window::create(world, memory.start(), bytes, unit) },
            Memory::Allocated | Memory::Apart => Window::allocate(world, bytes, unit),
            Memory::Shared => Window::shared(world, bytes, unit),
            Memory::Dynamic => Window::dynamic(world),
            Memory::Provided => Window::allocate_with(world, bytes, unit, Backing::Provider),
            Memory::Direct => Window::allocate_with(world, bytes, unit, Backing::Direct),
        };
        let window = made.map_err(text)?;
        let mut starts = Vec::new();
        if frame.memory == Memory::Dynamic {
            let start = match bytes {
                0 => 0,
                // SAFETY: as above.
                _ => unsafe { window.attach(memory.start(), bytes) }.map_err(text)?,
            };
            let told = world.allgather(&start.to_ne_bytes()).map_err(text)?;
            let word = |b: &Vec<u8>| b[..].try_into().map(usize::from_ne_bytes);
            starts = told.iter().map(word).collect::<std::result::Result<_, _>>().map_err(text)?;
        }
        let mut models = Vec::new();
        for &rank in looks {
            let at = match rank == world.rank() {
                true if frame.memory == Memory::Dynamic => memory.start(),
                true => window.local().map_err(text)?.0,
                false => window.shared_query(rank).map_err(text)?.0,
            };
            let holds = oracle::filled(seed, 0, rank, 0, frame.sizes[rank as usize]);
            if rank == world.rank() {
                // SAFETY: this process's memory of the window, before anybody uses it.
                unsafe { at.copy_from_nonoverlapping(holds.as_ptr(), holds.len()) };
            }
            models.push((rank, at, RefCell::new(holds)));
        }
        Ok(Held { window, memory, starts: starts.into(), models })
    }
}

/// One rank: its windows, and its threads at work.
pub struct Player<'a, N: Opens> {
    context: &'a Context<N>,
    world: &'a Communicator<N>,
    workers: &'a Workers<N>,
    watch: &'a Watch,
    frame: Option<Frame>,
    held: Vec<Held<N>>,
    /// What came out otherwise than the oracle says, in this program.
    wrong: RefCell<Vec<String>>,
    /// Programs in which something did.
    pub failures: usize,
}

impl<'a, N: Opens> Player<'a, N> {
    pub fn new(
        context: &'a Context<N>,
        world: &'a Communicator<N>,
        workers: &'a Workers<N>,
        watch: &'a Watch,
    ) -> Player<'a, N> {
        let (held, wrong, failures) = (Vec::new(), RefCell::default(), 0);
        Player { context, world, workers, watch, frame: None, held, wrong, failures }
    }

    fn me(&self) -> usize {
        self.world.rank() as usize
    }

    /// Whose memory is looked at here: neighbours', too, where it is shared.
    fn looks(&self, program: &Program) -> Vec<u32> {
        let me = self.world.rank();
        match program.frame.memory {
            Memory::Shared | Memory::Apart => vec![me, (me + 1) % self.world.size()],
            _ => vec![me],
        }
    }

    /// Plays a program: an error if it cannot go on, else what is wrong is noted.
    pub fn play(&mut self, program: &Program) -> Result {
        self.watch.begins(program.number, &program.name);
        if self.frame.as_ref() != Some(&program.frame) {
            self.close()?;
            self.watch.now(Doing::Word("making a window"));
            let (looks, seed) = (self.looks(program), program.number as u64);
            for window in 0..program.frame.windows() {
                let seed = seed << 1 | window as u64;
                self.held.push(Held::make(self.world, &program.frame, &looks, seed)?);
            }
            self.frame = Some(program.frame.clone());
        }
        program.phases.iter().try_for_each(|phase| self.phase(program, phase))?;
        let wrong = self.wrong.take();
        if let Some(first) = wrong.first() {
            let (me, more) = (self.me(), wrong.len() - 1);
            let Program { number, name, .. } = program;
            eprintln!("FAILED case {number} ({name}): rank {me}: {first} (and {more} more)");
            self.failures += 1;
        }
        Ok(())
    }

    /// Frees the windows.
    pub fn close(&mut self) -> Result {
        self.watch.now(Doing::Word("freeing a window"));
        self.frame = None;
        let (me, world) = (self.me(), self.world);
        self.held.drain(..).try_for_each(|mut held| {
            world.barrier().map_err(text)?;
            if held.starts.get(me).is_some_and(|&start| start != 0) {
                held.window.detach(held.memory.start()).map_err(text)?;
            }
            held.window.free().map_err(text)
        })
    }

    fn phase(&mut self, program: &Program, phase: &Phase) -> Result {
        let looks = self.looks(program);
        let mut touched = Touched::new(program, phase, self.me() as u32, &looks);
        for (held, places) in self.held.iter().zip(&touched.places) {
            for (rank, at, _) in held.models.iter().filter(|of| of.0 == self.world.rank()) {
                // SAFETY: this process's memory of the window, between epochs of all.
                unsafe { places[*rank as usize].write(*at) };
            }
        }
        let answers = touched.carry_out();
        for (held, places) in self.held.iter().zip(&touched.places) {
            for (rank, _, model) in &held.models {
                // SAFETY: as long as the memory, and this function's alone.
                unsafe { places[*rank as usize].write(model.borrow_mut().as_mut_ptr()) };
            }
        }
        self.watch.now(Doing::Word("barrier before the phase"));
        self.world.barrier().map_err(text)?;
        match program.frame.threads {
            Threads::One | Threads::Multiple => self.alone(program, phase, &answers)?,
            _ => self.threads(program, phase, answers)?,
        }
        self.watch.now(Doing::Word("barrier behind the phase"));
        self.world.barrier().map_err(text)?;
        self.compare(program, phase, "after the epoch");
        // Neighbours look at this memory, too.
        if looks.len() > 1 { self.world.barrier().map_err(text) } else { Ok(()) }
    }

    /// The ranks that work on this one's memory in a window.
    fn origins(&self, program: &Program, phase: &Phase, window: usize) -> Vec<u32> {
        let me = self.me() as u32;
        let works = |threads: &Vec<Vec<Epoch>>| {
            let mine = threads
                .iter()
                .enumerate()
                .filter(|&(thread, _)| program.frame.window_of(thread) == window);
            mine.flat_map(|(_, epochs)| epochs).any(|e| e.targets.contains(&me))
        };
        (0..).zip(&phase.work).filter(|(_, threads)| works(threads)).map(|(rank, _)| rank).collect()
    }

    /// By the window's own access, in this thread.
    fn alone(&self, program: &Program, phase: &Phase, answers: &[Answers]) -> Result {
        let held = &self.held[0];
        let window = &held.window;
        if phase.sync == Sync::Group {
            self.watch.now(Doing::Word("post"));
            window.post(&self.origins(program, phase, 0), Assert::NONE).map_err(text)?;
        }
        if phase.sync == Sync::Fence {
            self.watch.now(Doing::Word("fence before"));
            window.fence_with(Assert::NOPRECEDE).map_err(text)?;
        }
        let perform = Perform {
            access: window,
            frame: &program.frame,
            starts: &held.starts,
            watch: self.watch,
            wrong: &self.wrong,
        };
        let epochs = phase.work[self.me()][0].iter().zip(&answers[0]);
        for (epoch, before) in epochs {
            let between = || match phase.held {
                true => self.look(program, phase),
                false => Ok(()),
            };
            let assert =
                if phase.seed.is_multiple_of(2) { Assert::NONE } else { Assert::NOSUCCEED };
            let fence = || window.fence_with(assert).map_err(text);
            perform.epoch(epoch, before, between, fence)?;
        }
        if phase.sync == Sync::Group {
            self.watch.now(Doing::Word("wait"));
            window.wait().map_err(text)?;
        }
        Ok(())
    }

    /// By accesses of other threads, while this one makes progress.
    fn threads(&self, program: &Program, phase: &Phase, answers: Vec<Answers>) -> Result {
        let mut exposed = Vec::new();
        if phase.sync == Sync::Group {
            for (window, held) in self.held.iter().enumerate() {
                self.watch.now(Doing::Word("post"));
                let origins = self.origins(program, phase, window);
                held.window.post(&origins, Assert::NONE).map_err(text)?;
                exposed.push(&held.window);
            }
        }
        self.watch.now(Doing::Word("threads at work"));
        for (thread, (epochs, before)) in phase.work[self.me()].iter().zip(answers).enumerate() {
            let held = &self.held[program.frame.window_of(thread)];
            self.workers.start(
                thread,
                Job {
                    state: held.window.state().map_err(text)?,
                    map: self.world.map().clone(),
                    frame: program.frame.clone(),
                    starts: Arc::clone(&held.starts),
                    epochs: epochs.clone(),
                    before,
                    held: phase.held,
                },
            );
        }
        let progress = || self.context.progress().map(drop).map_err(text);
        if phase.held {
            self.workers.reached(progress)?;
            self.look(program, phase)?;
            self.workers.go_on();
        }
        let wrong = self.workers.done(|| {
            let mut left = Ok(());
            exposed.retain(|window| match window.test() {
                Ok(done) => !done,
                Err(e) => {
                    left = Err(text(e));
                    false
                }
            });
            left.and_then(|()| progress())
        })?;
        self.wrong.borrow_mut().extend(wrong);
        self.watch.now(Doing::Word("wait"));
        exposed.into_iter().try_for_each(|window| window.wait().map_err(text))
    }

    /// Within an epoch whose operations are done everywhere.
    fn look(&self, program: &Program, phase: &Phase) -> Result {
        self.watch.now(Doing::Word("barrier behind the flush"));
        self.world.barrier().map_err(text)?;
        self.compare(program, phase, "after the flush");
        self.world.barrier().map_err(text)
    }

    /// All memory with what the oracle says.
    fn compare(&self, program: &Program, phase: &Phase, when: &str) {
        for (number, held) in self.held.iter().enumerate() {
            for (rank, at, model) in &held.models {
                let mut want = model.borrow_mut();
                if want.is_empty() {
                    continue;
                }
                // SAFETY: mapped memory of a window that nobody writes to now.
                let got = unsafe { std::slice::from_raw_parts(*at, want.len()) };
                if got == &want[..] {
                    continue;
                }
                let byte = got.iter().zip(&want[..]).position(|(g, w)| g != w).unwrap_or(0);
                let (is, was) = (got[byte], want[byte]);
                let who = who(program, phase, number, *rank, byte);
                self.wrong.borrow_mut().push(format!(
                    "{when}: window {number}, memory of rank {rank}: byte {byte} is {is:02x}, not \
                     {was:02x}: {who}"
                ));
                // Told once, not in each case from now on.
                want.copy_from_slice(got);
            }
            if let Err(why) = held.memory.intact() {
                self.wrong.borrow_mut().push(format!("{when}: window {number}: {why}"));
            }
        }
    }
}

/// Whose steps change a byte.
fn who(program: &Program, phase: &Phase, window: usize, target: u32, byte: usize) -> String {
    let mut all = Vec::new();
    for (rank, threads) in phase.work.iter().enumerate() {
        for (thread, epochs) in threads.iter().enumerate() {
            if program.frame.window_of(thread) != window {
                continue;
            }
            for (epoch, step) in epochs.iter().flat_map(|e| e.steps.iter().map(move |s| (e, s))) {
                if step.to == target && (step.at..step.at + step.span()).contains(&byte) {
                    let (kind, step) = (epoch.kind, step.name());
                    all.push(format!("{step} by rank {rank}, thread {thread} in {kind:?}"));
                }
            }
        }
    }
    let more = all.len().saturating_sub(4);
    all.truncate(4);
    format!(
        "{}{}",
        all.join("; "),
        if more > 0 { format!("; and {more} more") } else { String::new() }
    )
}
