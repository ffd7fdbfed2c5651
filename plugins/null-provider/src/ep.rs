//! Endpoints: what is bound to them, and what went through them.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

use crate::av::{Av, put_address};
use crate::bindings::*;
use crate::busy;
use crate::cntr::Cntr;
use crate::cq::{Cq, Failure};
use crate::data;
use crate::domain::Domain;
use crate::eq::Eq;
use crate::object::{err, fid_ops, free, give, header, not_supported};
use crate::settings::{SETTINGS, say};

/// Nobody is known to an endpoint that is not enabled.
static NOBODY: AtomicU64 = AtomicU64::new(0);
/// Endpoints opened by this process; a part of their addresses.
static OPENED: AtomicU64 = AtomicU64::new(0);

#[repr(C)]
pub(crate) struct Endpoint {
    ep: fid_ep,
    // What a data transfer reads, together.
    /// How many the address vector knows; [`NOBODY`] before fi_enable.
    pub(crate) known: *const AtomicU64,
    /// Where completions go; null for nowhere.
    pub(crate) tx_cq: *const Cq,
    /// `FI_COMPLETION` unless completions are selective.
    pub(crate) always: u64,
    /// Flags of operations that take none.
    pub(crate) tx_flags: u64,
    pub(crate) counted: Counted,
    pub(crate) stats: Stats,

    // The rest.
    pub(crate) rx_cq: *const Cq,
    enabled: bool,
    rx_flags: u64,
    number: u64,
    domain: *const Domain,
    av: *const Av,
    eq: *const Eq,
    cntrs: Vec<*const Cntr>,
    /// Receives that wait for ever: (context, tagged).
    pub(crate) posted: Mutex<Vec<(usize, bool)>>,
    /// Where counts go that no counter is bound for.
    sink: AtomicU64,
}

/// The bound counters' values by what they count, or the endpoint's `sink`.
pub(crate) struct Counted {
    pub(crate) writes: *const AtomicU64,
    pub(crate) reads: *const AtomicU64,
    pub(crate) sends: *const AtomicU64,
}

/// Operations issued and bytes they were for.
#[derive(Default)]
pub(crate) struct Stats {
    pub(crate) writes: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) sends: AtomicU64,
    pub(crate) atomics: AtomicU64,
    pub(crate) receives: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

static FID: fi_ops = fid_ops(close, bind, control);
static OPS: fi_ops_ep = fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel: Some(cancel),
    getopt: Some(getopt),
    setopt: Some(setopt),
    tx_ctx: Some(no_tx_ctx),
    rx_ctx: Some(no_rx_ctx),
    rx_size_left: Some(size_left),
    tx_size_left: Some(size_left),
};
static CM_OPS: fi_ops_cm = fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: Some(no_setname),
    getname: Some(getname),
    getpeer: Some(no_getpeer),
    connect: Some(no_connect),
    listen: Some(no_listen),
    accept: Some(no_accept),
    reject: Some(no_reject),
    shutdown: Some(no_shutdown),
    join: Some(no_join),
};

not_supported! {
    no_tx_ctx(*mut fid_ep, c_int, *mut fi_tx_attr, *mut *mut fid_ep, *mut c_void) -> c_int;
    no_rx_ctx(*mut fid_ep, c_int, *mut fi_rx_attr, *mut *mut fid_ep, *mut c_void) -> c_int;
    no_setname(*mut fid, *mut c_void, usize) -> c_int;
    no_getpeer(*mut fid_ep, *mut c_void, *mut usize) -> c_int;
    no_connect(*mut fid_ep, *const c_void, *const c_void, usize) -> c_int;
    no_listen(*mut fid_pep) -> c_int;
    no_accept(*mut fid_ep, *const c_void, usize) -> c_int;
    no_reject(*mut fid_pep, *mut fid, *const c_void, usize) -> c_int;
    no_shutdown(*mut fid_ep, u64) -> c_int;
    no_join(*mut fid_ep, *const c_void, u64, *mut *mut fid_mc, *mut c_void) -> c_int;
}

/// fi_endpoint(3).
///
/// # Safety
/// The domain is one of this provider's, `info` is whole, `ep` can be written.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: [ARG].
    let Some(info) = (unsafe { info.as_ref() }) else { return err(FI_EINVAL) };
    // SAFETY: as above.
    let (tx, rx, attr) =
        unsafe { (info.tx_attr.as_ref(), info.rx_attr.as_ref(), info.ep_attr.as_ref()) };
    if attr.is_some_and(|attr| !matches!(attr.type_, FI_EP_UNSPEC | FI_EP_RDM)) {
        return err(FI_EINVAL);
    }
    let domain = domain.cast_const().cast::<Domain>();
    // SAFETY: [OPEN].
    let tables = data::tables(unsafe { (*domain).safe });
    let object = give(Endpoint {
        ep: fid_ep {
            fid: header(FI_CLASS_EP, context, &FID),
            ops: (&raw const OPS).cast_mut(),
            cm: (&raw const CM_OPS).cast_mut(),
            msg: (&raw const tables.msg).cast_mut(),
            rma: core::ptr::from_ref(busy::rma().unwrap_or(&tables.rma)).cast_mut(),
            tagged: (&raw const tables.tagged).cast_mut(),
            atomic: (&raw const tables.atomic).cast_mut(),
            collective: core::ptr::null_mut(),
        },
        known: &raw const NOBODY,
        tx_cq: core::ptr::null(),
        always: FI_COMPLETION,
        tx_flags: tx.map_or(0, |tx| tx.op_flags),
        counted: Counted {
            writes: core::ptr::null(),
            reads: core::ptr::null(),
            sends: core::ptr::null(),
        },
        stats: Stats::default(),
        rx_cq: core::ptr::null(),
        enabled: false,
        rx_flags: rx.map_or(0, |rx| rx.op_flags),
        number: OPENED.fetch_add(1, Relaxed),
        domain,
        av: core::ptr::null(),
        eq: core::ptr::null(),
        cntrs: Vec::new(),
        posted: Mutex::new(Vec::new()),
        sink: AtomicU64::new(0),
    });
    // SAFETY: the object is new, the domain is open, and the caller wants the
    // answer there.
    unsafe {
        let sink = &raw const (*object).sink;
        (*object).counted = Counted { writes: sink, reads: sink, sends: sink };
        (*domain).uses.add();
        *ep = object.cast();
    }
    0
}

pub(crate) unsafe extern "C" fn open2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return err(FI_ENOSYS);
    }
    // SAFETY: the same contract.
    unsafe { open(domain, info, ep, context) }
}

/// # Safety
/// An open endpoint of this provider. Calls that change it (bind, control,
/// close) are serialised against all others by the program (fi_endpoint.h).
unsafe fn this<'a>(ep: *mut fid) -> &'a mut Endpoint {
    // SAFETY: [OPEN].
    unsafe { &mut *ep.cast() }
}

unsafe extern "C" fn bind(ep: *mut fid, object: *mut fid, flags: u64) -> c_int {
    // SAFETY: the program passes an open endpoint and an open object of this
    // provider, whose class says its type.
    unsafe {
        let ep = this(ep);
        if ep.enabled {
            return err(FI_EOPBADSTATE as c_int);
        }
        match (*object).fclass as u32 {
            FI_CLASS_AV if ep.av.is_null() => {
                ep.av = object.cast_const().cast();
                (*ep.av).uses.add();
                0
            }
            FI_CLASS_EQ if ep.eq.is_null() => {
                ep.eq = object.cast_const().cast();
                (*ep.eq).uses.add();
                0
            }
            FI_CLASS_CQ => bind_cq(ep, object.cast_const().cast(), flags),
            FI_CLASS_CNTR => {
                let cntr = object.cast_const().cast::<Cntr>();
                let value = &raw const (*cntr).value;
                if flags & FI_WRITE != 0 {
                    ep.counted.writes = value;
                }
                if flags & FI_READ != 0 {
                    ep.counted.reads = value;
                }
                if flags & FI_SEND != 0 {
                    ep.counted.sends = value;
                }
                // Receives and remote accesses never happen: nothing to count.
                (*cntr).uses.add();
                ep.cntrs.push(cntr);
                0
            }
            _ => err(FI_EINVAL),
        }
    }
}

/// # Safety
/// `cq` is an open queue of this provider.
unsafe fn bind_cq(ep: &mut Endpoint, cq: *const Cq, flags: u64) -> c_int {
    let (tx, rx) = (flags & FI_TRANSMIT != 0, flags & FI_RECV != 0);
    let taken = (tx && !ep.tx_cq.is_null()) || (rx && !ep.rx_cq.is_null());
    if taken || !(tx || rx) {
        return err(FI_EINVAL);
    }
    if tx {
        ep.tx_cq = cq;
        ep.always = if flags & FI_SELECTIVE_COMPLETION == 0 { FI_COMPLETION } else { 0 };
        // SAFETY: the queue is open.
        unsafe { (*cq).uses.add() };
    }
    if rx {
        ep.rx_cq = cq;
        // SAFETY: the queue is open.
        unsafe { (*cq).uses.add() };
    }
    0
}

unsafe extern "C" fn control(ep: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: the program passes an open endpoint.
    let ep = unsafe { this(ep) };
    match command as u32 {
        FI_ENABLE => {
            if ep.av.is_null() {
                return err(FI_ENOAV as c_int);
            }
            if ep.tx_cq.is_null() && ep.cntrs.is_empty() {
                return err(FI_ENOCQ as c_int);
            }
            // SAFETY: the vector is open and stays so while it is bound.
            ep.known = unsafe { &raw const (*ep.av).known };
            ep.enabled = true;
            0
        }
        FI_GETOPSFLAG | FI_SETOPSFLAG => {
            // SAFETY: with these commands the argument is null or a u64.
            let Some(flags) = (unsafe { arg.cast::<u64>().as_mut() }) else {
                return err(FI_EINVAL);
            };
            let direction = *flags & (FI_TRANSMIT | FI_RECV);
            let kept = match direction {
                FI_TRANSMIT => &mut ep.tx_flags,
                FI_RECV => &mut ep.rx_flags,
                _ => return err(FI_EINVAL),
            };
            if command as u32 == FI_GETOPSFLAG {
                *flags = *kept;
            } else {
                *kept = *flags & !direction;
            }
            0
        }
        _ => err(FI_ENOSYS),
    }
}

unsafe extern "C" fn close(ep: *mut fid) -> c_int {
    // SAFETY: the program passes an open endpoint and uses it no more; what is
    // bound to it is open, because it is in use.
    unsafe {
        let ep = this(ep);
        if SETTINGS.as_ref().is_ok_and(|settings| settings.stats) {
            ep.stats.print(ep.number);
        }
        for cq in [ep.tx_cq, ep.rx_cq] {
            if let Some(cq) = cq.as_ref() {
                cq.uses.remove();
            }
        }
        for cntr in &ep.cntrs {
            (**cntr).uses.remove();
        }
        if let Some(av) = ep.av.as_ref() {
            av.uses.remove();
        }
        if let Some(eq) = ep.eq.as_ref() {
            eq.uses.remove();
        }
        (*ep.domain).uses.remove();
        free(&raw mut *ep);
    }
    0
}

impl Stats {
    /// One line on standard error.
    fn print(&self, number: u64) {
        let [writes, reads, sends, atomics, receives, bytes] =
            [&self.writes, &self.reads, &self.sends, &self.atomics, &self.receives, &self.bytes]
                .map(|count| count.load(Relaxed));
        say(&format!(
            "pid {} endpoint {number}: {writes} writes, {reads} reads, \
             {sends} sends, {atomics} atomics, {receives} receives posted, {bytes} bytes",
            std::process::id(),
        ));
    }
}

unsafe extern "C" fn getname(ep: *mut fid, addr: *mut c_void, addrlen: *mut usize) -> c_int {
    // SAFETY: the program passes an open endpoint, and `addr` with space for
    // `*addrlen` bytes.
    unsafe {
        let number = (*ep.cast::<Endpoint>()).number;
        let address = u64::from(std::process::id()) << 32 | number & u64::from(u32::MAX);
        if put_address(address, addr, addrlen) { 0 } else { err(FI_ETOOSMALL as c_int) }
    }
}

/// Gives up one posted receive; its completion is an error, as fi_endpoint(3)
/// has it.
unsafe extern "C" fn cancel(ep: *mut fid, context: *mut c_void) -> isize {
    // SAFETY: the program passes an open endpoint.
    let ep = unsafe { &*ep.cast::<Endpoint>() };
    let mut posted = ep.posted.lock().unwrap_or_else(|poison| poison.into_inner());
    let Some(at) = posted.iter().position(|(posted, _)| *posted == context as usize) else {
        return -(FI_ENOENT as isize);
    };
    let (_, tagged) = posted.swap_remove(at);
    let failure = Failure {
        context,
        flags: FI_RECV | if tagged { FI_TAGGED } else { FI_MSG },
        tag: 0,
        err: FI_ECANCELED,
    };
    // SAFETY: what is bound stays open; the domain says whether to lock.
    unsafe {
        if let Some(cq) = ep.rx_cq.as_ref() {
            if (*ep.domain).safe { cq.fail::<true>(failure) } else { cq.fail::<false>(failure) }
        }
    }
    0
}

unsafe extern "C" fn getopt(
    _: *mut fid,
    _: c_int,
    _: c_int,
    _: *mut c_void,
    _: *mut usize,
) -> c_int {
    err(FI_ENOPROTOOPT)
}

/// Only what concerns receives, which never complete, can be set.
unsafe extern "C" fn setopt(
    _: *mut fid,
    level: c_int,
    name: c_int,
    _: *const c_void,
    _: usize,
) -> c_int {
    if level as u32 == FI_OPT_ENDPOINT && name as u32 == FI_OPT_MIN_MULTI_RECV {
        0
    } else {
        err(FI_ENOPROTOOPT)
    }
}

/// There is always space.
unsafe extern "C" fn size_left(_: *mut fid_ep) -> isize {
    1 << 16
}

impl Endpoint {
    pub(crate) fn enabled(&self) -> bool {
        self.enabled
    }
}
