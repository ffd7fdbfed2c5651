//! Opening a device: which providers are taken.

use super::{Context, Device, DeviceError};
use crate::boot::Boot;
use crate::netmod::null::Null;
use std::rc::Rc;
use std::sync::Arc;

/// How a device is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Providers by name, separated by commas: `shm`, `tcp;ofi_rxm`, or both
    /// with `shm,tcp`. `None` asks `RANKWAY_PROVIDER`, and without that takes
    /// shm for peers on the node and the best network for the rest, honouring
    /// libfabric's own `FI_PROVIDER`. UCX goes by its own `UCX_TLS` and
    /// `UCX_NET_DEVICES`.
    pub provider: Option<String>,
    /// Several threads will open contexts.
    pub threads: bool,
    /// Contexts are to have descriptors to sleep on. UCX leaves transports
    /// without any out then.
    pub wakeup: bool,
}

/// Opens a device that reaches nobody and completes everything at once.
///
/// # Errors
/// What the launcher refuses.
pub fn open_null(boot: Arc<dyn Boot>) -> Result<Rc<Context<Null>>, DeviceError> {
    Device::open(boot, Some(Null::open()), None, true)
}

#[cfg(all(feature = "ofi", feature = "ucx"))]
pub use any::{AnyContext, open};
#[cfg(feature = "ofi")]
pub use ofi::{network_ofi, open_ofi};
#[cfg(feature = "ucx")]
pub use ucx::open_ucx;

#[cfg(feature = "ofi")]
mod ofi {
    use super::*;
    use crate::netmod::NetError;
    use crate::netmod::ofi::{Ofi, Request};

    /// Opens a device over libfabric. Collective over the job.
    ///
    /// # Errors
    /// [`DeviceError::Net`] when libfabric or a provider is not there, with
    /// what to install or which there are; what the launcher refuses.
    pub fn open_ofi(
        boot: Arc<dyn Boot>,
        options: &Options,
    ) -> Result<Rc<Context<Ofi>>, DeviceError> {
        let from_env = || std::env::var("RANKWAY_PROVIDER").ok().filter(|v| !v.is_empty());
        let (net, local) = match options.provider.clone().or_else(from_env) {
            Some(names) => named(&*boot, &names, options)?,
            None => automatic(&*boot, options)?,
        };
        Device::open(boot, net, local, options.threads)
    }

    /// The network of a device that has none yet, for
    /// [`Context::enable_dynamic_processes`]: the best that libfabric has, honouring
    /// `FI_PROVIDER`.
    ///
    /// # Errors
    /// [`DeviceError::Net`] when there is none.
    pub fn network_ofi(boot: &dyn Boot, options: &Options) -> Result<Arc<Ofi>, DeviceError> {
        Ok(Ofi::open(&request(boot, options, None))?)
    }

    type Pair = (Option<Arc<Ofi>>, Option<Arc<Ofi>>);

    fn request(boot: &dyn Boot, options: &Options, provider: Option<&str>) -> Request {
        Request {
            provider: provider.map(str::to_owned),
            node_local: false,
            threads: options.threads,
            peers: boot.size(),
        }
    }

    fn named(boot: &dyn Boot, names: &str, options: &Options) -> Result<Pair, DeviceError> {
        let (mut net, mut local) = (None, None);
        for name in names.split(',').map(str::trim).filter(|n| !n.is_empty()) {
            let place = if name == "shm" { &mut local } else { &mut net };
            *place = Some(Ofi::open(&request(boot, options, Some(name)))?);
        }
        if net.is_none() && local.is_none() {
            let have = crate::netmod::ofi::providers(true)?;
            return Err(NetError::NoProvider { wanted: names.to_owned(), have }.into());
        }
        Ok((net, local))
    }

    /// shm where libfabric has it, and a network when shm does not reach all.
    fn automatic(boot: &dyn Boot, options: &Options) -> Result<Pair, DeviceError> {
        let mine = boot.node_of(boot.rank())?;
        let mut on_node = 0;
        for rank in 0..boot.size() {
            on_node += u32::from(boot.node_of(rank)? == mine);
        }
        let request = |node_local| Request { node_local, ..request(boot, options, None) };
        let local = match Ofi::open(&request(true)) {
            Ok(shm) => Some(shm),
            // FI_PROVIDER may exclude shm, some builds lack it, and /dev/shm
            // may be full: the network serves the node then.
            Err(
                NetError::NoProvider { .. } | NetError::NoRma { .. } | NetError::NoSpace { .. },
            ) => None,
            Err(e) => return Err(e.into()),
        };
        let reached = local.as_ref().map_or(0, |shm| {
            use crate::netmod::Netmod;
            if on_node <= shm.caps().max_peers { on_node } else { 0 }
        });
        let net = if reached < boot.size() { Some(Ofi::open(&request(false))?) } else { None };
        Ok((net, local))
    }
}

#[cfg(feature = "ucx")]
mod ucx {
    use super::*;
    use crate::netmod::ucx::{Request, Ucx};

    /// Opens a device over UCX, which serves peers on the node and beyond.
    /// Collective over the job.
    ///
    /// # Errors
    /// [`DeviceError::Net`] when UCX is not there or refuses its settings; what
    /// the launcher refuses.
    pub fn open_ucx(
        boot: Arc<dyn Boot>,
        options: &Options,
    ) -> Result<Rc<Context<Ucx>>, DeviceError> {
        let request =
            Request { threads: options.threads, wakeup: options.wakeup, peers: boot.size() };
        Device::open(boot, Some(Ucx::open(&request)?), None, options.threads)
    }
}

#[cfg(all(feature = "ofi", feature = "ucx"))]
mod any {
    use super::*;
    use crate::netmod::NetError;
    use crate::netmod::ofi::{self, Ofi};
    use crate::netmod::ucx::{self, Ucx};

    /// The environment variable that names the netmod.
    const NETMOD_ENV: &str = "RANKWAY_NETMOD";

    /// A context of whichever netmod was chosen. What comes behind is generic
    /// over the netmod, so that no put asks which it is.
    #[derive(Debug)]
    pub enum AnyContext {
        /// Over libfabric.
        Ofi(Rc<Context<Ofi>>),
        /// Over UCX.
        Ucx(Rc<Context<Ucx>>),
    }

    /// Opens a device over the netmod that `RANKWAY_NETMOD` names, `ofi` or
    /// `ucx`; without it over libfabric, or UCX where that alone is installed.
    /// Collective over the job, all of which must choose alike.
    ///
    /// # Errors
    /// [`DeviceError::Net`] for another name; as [`open_ofi`] and [`open_ucx`].
    pub fn open(boot: Arc<dyn Boot>, options: &Options) -> Result<AnyContext, DeviceError> {
        let named = std::env::var(NETMOD_ENV).ok().filter(|v| !v.is_empty());
        let ucx_alone = || ofi::library().is_err() && ucx::library().is_ok();
        match named.as_deref() {
            Some("ucx") => open_ucx(boot, options).map(AnyContext::Ucx),
            None if ucx_alone() => open_ucx(boot, options).map(AnyContext::Ucx),
            Some("ofi") | None => open_ofi(boot, options).map(AnyContext::Ofi),
            Some(other) => {
                let why = format!("{NETMOD_ENV} is '{other}'; netmods are ofi and ucx");
                Err(NetError::Library(why).into())
            }
        }
    }
}
