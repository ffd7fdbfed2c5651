//! The baseline: puts through virtual connections and tables of references to them.

use super::issue::{Issuer, place};
use crate::fixture::Fixture;
use rankway::av::Transport;
use rankway::netmod::{AGAIN, Netmod};
use rankway::rankmap::Process;
use rankway::rma::Access;
use std::collections::BTreeMap;
use std::hint::black_box;

/// A virtual connection as in MPICH 3.2: everything about a peer in one place,
/// 480 bytes of it (Guo et al. 2017).
#[repr(C)]
struct Vc {
    dest: u64,
    mapped: *mut u8,
    /// Where keys differ between peers.
    addr: u64,
    key: u64,
    _rest: [u8; 448],
}

/// The virtual connections of all communicators of a job, by process group and lpid.
pub(super) struct Connections(BTreeMap<u32, Vec<Vc>>);

impl Connections {
    pub(super) fn new<'a, N: Netmod>(
        accesses: impl Iterator<Item = &'a Access<N>>,
    ) -> Result<Connections, String> {
        let mut groups: BTreeMap<u32, Vec<Vc>> = BTreeMap::new();
        for access in accesses {
            for (rank, process) in (0..).zip(access.map().iter()) {
                let group = groups.entry(process.pg).or_default();
                let lpid = process.lpid as usize;
                group.resize_with(group.len().max(lpid + 1), Vc::default);
                group[lpid] = Vc::of(access, rank)?;
            }
        }
        Ok(Connections(groups))
    }
}

impl Vc {
    fn of<N: Netmod>(access: &Access<N>, rank: u32) -> Result<Vc, String> {
        let mapped = access.mapped(rank).map_err(|e| e.to_string())?;
        let raw = access.raw_target(rank).map_err(|e| e.to_string())?;
        let (dest, addr, key) = raw.map_or((0, 0, 0), |t| (t.dest, t.addr, t.key));
        let mapped = mapped.unwrap_or(std::ptr::null_mut());
        Ok(Vc { dest, mapped, addr, key, ..Vc::default() })
    }
}

impl Default for Vc {
    fn default() -> Vc {
        Vc { dest: 0, mapped: std::ptr::null_mut(), addr: 0, key: 0, _rest: [0; 448] }
    }
}

/// The same put over a table of pointers to virtual connections.
pub(super) struct VcWindow<'a, N: Netmod> {
    vcrt: Vec<&'a Vc>,
    pub(super) transport: Transport,
    inject_handle: N::InjectHandle,
    inject_size: usize,
    addr: u64,
    pub(super) key: u64,
    bytes: usize,
    issuer: &'a Issuer<N>,
}

impl<'a, N: Netmod> VcWindow<'a, N> {
    /// A communicator with the ranks of an access, among whose processes the
    /// connections are.
    pub(super) fn new(
        fixture: &Fixture<N>,
        issuer: &'a Issuer<N>,
        connections: &'a Connections,
    ) -> Result<VcWindow<'a, N>, String> {
        let raw = issuer.raw_target(issuer.map().len() - 1).map_err(|e| e.to_string())?;
        let (addr, key) = raw.map_or((0, 0), |t| (t.addr, t.key));
        let any = [Transport::Network, Transport::Local];
        let open = || any.into_iter().find(|&t| fixture.context.endpoint(t).is_some());
        let transport = raw.map(|t| t.transport).or_else(open).ok_or("no provider is open")?;
        let (netmod, endpoint) =
            fixture.context.endpoint(transport).ok_or("no provider is open")?;
        let (_, bytes) = fixture.window.local().map_err(|e| e.to_string())?;
        let of = |process: Process| &connections.0[&process.pg][process.lpid as usize];
        Ok(VcWindow {
            vcrt: issuer.map().iter().map(of).collect(),
            transport,
            inject_handle: N::inject_handle(endpoint),
            inject_size: netmod.caps().inject_size,
            addr,
            key,
            bytes,
            issuer,
        })
    }

    /// # Safety
    /// `rank` has a virtual connection, `buf` holds `len` bytes, and the target as
    /// many from its `disp`th word on.
    #[inline(always)]
    unsafe fn put(&self, buf: *const u8, len: usize, rank: u32, disp: usize) -> isize {
        // SAFETY: `rank` has a connection, so it is in range.
        let vc = unsafe { *self.vcrt.get_unchecked(rank as usize) };
        if !vc.mapped.is_null() {
            // SAFETY: mapped window memory, and `len` bytes on both sides.
            unsafe { vc.mapped.add(disp * 8).copy_from_nonoverlapping(buf, len) };
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::Release);
            return 0;
        }
        let (addr, key) = if N::KEY_HANDLES { (vc.addr, vc.key) } else { (self.addr, self.key) };
        let addr = addr + disp as u64 * 8;
        // SAFETY: [ENDPOINT]: it lives in the fixture; [DEST], [KEY]: the connection's, and the
        // target holds the bytes; [BUF]; [LIMIT]: cut to it.
        unsafe { N::inject(self.inject_handle, buf, len.min(self.inject_size), vc.dest, addr, key) }
    }

    /// Bursts as [`rounds`] has them: the last put of each goes through the
    /// access, so that its flush has as much to wait for as with ours.
    #[inline(always)]
    fn rounds(
        &self,
        count: usize,
        window: usize,
        mut put: impl FnMut(u32) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut left = count;
        while left > 0 {
            let burst = left.min(window);
            left -= burst;
            let mut issued = 1;
            while issued < burst {
                for rank in 0..(burst - issued).min(self.vcrt.len()) as u32 {
                    put(rank)?;
                }
                issued += (burst - issued).min(self.vcrt.len());
            }
            self.flush()?;
        }
        Ok(())
    }

    /// A last put, through the access, and its flush.
    pub(super) fn flush(&self) -> Result<(), String> {
        self.issuer.put(&[0; 8], 0, 0).map_err(|e| e.to_string())?;
        self.issuer.flush()
    }

    /// Makes space and puts again until the provider takes it.
    #[cold]
    #[inline(never)]
    fn insist(&self, mut rc: isize, data: &[u8], rank: u32, disp: usize) -> Result<(), String> {
        while rc == AGAIN {
            self.issuer.context().progress().map_err(|e| e.to_string())?;
            // SAFETY: as where it was refused.
            rc = unsafe { self.put(data.as_ptr(), data.len(), rank, disp) };
        }
        if rc == 0 { Ok(()) } else { Err(format!("the provider answered {rc}")) }
    }

    /// One put.
    #[inline(always)]
    pub(super) fn issue(&self, data: &[u8], rank: u32, shift: u32) -> Result<(), String> {
        let disp = place(rank, shift);
        // SAFETY: rank is in range and targets hold the data.
        let rc = unsafe { self.put(data.as_ptr(), data.len(), rank, disp) };
        if rc == 0 { Ok(()) } else { self.insist(rc, data, rank, disp) }
    }

    #[inline(always)]
    pub(super) fn issue_checked(&self, data: &[u8], rank: u32, shift: u32) -> Result<(), String> {
        if rank >= self.vcrt.len() as u32 || data.len() > black_box(self.bytes) {
            return Err("out of range".into());
        }
        self.issue(data, rank, shift)
    }

    pub(super) fn unchecked(
        &self,
        data: &[u8],
        count: usize,
        window: usize,
        shift: u32,
    ) -> Result<(), String> {
        self.rounds(count, window, |rank| self.issue(data, rank, shift))
    }

    pub(super) fn checked(
        &self,
        data: &[u8],
        count: usize,
        window: usize,
        shift: u32,
    ) -> Result<(), String> {
        self.rounds(count, window, |rank| self.issue_checked(data, rank, shift))
    }
}

const _: () = assert!(size_of::<Vc>() == 480);
