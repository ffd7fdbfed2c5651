//! How one rank's memory is reached.

use super::Access;
use crate::av::Transport;
use crate::device::{Context, DeviceError};
use crate::netmod::Netmod;
use crate::rankmap::{Model, Process, RankMap};
use crate::rma::cold::FoundTarget;
use crate::rma::registration::{RemoteKey, RemoteKeyEntry};
use crate::rma::state::WindowState;
use crate::rma::types::{RawTarget, Remote, Target, unreachable_error};
use crate::rma::{Error, ErrorKind};

impl<N: Netmod> Access<N> {
    /// The target of a rank as a raw loop over the provider takes it, for
    /// comparison; inserted now if it was not. `None` for a rank whose memory
    /// is mapped, or that has none.
    ///
    /// # Errors
    /// [`ErrorKind::Rank`]; a peer that cannot be reached.
    pub fn raw_target(&self, rank: u32) -> Result<Option<RawTarget>, Error> {
        self.in_range(rank)?;
        let raw = |Remote { transport, dest, addr, key, .. }| RawTarget {
            transport,
            dest,
            addr,
            key: key.bits(),
        };
        Ok(self.target(rank, 0)?.remote().map(raw))
    }

    /// Where the memory of a rank is mapped here, if it is.
    ///
    /// # Errors
    /// [`ErrorKind::Rank`]; a peer that cannot be reached.
    pub fn mapped(&self, rank: u32) -> Result<Option<*mut u8>, Error> {
        self.in_range(rank)?;
        Ok(match self.target(rank, 0)? {
            Target::Mapped(start) => Some(start),
            Target::Provider(_) | Target::Unreachable(_) => None,
        })
    }

    fn in_range(&self, rank: u32) -> Result<(), Error> {
        let size = self.map().len();
        if rank >= size {
            return Err(ErrorKind::Rank { rank, size }.into());
        }
        Ok(())
    }

    /// Finds out about a target, inserting it on first use.
    pub(in crate::rma) fn target(&self, rank: u32, disp: usize) -> Result<Target, Error> {
        if let Some(remote) = self.target_again(rank, disp) {
            return Ok(Target::Provider(remote));
        }
        self.target_at(rank, disp, self.process(rank)?)
    }

    /// [`Access::target`] of a rank whose it found last, without a look at what stays. `None`:
    /// it has to look.
    #[inline]
    pub(in crate::rma) fn target_again(&self, rank: u32, disp: usize) -> Option<Remote> {
        let found = self.cold.found.get().filter(|found| found.rank == rank)?;
        if self.context().has_lost() || found.entry != self.entry(rank) {
            return None;
        }
        let (transport, dest) = self.context().dest_of(found.entry)?;
        let addr = found.start + disp as u64 * found.unit;
        Some(Remote { rank, peer: found.peer, transport, dest, addr, key: found.key })
    }

    /// [`Access::target`] of a rank whose [`Access::process`] is known.
    pub(in crate::rma) fn target_at(
        &self,
        rank: u32,
        disp: usize,
        (process, peer): (Process, u32),
    ) -> Result<Target, Error> {
        if N::KEY_HANDLES {
            return self.target_keyed(rank, disp, (process, peer));
        }
        let state = self.borrowed_state()?;
        let mut entry = self.entry(rank);
        self.context().check_alive(peer)?;
        if entry.is_empty() {
            entry = match self.context().connect(process) {
                // A node without a shared-memory provider maps its windows.
                Err(DeviceError::NoTransport { .. }) if state.mapped.is_some_and(|m| m.all) => {
                    entry
                }
                connected => connected?,
            };
        }
        let unit = state.units.get(rank);
        let offset = disp as u64 * unit;
        if let Some(region) = region(&state, self, rank, peer) {
            // SAFETY: the region is mapped, and the displacement within it.
            return Ok(Target::Mapped(unsafe { region.add(offset as usize) }));
        }
        let remote = |transport, dest, start, key| {
            self.cold.found.set(Some(FoundTarget { rank, peer, entry, unit, start, key }));
            Target::Provider(Remote { rank, peer, transport, dest, addr: start + offset, key })
        };
        let told = state.registered.get(rank).or_else(|| self.told(peer));
        let Some(registration) = told else {
            drop(state);
            self.query(peer)?;
            return self.target_at(rank, disp, (process, peer));
        };
        let found = match N::unpack(entry) {
            Some((node_rank, transport @ Transport::Local)) => registration
                .local()
                .zip(self.context().local_address(node_rank as u32))
                .map(|(key, dest)| remote(transport, dest, 0, key)),
            Some((dest, transport @ Transport::Network)) => {
                registration.network().map(|(start, key)| remote(transport, dest, start, key))
            }
            None => None,
        };
        Ok(found.unwrap_or(Target::Unreachable(peer)))
    }

    /// [`Access::target`] where keys are handles.
    fn target_keyed(
        &self,
        rank: u32,
        disp: usize,
        (process, peer): (Process, u32),
    ) -> Result<Target, Error> {
        self.context().check_alive(peer)?;
        let remote_key = self.remote_key(rank);
        if !remote_key.is_known() {
            self.resolve_remote_key(&*self.state()?, remote_key, peer, process)?;
        }
        let offset = disp * self.borrowed_state()?.units.get(rank) as usize;
        if let Some(start) = remote_key.mapped() {
            // SAFETY: mapped here, and the displacement is within the region.
            return Ok(Target::Mapped(unsafe { start.add(offset) }));
        }
        let Some(key) = remote_key.key() else { return Ok(Target::Unreachable(peer)) };
        let transport = Transport::Network;
        let dest = N::network(self.entry(rank)).ok_or_else(|| unreachable_error(peer))?;
        Ok(Target::Provider(Remote {
            rank,
            peer,
            transport,
            dest,
            addr: remote_key.address(offset),
            key,
        }))
    }

    /// A rank's process, and its rank in the world.
    pub(in crate::rma) fn process(&self, rank: u32) -> Result<(Process, u32), Error> {
        let size = self.map().len();
        let Some(process) = self.map().get(rank) else {
            return Err(ErrorKind::Rank { rank, size }.into());
        };
        Ok((process, self.context().device().world_rank(process)?))
    }

    /// First use of a rank: where its memory is mapped here, or a key for it.
    #[cold]
    fn resolve_remote_key(
        &self,
        state: &WindowState<N>,
        remote_key: &RemoteKeyEntry,
        peer: u32,
        process: Process,
    ) -> Result<(), Error> {
        let device = self.context().device();
        if let Some(m) = state.mapped.filter(|_| device.on_node(peer)) {
            device.watch(peer)?;
            let start = match (&state.contiguous, self.map().rank_of(process)) {
                (Some(starts), Some(rank)) => starts.get(rank) as usize,
                _ => device.node_rank(peer).unwrap_or(0) as usize * m.pitch,
            };
            // SAFETY: the segment holds a region for every node rank.
            remote_key.set_mapped(unsafe { m.start.add(start) });
            return Ok(());
        }
        let member = state.member(device, peer);
        let Some(member) = member else { return Ok(()) };
        let told = state.packed_keys.as_ref().zip(state.registered.get(member));
        let (packed, base) = match told {
            Some((packed, registered)) => (packed.get(member), registered.base()),
            None => self.asked_packed(peer)?,
        };
        // Without memory nothing but empty operations passes the checks.
        let Some(packed) = packed else { return Ok(()) };
        let entry = self.context().connect(process)?;
        let transport = Transport::Network;
        let endpoint = self.context().endpoint(transport).zip(N::network(entry));
        let none = DeviceError::NoTransport { rank: peer, why: "no provider is open" };
        let ((netmod, endpoint), dest) = endpoint.ok_or(none)?;
        let key = self.keys().get_or_unpack(member, || {
            // UCX 1.13 crashes over a key whose memory went with its process.
            device.watch(peer)?;
            if device.is_ending(peer) {
                return Err(DeviceError::PeerDied { rank: peer }.into());
            }
            // SAFETY: the entry is of this context's own address vector.
            let key = unsafe { RemoteKey::unpack(&**netmod, endpoint, dest, &packed) };
            let key = key.map_err(|e| DeviceError::peer(peer, e))?;
            key.ok_or_else(|| unreachable_error(peer))
        })?;
        let by_pointer = state.rkey_ptr && device.on_node(peer);
        // SAFETY: just unpacked; the base is the region's start.
        match unsafe { by_pointer.then(|| netmod.rkey_ptr(key.bits(), base)).flatten() } {
            Some(start) => remote_key.set_mapped(start),
            None => remote_key.set_key(base, key),
        }
        Ok(())
    }
}

/// Where the region of a rank begins, if it is mapped here; for keys that are
/// not handles.
fn region<N: Netmod>(
    state: &WindowState<N>,
    access: &Access<N>,
    rank: u32,
    peer: u32,
) -> Option<*mut u8> {
    let mapped = state.mapped?;
    if let Some(starts) = &state.contiguous {
        // SAFETY: the segment holds the region of each member.
        return Some(unsafe { mapped.start.add(starts.get(rank) as usize) });
    }
    let node_rank = match N::unpack(access.entry(rank)) {
        Some((node_rank, Transport::Local)) => node_rank as u32,
        // All members are on this node, so the region is mapped.
        _ if mapped.all => access.context().device().node_rank(peer).unwrap_or(0),
        _ => return None,
    };
    // SAFETY: the segment holds a region for every node rank.
    Some(unsafe { mapped.start.add(node_rank as usize * mapped.pitch) })
}

/// Where the regions of a window are mapped, as a line over the ranks of `map`:
/// possible when all members are on this node and their node ranks are affine.
pub(super) fn fold_mapped<N: Netmod>(
    state: &WindowState<N>,
    context: &Context<N>,
    map: &RankMap,
) -> Option<(*mut u8, isize)> {
    let mapped = state.mapped.filter(|m| m.all)?;
    if let Some(starts) = &state.contiguous {
        let first = starts.get(0);
        let step = if map.len() > 1 { starts.get(1).wrapping_sub(first) } else { 0 };
        let on_line =
            |rank: u32| starts.get(rank) == first.wrapping_add(step.wrapping_mul(rank.into()));
        // SAFETY: the segment holds the region of each member.
        let start = || unsafe { mapped.start.add(first as usize) };
        return (0..map.len()).all(on_line).then(|| (start(), step as isize));
    }
    let device = context.device();
    let (base, stride) = affine(map)?;
    let line = RankMap::affine(0, base, stride, map.len()).ok()?;
    let peer = match map.pg()? {
        0 => line,
        pg => device.members_of(pg)?.compose(&line).ok()?,
    };
    let (base, stride) = affine(&device.node_ranks().compose(&peer).ok()?)?;
    // SAFETY: the segment holds a region for every node rank.
    let start = unsafe { mapped.start.add(base as usize * mapped.pitch) };
    Some((start, stride as isize * mapped.pitch as isize))
}

/// Base and stride of a map that is a line.
fn affine(map: &RankMap) -> Option<(u32, i64)> {
    let lpid = |rank| map.get(rank).map(|p| p.lpid);
    match map.model() {
        Model::Direct | Model::Offset | Model::Stride => {
            let base = lpid(0)?;
            Some((base, lpid(1).map_or(0, |next| i64::from(next) - i64::from(base))))
        }
        _ => None,
    }
}
