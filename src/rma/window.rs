//! Windows: memory that the members of a communicator may reach.

use super::access::{Access, Epoch};
use super::core::{Column, Mapped, WindowCore};
use super::keys::Published;
use super::segment::{self, PAGE, Segment};
use super::{Communicator, Error, ErrorKind};
use crate::av::Transport;
use crate::netmod::Netmod;
use std::fs::File;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Where a window's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// Allocated by the window, shared on the node.
    Allocated,
    /// The user's own.
    Created,
}

/// Whose memory a window is allocated from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// Shared on the node: a put there is a store. Where it cannot be shared,
    /// [`Backing::Direct`].
    #[default]
    Shared,
    /// The network library's own memory, where it has some (UCX), and its own
    /// way to put into it.
    Provider,
    /// The same memory, with stores where the library has a peer's mapped.
    Direct,
}

/// Memory of every member that the others may put to and get from.
///
/// Operations are those of [`Access`], to which a window dereferences. Dropping
/// a window gives its memory back without asking the others; [`Window::free`]
/// waits for them first.
#[derive(Debug)]
pub struct Window<N: Netmod> {
    access: Access<N>,
    communicator: Communicator<N>,
    flavor: Flavor,
}

impl<N: Netmod> Deref for Window<N> {
    type Target = Access<N>;

    fn deref(&self) -> &Access<N> {
        &self.access
    }
}

/// What the members tell each other before a window is made.
#[derive(Clone, Copy, Debug)]
struct Offer {
    fault: bool,
    bytes: u64,
    unit: u64,
    next_key: u64,
    pid: u32,
    fd: i32,
}

impl Offer {
    const LEN: usize = 33;

    fn encode(&self) -> [u8; Offer::LEN] {
        let mut out = [0; Offer::LEN];
        out[0] = u8::from(self.fault);
        out[1..9].copy_from_slice(&self.bytes.to_le_bytes());
        out[9..17].copy_from_slice(&self.unit.to_le_bytes());
        out[17..25].copy_from_slice(&self.next_key.to_le_bytes());
        out[25..29].copy_from_slice(&self.pid.to_le_bytes());
        out[29..].copy_from_slice(&self.fd.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Offer> {
        let b: &[u8; Offer::LEN] = bytes.try_into().ok()?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| b[at + i]));
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| b[at + i]));
        Some(Offer {
            fault: b[0] != 0,
            bytes: word(1),
            unit: word(9),
            next_key: word(17),
            pid: half(25),
            fd: half(29) as i32,
        })
    }
}

impl<N: Netmod> Window<N> {
    /// Allocates `bytes` of zeroed memory in every member and makes a window
    /// of it; sizes and units may differ between ranks. Members of one node
    /// share the memory, so that a put between them is a store. Collective.
    ///
    /// # Errors
    /// [`ErrorKind::Arguments`] for a unit of 0 (in all members),
    /// [`ErrorKind::Memory`], a peer that died.
    pub fn allocate(
        communicator: &Communicator<N>,
        bytes: usize,
        unit: usize,
    ) -> Result<Window<N>, Error> {
        Window::allocate_with(communicator, bytes, unit, Backing::Shared)
    }

    /// [`Window::allocate`] with a choice of the memory, the same in all
    /// members. Collective.
    ///
    /// # Errors
    /// As [`Window::allocate`].
    pub fn allocate_with(
        communicator: &Communicator<N>,
        bytes: usize,
        unit: usize,
        backing: Backing,
    ) -> Result<Window<N>, Error> {
        let communicator = communicator.dup();
        if backing != Backing::Shared {
            let offers = exchange(&communicator, bytes, unit, -1)?;
            let ground = provided(&communicator, bytes, backing == Backing::Direct);
            return Window::build(communicator, &offers, ground, Flavor::Allocated);
        }
        let first = first_on_node(&communicator)?;
        let file = if first == communicator.rank() { segment::create().ok() } else { None };
        let fd = file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let offers = exchange(&communicator, bytes, unit, fd)?;
        let node = NodeSegment::map(&communicator, &offers, first, file)?;
        // All members of a node share, or none does. The file stays open until
        // all have opened it.
        let shared = communicator.allgather(&[u8::from(node.is_some())])?;
        let agreed = shared.iter().all(|s| s.as_slice() == [1]);
        let ground = match node.filter(|_| agreed) {
            Some(NodeSegment { segment, mapped, _file }) => {
                let device = communicator.device();
                let mine = device.node_rank(device.boot().rank()).unwrap_or(0);
                // SAFETY: the segment has a part for every node rank.
                let start = unsafe { mapped.start.add(mine as usize * mapped.pitch) };
                let segment = Some(segment);
                Ok(Ground { mapped: Some(mapped), segment, ..Ground::of(start) })
            }
            None => provided(&communicator, bytes, true),
        };
        Window::build(communicator, &offers, ground, Flavor::Allocated)
    }

    /// Makes a window of memory the caller has. Collective.
    ///
    /// # Errors
    /// [`ErrorKind::NullBuffer`] for null with a length,
    /// [`ErrorKind::Arguments`] for a unit of 0 (in all members), a peer that
    /// died, memory the provider cannot register.
    ///
    /// # Safety
    /// `start..start + bytes` stays mapped, and is touched by the process only
    /// as MPI's rules for windows allow, until the window is freed or dropped.
    pub unsafe fn create(
        communicator: &Communicator<N>,
        start: *mut u8,
        bytes: usize,
        unit: usize,
    ) -> Result<Window<N>, Error> {
        let communicator = communicator.dup();
        let null = start.is_null() && bytes > 0;
        let offers = exchange(&communicator, bytes, if null { 0 } else { unit }, -1);
        if null {
            return Err(ErrorKind::NullBuffer { len: bytes }.into());
        }
        Window::build(communicator, &offers?, Ok(Ground::of(start)), Flavor::Created)
    }

    /// Registers the memory and tells the others, or tells them that there is
    /// none: a window is made in all members or in none.
    fn build(
        communicator: Communicator<N>,
        offers: &[Offer],
        ground: Result<Ground<N>, Error>,
        flavor: Flavor,
    ) -> Result<Window<N>, Error> {
        let context = communicator.context();
        let device = communicator.device();
        let mine = offers[communicator.rank() as usize];
        let key = offers.iter().map(|o| o.next_key).max().unwrap_or(1);
        device.use_key(key);
        let register = |transport, ground: &Ground<N>| -> Result<Option<N::Region>, Error> {
            let Some((netmod, port)) = context.port(transport) else { return Ok(None) };
            if mine.bytes == 0 || ground.mapped.is_some_and(|m| m.all) {
                return Ok(None);
            }
            // SAFETY: the segment is dropped after the region, and user memory
            // stays by the contract of `create`.
            let region = unsafe { netmod.register(port, ground.start, mine.bytes as usize, key) };
            Ok(Some(region.map_err(crate::device::DeviceError::from)?))
        };
        let prepared = ground.and_then(|mut ground| {
            let network = match ground.region.take() {
                None => register(Transport::Network, &ground)?,
                region => region,
            };
            let local = match ground.mapped {
                Some(_) => None,
                None => register(Transport::Local, &ground)?,
            };
            let published = match network.as_ref().zip(device.provider(Transport::Network)) {
                Some((region, netmod)) if N::KEY_HANDLES => {
                    netmod.publish(region).map_err(crate::device::DeviceError::from)?
                }
                _ => Vec::new(),
            };
            Ok((ground, network, local, published))
        });
        let told = prepared.as_ref().ok().map(|(ground, network, ..)| {
            let netmod = device.provider(Transport::Network);
            let by_address = netmod.is_some_and(|n| n.caps().virtual_addresses);
            let base = if by_address && network.is_some() { ground.start.addr() as u64 } else { 0 };
            let chosen = netmod.filter(|n| n.caps().provider_keys).zip(network.as_ref());
            (base, chosen.map_or(key, |(n, region)| n.key(region)))
        });
        let told = told.map(|(base, key)| {
            let published = prepared.as_ref().map_or(&[][..], |(.., published)| published);
            Told { base, key, published }
        });
        let heard = exchange_keys(&communicator, told, key);
        let (ground, network_region, local_region, _) = prepared?;
        let Heard { bases, keys, published } = heard?;
        let core = Arc::new(WindowCore {
            _regions: [network_region, local_region],
            sizes: Column::new(offers.iter().map(|o| o.bytes)),
            units: Column::new(offers.iter().map(|o| o.unit)),
            bases,
            keys,
            published: N::KEY_HANDLES.then(|| Arc::new(published)),
            members: communicator.map().clone(),
            direct: ground.direct,
            local_key: key,
            mapped: ground.mapped,
            start: ground.start,
            bytes: mine.bytes as usize,
            _segment: ground.segment,
            map: communicator.map().clone(),
            _of: None,
        });
        let access = Access::new(&core, context, communicator.map())?;
        Ok(Window { access, communicator, flavor })
    }

    /// The window's own communicator: a duplicate of the one it was made on.
    pub fn communicator(&self) -> &Communicator<N> {
        &self.communicator
    }

    /// Where the memory comes from.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// This process's memory: start and bytes. Others may write to it at any
    /// time within their epochs.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`].
    pub fn local(&self) -> Result<(*mut u8, usize), Error> {
        let core = self.access.core()?;
        Ok((core.start, core.bytes))
    }

    /// Copies from this process's own memory of the window.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`], [`ErrorKind::OutOfBounds`].
    pub fn read_local(&self, offset: usize, out: &mut [u8]) -> Result<(), Error> {
        let at = self.local_range(offset, out.len())?;
        for (i, byte) in out.iter_mut().enumerate() {
            // SAFETY: in range; volatile because peers may be writing.
            *byte = unsafe { at.add(i).read_volatile() };
        }
        Ok(())
    }

    /// Copies into this process's own memory of the window.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`], [`ErrorKind::OutOfBounds`].
    pub fn write_local(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let at = self.local_range(offset, bytes.len())?;
        for (i, byte) in bytes.iter().enumerate() {
            // SAFETY: in range; volatile because peers may be reading.
            unsafe { at.add(i).write_volatile(*byte) };
        }
        Ok(())
    }

    fn local_range(&self, offset: usize, len: usize) -> Result<*mut u8, Error> {
        let (start, bytes) = self.local()?;
        if offset.checked_add(len).is_none_or(|end| end > bytes) {
            let (rank, bytes) = (self.communicator.rank(), bytes as u64);
            return Err(ErrorKind::OutOfBounds { rank, disp: offset, unit: 1, len, bytes }.into());
        }
        // SAFETY: within the window's memory.
        Ok(unsafe { start.add(offset) })
    }

    /// Ends the epoch that is open, waits until all members' operations are
    /// done everywhere, and opens the next. Collective.
    ///
    /// # Errors
    /// [`ErrorKind::Epoch`] between lock_all and unlock_all, [`ErrorKind::Freed`],
    /// a peer that died or an operation that failed.
    pub fn fence(&self) -> Result<(), Error> {
        match self.access.epoch() {
            Epoch::Freed => return Err(ErrorKind::Freed.into()),
            Epoch::LockAll => {
                let remedy = "call unlock_all first";
                return Err(ErrorKind::Epoch { call: "fence", open: "lock_all", remedy }.into());
            }
            Epoch::Closed | Epoch::Fence => {}
        }
        let flushed = self.access.flush_dirty();
        // The others wait there, whatever became of this one's operations.
        let met = self.communicator.barrier();
        explained(flushed, met)?;
        self.access.set_epoch(Epoch::Fence);
        Ok(())
    }

    /// Waits for all members and gives the window back. Collective.
    ///
    /// # Errors
    /// [`ErrorKind::Freed`] the second time, [`ErrorKind::Epoch`] between
    /// lock_all and unlock_all; a peer that died (the window is freed then
    /// too).
    pub fn free(&mut self) -> Result<(), Error> {
        match self.access.epoch() {
            Epoch::Freed => return Err(ErrorKind::Freed.into()),
            Epoch::LockAll => {
                let remedy = "call unlock_all first";
                return Err(ErrorKind::Epoch { call: "free", open: "lock_all", remedy }.into());
            }
            Epoch::Closed | Epoch::Fence => {}
        }
        let flushed = self.access.flush_dirty();
        let met = self.communicator.barrier();
        self.access.set_epoch(Epoch::Freed);
        explained(flushed, met)
    }
}

/// The result of a flush and the barrier behind it: the death of a member,
/// which all hear of in the barrier, explains whatever else went wrong.
fn explained(flushed: Result<(), Error>, met: Result<(), Error>) -> Result<(), Error> {
    match met {
        Err(e) if e.peer().is_some() => Err(e),
        met => flushed.and(met),
    }
}

/// The first member on this process's node; it makes the segment.
fn first_on_node<N: Netmod>(communicator: &Communicator<N>) -> Result<u32, Error> {
    for rank in 0..communicator.size() {
        if communicator.device().on_node(communicator.world_rank(rank)?) {
            return Ok(rank);
        }
    }
    Ok(communicator.rank())
}

/// Tells all members about this one's part and hears of theirs.
fn exchange<N: Netmod>(
    communicator: &Communicator<N>,
    bytes: usize,
    unit: usize,
    fd: i32,
) -> Result<Vec<Offer>, Error> {
    let mine = Offer {
        fault: unit == 0,
        bytes: bytes as u64,
        unit: unit as u64,
        next_key: communicator.device().next_key(),
        pid: std::process::id(),
        fd,
    };
    let all = communicator.allgather(&mine.encode())?;
    let decode = |(rank, bytes): (usize, &Vec<u8>)| {
        let why = || format!("rank {rank} is not making a window in this call");
        Offer::decode(bytes).ok_or_else(|| Error::from(ErrorKind::Arguments(why())))
    };
    let offers = all.iter().enumerate().map(decode).collect::<Result<Vec<_>, _>>()?;
    if let Some(rank) = offers.iter().position(|o| o.fault) {
        let why = format!("rank {rank} gave a displacement unit of 0 or null memory");
        return Err(ErrorKind::Arguments(why).into());
    }
    Ok(offers)
}

/// Where this process's memory is and how it is reached.
struct Told<'a> {
    base: u64,
    key: u64,
    /// Where keys are handles.
    published: &'a [u8],
}

/// The same of all members.
struct Heard {
    bases: Column,
    keys: Column,
    published: Published,
}

/// Tells all members the target address and key of this one's memory, `None`
/// when it has none, and hears theirs. One byte each where all have the key
/// that was agreed on and address by offset.
fn exchange_keys<N: Netmod>(
    communicator: &Communicator<N>,
    told: Option<Told<'_>>,
    agreed: u64,
) -> Result<Heard, Error> {
    let mine = match told {
        None => vec![],
        Some(Told { base: 0, key, published: [] }) if key == agreed => vec![1],
        Some(t) => [&t.base.to_le_bytes()[..], &t.key.to_le_bytes(), t.published].concat(),
    };
    let all = communicator.allgather(&mine)?;
    if let Some(rank) = all.iter().position(Vec::is_empty) {
        let why = format!("rank {rank} has no memory for its part of the window");
        return Err(ErrorKind::Arguments(why).into());
    }
    let word = |at: usize, usual: u64| {
        all.iter().map(move |b| {
            let bytes = b.get(at..at + 8).and_then(|s| s.try_into().ok());
            bytes.map_or(usual, u64::from_le_bytes)
        })
    };
    let (bases, keys) = (Column::new(word(0, 0)), Column::new(word(8, agreed)));
    let published: Vec<Vec<u8>> =
        all.into_iter().map(|mut b| b.split_off(b.len().min(16))).collect();
    Ok(Heard { bases, keys, published: Published::new(&published) })
}

/// This process's memory for a window, before the others know of it.
struct Ground<N: Netmod> {
    start: *mut u8,
    mapped: Option<Mapped>,
    /// Where the memory is the window's own.
    segment: Option<Segment>,
    /// Where it is the provider's.
    region: Option<N::Region>,
    direct: bool,
}

impl<N: Netmod> Ground<N> {
    fn of(start: *mut u8) -> Ground<N> {
        Ground { start, mapped: None, segment: None, region: None, direct: false }
    }
}

/// Memory that cannot be shared on the node by us: the provider's, or private.
fn provided<N: Netmod>(
    communicator: &Communicator<N>,
    bytes: usize,
    direct: bool,
) -> Result<Ground<N>, Error> {
    let refused = |source| ErrorKind::Memory { what: format!("{bytes} bytes"), source };
    if bytes > isize::MAX as usize {
        return Err(refused(std::io::ErrorKind::OutOfMemory.into()).into());
    }
    if let Some((netmod, port)) = communicator.context().port(Transport::Network)
        && bytes > 0
    {
        let memory = netmod.allocate(port, bytes);
        let memory = memory.map_err(|e| refused(std::io::Error::other(e)))?;
        if let Some((region, start)) = memory {
            return Ok(Ground { region: Some(region), direct, ..Ground::of(start) });
        }
    }
    let segment = Segment::private(bytes)?;
    let start = segment.start();
    Ok(Ground { segment: Some(segment), ..Ground::of(start) })
}

/// A node's segment, mapped whole.
struct NodeSegment {
    segment: Segment,
    mapped: Mapped,
    /// The members that come later open it through this process.
    _file: File,
}

impl NodeSegment {
    /// Maps the segment the node's first member made; `None` when it cannot
    /// be had (another pid namespace, no memory files).
    fn map<N: Netmod>(
        communicator: &Communicator<N>,
        offers: &[Offer],
        first: u32,
        file: Option<File>,
    ) -> Result<Option<NodeSegment>, Error> {
        let device = communicator.device();
        let mut all = true;
        let mut part = 0;
        for (rank, offer) in (0..).zip(offers) {
            if device.on_node(communicator.world_rank(rank)?) {
                part = part.max(offer.bytes as usize);
            } else {
                all = false;
            }
        }
        let pitch = part.checked_next_multiple_of(PAGE);
        let len = pitch.and_then(|p| p.checked_mul(device.node_size() as usize));
        let (Some(pitch), Some(len)) = (pitch, len.filter(|&l| l <= isize::MAX as usize)) else {
            return Ok(None);
        };
        let offer = offers[first as usize];
        let file = match file {
            Some(file) => Ok(file),
            None => segment::open(offer.pid, offer.fd),
        };
        let mapped = file.and_then(|f| Ok((Segment::map(&f, len.max(PAGE))?, f)));
        let Ok((segment, file)) = mapped else { return Ok(None) };
        let mapped = Mapped { start: segment.start(), pitch, all };
        Ok(Some(NodeSegment { segment, mapped, _file: file }))
    }
}
