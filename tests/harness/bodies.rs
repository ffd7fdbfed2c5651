//! What the bodies of scenarios share: a netmod to open, bytes to send and to
//! compare.

use super::{Result, print_pid, text};
use rankway::boot::Boot;
use rankway::device::{self, Context, Options};
use rankway::netmod::Netmod;
use rankway::rma::{Communicator, Custom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

/// A netmod that scenarios can be played over: any.
pub trait Opens: Netmod {
    fn open_with(boot: Arc<dyn Boot>, options: &Options) -> Result<Rc<Context<Self>>> {
        device::open_over(boot, options).map_err(text)
    }

    fn open(boot: Arc<dyn Boot>) -> Result<Rc<Context<Self>>> {
        Self::open_with(boot, &Options::default())
    }
}

impl<N: Netmod> Opens for N {}

/// One netmod over one network: all that a test program is to play over, where
/// `RANKWAY_TEST_OVER` says so. A provider of libfabric (`verbs`), or `ucx:` and
/// what UCX_TLS is to be (`ucx:rc_v,self`).
pub struct Over {
    pub name: String,
    pub ucx: bool,
    variable: &'static str,
    value: String,
}

impl Over {
    pub fn chosen() -> Option<Over> {
        let over = std::env::var("RANKWAY_TEST_OVER").ok().filter(|over| !over.is_empty())?;
        Some(match over.strip_prefix("ucx:") {
            Some(tls) => Over::ucx(&format!("ucx {tls}"), tls),
            None => {
                Over { name: over.clone(), ucx: false, variable: "RANKWAY_PROVIDER", value: over }
            }
        })
    }

    pub fn ucx(name: &str, tls: &str) -> Over {
        Over { name: name.into(), ucx: true, variable: "UCX_TLS", value: tls.into() }
    }

    /// For the job's environment: through the network, on one node too.
    pub fn env(&self) -> [(&'static str, &str); 2] {
        [(self.variable, &self.value), ("RANKWAY_NODE_QUEUES", "0")]
    }
}

/// Bytes that differ between seeds and between places.
pub fn pattern(seed: u32, len: usize) -> Vec<u8> {
    let byte = |i: usize| ((i ^ (i >> 8) ^ (i >> 16)) as u8).wrapping_mul(31);
    (0..len).map(|i| byte(i).wrapping_add(seed as u8).wrapping_mul(2) | 1).collect()
}

/// A panic's words.
pub fn panic_of<R>(f: impl FnOnce() -> R) -> Result<String> {
    let Err(panic) = catch_unwind(AssertUnwindSafe(f)) else {
        return Err("no panic".to_owned());
    };
    Ok(panic.downcast_ref::<&str>().map_or_else(String::new, |s| (*s).to_owned()))
}

/// The process id of every rank, which prints its own for [`clean`](super::clean).
pub fn pids<N: Netmod>(world: &Communicator<N>) -> Result<Vec<u32>> {
    print_pid();
    let all = world.allgather(&std::process::id().to_le_bytes()).map_err(text)?;
    all.iter().map(|b| Ok(u32::from_le_bytes(b.as_slice().try_into().map_err(text)?))).collect()
}

/// An operation of the program's own: so many wrapping additions.
///
/// # Safety
/// As an operator.
pub unsafe fn add(what: &Custom<'_>, result: &mut Vec<u8>) -> bool {
    for (i, one) in what.operand.chunks_exact(8).take(what.span / 8).enumerate() {
        let one = u64::from_ne_bytes(one.try_into().unwrap_or_default());
        // SAFETY: within the span.
        unsafe {
            let at = what.at.add(8 * i).cast::<u64>();
            let old = at.read_unaligned();
            result.extend(old.to_ne_bytes());
            at.write_unaligned(old.wrapping_add(one));
        }
    }
    true
}

/// All ranks are out of what they did before, when any is out of this: who died right
/// after a collective could end it for others, who are still in it.
pub fn leave_together<N: Netmod>(boot: &dyn Boot, context: &Context<N>) -> Result {
    let mut progress = || {
        let _ = context.progress();
    };
    boot.fence(&mut progress).map_err(text)
}

/// Compares and names the first byte that differs.
pub fn same(what: &str, got: &[u8], want: &[u8]) -> Result {
    if got == want {
        return Ok(());
    }
    let at = got.iter().zip(want).position(|(g, w)| g != w);
    let at = at.unwrap_or(got.len().min(want.len()));
    Err(format!(
        "{what}: {} bytes, {} wanted; byte {at} is {:02x?}, not {:02x?}",
        got.len(),
        want.len(),
        got.get(at),
        want.get(at)
    ))
}

/// Runs `work` in a thread for each of these numbers, and makes progress here
/// until all are done: what peers' threads ask for goes by way of this context.
/// The first that fails ends the job, as the others would wait for its peers.
pub fn in_threads<N: Netmod, I: Send>(
    context: &Context<N>,
    numbers: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> Result + Sync,
) -> Result {
    let (tell, ended) = std::sync::mpsc::channel();
    std::thread::scope(|scope| -> Result {
        let mut left = 0;
        for number in numbers {
            let (tell, work) = (tell.clone(), &work);
            scope.spawn(move || tell.send(work(number)));
            left += 1;
        }
        while left > 0 {
            context.progress().map_err(text)?;
            match ended.try_recv() {
                Ok(Err(why)) => context.device().boot().abort(1, &why),
                Ok(Ok(())) => left -= 1,
                Err(_) => std::thread::yield_now(),
            }
        }
        Ok(())
    })
}
