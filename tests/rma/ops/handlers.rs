//! What waits within a handler, and handlers that panic while something is waited for.

use super::*;
use crate::ensure;
use crate::harness::panic_of;
use rankway::device::{Context, DeviceError};
use rankway::msg::{Active, HandlerStatus};
use rankway::rma::{Assert, ErrorKind, Lock};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Registers a handler that panics of what is not empty, and tells of what is.
fn panicking<N: Opens>(context: &Rc<Context<N>>) -> Result<(Active<N>, Rc<Cell<bool>>)> {
    let active = Active::open(context).map_err(text)?;
    let begins = Rc::new(Cell::new(false));
    let told = Rc::clone(&begins);
    active
        .register(1, move |call| -> HandlerStatus {
            assert!(call.payload.is_empty(), "in a handler");
            told.set(true);
            HandlerStatus::Consumed
        })
        .map_err(text)?;
    Ok((active, begins))
}

/// A get that ends in a handler's panic writes nothing any more, be it of one request or of more
/// than may be under way.
pub fn get<N: Opens, const BYTES: usize>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let (active, begins) = panicking(&context)?;
    let w = Window::dynamic(&world).map_err(text)?;
    let mut memory = vec![7_u64; BYTES / 8];
    // SAFETY: it outlives the window.
    let at = unsafe { w.attach(memory.as_mut_ptr().cast(), BYTES) }.map_err(text)?;
    let told = world.allgather(&at.to_ne_bytes()).map_err(text)?;
    let place = usize::from_ne_bytes(told[1][..].try_into().map_err(text)?);
    w.lock_all().map_err(text)?;
    world.barrier().map_err(text)?;
    match me {
        // Asks rank 1, which sleeps; rank 2's message panics in the wait.
        0 => {
            // (By then it does.)
            std::thread::sleep(Duration::from_millis(400));
            active.send(2, 1, &[], &[]).map_err(text)?;
            let mut buf = vec![0_u8; BYTES];
            let said = panic_of(|| w.get(&mut buf, 1, place).map_err(text));
            // (One that was answered at once was not ended.)
            let said = said.or_else(|_| panic_of(|| while context.progress().is_ok() {}))?;
            ensure!(said == "in a handler", "it said {said:?}");
            // It is the caller's again, and the answer comes.
            buf.fill(0xee);
            w.flush(1).map_err(text)?;
            ensure!(buf.iter().all(|&b| b == 0xee), "written to after get has ended");
        }
        1 => std::thread::sleep(Duration::from_millis(2500)),
        _ => {
            while !begins.get() {
                context.progress().map_err(text)?;
            }
            active.send(0, 1, &[], &[1]).map_err(text)?;
        }
    }
    world.barrier().map_err(text)?;
    w.unlock_all().map_err(text)?;
    world.barrier().map_err(text)
}

/// A lock whose wait ends in a handler's panic is nobody's once the target grants it.
pub fn lock_given_up<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let (active, begins) = panicking(&context)?;
    let w = make::<N, KIND>(&world, 64, 8)?;
    // (All have spoken to each other.)
    w.lock(Lock::Shared, 2, Assert::NONE).map_err(text)?;
    w.unlock(2).map_err(text)?;
    world.barrier().map_err(text)?;
    match me {
        0 => {
            std::thread::sleep(Duration::from_millis(400));
            active.send(1, 1, &[], &[]).map_err(text)?;
            let said = panic_of(|| w.lock(Lock::Exclusive, 2, Assert::NONE).map_err(text))?;
            ensure!(said == "in a handler", "it said {said:?}");
            ensure!(w.unlock(2).is_err(), "it holds the lock");
        }
        2 => std::thread::sleep(Duration::from_millis(2500)),
        _ => {
            while !begins.get() {
                context.progress().map_err(text)?;
            }
            active.send(0, 1, &[], &[1]).map_err(text)?;
        }
    }
    world.barrier().map_err(text)?;
    if me == 1 {
        w.lock(Lock::Shared, 2, Assert::NONE).map_err(text)?;
        w.unlock(2).map_err(text)?;
        w.lock_all().map_err(text)?;
        w.unlock_all().map_err(text)?;
    }
    world.barrier().map_err(text)
}

/// A lock that is asked for within a handler is refused, and granted to nobody.
pub fn lock<N: Opens, const KIND: u8>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let active = Active::open(&context).map_err(text)?;
    let w = Rc::new(make::<N, KIND>(&world, 64, 8)?);
    let refused = Rc::new(Cell::new(None));
    let (told, window) = (Rc::clone(&refused), Rc::downgrade(&w));
    active
        .register(1, move |_| {
            if let Some(w) = window.upgrade() {
                let tried = w.lock(Lock::Shared, 0, Assert::NONE);
                let kind = tried.as_ref().map_err(|e| e.kind());
                told.set(Some(matches!(kind, Err(ErrorKind::Device(DeviceError::Nested)))));
            }
            HandlerStatus::Consumed
        })
        .map_err(text)?;
    world.barrier().map_err(text)?;
    if world.rank() == 0 {
        active.send(1, 1, &[], &[1]).map_err(text)?;
    } else {
        while refused.get().is_none() {
            context.progress().map_err(text)?;
        }
        ensure!(refused.get() == Some(true), "not refused");
    }
    world.barrier().map_err(text)?;
    world.barrier().map_err(text)?;
    if world.rank() == 0 {
        // Who was refused holds nothing.
        w.lock(Lock::Exclusive, 0, Assert::NONE).map_err(text)?;
        w.unlock(0).map_err(text)?;
    }
    world.barrier().map_err(text)
}
