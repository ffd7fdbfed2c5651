//! The memory a window is made of: the provider's, private, or a segment that
//! the processes of a node map whole.

use super::exchange::MemberInfo;
use crate::av::Transport;
use crate::netmod::Netmod;
use crate::rma::element_gate::ElementGate;
use crate::rma::locks::NodeLocks;
use crate::rma::node_barrier::NodeBarrier;
use crate::rma::node_words::NodeWords;
use crate::rma::state::Mapped;
use crate::rma::{Communicator, Error, ErrorKind};
use crate::shm::segment::{self, PAGE, Place, Segment, Shared};
use std::fs::File;
use std::sync::Arc;

/// This process's memory for a window that is being made.
pub(super) struct LocalMemory<N: Netmod> {
    pub(super) start: *mut u8,
    pub(super) mapped: Option<Mapped>,
    /// By rank, where the regions are contiguous.
    pub(super) starts: Option<Vec<u64>>,
    pub(super) node_words: Option<NodeWords>,
    pub(super) element_gate: Option<Arc<ElementGate>>,
    /// Where the memory is the window's own.
    pub(super) segment: Option<Segment>,
    /// Where the node's words have a segment of their own.
    pub(super) words: Option<Segment>,
    /// Where it is the provider's.
    pub(super) region: Option<N::Region>,
    pub(super) rkey_ptr: bool,
}

impl<N: Netmod> LocalMemory<N> {
    /// Memory that is not shared.
    pub(super) fn of(start: *mut u8) -> LocalMemory<N> {
        LocalMemory {
            start,
            mapped: None,
            starts: None,
            node_words: None,
            words: None,
            element_gate: None,
            segment: None,
            region: None,
            rkey_ptr: false,
        }
    }

    /// This with the node's words in a segment of their own, where it has one.
    pub(super) fn with(self, words: Option<(Segment, NodeWords)>) -> LocalMemory<N> {
        let Some((segment, node_words)) = words else { return self };
        LocalMemory { words: Some(segment), node_words: Some(node_words), ..self }
    }
}

/// Memory that is not in a segment of the node: the provider's, or private.
pub(super) fn provided<N: Netmod>(
    communicator: &Communicator<N>,
    bytes: usize,
    rkey_ptr: bool,
) -> Result<LocalMemory<N>, Error> {
    if bytes > isize::MAX as usize {
        return Err(refused(bytes, std::io::ErrorKind::OutOfMemory.into()));
    }
    if let Some((netmod, endpoint)) = communicator.context().endpoint(Transport::Network)
        && bytes > 0
    {
        let memory = netmod.allocate(endpoint, bytes);
        let memory = memory.map_err(|error| refused(bytes, std::io::Error::other(error)))?;
        if let Some((region, start)) = memory {
            return Ok(LocalMemory { region: Some(region), rkey_ptr, ..LocalMemory::of(start) });
        }
    }
    let segment = Segment::private(bytes).map_err(|source| refused(bytes, source))?;
    let start = segment.start();
    Ok(LocalMemory { segment: Some(segment), ..LocalMemory::of(start) })
}

/// The error for a node's segment without its final length.
pub(super) fn not_final(bytes: usize) -> Error {
    let source = std::io::Error::other("the memory file of the node does not have its length");
    refused(bytes, source)
}

/// The error for memory of `bytes` that cannot be had, with the limit's remedy.
fn refused(bytes: usize, source: std::io::Error) -> Error {
    let what = crate::ulimit::explained(format!("{bytes} bytes"));
    ErrorKind::Memory { what, source }.into()
}

/// A node's segment, mapped whole.
pub(super) struct NodeSegment {
    pub(super) segment: Segment,
    pub(super) mapped: Mapped,
    pub(super) node_words: NodeWords,
    /// Bytes of the regions, and where the gate's stand.
    regions: usize,
    gate: usize,
    /// The members that come later open it through this process.
    file: File,
    len: usize,
}

impl NodeSegment {
    /// Returns true if it has its final length, which only its maker sets, and
    /// may be touched.
    pub(super) fn is_final(&self) -> bool {
        segment::is_final(&self.file, self.len)
    }

    /// The gate for its elements, where all members are on the node; once it has its
    /// final length. All have joined when they have exchanged anything after.
    pub(super) fn element_gate<N: Netmod>(
        &self,
        communicator: &Communicator<N>,
    ) -> Option<Arc<ElementGate>> {
        let device = communicator.device();
        let on_node = |rank| device.node_rank(communicator.world_rank(rank).ok()?);
        let members = (0..communicator.size()).map(on_node).collect::<Option<_>>()?;
        let me = device.node_rank(device.boot().rank()).filter(|_| self.mapped.all)?;
        let start = self.segment.start();
        // SAFETY: within the segment, at a multiple of 64 behind the words; node ranks
        // are below the node's size.
        let gate =
            unsafe { ElementGate::join((start, self.regions), start.add(self.gate), me, members) };
        Some(Arc::new(gate))
    }

    /// Maps the segment the node's first member made; `None` when it cannot
    /// be had (another pid namespace, no memory files).
    pub(super) fn map<N: Netmod>(
        communicator: &Communicator<N>,
        infos: &[MemberInfo],
        first: u32,
        file: Option<Shared>,
    ) -> Result<Option<NodeSegment>, Error> {
        let device = communicator.device();
        let mut all = true;
        let mut largest = 0;
        for (rank, info) in (0..).zip(infos) {
            if device.on_node(communicator.world_rank(rank)?) {
                largest = largest.max(info.bytes as usize);
            } else {
                all = false;
            }
        }
        let pitch = largest.checked_next_multiple_of(PAGE);
        let len = pitch.and_then(|p| p.checked_mul(device.node_size() as usize));
        let (Some(pitch), Some(len)) = (pitch, len.filter(|&l| l <= isize::MAX as usize)) else {
            return Ok(None);
        };
        let node = NodeSegment::open(communicator, infos[first as usize], file, len);
        Ok(node.map(|node| NodeSegment { mapped: Mapped { pitch, all, ..node.mapped }, ..node }))
    }

    /// Maps one segment for all members, the regions contiguous by rank, and
    /// says where each starts; `None` when it cannot be had.
    pub(super) fn map_contiguous<N: Netmod>(
        communicator: &Communicator<N>,
        infos: &[MemberInfo],
        first: u32,
        file: Option<Shared>,
    ) -> Result<Option<(NodeSegment, Vec<u64>)>, Error> {
        let device = communicator.device();
        let mut starts = Vec::with_capacity(infos.len());
        let mut len = 0_usize;
        for (rank, info) in (0..).zip(infos) {
            let peer = communicator.world_rank(rank)?;
            let end = len.checked_add(info.bytes as usize).filter(|&l| l <= isize::MAX as usize);
            let (Some(end), true) = (end, device.on_node(peer)) else { return Ok(None) };
            starts.push(len as u64);
            len = end;
        }
        let node = NodeSegment::open(communicator, infos[first as usize], file, len);
        Ok(node.map(|node| (node, starts)))
    }

    /// Maps `len` bytes of regions and the node's words and gate behind them.
    fn open<N: Netmod>(
        communicator: &Communicator<N>,
        info: MemberInfo,
        file: Option<Shared>,
        len: usize,
    ) -> Option<NodeSegment> {
        let device = communicator.device();
        let (job_size, node_size) = (device.boot().size(), device.node_size());
        let words = NodeWords::bytes(job_size, node_size)?;
        let behind = len.checked_next_multiple_of(PAGE)?;
        let gate = behind.checked_add(words)?;
        let all = gate.checked_add(ElementGate::bytes(node_size));
        let all = all.filter(|&all| all <= isize::MAX as usize)?;
        let (segment, file) = match file {
            Some(file) => (file.map(all).ok()?, file.into_file()),
            None => {
                let file = info.memory?.open().ok()?;
                (Segment::map(&file, all).ok()?, file)
            }
        };
        let start = segment.start();
        // SAFETY: within the segment, which holds `words` bytes behind there.
        let node_words = unsafe { NodeWords::at(start.add(behind), job_size, node_size) };
        let mapped = Mapped { start, pitch: 0, all: true };
        Some(NodeSegment { segment, mapped, node_words, regions: len, gate, file, len: all })
    }
}

/// The node's words of a window whose memory the node does not share: in a small
/// segment of their own, which the first member on the node makes.
pub(super) struct OwnWords {
    first: u32,
    /// Made here, before the others hear of it.
    made: Option<(File, Segment)>,
    place: Option<Place>,
}

impl OwnWords {
    /// Makes the segment, if that is for this process to do.
    pub(super) fn make<N: Netmod>(communicator: &Communicator<N>) -> Result<OwnWords, Error> {
        let first = first_on_node(communicator)?;
        let none = OwnWords { first, made: None, place: None };
        let device = communicator.device();
        if first != communicator.rank() {
            return Ok(none);
        }
        let near = |rank| communicator.world_rank(rank).map(|peer| device.on_node(peer));
        let mut others = first + 1..communicator.size();
        if !others.try_fold(false, |found, rank| Ok::<_, Error>(found || near(rank)?))? {
            return Ok(none);
        }
        let make = |len| {
            let shared = Shared::create("rankway-words").ok()?;
            let (place, segment) = (shared.place(), shared.map(len).ok()?);
            Some(OwnWords { first, made: Some((shared.into_file(), segment)), place: Some(place) })
        };
        Ok(words_len(communicator).and_then(make).unwrap_or(none))
    }

    /// What the other members are to be told.
    pub(super) fn place(&self) -> Option<Place> {
        self.place
    }

    /// The words, when all members on the node have them. Collective where any member
    /// told of a segment.
    pub(super) fn share<N: Netmod>(
        self,
        communicator: &Communicator<N>,
        infos: &[MemberInfo],
    ) -> Result<Option<(Segment, NodeWords)>, Error> {
        if infos.iter().all(|info| info.memory.is_none()) {
            return Ok(None);
        }
        let device = communicator.device();
        let len = words_len(communicator);
        let place = infos[self.first as usize].memory;
        let opened = match self.made {
            Some((file, segment)) => Some((file, segment)),
            None => place.zip(len).and_then(|(place, len)| {
                let file = place.open().ok().filter(|file| segment::is_final(file, len))?;
                let segment = Segment::map(&file, len).ok()?;
                Some((file, segment))
            }),
        };
        // The file stays open until all have opened it.
        let shared = communicator.allgather(&[u8::from(opened.is_some())])?;
        for (rank, shared) in (0..).zip(&shared) {
            if device.on_node(communicator.world_rank(rank)?) && shared.as_slice() != [1] {
                return Ok(None);
            }
        }
        Ok(opened.map(|(_, segment)| {
            let (job_size, node_size) = (device.boot().size(), device.node_size());
            // SAFETY: the segment has that length for good, was zeros and is kept with
            // the window.
            let words = unsafe { NodeWords::at(segment.start(), job_size, node_size) };
            (segment, words)
        }))
    }
}

/// The locks and the barrier of a new window whose members are all on this node and share
/// words.
pub(super) fn on_one_node<N: Netmod>(
    communicator: &Communicator<N>,
    words: Option<NodeWords>,
) -> Result<Option<(NodeLocks, NodeBarrier)>, Error> {
    let device = communicator.device();
    let Some(words) = words else { return Ok(None) };
    let mut peers = Vec::new();
    for rank in 0..communicator.size() {
        let peer = communicator.world_rank(rank)?;
        if !device.on_node(peer) {
            return Ok(None);
        }
        peers.push(peer);
    }
    let node_ranks = device.node_rank(peers[0]).zip(device.node_rank(device.boot().rank()));
    let Some((first, mine)) = node_ranks else { return Ok(None) };
    // The others, from the next one on.
    let me = communicator.rank();
    peers.rotate_left(me as usize);
    peers.remove(0);
    let barrier = NodeBarrier::new(words, me, peers.into());
    Ok(Some((words.locks(first, mine), barrier)))
}

/// Bytes of the node's words.
fn words_len<N: Netmod>(communicator: &Communicator<N>) -> Option<usize> {
    let device = communicator.device();
    let len = NodeWords::bytes(device.boot().size(), device.node_size())?;
    len.checked_next_multiple_of(PAGE).filter(|&len| len <= isize::MAX as usize)
}

/// The first member on this process's node; it makes the segment.
pub(super) fn first_on_node<N: Netmod>(communicator: &Communicator<N>) -> Result<u32, Error> {
    for rank in 0..communicator.size() {
        if communicator.device().on_node(communicator.world_rank(rank)?) {
            return Ok(rank);
        }
    }
    Ok(communicator.rank())
}
