//! The memory a window is made of: the provider's, private, or a segment that
//! the processes of a node map whole.

use super::exchange::MemberInfos;
use super::on_node::OnNode;
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
    private(bytes)
}

/// Memory that no other process has, nor a provider.
pub(super) fn private<N: Netmod>(bytes: usize) -> Result<LocalMemory<N>, Error> {
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
        on_node: &OnNode,
    ) -> Option<Arc<ElementGate>> {
        let device = communicator.device();
        let members = on_node.peers(communicator).ok()?;
        let members =
            members.into_iter().map(|peer| device.node_rank(peer)).collect::<Option<_>>()?;
        let me = device.node_rank(device.boot().rank()).filter(|_| self.mapped.all)?;
        let start = self.segment.start();
        // SAFETY: within the segment, at a multiple of 64 behind the words; node ranks
        // are below the node's size.
        let gate =
            unsafe { ElementGate::join((start, self.regions), start.add(self.gate), me, members) };
        Some(Arc::new(gate))
    }

    /// Maps the segment the node's first member made, which has the file of it and the others
    /// its place; `None` when it cannot be had (another pid namespace, no memory files).
    pub(super) fn map<N: Netmod>(
        communicator: &Communicator<N>,
        infos: &MemberInfos,
        on_node: &OnNode,
        made: (Option<Place>, Option<Shared>),
    ) -> Option<NodeSegment> {
        let sizes = on_node.ranks.iter().map(|&rank| infos.bytes.get(rank) as usize);
        let pitch = sizes.max().unwrap_or(0).checked_next_multiple_of(PAGE)?;
        let len = pitch.checked_mul(communicator.device().node_size() as usize);
        let len = len.filter(|&len| len <= isize::MAX as usize)?;
        let node = NodeSegment::open(communicator, made, len)?;
        Some(NodeSegment { mapped: Mapped { pitch, all: on_node.all, ..node.mapped }, ..node })
    }

    /// Maps one segment for all members, the regions contiguous by rank, and
    /// says where each starts; `None` when it cannot be had.
    pub(super) fn map_contiguous<N: Netmod>(
        communicator: &Communicator<N>,
        infos: &MemberInfos,
        on_node: &OnNode,
        made: (Option<Place>, Option<Shared>),
    ) -> Option<(NodeSegment, Vec<u64>)> {
        if !on_node.all {
            return None;
        }
        let mut starts = Vec::with_capacity(on_node.ranks.len());
        let mut len = 0_usize;
        for &rank in &on_node.ranks {
            starts.push(len as u64);
            len = len.checked_add(infos.bytes.get(rank) as usize)?;
            if len > isize::MAX as usize {
                return None;
            }
        }
        Some((NodeSegment::open(communicator, made, len)?, starts))
    }

    /// Maps `len` bytes of regions and the node's words and gate behind them.
    fn open<N: Netmod>(
        communicator: &Communicator<N>,
        (place, file): (Option<Place>, Option<Shared>),
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
                let file = place?.open().ok()?;
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

/// The node's words of a window whose memory the node does not share, in a small segment of
/// their own, which the first member on the node makes; where all members there have them.
/// All members of the communicator call it at once.
pub(super) fn own_words<N: Netmod>(
    communicator: &Communicator<N>,
    on_node: &OnNode,
) -> Result<Option<(Segment, NodeWords)>, Error> {
    let device = communicator.device();
    let len = words_len(communicator).filter(|_| on_node.ranks.len() > 1);
    let make = |len| {
        let shared = on_node.make(communicator, "rankway-words")?;
        let (place, segment) = (shared.place(), shared.map(len).ok()?);
        Some((place, segment, shared.into_file()))
    };
    let made = len.and_then(make);
    let place = on_node.tell(communicator, made.as_ref().map(|(place, ..)| *place));
    let opened = match made {
        Some((_, segment, file)) => Some((segment, file)),
        None => place.as_ref().ok().and_then(|place| {
            let len = len?;
            let file = (*place)?.open().ok().filter(|file| segment::is_final(file, len))?;
            Some((Segment::map(&file, len).ok()?, file))
        }),
    };
    // The file stays open until all have opened it.
    let shared = on_node.agree(communicator, opened.is_some());
    let opened = opened.filter(|_| matches!(shared, Ok(true)));
    place.and(shared)?;
    Ok(opened.map(|(segment, _)| {
        let (job_size, node_size) = (device.boot().size(), device.node_size());
        // SAFETY: the segment has that length for good, was zeros and is kept with
        // the window.
        let words = unsafe { NodeWords::at(segment.start(), job_size, node_size) };
        (segment, words)
    }))
}

/// The locks and the barrier of a new window whose members are all on this node and share
/// words.
pub(super) fn on_one_node<N: Netmod>(
    communicator: &Communicator<N>,
    on_node: &OnNode,
    words: Option<NodeWords>,
) -> Result<Option<(NodeLocks, NodeBarrier)>, Error> {
    let device = communicator.device();
    let Some(words) = words.filter(|_| on_node.all) else { return Ok(None) };
    let mut peers = on_node.peers(communicator)?;
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
