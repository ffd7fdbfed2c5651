//! Scopes of messages: their buffers are the caller's when they return.

use crate::ensure;
use crate::harness::{Opens, Result, die, panic_of, print_pid, text};
use rankway::boot::Boot;
use rankway::msg::{Active, Any, HandlerStatus, Messenger, MsgError};
use rankway::rma::Communicator;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The rank that is killed where one is.
const VICTIM: u32 = 1;
/// Longer than what any provider sends whole.
const LONG: usize = 300_000;

fn values(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| i.wrapping_mul(0x9e37_79b9) ^ seed << 20).collect()
}

/// Sends to the right and receives from the left, all lengths under way
/// together, one of them waited for within the scope.
pub fn exchange<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    const LENS: [usize; 7] = [0, 1, 30, 1000, 20_000, LONG, 4];
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, size) = (world.rank(), world.size());
    let (left, right) = ((me + size - 1) % size, (me + 1) % size);
    let messages = Messenger::open(&world).map_err(text)?;
    let ours: Vec<Vec<u32>> = LENS.iter().map(|&len| values(me, len)).collect();
    let mut theirs: Vec<Vec<u32>> = LENS.iter().map(|&len| vec![0; len]).collect();
    let mut first = [0.0; 2];
    for round in 0..3 {
        messages
            .scope(|s| {
                let early = s.recv(&mut first, left, 100)?;
                for ((tag, ours), theirs) in (0..).zip(&ours).zip(&mut theirs) {
                    s.recv(theirs, left, tag)?;
                    if tag % 2 == 0 {
                        s.send(ours, right, tag)?
                    } else {
                        s.ssend(ours, right, tag)?
                    }
                }
                s.send(&[0.5, 1.5], right, 100)?;
                let (status, first) = early.wait()?;
                assert_eq!((status.source(), status.tag(), status.length), (left, 100, 16));
                assert_eq!(first, [0.5, 1.5]);
                first[0] = 2.5;
                Ok(())
            })
            .map_err(text)?;
        ensure!(first == [2.5, 1.5], "{first:?}");
        for (theirs, len) in theirs.iter_mut().zip(LENS) {
            ensure!(*theirs == values(left, len), "{len} elements in round {round}");
            theirs.fill(0);
        }
    }
    world.barrier().map_err(text)
}

/// Makes progress for some time, in which nobody may write here.
fn stay<N: Opens>(messages: &Messenger<'_, N>, buf: &[u32], time: Duration) -> Result {
    let start = Instant::now();
    while start.elapsed() < time {
        messages.tagged().context().progress().map_err(text)?;
        std::thread::yield_now();
    }
    let late = buf.iter().filter(|&&value| value != !0).count();
    ensure!(late == 0, "{late} elements were written after the scope had returned");
    Ok(())
}

/// After an error receives without a message are taken back, and messages to
/// this process itself; what was sent arrives.
pub fn error<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, other) = (world.rank(), 1 - world.rank());
    let messages = Messenger::open(&world).map_err(text)?;
    let (ours, mut none) = (values(me, LONG), vec![0; LONG]);
    let mut theirs = vec![0; LONG];
    if me == 0 {
        let failed = messages.scope(|s| {
            s.recv(&mut none, other, 9)?;
            s.recv(&mut theirs, other, 1)?;
            s.ssend(&ours, me, 5)?;
            s.send(&ours, other, 1)?;
            s.send(&ours, 17, 1)
        });
        let why = failed.map_err(text).err().ok_or("no error")?;
        ensure!(why.contains("rank 17 is out of range"), "{why}");
    } else {
        let both = messages.scope(|s| {
            s.recv(&mut theirs, other, 1)?;
            s.send(&ours, other, 1)
        });
        both.map_err(text)?;
    }
    if theirs[0] == 0 && theirs[1] == 0 {
        // Its message came after the error.
        messages.scope(|s| s.recv(&mut theirs, other, 1).map(drop)).map_err(text)?;
    }
    ensure!(theirs == values(other, LONG), "what was sent before the error");
    ensure!(messages.iprobe(me, 5).map_err(text)?.is_none(), "a message to itself is left");
    none.fill(!0);
    world.barrier().map_err(text)?;
    messages.send(&[1; 8], other, 9).map_err(text)?;
    stay(&messages, &none, Duration::from_millis(200))?;
    let mut got = [0; 8];
    messages.recv(&mut got, other, 9).map_err(text)?;
    // Too long: the scope's error, and the others are there.
    let (mut short, mut fits) = ([0_u32; 2], [0_u32; 2]);
    let truncated = messages.scope(|s| {
        s.recv(&mut short, other, 20)?;
        s.recv(&mut fits, other, 21)?;
        s.send(&[1_u32, 2, 3], other, 20)?;
        s.send(&[4_u32, 5], other, 21)
    });
    ensure!(matches!(truncated, Err(MsgError::Truncated { .. })), "{truncated:?}");
    ensure!(fits == [4, 5], "{fits:?}");
    world.barrier().map_err(text)
}

/// The same after a panic, which goes on.
pub fn panic<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, other) = (world.rank(), 1 - world.rank());
    let messages = Messenger::open(&world).map_err(text)?;
    let ours = values(me, LONG);
    let mut none = vec![0; LONG];
    let said = panic_of(|| {
        messages.scope(|s| -> std::result::Result<(), _> {
            s.recv(&mut none, Any, 9)?;
            s.send(&[0_u32; 4], other, 1)?;
            s.ssend(&ours, me, 5)?;
            panic!("amidst");
        })
    })?;
    ensure!(said == "amidst", "it said {said:?}");
    none.fill(!0);
    world.barrier().map_err(text)?;
    messages.send(&[1; 8], other, 9).map_err(text)?;
    stay(&messages, &none, Duration::from_millis(200))?;
    let mut got = [0; 16];
    messages.recv(&mut got, other, 1).map_err(text)?;
    messages.recv(&mut got, other, 9).map_err(text)?;
    ensure!(messages.iprobe(me, 5).map_err(text)?.is_none(), "a message to itself is left");
    world.barrier().map_err(text)
}

/// Scopes of both ranks fail or panic with long messages to each other under
/// way: neither waits for ever, and what was sent arrives.
pub fn both_fail<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, other) = (world.rank(), 1 - world.rank());
    let messages = Messenger::open(&world).map_err(text)?;
    let ours = values(me, LONG);
    let mut theirs = vec![0; LONG];
    for round in 0..40 {
        theirs.fill(0);
        let mut fail = |panics: bool| {
            messages.scope(|s| {
                s.recv(&mut theirs, other, 1)?;
                s.send(&ours, other, 1)?;
                assert!(!panics, "amidst");
                s.send(&ours, 17, 1)
            })
        };
        // Both panic, one does, none does.
        if round % 4 == 0 || round % 4 == 1 + me {
            let said = panic_of(|| fail(true).map_err(text))?;
            ensure!(said == "amidst", "it said {said:?}");
        } else {
            let why = fail(false).map_err(text).err().ok_or("no error")?;
            ensure!(why.contains("rank 17 is out of range"), "{why}");
        }
        if theirs[LONG - 1] == 0 {
            // Ours was taken before theirs had come.
            messages.scope(|s| s.recv(&mut theirs, other, 1).map(drop)).map_err(text)?;
        }
        ensure!(theirs == values(other, LONG), "what was sent before the failure, round {round}");
        world.barrier().map_err(text)?;
    }
    Ok(())
}

/// A handler of active messages panics in the wait for a receive: its buffer is
/// the caller's, also that of a receive that is no scope's.
pub fn handler_panic<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let (me, other) = (world.rank(), 1 - world.rank());
    let messages = Messenger::open(&world).map_err(text)?;
    let active = Active::open(&context).map_err(text)?;
    let handler = active.register(1, |call| {
        assert!(call.payload.is_empty(), "in a handler");
        HandlerStatus::Consumed
    });
    handler.map_err(text)?;
    let ours = values(me, LONG);
    world.barrier().map_err(text)?;
    for scoped in [true, false] {
        if me == 0 {
            let mut buf = vec![0_u32; LONG];
            messages.send(&[], other, 6).map_err(text)?;
            let said = panic_of(|| match scoped {
                true => messages.scope(|s| s.recv(&mut buf, other, 3).map(drop)).map_err(text),
                false => {
                    let mut bytes = [0; 64];
                    messages.recv(&mut bytes, other, 3).map(drop).map_err(text)
                }
            })?;
            ensure!(said == "in a handler", "it said {said:?}");
            buf.fill(!0);
            messages.send(&[], other, 4).map_err(text)?;
            stay(&messages, &buf, Duration::from_millis(200))?;
            let mut got = vec![0; 4 * LONG];
            messages.recv(&mut got, other, 3).map_err(text)?;
        } else {
            messages.recv(&mut [], other, 6).map_err(text)?;
            active.send(other, 1, &[], &[1]).map_err(text)?;
            messages.recv(&mut [], other, 4).map_err(text)?;
            messages.scope(|s| s.send(&ours, other, 3)).map_err(text)?;
        }
    }
    world.barrier().map_err(text)
}

/// A peer dies amidst scopes: it is named, buffers are the caller's again, and
/// the living go on.
pub fn dead<N: Opens>(boot: Arc<dyn Boot>) -> Result {
    print_pid();
    let context = N::open(boot)?;
    let world = Communicator::world(&context);
    let me = world.rank();
    let messages = Messenger::open(&world).map_err(text)?;
    let start = Instant::now();
    if me == VICTIM {
        let mut got = vec![0_u32; LONG];
        let ours = values(me, LONG);
        while start.elapsed() < Duration::from_millis(300) {
            for rank in [0, 2] {
                messages
                    .scope(|s| {
                        s.recv(&mut got, rank, 1)?;
                        s.send(&ours, rank, 1)
                    })
                    .map_err(text)?;
            }
        }
        die();
    }
    let other = 2 - me;
    let ours = values(me, LONG);
    let (mut theirs, mut lost) = (vec![0; LONG], vec![0; LONG]);
    let why = loop {
        let round = messages.scope(|s| {
            s.recv(&mut lost, VICTIM, 1)?;
            s.send(&ours, VICTIM, 1)
        });
        if let Err(e) = round {
            break e;
        }
        ensure!(lost == values(VICTIM, LONG), "received before the death");
        ensure!(start.elapsed() < Duration::from_secs(20), "it does not die");
    };
    ensure!(why.peer() == Some(VICTIM), "{why}");
    lost.fill(!0);
    stay(&messages, &lost, Duration::from_millis(500))?;
    messages
        .scope(|s| {
            s.recv(&mut theirs, other, 2)?;
            s.send(&ours, other, 2)
        })
        .map_err(text)?;
    ensure!(theirs == values(other, LONG), "received from the living after the death");
    // Its own end is not what the other should hear of.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        context.progress().map_err(text)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
