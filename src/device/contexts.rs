//! A device and its contexts: opening the first, with which all peers meet, and
//! further ones.

use super::context::Context;
use super::node_tables::NodeTables;
use super::open::OpenedBy;
use super::trace::Trace;
use super::{Device, DeviceError, business_card, keys};
use crate::av::{AddressVector, Table};
use crate::boot::{Boot, BootError, Control, Liveness, ProcessId};
use crate::netmod::{Neighbour, Neighbours, Netmod};
use crate::rankmap::compact::Strategy;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

impl<N: Netmod> Device<N> {
    /// Makes a device of opened providers and meets the peers: publishes this
    /// process's addresses and waits until all have. Collective over the job.
    ///
    /// # Errors
    /// What the providers, the address vector or the launcher refuse.
    pub fn open(
        boot: Arc<dyn Boot>,
        net: Option<Arc<N>>,
        local: Option<Arc<N>>,
        threads: bool,
    ) -> Result<Rc<Context<N>>, DeviceError> {
        crate::netmod::check_settings().map_err(BootError::from)?;
        let map_strategy = Strategy::from_env()?;
        let node_tables = NodeTables::known(&*boot, map_strategy)?;
        let node_size = match &node_tables {
            Some(tables) => tables.node_peers(boot.rank()).len(),
            None => boot.local_ranks()?.len() as u32,
        };
        let control = Control::open(Arc::clone(&boot)).map_err(|error| match error {
            BootError::Twice { .. } => DeviceError::OpenedBefore,
            error => error.into(),
        })?;
        let av = Arc::new(AddressVector::new()?);
        av.add(boot.universe(), boot.universe())?;
        let node_peers = local.as_ref().map_or(0, |_| node_size);
        let device = Arc::new(Device {
            control,
            liveness: Liveness::new(),
            others: Liveness::new(),
            net: net.map_or_else(OnceLock::new, OnceLock::from),
            local,
            av,
            node_tables: node_tables.map_or_else(OnceLock::new, OnceLock::from),
            node_size,
            local_addresses: Arc::new(Table::new(node_peers, node_peers)?),
            members: Mutex::default(),
            further: Mutex::default(),
            keys: keys::Keys::default(),
            threads,
            map_strategy,
            extensions: Mutex::default(),
            vcis: Mutex::default(),
            refusals: Mutex::default(),
            diverged: AtomicBool::new(false),
            trace: OnceLock::new(),
            boot,
        });
        if let Some(local) = &device.local {
            local.set_neighbours(neighbours(&device.boot));
        }
        let context = Context::open(&device, 0)?;
        device.boot.put(business_card::KEY, &context.business_card()?.encode())?;
        let mut failed = None;
        device.boot.fence(&mut || {
            if let Err(e) = context.progress() {
                failed = Some(e);
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        if device.node_tables.get().is_none() {
            let _ = device.node_tables.set(NodeTables::agreed(&device.control, map_strategy)?);
        }
        Ok(context)
    }

    /// Records from now on what the program does, if it is to be; it began to open this at
    /// `start`.
    pub(super) fn record(&self, by: OpenedBy, start: u64) {
        if let Some(trace) = Trace::open(&*self.boot, by, start) {
            let _ = self.trace.set(trace);
        }
    }

    /// Opens another context, for the calling thread, under the smallest index
    /// that is free. Threads that open theirs at the same time and send
    /// messages want [`Device::context_at`] instead.
    ///
    /// # Errors
    /// [`DeviceError::OneThread`] when the device was not opened for several
    /// threads; what the provider refuses.
    pub fn context(self: &Arc<Self>) -> Result<Rc<Context<N>>, DeviceError> {
        self.another(None)
    }

    /// Opens the context with an index from 1, for the calling thread: what it
    /// sends arrives on the peers' contexts of the same index. Its messages go on, in and
    /// out, in calls on it alone: what is complete for its sender may lie here until then.
    /// Dropping it sends them, for which it waits until those peers have opened theirs, as long
    /// as they live and `RANKWAY_TIMEOUT` allows. (Over the node's own module some 16 contexts
    /// of each process at a time reach a peer.)
    ///
    /// # Errors
    /// [`DeviceError::ContextTaken`] for one that is open; as
    /// [`Device::context`].
    pub fn context_at(self: &Arc<Self>, index: u32) -> Result<Rc<Context<N>>, DeviceError> {
        self.another(Some(index))
    }

    fn another(self: &Arc<Self>, index: Option<u32>) -> Result<Rc<Context<N>>, DeviceError> {
        if !self.threads {
            return Err(DeviceError::OneThread);
        }
        let at = self.reserve(index)?;
        let context = Context::open(self, at).inspect_err(|_| self.give_back(at, false))?;
        self.vcis()[at as usize].business_card = Some(context.business_card()?);
        Ok(context)
    }
}

/// The processes of the job on this node, looked at anew at each call.
fn neighbours(boot: &Arc<dyn Boot>) -> Neighbours {
    let boot = Arc::clone(boot);
    Box::new(move || {
        let known = crate::boot::neighbours(&*boot)?;
        let neighbour = |(rank, process, ended): (u32, ProcessId, bool)| Neighbour {
            rank,
            pid: process.pid,
            ended,
        };
        Some(known.into_iter().map(neighbour).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::av::AvError;
    use crate::boot::alone::Alone;
    use crate::device::{Options, open_over};
    use crate::netmod::node::Node;
    use crate::rankmap::RankMap;
    use crate::rma::Communicator;

    fn opened() -> Rc<Context<Node>> {
        let boot = Arc::new(Alone::new().unwrap());
        open_over::<Node>(boot, &Options { threads: true, ..Options::default() }).unwrap()
    }

    #[test]
    #[cfg_attr(miri, ignore = "shares memory files")]
    fn what_a_reopened_context_makes_has_other_ids() {
        let first = opened();
        let made = || {
            let context = first.device().context_at(1).unwrap();
            let world = Communicator::world(&context);
            let group = world.create_group(&world.group()).unwrap().unwrap();
            (world.id(), world.dup().id(), group.id())
        };
        let (before, after) = (made(), made());
        assert_eq!(before.0, after.0, "the world is the same");
        assert!(before.1 != after.1 && before.2 != after.2, "{before:?} {after:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "shares memory files")]
    fn a_group_is_added_to_all_contexts_or_none() {
        let first = opened();
        let device = first.device();
        let contexts: Vec<_> = (1..4).map(|at| device.context_at(at).unwrap()).collect();
        let full = contexts[1].av();
        full.fill();
        let error = device.add_group(RankMap::direct(1)).unwrap_err();
        assert!(matches!(error, DeviceError::Av(AvError::TooManyGroups)), "{error}");
        for context in std::iter::once(&first).chain([&contexts[0], &contexts[2]]) {
            assert_eq!(context.av().size(1), Err(AvError::NoGroup(1)));
        }
        assert!(device.members_of(1).is_none());
        // SAFETY: nothing refers to the group, in which nobody is.
        unsafe { full.remove(1) }.unwrap();
        assert_eq!(device.add_group(RankMap::direct(1)).unwrap(), 1);
        assert!(contexts.iter().all(|context| context.av().size(1) == Ok(1)));
    }
}
