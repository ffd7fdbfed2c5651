//! Opening a device over a netmod, which may be named at run time.

use super::{Context, Device, DeviceError, agreement};
use crate::boot::Boot;
use crate::netmod::null::Null;
use crate::netmod::{self, NetError, Netmod, OpenParams};
use crate::track::Recorder;
use std::rc::Rc;
use std::sync::Arc;

/// How a device is opened; [`Options::default`] chooses by itself.
///
/// ```
/// use rankway::device::Options;
///
/// let options = Options::default().provider("tcp".to_owned()).threads(true);
/// assert_eq!(options.provider.as_deref(), Some("tcp"));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Providers by name, separated by commas: `node`, `shm`, `tcp;ofi_rxm`, or two as
    /// in `shm,tcp`. `None` asks `RANKWAY_PROVIDER`, and without that takes `node`
    /// ([`netmod::node`]) for peers on the node if all of them may attach to each
    /// other, else shm, and the best network for the rest. libfabric's own
    /// `FI_PROVIDER` is honoured; with it `node` is taken only by name. UCX goes by its own `UCX_TLS` and
    /// `UCX_NET_DEVICES`.
    pub provider: Option<String>,
    /// Several threads will open contexts.
    pub threads: bool,
    /// Contexts are to have descriptors to sleep on. UCX leaves transports
    /// without any out then.
    pub wakeup: bool,
    /// Whose calls they are that `RANKWAY_TRACE` records.
    pub opened_by: OpenedBy,
}

/// Who opens a device, which decides what `RANKWAY_TRACE` records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenedBy {
    /// A program in Rust: all, and constructors with the line that called.
    #[default]
    RustProgram,
    /// One in another language: all, without lines.
    Program,
    /// A device layer of an MPI, whose communicators are not the program's: nothing.
    DeviceLayer,
}

impl Options {
    /// With these [providers](Options::provider); `None` asks the environment.
    #[must_use]
    pub fn provider(self, names: impl Into<Option<String>>) -> Options {
        Options { provider: names.into(), ..self }
    }

    /// Several threads will open contexts, or one.
    #[must_use]
    pub fn threads(self, threads: bool) -> Options {
        Options { threads, ..self }
    }

    /// With descriptors to sleep on, or without.
    #[must_use]
    pub fn wakeup(self, wakeup: bool) -> Options {
        Options { wakeup, ..self }
    }

    /// By a program, or by a device layer.
    #[must_use]
    pub fn opened_by(self, opened_by: OpenedBy) -> Options {
        Options { opened_by, ..self }
    }
}

/// The environment variable that names the netmod.
const NETMOD_ENV: &str = "RANKWAY_NETMOD";

/// Opens a device that reaches nobody and completes everything at once.
///
/// # Errors
/// What the launcher refuses.
pub fn open_null(boot: Arc<dyn Boot>) -> Result<Rc<Context<Null>>, DeviceError> {
    let start = Recorder::now();
    let context = Device::open(boot, Some(Null::open()), None, true)?;
    context.device().record(OpenedBy::default(), start);
    Ok(context)
}

/// Opens a device over the netmod `N`. Collective over the job, all of which
/// must choose alike.
///
/// # Errors
/// [`DeviceError::Net`] when its library or a provider is not there, with what
/// to install or which there are; what the launcher refuses.
pub fn open_over<N: Netmod>(
    boot: Arc<dyn Boot>,
    options: &Options,
) -> Result<Rc<Context<N>>, DeviceError> {
    let start = Recorder::now();
    // (Where all peers are on the node, nothing else asks for the library.)
    N::is_asked_for(options.provider.as_deref())?;
    let mut params = params(&*boot, options)?;
    if N::WITH_NODE {
        let agreement = agreement::reach(&*boot, params.on_node, N::takes_node(&params))?;
        params.attachable = agreement.attachable;
        params.apart = agreement.apart;
        params.takes_node = agreement.attachable == Some(true) && agreement.wanted;
    }
    let providers = N::open_providers(&params)?;
    let context = Device::open(boot, providers.network, providers.node, options.threads)?;
    context.device().record(options.opened_by, start);
    Ok(context)
}

/// The network of a device that has none yet, for
/// [`Context::enable_dynamic_processes`]: the best there is, whatever
/// [`Options::provider`] says.
///
/// # Errors
/// [`DeviceError::Net`] when there is none.
pub fn open_network<N: Netmod>(boot: &dyn Boot, options: &Options) -> Result<Arc<N>, DeviceError> {
    Ok(N::open_network(&params(boot, options)?)?)
}

fn params(boot: &dyn Boot, options: &Options) -> Result<OpenParams, DeviceError> {
    let on_node = boot.local_ranks()?.len() as u32;
    let Options { provider, threads, wakeup, .. } = options.clone();
    let (job, peers) = (boot.job(), boot.size());
    Ok(OpenParams { provider, threads, wakeup, job, peers, on_node, ..OpenParams::default() })
}

/// [`open_over`] libfabric.
///
/// # Errors
/// The same.
#[cfg(feature = "ofi")]
pub fn open_ofi(
    boot: Arc<dyn Boot>,
    options: &Options,
) -> Result<Rc<Context<crate::netmod::ofi::Ofi>>, DeviceError> {
    open_over(boot, options)
}

/// [`open_over`] UCX.
///
/// # Errors
/// The same.
#[cfg(feature = "ucx")]
pub fn open_ucx(
    boot: Arc<dyn Boot>,
    options: &Options,
) -> Result<Rc<Context<crate::netmod::ucx::Ucx>>, DeviceError> {
    open_over(boot, options)
}

macro_rules! any_context {
    ([$($feature:literal $module:ident::$netmod:ident),*]) => {
        /// A context of whichever netmod was chosen. What comes behind is
        /// generic over the netmod, so that no put asks which it is.
        #[derive(Debug)]
        pub enum AnyContext {
            $(
                #[doc = concat!("Over `", $feature, "`.")]
                #[cfg(feature = $feature)]
                $netmod(Rc<Context<netmod::$module::$netmod>>),
            )*
        }

        /// Opens a device over the netmod of this name; without one over that which
        /// `RANKWAY_NETMOD` names, or the best that is installed
        /// ([`netmod::preferred`]). Collective over the job, all of which must choose
        /// alike.
        ///
        /// # Errors
        /// [`DeviceError::Net`] for a name that no netmod has; as
        /// [`open_over`].
        pub fn open_by_name(
            boot: Arc<dyn Boot>,
            name: Option<&str>,
            options: &Options,
        ) -> Result<AnyContext, DeviceError> {
            let set = std::env::var(NETMOD_ENV).ok().filter(|name| !name.is_empty());
            let preferred = || netmod::preferred(options.provider.as_deref());
            let name = name.or(set.as_deref()).unwrap_or_else(preferred);
            $(
                #[cfg(feature = $feature)]
                if name == <netmod::$module::$netmod as Netmod>::NAME {
                    return open_over(boot, options).map(AnyContext::$netmod);
                }
            )*
            let _ = (boot, options);
            Err(NetError::NoNetmod { wanted: name.to_owned(), have: netmod::NAMES }.into())
        }
    };
}

crate::netmods!(any_context);

/// Opens a device over the netmod that `RANKWAY_NETMOD` names, as
/// [`open_by_name`] does.
///
/// # Errors
/// The same.
pub fn open(boot: Arc<dyn Boot>, options: &Options) -> Result<AnyContext, DeviceError> {
    open_by_name(boot, None, options)
}
