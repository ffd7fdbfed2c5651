//! Which provider is chosen.

use super::bindings as sys;
use super::constants::{LIBRARY, PROVIDER_ENV};
use super::ffi::{Library, get_string};
use super::shm;
use crate::netmod::NetError;
use std::ffi::CStr;
use std::ptr::{NonNull, null, null_mut};

/// What kind of provider is wanted.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// A provider by name: `shm`, `tcp`, `tcp;ofi_rxm`, `verbs`, … Layered
    /// names need not be spelled out. `None` takes the best there is.
    pub provider: Option<String>,
    /// For peers on this node only.
    pub node_local: bool,
    /// Several threads use the domain, each with an endpoint of its own.
    pub threads: bool,
    /// How many peers may be inserted; a hint.
    pub peers: u32,
}

/// Providers used only when they are named: measuring layers, test providers,
/// and those whose claims do not hold.
pub(super) const ONLY_BY_NAME: [&str; 8] =
    ["net", "sockets", "udp", "lnx", "off_coll", "ofi_mrail", "sm2", "rankway_null"];

/// An `fi_info` list owned by us.
pub(super) struct Info {
    pub(super) head: NonNull<sys::fi_info>,
    /// The entry chosen.
    pub(super) chosen: NonNull<sys::fi_info>,
    /// The provider promises reads after writes.
    pub(super) ordered: bool,
    /// The provider has messages, untagged and tagged.
    pub(super) messages: bool,
    /// The provider has atomics.
    pub(super) atomics: bool,
}

// SAFETY: after selection the list is only read, and freed once.
unsafe impl Send for Info {}
// SAFETY: as above.
unsafe impl Sync for Info {}

impl Drop for Info {
    fn drop(&mut self) {
        if let Ok(lib) = Library::open() {
            // SAFETY: `head` came from fi_getinfo and nothing else frees it.
            unsafe { lib.fi_freeinfo(self.head.as_ptr()) };
        }
    }
}

impl Info {
    pub(super) fn as_ptr(&self) -> *mut sys::fi_info {
        self.chosen.as_ptr()
    }

    /// The provider's name.
    pub(super) fn name(&self) -> String {
        // SAFETY: `chosen` is an entry of a list that lives as long as self.
        unsafe { name_of(self.chosen) }
    }
}

/// The provider name of an entry.
///
/// # Safety
/// `info` is an entry of a live `fi_getinfo` list.
pub(super) unsafe fn name_of(info: NonNull<sys::fi_info>) -> String {
    // SAFETY: the caller's entry is live; libfabric sets fabric_attr and a
    // NUL-terminated prov_name in every entry (fi_getinfo(3)).
    unsafe {
        let fabric = (*info.as_ptr()).fabric_attr;
        if fabric.is_null() || (*fabric).prov_name.is_null() {
            return String::from("?");
        }
        CStr::from_ptr((*fabric).prov_name).to_string_lossy().into_owned()
    }
}

/// Walks an `fi_getinfo` list.
pub(super) fn entries(head: NonNull<sys::fi_info>) -> impl Iterator<Item = NonNull<sys::fi_info>> {
    // SAFETY: `next` links entries of the same live list, null at the end.
    std::iter::successors(Some(head), |i| NonNull::new(unsafe { (*i.as_ptr()).next }))
}

/// The names of all providers that serve reliable datagram endpoints, in the
/// library's order; with `rma` only those with one-sided operations.
///
/// # Errors
/// [`NetError::Library`] when there is no libfabric.
pub fn providers(rma: bool) -> Result<Vec<String>, NetError> {
    let caps = if rma { RMA } else { 0 };
    let mut names = Vec::new();
    for mr_mode in [NETWORK_MR, LOCAL_MR] {
        let Some(list) = query(caps, mr_mode, sys::FI_THREAD_UNSPEC, 0)? else { continue };
        for info in entries(list.head) {
            // SAFETY: an entry of the list just queried.
            let name = unsafe { name_of(info) };
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    Ok(names)
}

pub(super) const RMA: u64 =
    sys::FI_RMA | sys::FI_READ | sys::FI_WRITE | sys::FI_REMOTE_READ | sys::FI_REMOTE_WRITE;
const MESSAGES: u64 = sys::FI_MSG | sys::FI_TAGGED | sys::FI_SEND | sys::FI_RECV;
/// Modes of memory registration offered to a network provider.
pub(super) const NETWORK_MR: i32 = sys::FI_MR_LOCAL
    | sys::FI_MR_VIRT_ADDR
    | sys::FI_MR_ALLOCATED
    | sys::FI_MR_PROV_KEY
    | sys::FI_MR_ENDPOINT;
/// Without `FI_MR_VIRT_ADDR`: see the module's table.
pub(super) const LOCAL_MR: i32 =
    sys::FI_MR_LOCAL | sys::FI_MR_ALLOCATED | sys::FI_MR_PROV_KEY | sys::FI_MR_ENDPOINT;

pub(super) fn is_node_local(name: &str) -> bool {
    matches!(name, "shm" | "sm2")
}

/// See [`Caps::delivers`](crate::netmod::Caps::delivers): over tcp the target answers when
/// it has read all from the stream; that of a network card says that the card has it.
pub(super) fn delivers(name: &str) -> bool {
    is_tcp(name)
}

/// Over a socket that is closed the kernel sends no more once something comes in for it: see
/// [`Caps::lossy_close`](crate::netmod::Caps::lossy_close).
pub(super) fn is_tcp(name: &str) -> bool {
    name.contains("tcp")
}

/// `asked` names `name`, or its core below a utility layer.
fn matches_name(asked: &str, name: &str) -> bool {
    asked == name || name.split(';').next() == Some(asked)
}

/// Chooses a provider.
///
/// # Errors
/// [`NetError::Library`], [`NetError::NoProvider`], [`NetError::NoRma`].
pub(super) fn select(request: &Request) -> Result<Info, NetError> {
    let wanted = match (&request.provider, request.node_local) {
        (Some(name), _) => Some(name.as_str()),
        (None, true) => Some("shm"),
        (None, false) => None,
    };
    let mr_mode = if wanted.is_some_and(is_node_local) { LOCAL_MR } else { NETWORK_MR };
    let threading = if request.threads { sys::FI_THREAD_SAFE } else { sys::FI_THREAD_DOMAIN };
    // A flush is built on reads that come behind the writes before them. A
    // provider that does not promise this order still serves: its writes are
    // then acknowledged ones.
    for order in [sys::FI_ORDER_RAW, 0] {
        let Some(mut list) = query(RMA, mr_mode, threading, order)? else { continue };
        // A layered name must be spelled out as a hint, so filter by hand.
        let fits = |info: &NonNull<sys::fi_info>| {
            // SAFETY: an entry of the list just queried.
            let name = unsafe { name_of(*info) };
            let core = name.split(';').next().unwrap_or(&name);
            match wanted {
                Some(w) => matches_name(w, &name),
                None => {
                    !is_node_local(&name)
                        && (!ONLY_BY_NAME.contains(&core) || is_named_by_user(core))
                }
            }
        };
        if let Some(chosen) = entries(list.head).find(fits) {
            list.chosen = chosen;
            list.ordered = order != 0;
            return add_capabilities(list, mr_mode, threading, order);
        }
    }
    Err(none_fits(wanted))
}

/// The provider just chosen, with messages and atomics where it has them without
/// becoming another one.
fn add_capabilities(
    base: Info,
    mr_mode: i32,
    threading: sys::fi_threading,
    order: u64,
) -> Result<Info, NetError> {
    // SAFETY: `chosen` is an entry of a live list.
    let chosen = unsafe { ProviderIdentity::of(base.chosen) };
    for extra in [MESSAGES | sys::FI_ATOMIC, MESSAGES] {
        for order in [order | sys::FI_ORDER_SAS, order] {
            let Some(mut extended) = query(RMA | extra, mr_mode, threading, order)? else {
                continue;
            };
            // SAFETY: an entry of the list just queried.
            let same =
                |info: &NonNull<sys::fi_info>| unsafe { ProviderIdentity::of(*info) } == chosen;
            if let Some(chosen) = entries(extended.head).find(same) {
                extended.chosen = chosen;
                extended.ordered = base.ordered;
                extended.messages = true;
                extended.atomics = extra & sys::FI_ATOMIC != 0;
                return Ok(extended);
            }
        }
    }
    Ok(base)
}

/// What two entries have in common if they are one provider on one network.
#[derive(PartialEq, Eq)]
struct ProviderIdentity {
    provider: String,
    domain: Option<String>,
    mr_mode: i32,
    address: u32,
    inject: usize,
}

impl ProviderIdentity {
    /// # Safety
    /// `info` is an entry of a live `fi_getinfo` list.
    unsafe fn of(info: NonNull<sys::fi_info>) -> ProviderIdentity {
        // SAFETY: libfabric fills the attribute pointers of all entries, and
        // names are null or C strings.
        unsafe {
            let i = &*info.as_ptr();
            ProviderIdentity {
                provider: name_of(info),
                domain: get_string((*i.domain_attr).name),
                mr_mode: (*i.domain_attr).mr_mode,
                address: i.addr_format,
                inject: (*i.tx_attr).inject_size,
            }
        }
    }
}

/// Returns true if the user's `FI_PROVIDER` names the provider.
fn is_named_by_user(core: &str) -> bool {
    std::env::var(PROVIDER_ENV)
        .is_ok_and(|v| !v.starts_with('^') && v.split([',', ';']).any(|n| n == core))
}

/// The error when the library has no such provider.
pub(super) fn not_there(wanted: String, have: Vec<String>) -> NetError {
    NetError::NoProvider { wanted, have, library: LIBRARY, variable: PROVIDER_ENV }
}

/// The error when no provider fits: unknown, or known but without RMA.
fn none_fits(wanted: Option<&str>) -> NetError {
    let filter = std::env::var(PROVIDER_ENV).ok().filter(|v| !v.is_empty());
    let wanted = wanted.map(str::to_owned).or(filter);
    let any = query_any().unwrap_or_default();
    let wanted = wanted.unwrap_or_else(|| "(any network provider)".into());
    let first = wanted.split([',', ';']).next().unwrap_or(&wanted).to_owned();
    if any.iter().any(|have| matches_name(&first, have)) {
        return NetError::NoRma { provider: wanted, variable: PROVIDER_ENV };
    }
    if wanted == "shm" {
        // libfabric does not offer it where less is free than an endpoint for each
        // processor takes, and does not say why.
        // SAFETY: only asks how many there are.
        let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        if let Err(full) = shm::check_space(processors.max(1) as u64) {
            return full;
        }
    }
    if wanted.starts_with('^') && !any.is_empty() {
        // What the user's filter leaves, none of which serves.
        return NetError::NoRma { provider: any.join(", "), variable: PROVIDER_ENV };
    }
    let have = if any.is_empty() { vec!["nothing under FI_PROVIDER's filter".into()] } else { any };
    not_there(wanted, have)
}

/// Every provider name with any endpoint type and capability.
fn query_any() -> Result<Vec<String>, NetError> {
    let lib = open_library()?;
    let mut head = null_mut();
    // SAFETY: no hints; `head` receives a list that Info frees.
    let rc = unsafe { lib.fi_getinfo(null(), null(), 0, null(), &mut head) };
    let Some(head) = NonNull::new(head).filter(|_| rc == 0) else { return Ok(Vec::new()) };
    let list = Info { head, chosen: head, ordered: false, messages: false, atomics: false };
    let mut names = Vec::new();
    for info in entries(list.head) {
        // SAFETY: an entry of the list just queried.
        let name = unsafe { name_of(info) };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

pub(super) fn open_library() -> Result<&'static Library, NetError> {
    Library::open().map_err(|e| NetError::Library(e.to_string()))
}

/// `fi_getinfo` for reliable datagram endpoints; `None` when nothing fits.
pub(super) fn query(
    caps: u64,
    mr_mode: i32,
    threading: sys::fi_threading,
    order: u64,
) -> Result<Option<Info>, NetError> {
    let lib = open_library()?;
    let hints = NonNull::new(lib.fi_allocinfo());
    let Some(hints) = hints else {
        return Err(NetError::Library("libfabric: no memory for hints".into()));
    };
    let mut head = null_mut();
    // SAFETY: allocinfo allocates all attribute structures of its answer, ours
    // to fill until freeinfo.
    let rc = unsafe {
        let h = &mut *hints.as_ptr();
        h.caps = caps;
        h.mode = sys::FI_CONTEXT | sys::FI_CONTEXT2;
        (*h.tx_attr).msg_order = order;
        (*h.rx_attr).msg_order = order;
        (*h.ep_attr).type_ = sys::FI_EP_RDM;
        (*h.domain_attr).mr_mode = mr_mode;
        (*h.domain_attr).threading = threading;
        (*h.domain_attr).resource_mgmt = sys::FI_RM_ENABLED;
        (*h.domain_attr).av_type = sys::FI_AV_TABLE;
        let rc = lib.fi_getinfo(null(), null(), 0, h, &mut head);
        lib.fi_freeinfo(h);
        rc
    };
    match NonNull::new(head) {
        Some(head) if rc == 0 => {
            Ok(Some(Info { head, chosen: head, ordered: false, messages: false, atomics: false }))
        }
        _ => Ok(None),
    }
}
