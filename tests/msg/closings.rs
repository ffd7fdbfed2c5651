//! Contexts that close with something that nobody receives any more.

use super::sleeps::beside;
use super::{Opens, pattern};
use crate::ensure;
use crate::harness::{Result, text};
use rankway::boot::Boot;
use rankway::msg::{Messenger, MsgError};
use rankway::rma::Communicator;
use std::sync::Arc;
use std::sync::mpsc::TryRecvError;

const LONG: usize = 4 << 20;

/// Sends that are let go of: so many short ones, a synchronous one, a long one. The receiver may
/// have left.
fn let_go<N: Opens>(m: &Messenger<'_, N>, to: u32, tag: u32, short: u32) -> Result {
    let bytes = pattern(tag, LONG).leak();
    // SAFETY: the buffer is there for ever.
    let send = |len| unsafe { m.isend(bytes.as_ptr(), len, to, tag) }.map(drop);
    // SAFETY: as above.
    let synchronous = || unsafe { m.issend(bytes.as_ptr(), 8, to, tag) }.map(drop);
    let mut all = (0..short).map(|_| send(8)).chain([synchronous(), send(LONG)]);
    match all.find_map(std::result::Result::err) {
        Some(e) if e.peer() != Some(to) => Err(text(e)),
        _ => Ok(()),
    }
}

/// All let go of sends that the others do not receive, and of receives, and leave: as where each
/// returns early, with the same error.
pub fn all<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let m = Messenger::open(&world).map_err(text)?;
    let (me, n) = (world.rank(), world.size());
    let mut buf = vec![0; LONG];
    // SAFETY: it is taken back before the buffer goes.
    drop(unsafe { m.irecv(buf.as_mut_ptr(), LONG, (me + n - 1) % n, 2) }.map_err(text)?);
    // More than there are places for on the way.
    let_go(&m, (me + 1) % n, 1, 3000)
}

/// Who waits for a send that its peer does not receive before it leaves is told so.
pub fn one<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let m = Messenger::open(&world).map_err(text)?;
    if world.rank() == 1 {
        m.recv(&mut [0; 8], 0, 3).map_err(text)?;
        return Ok(());
    }
    let bytes = pattern(1, LONG);
    // SAFETY: waited for below.
    let sent = [8, LONG].map(|len| unsafe { m.issend(bytes.as_ptr(), len, 1, 1) });
    m.send(&bytes[..8], 1, 3).map_err(text)?;
    for (sent, len) in sent.into_iter().zip([8, LONG]) {
        let told = sent.map_err(text)?.wait().map_err(|e: MsgError| e.peer());
        ensure!(matches!(told, Err(Some(1))), "{len} bytes: {told:?}");
    }
    Ok(())
}

/// Sends are let go of whose receiver's context is closed by then, and was met before or not,
/// while its process goes on.
pub fn further<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open_with(boot, &rankway::device::Options::default().threads(true))?;
    let world = Communicator::world(&context);
    let m = Messenger::open(&world).map_err(text)?;
    for met in [false, true] {
        if world.rank() == 1 {
            beside(&context, move |m| {
                if met {
                    m.recv(&mut [0; 8], 0, 5).map_err(text)?;
                    m.send(&[1], 0, 5).map_err(text)?;
                }
                Ok(())
            })?;
            m.send(&[1], 0, 4).map_err(text)?;
            m.recv(&mut [0], 0, 6).map_err(text)?;
            continue;
        }
        let (closed, is_closed) = std::sync::mpsc::channel();
        let told = std::cell::RefCell::new(Some(closed));
        super::sleeps::beside_with(
            &context,
            move |m| {
                if met {
                    m.send(&pattern(5, 8), 1, 5).map_err(text)?;
                    m.recv(&mut [0], 1, 5).map_err(text)?;
                }
                // (Over UCX's tcp the other side is done only as this one makes progress.)
                loop {
                    match is_closed.try_recv() {
                        Ok(()) => break,
                        Err(TryRecvError::Empty) => {
                            m.tagged().context().progress().map_err(text)?
                        }
                        Err(e) => return Err(text(e)),
                    };
                }
                // (Of more, UCX would keep all that it has places for, and send nothing else.)
                let_go(m, 1, 7, 500)
            },
            || {
                let came = m.iprobe(1, 4).map_err(text)?.is_some();
                if came && let Some(closed) = told.take() {
                    m.recv(&mut [0], 1, 4).map_err(text)?;
                    closed.send(()).map_err(text)?;
                }
                Ok(())
            },
        )?;
        m.send(&[1], 1, 6).map_err(text)?;
    }
    world.barrier().map_err(text)
}

/// Contexts that are opened and closed leave no memory of theirs mapped.
pub fn memory<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const CONTEXTS: usize = 20;
    let context = N::open_with(boot, &rankway::device::Options::default().threads(true))?;
    let left = || -> Result<usize> {
        let maps = std::fs::read_to_string("/proc/self/maps").map_err(text)?;
        let is_left = |line: &&str| line.contains("/dev/shm/") && line.ends_with("(deleted)");
        Ok(maps.lines().filter(is_left).count())
    };
    let before = left()?;
    for _ in 0..CONTEXTS {
        drop(context.device().context().map_err(text)?);
    }
    // (What watches them for locks of the dead lets go of them a little later.)
    while left()? >= before + CONTEXTS / 2 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Communicator::world(&context).barrier().map_err(text)
}
