//! A provider opened: fabric, domain, address vector.

use super::bindings as sys;
use super::constants::{COPIED, EXPECTED, MAX_IOV, MAX_NAME, PACKET};
use super::ffi::{self, Library};
use super::gate::Setup;
use super::lock_reaper::LockReaper;
use super::select::{Info, Request, delivers, is_node_local, is_tcp, open_library, select};
use super::shm;
use super::stale_keys::StaleKeys;
use crate::netmod::{Caps, NetError, Op, Type, limits};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const TYPES: usize = Type::ALL.len();
const OPS: usize = Op::ALL.len();
pub(super) const UNKNOWN: u32 = u32::MAX;

/// Elements an atomic call takes, by kind, type and operation; [`UNKNOWN`] until
/// the provider is asked.
pub(super) struct Limits(pub(super) [[[AtomicU32; OPS]; TYPES]; 3]);

impl Limits {
    pub(super) fn new() -> Limits {
        let unknown = || AtomicU32::new(UNKNOWN);
        Limits(std::array::from_fn(|_| std::array::from_fn(|_| std::array::from_fn(|_| unknown()))))
    }
}

/// An address vector. Its owner closes it before the domain, and after the endpoints that are
/// bound to it.
pub(super) struct Av(*mut sys::fid_av);

// SAFETY: as of `Domain`, whose part it is.
unsafe impl Send for Av {}
// SAFETY: as above.
unsafe impl Sync for Av {}

impl Av {
    pub(super) fn as_ptr(&self) -> *mut sys::fid_av {
        self.0
    }
}

impl Drop for Av {
    fn drop(&mut self) {
        // SAFETY: opened by `Domain::open_av`, and closed once. (The fid is the first member of
        // every object, fabric(7).)
        unsafe { ffi::fi_close(self.0.cast()) };
    }
}

/// One libfabric provider with its domain and address vector.
pub struct Domain {
    pub(super) lib: &'static Library,
    pub(super) info: Info,
    pub(super) caps: Caps,
    pub(super) mr_mode: i32,
    /// Longest packet that `fi_inject` takes, head and body.
    pub(super) inject: usize,
    pub(super) limits: Limits,
    pub(super) domain: *mut sys::fid_domain,
    /// The address vector of all endpoints, where they do not have one each.
    pub(super) shared_av: Option<Arc<Av>>,
    pub(super) fabric: *mut sys::fid_fabric,
    /// Local registrations made.
    registered: AtomicU32,
    /// By which endpoints are opened and closed and addresses inserted.
    pub(super) setup: Setup,
    /// Endpoints have gates.
    pub(super) gated: bool,
    /// Processes that there may be.
    peers: u32,
    /// An address of this provider, to tell garbage from addresses.
    sample: Vec<u8>,
    /// Frees locks of shm's queues that killed processes hold.
    pub(super) lock_reaper: Option<LockReaper>,
    /// Keys of windows that ended while peers may write to them.
    pub(super) stale_keys: StaleKeys,
}

// SAFETY: domain and AV are opened FI_THREAD_SAFE when several threads use
// them; with one endpoint everything runs in the endpoint owner's thread (the
// rule of `Netmod`'s documentation).
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl std::fmt::Debug for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Domain").field("caps", &self.caps).finish_non_exhaustive()
    }
}

impl Domain {
    /// Opens the provider that fits the request. To be called before threads that
    /// read the environment: libfabric takes from there how it watches memory.
    ///
    /// # Errors
    /// [`NetError::Library`], [`NetError::NoProvider`], [`NetError::NoRma`],
    /// [`NetError::Call`].
    pub fn open(request: &Request) -> Result<Arc<Domain>, NetError> {
        let lib = open_library()?;
        // Without space for one, libfabric would be ended by SIGBUS when it writes
        // there.
        if request.node_local || request.provider.as_deref() == Some("shm") {
            shm::check_space(1)?;
        }
        let info = select(request)?;
        let provider = info.name();
        // SAFETY: `chosen` is live and libfabric fills all attribute pointers of
        // the entries it answers.
        let (tx, ep, dom) = unsafe {
            let i = &*info.as_ptr();
            (&*i.tx_attr, &*i.ep_attr, &*i.domain_attr)
        };
        let mr_mode = dom.mr_mode;
        let local = mr_mode & sys::FI_MR_LOCAL != 0;
        let packet_size = if info.messages { PACKET } else { 0 };
        let packet_inject = match info.messages {
            // All packets are copied to registered memory.
            true if local => PACKET,
            true => tx.inject_size.clamp(COPIED, PACKET),
            false => 0,
        };
        let iov_limit = tx.iov_limit.min(tx.rma_iov_limit).clamp(1, MAX_IOV);
        let caps = Caps {
            packet_size,
            packet_inject,
            max_bulk: if info.messages { ep.max_msg_size } else { 0 },
            iov_limit,
            // An injected put is not acknowledged: only order tells its end.
            inject_size: if info.ordered { tx.inject_size } else { 0 },
            max_message: ep.max_msg_size,
            max_peers: if provider == "shm" { shm::max_peers() } else { u32::MAX },
            node_queues: provider == "shm",
            delivers: delivers(&provider),
            lossy_close: is_tcp(&provider),
            silent_losses: !is_node_local(&provider),
            virtual_addresses: mr_mode & sys::FI_MR_VIRT_ADDR != 0,
            provider_keys: mr_mode & sys::FI_MR_PROV_KEY != 0,
            key_size: dom.mr_key_size,
            ..Caps::none(provider)
        };
        let inject = tx.inject_size.min(PACKET);
        let mut this = Domain {
            lib,
            inject,
            limits: Limits::new(),
            info,
            caps,
            mr_mode,
            domain: null_mut(),
            shared_av: None,
            fabric: null_mut(),
            registered: AtomicU32::new(0),
            setup: Setup::default(),
            gated: false,
            peers: request.peers,
            sample: Vec::new(),
            lock_reaper: None,
            stale_keys: StaleKeys::default(),
        };
        let shm = this.caps.provider == "shm";
        this.lock_reaper = shm.then(LockReaper::new);
        this.gated = shm && request.threads && lib.version() >= (2, 0);
        // SAFETY: `info` is live; each object is opened on the one before and
        // closed in reverse order on drop, whatever was reached.
        unsafe {
            let info = this.info.as_ptr();
            let rc = lib.fi_fabric((*info).fabric_attr, &mut this.fabric, null_mut());
            this.check("fi_fabric", rc)?;
            let rc = ffi::fi_domain(this.fabric, info, &mut this.domain, null_mut());
            this.check("fi_domain", rc)?;
        }
        if !this.has_own_avs() {
            this.shared_av = Some(Arc::new(this.open_av()?));
        }
        Ok(Arc::new(this))
    }

    /// The `tcp` of libfabric 2.x keeps its connections with the address vector, and what it knew
    /// of one that ended for the next in its place: of two that connect to each other at once, each
    /// may then close the other's. An endpoint that has all of them to itself begins with none.
    pub(super) fn has_own_avs(&self) -> bool {
        self.caps.provider == "tcp"
    }

    /// The address vector of an endpoint.
    pub(super) fn av(&self) -> Result<Arc<Av>, NetError> {
        self.shared_av.clone().map_or_else(|| self.open_av().map(Arc::new), Ok)
    }

    fn open_av(&self) -> Result<Av, NetError> {
        // SAFETY: all zeroes are the defaults.
        let mut attr: sys::fi_av_attr = unsafe { std::mem::zeroed() };
        attr.type_ = sys::FI_AV_TABLE;
        // shm refuses to be told of more than it takes.
        attr.count = self.peers.min(self.caps.max_peers).min(EXPECTED) as usize;
        let mut av = null_mut();
        // SAFETY: the domain is open, and outlives the vector (the rule of `Av`).
        let rc = unsafe { ffi::fi_av_open(self.domain, &mut attr, &mut av, null_mut()) };
        self.check("fi_av_open", rc)?;
        Ok(Av(av))
    }

    /// An error when a call answered other than zero.
    pub(super) fn check(&self, call: &'static str, rc: i32) -> Result<(), NetError> {
        if rc == 0 { Ok(()) } else { Err(self.explain(call, rc as isize)) }
    }

    /// See [`Netmod::explain`](crate::netmod::Netmod::explain).
    pub(super) fn explain(&self, call: &'static str, code: isize) -> NetError {
        let text = crate::ulimit::explained(self.lib.strerror(code));
        let provider = self.caps.provider.clone();
        let error = NetError::Call { provider, call, code: code as i64, text };
        // A provider that registers local buffers locks them.
        let locks =
            code == -(libc::ENOMEM as isize) && self.requires_registration(sys::FI_MR_LOCAL);
        if locks { limits::out_of_memory(error) } else { error }
    }

    /// Returns true if the provider asks for this mode of memory registration.
    pub(super) fn requires_registration(&self, bit: i32) -> bool {
        self.mr_mode & bit != 0
    }

    /// Bytes of bounce buffer each tracked operation has.
    pub(super) fn bounce_size(&self) -> usize {
        if self.requires_registration(sys::FI_MR_LOCAL) {
            PACKET
        } else if self.inject < self.caps.packet_inject {
            self.caps.packet_inject
        } else {
            0
        }
    }

    /// A key for a local registration. It is never told to anyone; where the
    /// provider does not choose it, it need only differ from the windows' and
    /// from those of the other local registrations there are; rxm of 1.17 has
    /// been seen to take keys from 2^31 on for itself.
    pub(super) fn local_key(&self) -> u64 {
        let n = self.registered.fetch_add(1, Ordering::Relaxed);
        u64::from(n | 3 << 30)
    }

    /// The access rights that an endpoint's own buffers need.
    pub(super) fn local_access(&self) -> u64 {
        let messages = if self.info.messages { sys::FI_SEND | sys::FI_RECV } else { 0 };
        sys::FI_READ | sys::FI_WRITE | messages
    }

    /// # Safety
    /// \[MEM\], until the registration is closed.
    pub(super) unsafe fn open_mr(
        &self,
        start: *const u8,
        len: usize,
        access: u64,
        key: u64,
    ) -> Result<*mut sys::fid_mr, NetError> {
        let mut mr = null_mut();
        // SAFETY: the domain is open; [MEM].
        let rc = unsafe {
            ffi::fi_mr_reg(
                self.domain,
                start.cast::<c_void>(),
                len,
                access,
                0,
                key,
                0,
                &mut mr,
                null_mut(),
            )
        };
        self.check("fi_mr_reg", rc)?;
        Ok(mr)
    }

    /// Refuses bytes that cannot be a peer's address.
    pub(super) fn validate(&self, raw: &[u8]) -> Result<(), String> {
        // SAFETY: `info` lives as long as self.
        let format = unsafe { (*self.info.as_ptr()).addr_format };
        match format {
            sys::FI_ADDR_STR => {
                // Providers copy it into a buffer of this size, as one C string.
                let text = raw.strip_suffix(&[0]).filter(|b| b.len() < MAX_NAME && !b.contains(&0));
                let text = text.and_then(|b| std::str::from_utf8(b).ok());
                match text.and_then(|t| t.split_once("://")) {
                    Some((scheme, _)) if scheme.starts_with("fi_") => Ok(()),
                    _ => Err(format!("{raw:02x?} is not a string like fi_shm://…")),
                }
            }
            sys::FI_SOCKADDR_IN => socket_address(raw, libc::AF_INET, 16),
            sys::FI_SOCKADDR_IN6 => socket_address(raw, libc::AF_INET6, 28),
            _ if self.sample.is_empty() || raw.len() == self.sample.len() => Ok(()),
            _ => Err(format!("{} bytes instead of {}", raw.len(), self.sample.len())),
        }
    }
}

fn socket_address(raw: &[u8], family: i32, len: usize) -> Result<(), String> {
    let is = |at: usize| raw.get(at..at + 2).map(|b| u16::from_ne_bytes([b[0], b[1]]));
    if raw.len() != len {
        return Err(format!("{} bytes instead of {len}", raw.len()));
    }
    if is(0) != Some(family as u16) {
        return Err(format!("address family {:?} instead of {family}", is(0).unwrap_or(0)));
    }
    if is(2) == Some(0) {
        return Err("port 0".into());
    }
    Ok(())
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.stale_keys.clear();
        self.shared_av = None;
        // SAFETY: opened by `open`, closed once, in reverse order; endpoints and
        // regions hold an Arc of self, so none is left.
        unsafe {
            for fid in [self.domain.cast(), self.fabric.cast::<sys::fid>()] {
                if !fid.is_null() {
                    ffi::fi_close(fid);
                }
            }
        }
    }
}
