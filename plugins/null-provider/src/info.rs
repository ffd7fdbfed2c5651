//! What fi_getinfo(3) answers: one endpoint type, and whatever of its
//! capabilities the hints ask for.

use core::ffi::{CStr, c_char, c_int, c_void};

use crate::bindings::*;
use crate::object::err;
use crate::settings::SETTINGS;
use crate::{NAME, VERSION};

/// The longest `fi_inject*`, in bytes.
pub(crate) const INJECT_SIZE: usize = 4096;
/// The longest transfer, in bytes.
pub(crate) const MAX_MSG_SIZE: usize = isize::MAX as usize;
/// The longest vector of buffers.
pub(crate) const IOV_LIMIT: usize = 16;
/// The most bytes that one atomic operation takes.
pub(crate) const ATOMIC_SIZE: usize = 4096;
/// Bytes of a raw address.
pub(crate) const ADDRESS_LEN: usize = size_of::<u64>();

const FABRIC: &CStr = c"rankway_null";
const DOMAIN: &CStr = c"null";
const PROTOCOL: u32 = FI_PROV_SPECIFIC | 0x4e55;
const QUEUE_SIZE: usize = 1 << 16;
const TAG_FORMAT: u64 = u64::MAX;

const SENDS: u64 = FI_SEND | FI_RECV;
const ACCESSES: u64 = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
const CAPS: u64 = FI_MSG
    | FI_TAGGED
    | FI_RMA
    | FI_ATOMIC
    | SENDS
    | ACCESSES
    | FI_DIRECTED_RECV
    | FI_MULTI_RECV
    | FI_FENCE
    | FI_LOCAL_COMM
    | FI_REMOTE_COMM;
const TX_CAPS: u64 =
    FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SEND | FI_READ | FI_WRITE | FI_FENCE;
const RX_CAPS: u64 = FI_MSG
    | FI_TAGGED
    | FI_RMA
    | FI_ATOMIC
    | FI_RECV
    | FI_REMOTE_READ
    | FI_REMOTE_WRITE
    | FI_DIRECTED_RECV
    | FI_MULTI_RECV;
const DOMAIN_CAPS: u64 = FI_LOCAL_COMM | FI_REMOTE_COMM;

/// Nothing overtakes anything when everything is over at once.
const MSG_ORDER: u64 = FI_ORDER_STRICT
    | FI_ORDER_RMA_RAR
    | FI_ORDER_RMA_RAW
    | FI_ORDER_RMA_WAR
    | FI_ORDER_RMA_WAW
    | FI_ORDER_ATOMIC_RAR
    | FI_ORDER_ATOMIC_RAW
    | FI_ORDER_ATOMIC_WAR
    | FI_ORDER_ATOMIC_WAW;
const COMP_ORDER: u64 = FI_ORDER_STRICT | FI_ORDER_DATA;
const TX_FLAGS: u64 = FI_COMPLETION
    | FI_INJECT
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE
    | FI_COMMIT_COMPLETE
    | FI_MATCH_COMPLETE;
const RX_FLAGS: u64 = FI_COMPLETION | FI_MULTI_RECV;

/// fi_getinfo(3), for this provider alone.
///
/// # Safety
/// libfabric passes `hints` null or whole, with `node` and `service` null or C
/// strings, and takes the answer in `info`.
pub(crate) unsafe extern "C" fn getinfo(
    _version: u32,
    node: *const c_char,
    _service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    // SAFETY: [ARG], during the call.
    let hints = unsafe { hints.as_ref() };
    // SAFETY: as above.
    if hints.is_some_and(|hints| !unsafe { fits(hints) }) || SETTINGS.is_err() {
        return err(FI_ENODATA);
    }
    // SAFETY: as above; `node` is null or a C string.
    match unsafe { answer(hints, node, flags) } {
        Some(answer) => {
            // SAFETY: [ARG].
            unsafe { *info = answer };
            0
        }
        None => err(FI_ENOMEM),
    }
}

/// Returns true if the provider has what the hints ask for.
///
/// # Safety
/// The hints are whole: their attribute pointers are null or valid.
unsafe fn fits(hints: &fi_info) -> bool {
    // SAFETY: [ARG], for the five attribute structures.
    let (tx, rx, ep, domain, fabric) = unsafe {
        (
            hints.tx_attr.as_ref(),
            hints.rx_attr.as_ref(),
            hints.ep_attr.as_ref(),
            hints.domain_attr.as_ref(),
            hints.fabric_attr.as_ref(),
        )
    };
    let one_context = |count: usize| count <= 1;
    let subset = |asked: u64, have: u64| asked & !have == 0;

    subset(hints.caps, CAPS)
        && hints.addr_format == FI_FORMAT_UNSPEC
        && tx.is_none_or(|tx| {
            subset(tx.caps, CAPS)
                && subset(tx.op_flags, TX_FLAGS)
                && subset(tx.msg_order, MSG_ORDER)
                && subset(tx.comp_order, COMP_ORDER)
                && tx.inject_size <= INJECT_SIZE
                && tx.size <= QUEUE_SIZE
                && tx.iov_limit <= IOV_LIMIT
                && tx.rma_iov_limit <= IOV_LIMIT
        })
        && rx.is_none_or(|rx| {
            subset(rx.caps, CAPS)
                && subset(rx.op_flags, RX_FLAGS)
                && subset(rx.msg_order, MSG_ORDER)
                && subset(rx.comp_order, COMP_ORDER)
                && rx.size <= QUEUE_SIZE
                && rx.iov_limit <= IOV_LIMIT
        })
        // Another type would let libfabric lay a utility provider over this one.
        && ep.is_none_or(|ep| {
            matches!(ep.type_, FI_EP_UNSPEC | FI_EP_RDM)
                && (ep.protocol == FI_PROTO_UNSPEC || ep.protocol == PROTOCOL)
                && ep.max_msg_size <= MAX_MSG_SIZE
                && one_context(ep.tx_ctx_cnt)
                && one_context(ep.rx_ctx_cnt)
                && ep.auth_key_size == 0
        })
        && domain.is_none_or(|domain| {
            // SAFETY: a name is null or a C string.
            let ours = unsafe { named(domain.name, DOMAIN) };
            ours && domain.mr_key_size <= size_of::<u64>()
                && domain.cq_data_size <= size_of::<u64>()
                && subset(domain.caps, CAPS)
                && domain.auth_key_size == 0
        })
        && fabric.is_none_or(|fabric| {
            // SAFETY: names are null or C strings.
            unsafe { named(fabric.name, FABRIC) && wanted(fabric.prov_name) }
        })
}

/// Returns true if a name is not given, or is this one.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn named(name: *const c_char, this: &CStr) -> bool {
    // SAFETY: [ARG].
    name.is_null() || unsafe { CStr::from_ptr(name) } == this
}

/// Returns true if a provider filter lets this provider through: a list of
/// names between semicolons or commas, all others being meant when it starts
/// with ^.
///
/// # Safety
/// `filter` is null or a C string.
unsafe fn wanted(filter: *const c_char) -> bool {
    if filter.is_null() {
        return true;
    }
    // SAFETY: [ARG].
    let filter = unsafe { CStr::from_ptr(filter) }.to_bytes();
    let (but, names) = match filter.strip_prefix(b"^") {
        Some(names) => (true, names),
        None => (false, filter),
    };
    let listed =
        names.split(|byte| matches!(byte, b';' | b',')).any(|name| name == NAME.to_bytes());
    listed != but
}

/// Builds the one `fi_info`, for hints that fit.
///
/// # Safety
/// The hints are whole; `node` is null or a C string.
unsafe fn answer(hints: Option<&fi_info>, node: *const c_char, flags: u64) -> Option<*mut fi_info> {
    // A later libfabric may have more fields; it reads zeroes there.
    let info = zeroed::<fi_info>()?;
    let guard = Unfinished(info);
    // SAFETY: `info` is zeroed memory of that type and bigger, all zeroes is a
    // valid value of each attribute structure, and this function alone has it.
    // The hints are whole.
    unsafe {
        (*info).tx_attr = zeroed()?;
        (*info).rx_attr = zeroed()?;
        (*info).ep_attr = zeroed()?;
        (*info).domain_attr = zeroed()?;
        (*info).fabric_attr = zeroed()?;
        let caps = capabilities(hints.map_or(0, |hints| hints.caps));
        (*info).caps = caps;
        (*info).addr_format = FI_FORMAT_UNSPEC;
        // There is nobody at the other end; any address is as good.
        if !node.is_null() && flags & FI_SOURCE == 0 {
            let address = zeroed::<u64>()?;
            *address = hash(CStr::from_ptr(node).to_bytes());
            (*info).dest_addr = address.cast();
            (*info).dest_addrlen = ADDRESS_LEN;
        }
        transmit(&mut *(*info).tx_attr, hints.and_then(|hints| hints.tx_attr.as_ref()), caps);
        receive(&mut *(*info).rx_attr, hints.and_then(|hints| hints.rx_attr.as_ref()), caps);
        endpoint(&mut *(*info).ep_attr);
        domain(&mut *(*info).domain_attr, hints.and_then(|hints| hints.domain_attr.as_ref()))?;
        // libfabric itself fills in the provider's name and version.
        (*(*info).fabric_attr).name = copy(FABRIC)?;
        (*(*info).fabric_attr).prov_version = VERSION;
    }
    core::mem::forget(guard);
    Some(info)
}

/// What is granted: all, or what was asked with the directions it implies.
fn capabilities(asked: u64) -> u64 {
    if asked == 0 {
        return CAPS;
    }
    let mut caps = asked | DOMAIN_CAPS;
    if caps & (FI_MSG | FI_TAGGED) != 0 && caps & SENDS == 0 {
        caps |= SENDS;
    }
    if caps & (FI_RMA | FI_ATOMIC) != 0 && caps & ACCESSES == 0 {
        caps |= ACCESSES;
    }
    caps
}

fn transmit(attr: &mut fi_tx_attr, hints: Option<&fi_tx_attr>, caps: u64) {
    attr.caps = caps & TX_CAPS;
    attr.op_flags = hints.map_or(0, |hints| hints.op_flags);
    attr.msg_order = MSG_ORDER;
    attr.comp_order = COMP_ORDER;
    attr.inject_size = INJECT_SIZE;
    attr.size = QUEUE_SIZE;
    attr.iov_limit = IOV_LIMIT;
    attr.rma_iov_limit = IOV_LIMIT;
}

fn receive(attr: &mut fi_rx_attr, hints: Option<&fi_rx_attr>, caps: u64) {
    attr.caps = caps & RX_CAPS;
    attr.op_flags = hints.map_or(0, |hints| hints.op_flags);
    attr.msg_order = MSG_ORDER;
    attr.comp_order = COMP_ORDER;
    attr.size = QUEUE_SIZE;
    attr.iov_limit = IOV_LIMIT;
}

fn endpoint(attr: &mut fi_ep_attr) {
    attr.type_ = FI_EP_RDM;
    attr.protocol = PROTOCOL;
    attr.protocol_version = 1;
    attr.max_msg_size = MAX_MSG_SIZE;
    attr.max_order_raw_size = MAX_MSG_SIZE;
    attr.max_order_war_size = MAX_MSG_SIZE;
    attr.max_order_waw_size = MAX_MSG_SIZE;
    attr.mem_tag_format = TAG_FORMAT;
    attr.tx_ctx_cnt = 1;
    attr.rx_ctx_cnt = 1;
}

fn domain(attr: &mut fi_domain_attr, hints: Option<&fi_domain_attr>) -> Option<()> {
    attr.name = copy(DOMAIN)?;
    // Where nothing is asked, the level that allows the most; the program that
    // promises to keep threads apart gets calls without locked instructions.
    attr.threading = match hints.map_or(FI_THREAD_UNSPEC, |hints| hints.threading) {
        level @ (FI_THREAD_DOMAIN | FI_THREAD_COMPLETION) => level,
        _ => FI_THREAD_SAFE,
    };
    attr.control_progress = FI_PROGRESS_AUTO;
    attr.data_progress = FI_PROGRESS_AUTO;
    attr.resource_mgmt = FI_RM_ENABLED;
    attr.av_type = match hints.map_or(FI_AV_UNSPEC, |hints| hints.av_type) {
        FI_AV_MAP => FI_AV_MAP,
        _ => FI_AV_TABLE,
    };
    // No bit is needed; the two old whole modes are answered as asked.
    let old = FI_MR_BASIC as c_int | FI_MR_SCALABLE as c_int;
    attr.mr_mode = match hints.map_or(0, |hints| hints.mr_mode) {
        mode if mode != 0 && mode & !old == 0 => mode,
        _ => 0,
    };
    attr.mr_key_size = size_of::<u64>();
    attr.cq_data_size = size_of::<u64>();
    for count in [
        &mut attr.cq_cnt,
        &mut attr.ep_cnt,
        &mut attr.tx_ctx_cnt,
        &mut attr.rx_ctx_cnt,
        &mut attr.cntr_cnt,
        &mut attr.mr_cnt,
    ] {
        *count = QUEUE_SIZE;
    }
    attr.max_ep_tx_ctx = 1;
    attr.max_ep_rx_ctx = 1;
    attr.mr_iov_limit = IOV_LIMIT;
    attr.caps = DOMAIN_CAPS;
    Some(())
}

/// Zeroed memory that fi_freeinfo(3) can give to `free`, with space for fields
/// that a later libfabric appends.
fn zeroed<T>() -> Option<*mut T> {
    const CAPACITY: usize = 256;
    // SAFETY: calloc may be called with any size.
    let memory = unsafe { libc::calloc(1, size_of::<T>() + CAPACITY) };
    (!memory.is_null()).then_some(memory.cast())
}

fn copy(string: &CStr) -> Option<*mut c_char> {
    // SAFETY: a C string.
    let copy = unsafe { libc::strdup(string.as_ptr()) };
    (!copy.is_null()).then_some(copy)
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Frees a half-built answer when memory runs out.
struct Unfinished(*mut fi_info);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // SAFETY: the pointers are null or come from malloc, and nobody else
        // has them yet.
        unsafe {
            let info = &*self.0;
            let mut parts: [*mut c_void; 8] = [core::ptr::null_mut(); 8];
            if let Some(domain) = info.domain_attr.as_ref() {
                parts[0] = domain.name.cast();
            }
            if let Some(fabric) = info.fabric_attr.as_ref() {
                parts[1] = fabric.name.cast();
            }
            parts[2] = info.tx_attr.cast();
            parts[3] = info.rx_attr.cast();
            parts[4] = info.ep_attr.cast();
            parts[5] = info.domain_attr.cast();
            parts[6] = info.fabric_attr.cast();
            parts[7] = info.dest_addr;
            for part in parts {
                libc::free(part);
            }
            libc::free(self.0.cast());
        }
    }
}
