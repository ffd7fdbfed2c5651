//! Messages of peers that nothing was sent to, while there is no free descriptor, or no memory, to
//! reach them.

use super::{Opens, pattern, same};
use crate::ensure;
use crate::harness::{Result, text};
use rankway::boot::Boot;
use rankway::msg::{Active, HandlerStatus, Messenger, MsgError};
use rankway::rma::Communicator;
use std::cell::Cell;
use std::fs::File;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LONG: usize = 4 << 20;

/// All descriptors that this process may have, of few.
fn all_descriptors() -> Result<Vec<File>> {
    let limit = libc::rlimit { rlim_cur: 256, rlim_max: 256 };
    // SAFETY: a structure of ours.
    ensure!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } == 0, "setrlimit failed");
    Ok(std::iter::from_fn(|| File::open("/dev/null").ok()).collect())
}

/// Rank 0 receives a synchronous message, and a long one, when no descriptor is free: the senders
/// hear of both once there are some.
pub fn none<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let m = Messenger::open(&world).map_err(text)?;
    let told = |sent: std::result::Result<(), MsgError>| match sent {
        Err(e) if e.peer() != Some(0) => Err(text(e)),
        _ => Ok(()),
    };
    match world.rank() {
        0 => {
            let mut buf = vec![0; LONG];
            let all = all_descriptors()?;
            // (A wait may fail, too, before the message is there.)
            for from in [1, 2] {
                while !matches!(m.iprobe(from, from), Ok(Some(_))) {}
            }
            let status = m.recv(&mut buf, 1, 1).map_err(text)?;
            same("synchronous", &buf[..8], &pattern(1, 8))?;
            ensure!(status.length == 8, "{status:?}");
            match m.recv(&mut buf, 2, 2) {
                Ok(_) => same("long", &buf, &pattern(2, LONG))?,
                Err(e) => ensure!(e.to_string().contains("ulimit -n"), "{e}"),
            }
            drop(all);
            m.send(&[1], 1, 4).map_err(text)?;
        }
        1 => {
            m.ssend(&pattern(1, 8), 0, 1).map_err(text)?;
            // (Who calls rank 0 for a barrier would have its waits fail.)
            m.recv(&mut [0], 0, 4).map_err(text)?;
        }
        _ => told(m.send(&pattern(2, LONG), 0, 2))?,
    }
    world.barrier().map_err(text)?;
    // They go on from there.
    let mut buf = vec![0; LONG];
    if world.rank() == 0 {
        for from in 1..3 {
            m.recv(&mut buf, from, 3).map_err(text)?;
            same("later", &buf, &pattern(from, LONG))?;
        }
    } else {
        m.ssend(&pattern(world.rank(), LONG), 0, 3).map_err(text)?;
    }
    world.barrier().map_err(text)
}

/// Rank 0 carries out active messages when no descriptor is free to give credit back: who sends
/// more than that goes on once there is one.
pub fn credit<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const MANY: usize = 400;
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let active = Active::open(&context).map_err(text)?;
    if world.rank() == 0 {
        let came = Rc::new(Cell::new(0));
        let count = Rc::clone(&came);
        let handler = move |_: &mut rankway::msg::Call<'_, N>| {
            count.set(count.get() + 1);
            HandlerStatus::Consumed
        };
        active.register(1, handler).map_err(text)?;
        let all = all_descriptors()?;
        let (start, some) = (Instant::now(), Duration::from_millis(300));
        while came.get() == 0 || start.elapsed() < some {
            context.progress().map_err(text)?;
        }
        ensure!(came.get() < MANY, "no credit was needed");
        drop(all);
        while came.get() < MANY {
            context.progress().map_err(text)?;
        }
    } else {
        for _ in 0..MANY {
            active.send(0, 1, &[], &[7; 8192]).map_err(text)?;
        }
    }
    world.barrier().map_err(text)
}

/// What this process may map: so much more than it has, or as much as it likes.
fn limit_memory(more: Option<u64>) -> Result {
    let statm = std::fs::read_to_string("/proc/self/statm").map_err(text)?;
    let pages = statm.split(' ').next().and_then(|word| word.parse::<u64>().ok());
    // SAFETY: asks for a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let most = more.zip(pages).map(|(more, pages)| pages * page + more);
    let rlim_cur = most.unwrap_or(libc::RLIM_INFINITY);
    let limit = libc::rlimit { rlim_cur, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a structure of ours.
    ensure!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) } == 0, "setrlimit failed");
    Ok(())
}

/// Rank 0 may map too little for what its library takes with the first message, which says that it
/// has no space now, for ever: the wait says why, and once there is memory the message goes.
pub fn memory<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let m = Messenger::open(&world).map_err(text)?;
    let mut buf = [0; 8];
    if world.rank() == 0 {
        limit_memory(Some(4 << 20))?;
        m.send(&pattern(0, 8), 1, 1).map_err(text)?;
        let told = m.recv(&mut buf, 1, 2);
        limit_memory(None)?;
        if let Err(e) = told {
            ensure!(e.peer() == Some(1) && e.to_string().contains("ulimit -v"), "{e}");
            m.recv(&mut buf, 1, 2).map_err(text)?;
        }
        same("answer", &buf, &pattern(1, 8))?;
    } else {
        m.recv(&mut buf, 0, 1).map_err(text)?;
        same("first", &buf, &pattern(0, 8))?;
        m.send(&pattern(1, 8), 0, 2).map_err(text)?;
    }
    world.barrier().map_err(text)
}
