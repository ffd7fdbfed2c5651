//! UCX started: the context and what it can do.

use super::bindings as sys;
use super::constants::{INJECT, PACKET, PACKET_INJECT};
use super::ffi::{Functions, Library};
use super::transports;
use crate::dl;
use crate::netmod::{Caps, NetError, Netmod, limits};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// How UCX is opened. Transports and devices are UCX's own choice, which
/// `UCX_TLS` and `UCX_NET_DEVICES` narrow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// Several threads will open workers.
    pub threads: bool,
    /// Workers are to have a descriptor to sleep on ([`Netmod::wait_fd`](crate::netmod::Netmod::wait_fd)); it
    /// excludes transports without one.
    pub wakeup: bool,
    /// Processes of the job.
    pub peers: u32,
}

/// UCX, started once for the process.
pub struct Ucx {
    pub(super) lib: &'static Library,
    pub(super) context: sys::ucp_context_h,
    pub(super) caps: Caps,
    pub(super) wakeup: bool,
    /// Registrations of windows that ended while peers may write to them.
    pub(super) stale_regions: Mutex<Vec<sys::ucp_mem_h>>,
}

// SAFETY: the context is opened for workers of several threads
// (mt_workers_shared) when there will be such; with one worker everything runs
// in the worker owner's thread (the rule of `Netmod`'s documentation).
unsafe impl Send for Ucx {}
// SAFETY: as above.
unsafe impl Sync for Ucx {}

impl std::fmt::Debug for Ucx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ucx").field("caps", &self.caps).finish_non_exhaustive()
    }
}

impl Ucx {
    /// Starts UCX. To be called before threads that read the environment: one
    /// of UCX's settings may have to be put there.
    ///
    /// # Errors
    /// [`NetError::Library`] when it is not there, [`NetError::Call`] when it
    /// refuses (no transport of `UCX_TLS`, no device of `UCX_NET_DEVICES`).
    pub fn open(request: &Request) -> Result<Arc<Ucx>, NetError> {
        let lib = Library::open().map_err(|e| NetError::Library(e.to_string()))?;
        avoid_tcp_puts(lib);
        // SAFETY: all-zero parameters name no field.
        let mut params: sys::ucp_params_t = unsafe { std::mem::zeroed() };
        let fields = sys::UCP_PARAM_FIELD_FEATURES
            | sys::UCP_PARAM_FIELD_MT_WORKERS_SHARED
            | sys::UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
        params.field_mask = u64::from(fields);
        let mut features = sys::UCP_FEATURE_RMA
            | sys::UCP_FEATURE_AMO32
            | sys::UCP_FEATURE_AMO64
            | sys::UCP_FEATURE_AM
            | sys::UCP_FEATURE_TAG;
        if request.wakeup {
            features |= sys::UCP_FEATURE_WAKEUP;
        }
        params.features = u64::from(features);
        params.mt_workers_shared = i32::from(request.threads);
        // Few: endpoints are made on first use. A large estimate would choose
        // transports that scale over those that are fast.
        params.estimated_num_eps = request.peers.min(8) as usize;
        let mut ucx = Ucx {
            lib,
            context: null_mut(),
            caps: Caps {
                inject_size: INJECT,
                max_message: isize::MAX as usize,
                virtual_addresses: true,
                packet_size: PACKET,
                packet_inject: PACKET_INJECT,
                max_bulk: isize::MAX as usize,
                ..Caps::none(<Ucx as Netmod>::NAME)
            },
            wakeup: request.wakeup,
            stale_regions: Mutex::default(),
        };
        let (major, minor) = (sys::UCP_API_MAJOR, sys::UCP_API_MINOR);
        // SAFETY: the parameters' fields that the mask names are set; a null
        // configuration is read from the environment.
        let status = unsafe {
            (ucx.f().ucp_init_version)(major, minor, &params, std::ptr::null(), &mut ucx.context)
        };
        if status != sys::UCS_OK {
            ucx.context = null_mut();
        }
        ucx.check("ucp_init", status)?;
        ucx.caps.node_queues = true;
        ucx.caps.cpu_atomics = transports::all_cpu_atomics(&ucx.transports());
        Ok(Arc::new(ucx))
    }

    /// The transports and devices of this context, as `posix/memory`.
    #[must_use]
    pub fn transports(&self) -> Vec<String> {
        transports::of(self.f(), self.context)
    }

    /// The library's functions.
    #[inline(always)]
    pub(super) fn f(&self) -> &'static Functions {
        self.lib.functions()
    }

    /// An error unless the status is `UCS_OK`.
    pub(super) fn check(
        &self,
        call: &'static str,
        status: sys::ucs_status_t,
    ) -> Result<(), NetError> {
        if status == sys::UCS_OK { Ok(()) } else { Err(self.call_error(call, status)) }
    }

    /// The error of a call.
    pub(super) fn call_error(&self, call: &'static str, status: sys::ucs_status_t) -> NetError {
        let plain = self.lib.text(status);
        let mut text = crate::ulimit::explained(plain.clone());
        if text == plain {
            text += match status {
                sys::UCS_ERR_UNREACHABLE => {
                    "; its process has ended, or the two have no transport in common (UCX_TLS)"
                }
                sys::UCS_ERR_NO_DEVICE => {
                    "; no transport of UCX_TLS is here, or no device of UCX_NET_DEVICES"
                }
                sys::UCS_ERR_SHMEM_SEGMENT => {
                    "; processes in several namespaces reach each other by UCX_TLS=tcp,self"
                }
                _ => "",
            };
        }
        let error = NetError::Call {
            provider: self.caps.provider.clone(),
            call,
            code: i64::from(status),
            text,
        };
        // A device that cannot lock memory returns either; others lock none.
        let denied = matches!(status, sys::UCS_ERR_NO_MEMORY | sys::UCS_ERR_IO_ERROR);
        let devices =
            || std::fs::read_dir("/sys/class/infiniband").is_ok_and(|mut d| d.next().is_some());
        if denied && devices() { limits::out_of_memory(error) } else { error }
    }

    /// See [`Netmod::explain`](crate::netmod::Netmod::explain).
    pub(super) fn explain(&self, call: &'static str, code: isize) -> NetError {
        let status = i8::try_from(code - STATUS).ok().filter(|s| *s < 0);
        match status {
            Some(status) => self.call_error(call, status),
            None => NetError::Call {
                provider: self.caps.provider.clone(),
                call,
                code: code as i64,
                text: std::io::Error::from_raw_os_error(-code as i32).to_string(),
            },
        }
    }

    /// The error of an operation that failed after its call.
    pub(super) fn operation_error(&self, peer: Option<u64>, status: sys::ucs_status_t) -> NetError {
        NetError::Operation {
            provider: self.caps.provider.clone(),
            peer,
            code: -i64::from(status),
            text: self.lib.text(status),
        }
    }

    pub(super) fn address_error(&self, reason: String) -> NetError {
        NetError::Address { provider: self.caps.provider.clone(), reason }
    }
}

impl Drop for Ucx {
    fn drop(&mut self) {
        if !self.context.is_null() {
            let stale = self.stale_regions.get_mut().unwrap_or_else(PoisonError::into_inner);
            let stale = std::mem::take(stale);
            // SAFETY: workers and regions hold an Arc of self, so none
            // is left; stale regions are unmapped once.
            unsafe {
                stale.into_iter().for_each(|memh| {
                    (self.f().ucp_mem_unmap)(self.context, memh);
                });
                (self.f().ucp_cleanup)(self.context);
            }
        }
    }
}

/// UCX's zero-copy puts over tcp.
const TCP_PUTS_ENV: &str = "UCX_TCP_PUT_ENABLE";

/// Tells UCX not to put over tcp without a copy, unless the user has said
/// something about it: the receiver of such puts crashes now and then in
/// `uct_tcp_iface_progress` (seen with 1.13, not with 1.20). 1.13 takes this
/// from the environment alone.
fn avoid_tcp_puts(lib: &Library) {
    // (Of what is set and goes unused UCX warns.)
    if lib.version() < (1, 20, 0)
        && transports::may_use_tcp(std::env::var("UCX_TLS").ok().as_deref())
    {
        // SAFETY: the documentation of `Ucx::open` asks for that.
        unsafe { dl::set_unless_chosen(&[TCP_PUTS_ENV], "n") };
    }
}

/// Added to UCX's statuses in return codes, to keep them apart from errno's.
const STATUS: isize = -1000;

/// A status as the return code of a netmod's operation.
pub(super) fn return_code(status: sys::ucs_status_t) -> isize {
    match status {
        sys::UCS_OK => 0,
        sys::UCS_ERR_NO_RESOURCE => crate::netmod::AGAIN,
        status => STATUS + isize::from(status),
    }
}
