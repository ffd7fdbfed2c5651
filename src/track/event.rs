//! A call as 32 bytes.

use std::fmt;

/// An event without a peer: a wait, a barrier.
pub const NO_PEER: u32 = u32::MAX;

macro_rules! kinds {
    ($($class:ident { $($kind:ident = $number:literal $name:literal,)* })*) => {
        /// What was called.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[doc = concat!("`", $name, "`")] $kind = $number,)*)*
        }

        impl Kind {
            /// All there are, by number.
            pub const ALL: &[Kind] = &[$($(Kind::$kind,)*)*];

            /// The function's name, as MPI has it.
            pub fn name(self) -> &'static str {
                match self { $($(Kind::$kind => $name,)*)* }
            }

            /// What calls of its sort have in common.
            pub fn class(self) -> CallClass {
                match self { $($(Kind::$kind => CallClass::$class,)*)* }
            }

            /// The kind of this number.
            pub fn of_number(number: u8) -> Option<Kind> {
                match number { $($($number => Some(Kind::$kind),)*)* _ => None }
            }
        }
    };
}

/// What calls have in common: which fields of an [`Event`] say what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallClass {
    /// Bytes leave for `peer` with `tag` in `comm`.
    Send,
    /// Bytes have come from `peer` with `tag` in `comm`.
    Receive,
    /// A receive was posted; `peer` and `tag` as asked for, [`NO_PEER`] and a negative tag
    /// for any. Its bytes come with a [`Kind::Received`].
    Post,
    /// Waits for what was begun before, or looks whether it is over.
    Completion,
    /// All of `comm` take part; `peer` is the root, where there is one; `bytes` what this
    /// process gives.
    Collective,
    /// Begins a collective; a persistent request that does so is what begins the same one.
    CollectiveStart,
    /// Makes or frees what `comm` names.
    Management,
    /// Moves bytes to or from the memory of `peer` in the window that `comm` names.
    OneSided,
    /// Opens, closes or completes epochs of the window that `comm` names.
    Synchronization,
    /// Neither.
    Other,
}

impl CallClass {
    /// All there are.
    pub const ALL: [CallClass; 10] = [
        CallClass::Send,
        CallClass::Receive,
        CallClass::Post,
        CallClass::Completion,
        CallClass::Collective,
        CallClass::CollectiveStart,
        CallClass::Management,
        CallClass::OneSided,
        CallClass::Synchronization,
        CallClass::Other,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            CallClass::Send => "send",
            CallClass::Receive => "receive",
            CallClass::Post => "post",
            CallClass::Completion => "completion",
            CallClass::Collective => "collective",
            CallClass::CollectiveStart => "collective-start",
            CallClass::Management => "management",
            CallClass::OneSided => "one-sided",
            CallClass::Synchronization => "synchronization",
            CallClass::Other => "other",
        }
    }
}

kinds! {
    Other {
        Init = 1 "MPI_Init",
        Finalize = 2 "MPI_Finalize",
        Abort = 3 "MPI_Abort",
        Pready = 4 "MPI_Pready",
        PreadyRange = 5 "MPI_Pready_range",
        PreadyList = 6 "MPI_Pready_list",
        Completed = 7 "(completed)",
    }
    Send {
        Send = 10 "MPI_Send",
        Bsend = 11 "MPI_Bsend",
        Ssend = 12 "MPI_Ssend",
        Rsend = 13 "MPI_Rsend",
        Isend = 14 "MPI_Isend",
        Ibsend = 15 "MPI_Ibsend",
        Issend = 16 "MPI_Issend",
        Irsend = 17 "MPI_Irsend",
        Sendrecv = 18 "MPI_Sendrecv",
        SendrecvReplace = 19 "MPI_Sendrecv_replace",
        StartSend = 20 "MPI_Start (send)",
        Isendrecv = 21 "MPI_Isendrecv",
        IsendrecvReplace = 22 "MPI_Isendrecv_replace",
    }
    Receive {
        Recv = 30 "MPI_Recv",
        Mrecv = 31 "MPI_Mrecv",
        Received = 32 "(received)",
    }
    Post {
        Irecv = 40 "MPI_Irecv",
        Imrecv = 41 "MPI_Imrecv",
        StartRecv = 42 "MPI_Start (receive)",
    }
    Completion {
        Wait = 50 "MPI_Wait",
        Waitall = 51 "MPI_Waitall",
        Waitany = 52 "MPI_Waitany",
        Waitsome = 53 "MPI_Waitsome",
        Test = 54 "MPI_Test",
        Testall = 55 "MPI_Testall",
        Testany = 56 "MPI_Testany",
        Testsome = 57 "MPI_Testsome",
        Probe = 58 "MPI_Probe",
        Iprobe = 59 "MPI_Iprobe",
        Mprobe = 60 "MPI_Mprobe",
        Improbe = 61 "MPI_Improbe",
        RequestFree = 62 "MPI_Request_free",
        Cancel = 63 "MPI_Cancel",
        Parrived = 64 "MPI_Parrived",
    }
    Collective {
        Barrier = 70 "MPI_Barrier",
        Bcast = 71 "MPI_Bcast",
        Gather = 72 "MPI_Gather",
        Gatherv = 73 "MPI_Gatherv",
        Scatter = 74 "MPI_Scatter",
        Scatterv = 75 "MPI_Scatterv",
        Allgather = 76 "MPI_Allgather",
        Allgatherv = 77 "MPI_Allgatherv",
        Alltoall = 78 "MPI_Alltoall",
        Alltoallv = 79 "MPI_Alltoallv",
        Alltoallw = 80 "MPI_Alltoallw",
        Reduce = 81 "MPI_Reduce",
        Allreduce = 82 "MPI_Allreduce",
        ReduceScatter = 83 "MPI_Reduce_scatter",
        ReduceScatterBlock = 84 "MPI_Reduce_scatter_block",
        Scan = 85 "MPI_Scan",
        Exscan = 86 "MPI_Exscan",
        NeighborAllgather = 87 "MPI_Neighbor_allgather",
        NeighborAllgatherv = 88 "MPI_Neighbor_allgatherv",
        NeighborAlltoall = 89 "MPI_Neighbor_alltoall",
        NeighborAlltoallv = 90 "MPI_Neighbor_alltoallv",
        NeighborAlltoallw = 91 "MPI_Neighbor_alltoallw",
    }
    CollectiveStart {
        Ibarrier = 100 "MPI_Ibarrier",
        Ibcast = 101 "MPI_Ibcast",
        Igather = 102 "MPI_Igather",
        Igatherv = 103 "MPI_Igatherv",
        Iscatter = 104 "MPI_Iscatter",
        Iscatterv = 105 "MPI_Iscatterv",
        Iallgather = 106 "MPI_Iallgather",
        Iallgatherv = 107 "MPI_Iallgatherv",
        Ialltoall = 108 "MPI_Ialltoall",
        Ialltoallv = 109 "MPI_Ialltoallv",
        Ialltoallw = 110 "MPI_Ialltoallw",
        Ireduce = 111 "MPI_Ireduce",
        Iallreduce = 112 "MPI_Iallreduce",
        IreduceScatter = 113 "MPI_Ireduce_scatter",
        IreduceScatterBlock = 114 "MPI_Ireduce_scatter_block",
        Iscan = 115 "MPI_Iscan",
        Iexscan = 116 "MPI_Iexscan",
        IneighborAllgather = 117 "MPI_Ineighbor_allgather",
        IneighborAllgatherv = 118 "MPI_Ineighbor_allgatherv",
        IneighborAlltoall = 119 "MPI_Ineighbor_alltoall",
        IneighborAlltoallv = 120 "MPI_Ineighbor_alltoallv",
        IneighborAlltoallw = 121 "MPI_Ineighbor_alltoallw",
    }
    Management {
        CommConstruct = 130 "MPI_Comm (constructor)",
        CommFree = 131 "MPI_Comm_free",
        CommDisconnect = 132 "MPI_Comm_disconnect",
        WinConstruct = 133 "MPI_Win (constructor)",
        WinFree = 134 "MPI_Win_free",
        FileOpen = 135 "MPI_File_open",
        FileClose = 136 "MPI_File_close",
    }
    OneSided {
        Put = 150 "MPI_Put",
        Get = 151 "MPI_Get",
        Accumulate = 152 "MPI_Accumulate",
        GetAccumulate = 153 "MPI_Get_accumulate",
        FetchAndOp = 154 "MPI_Fetch_and_op",
        CompareAndSwap = 155 "MPI_Compare_and_swap",
        Rput = 156 "MPI_Rput",
        Rget = 157 "MPI_Rget",
        Raccumulate = 158 "MPI_Raccumulate",
        RgetAccumulate = 159 "MPI_Rget_accumulate",
    }
    Synchronization {
        Fence = 170 "MPI_Win_fence",
        Lock = 171 "MPI_Win_lock",
        Unlock = 172 "MPI_Win_unlock",
        LockAll = 173 "MPI_Win_lock_all",
        UnlockAll = 174 "MPI_Win_unlock_all",
        Flush = 175 "MPI_Win_flush",
        FlushAll = 176 "MPI_Win_flush_all",
        FlushLocal = 177 "MPI_Win_flush_local",
        FlushLocalAll = 178 "MPI_Win_flush_local_all",
        Post = 179 "MPI_Win_post",
        Start = 180 "MPI_Win_start",
        Complete = 181 "MPI_Win_complete",
        WinWait = 182 "MPI_Win_wait",
        WinTest = 183 "MPI_Win_test",
        Sync = 184 "MPI_Win_sync",
    }
}

impl Kind {
    /// Returns true of what is no call, but came to its end in one: a message that was
    /// received, or what else a request was of. Where a call began it, [`Event::start`] is
    /// that of its event, which no other of the process begins at; else it is the end.
    pub fn is_end(self) -> bool {
        matches!(self, Kind::Received | Kind::Completed)
    }

    /// Returns true if the call makes or starts a request, and comes back before what it
    /// began is over.
    pub fn begins(self) -> bool {
        use Kind::{
            Ibsend, Irsend, Isend, Isendrecv, IsendrecvReplace, Issend, Raccumulate, Rget,
            RgetAccumulate, Rput, StartSend,
        };
        matches!(self.class(), CallClass::Post | CallClass::CollectiveStart)
            || matches!(self, Isend | Ibsend | Issend | Irsend | StartSend)
            || matches!(self, Isendrecv | IsendrecvReplace)
            || matches!(self, Rput | Rget | Raccumulate | RgetAccumulate)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What else is to be known of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventFlags(u8);

impl EventFlags {
    /// Nothing.
    pub const NONE: EventFlags = EventFlags(0);
    /// The call returned an error.
    pub const FAILED: EventFlags = EventFlags(1);
    /// The operation was cancelled: no bytes moved.
    pub const CANCELLED: EventFlags = EventFlags(2);

    /// Both.
    #[must_use]
    pub fn and(self, other: EventFlags) -> EventFlags {
        EventFlags(self.0 | other.0)
    }

    /// Returns true if all of `other` are set.
    pub fn has(self, other: EventFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns true if nothing moved: the call failed, or was cancelled.
    pub fn is_void(self) -> bool {
        self.has(EventFlags::FAILED) || self.has(EventFlags::CANCELLED)
    }
}

/// A call that has returned. In memory as in a file, but for the order of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Event {
    /// When the call began, in ticks of the process's clock
    /// ([`Header::nanos`](super::Header::nanos)).
    pub start: u64,
    /// The lower half of the ticks that it took; in 1,024 of them where [`Event::LONG`] is
    /// set.
    duration: u32,
    /// The object that it was made on: the number that this process gave it, 0 for none.
    pub comm: u32,
    /// The peer's rank in it (in an intercommunicator's remote group), or [`NO_PEER`].
    pub peer: u32,
    /// The message's tag, 0 where there is none.
    pub tag: i32,
    /// Bytes in the lower 40 bits, kind, flags, seven bits more of the ticks that it took, and
    /// [`Event::LONG`].
    word: u64,
}

const _: () = assert!(size_of::<Event>() == Event::BYTES);

impl Event {
    /// Bytes of an event.
    pub const BYTES: usize = 32;
    const LONG: u64 = 1 << 63;
    /// Where the upper bits of the ticks are, and how many bits they have in all.
    const UPPER: u32 = 56;
    const MOST_TICKS: u32 = 39;
    const MOST_BYTES: u64 = (1 << 40) - 1;

    /// A call from `start` to `end`. More than a terabyte counts as one.
    #[inline]
    #[must_use]
    pub fn new(kind: Kind, start: u64, end: u64) -> Event {
        let ticks = end.saturating_sub(start);
        let (duration, upper) = match u32::try_from(ticks) {
            Ok(duration) => (duration, 0),
            Err(_) => Event::long(ticks),
        };
        let word = u64::from(kind as u8) << 40 | upper;
        Event { start, duration, comm: 0, peer: NO_PEER, tag: 0, word }
    }

    /// More ticks than half of them has bits for.
    #[cold]
    fn long(ticks: u64) -> (u32, u64) {
        let (ticks, long) = match ticks >> Event::MOST_TICKS {
            0 => (ticks, 0),
            _ => ((ticks >> 10).min((1 << Event::MOST_TICKS) - 1), Event::LONG),
        };
        (ticks as u32, ticks >> 32 << Event::UPPER | long)
    }

    /// In this communicator or window, with this peer and tag.
    #[inline]
    #[must_use]
    pub fn with(self, comm: u32, peer: u32, tag: i32) -> Event {
        Event { comm, peer, tag, ..self }
    }

    /// Of so many bytes.
    #[inline]
    #[must_use]
    pub fn of_bytes(self, bytes: u64) -> Event {
        let word = self.word & !Event::MOST_BYTES | bytes.min(Event::MOST_BYTES);
        Event { word, ..self }
    }

    /// With these flags beside those it has.
    #[inline]
    #[must_use]
    pub fn flagged(self, flags: EventFlags) -> Event {
        Event { word: self.word | u64::from(flags.0) << 48, ..self }
    }

    /// What was called; `None` if the number is not known.
    #[inline]
    pub fn kind(&self) -> Option<Kind> {
        Kind::of_number((self.word >> 40) as u8)
    }

    /// Bytes that the call moved.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.word & Event::MOST_BYTES
    }

    /// Its flags.
    #[inline]
    pub fn flags(&self) -> EventFlags {
        EventFlags((self.word >> 48) as u8)
    }

    /// Ticks that it took; of more than 2^39 (minutes) the lowest ten bits are lost.
    #[inline]
    pub fn ticks(&self) -> u64 {
        let upper = (self.word & !Event::LONG) >> Event::UPPER;
        let ticks = upper << 32 | u64::from(self.duration);
        ticks << if self.word & Event::LONG == 0 { 0 } else { 10 }
    }

    /// When the call returned, in ticks.
    #[inline]
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.ticks())
    }

    /// As it stands in a file.
    #[inline]
    pub fn to_bytes(&self) -> [u8; Event::BYTES] {
        let mut bytes = [0; Event::BYTES];
        bytes[..8].copy_from_slice(&self.start.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.duration.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.comm.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.peer.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.tag.to_le_bytes());
        bytes[24..].copy_from_slice(&self.word.to_le_bytes());
        bytes
    }

    /// As it stands in a file.
    #[inline]
    pub fn from_bytes(bytes: &[u8; Event::BYTES]) -> Event {
        let word = |at| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let half = |at| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Event {
            start: word(0),
            duration: half(8),
            comm: half(12),
            peer: half(16),
            tag: half(20) as i32,
            word: word(24),
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("kind", &self.kind())
            .field("start", &self.start)
            .field("ticks", &self.ticks())
            .field("comm", &self.comm)
            .field("peer", &self.peer)
            .field("tag", &self.tag)
            .field("bytes", &self.bytes())
            .field("flags", &self.flags())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_comes_back_from_its_bytes() {
        let whole = (1 << 39) - 1;
        for (ticks, bytes) in
            [(0, 0), (7, 8), (u64::from(u32::MAX), 1 << 39), (whole, 3), (1 << 41, u64::MAX)]
        {
            let event = Event::new(Kind::Send, 1 << 62, (1 << 62) + ticks)
                .with(3, 9, -1)
                .of_bytes(bytes)
                .flagged(EventFlags::FAILED);
            let again = Event::from_bytes(&event.to_bytes());
            assert_eq!(again, event);
            assert_eq!((again.kind(), again.ticks()), (Some(Kind::Send), ticks));
            assert_eq!(again.bytes(), bytes.min((1 << 40) - 1));
            assert_eq!((again.comm, again.peer, again.tag), (3, 9, -1));
            assert!(again.flags().has(EventFlags::FAILED));
            assert!(!again.flags().has(EventFlags::CANCELLED));
        }
    }

    /// What began stays the same number, however long it takes.
    #[test]
    fn long_times_end_about_when_they_did() {
        for shift in 0..60 {
            for ticks in [(1u64 << shift) - 1, 1 << shift, (1 << shift) + 1] {
                let event = Event::new(Kind::Received, 5, 5 + ticks).flagged(EventFlags::CANCELLED);
                assert_eq!(event.start, 5);
                let most = 1u64 << 39 << 10;
                let lost = if ticks < 1 << 39 { 0 } else { 1 << 10 };
                assert!(event.ticks() <= ticks && event.ticks() + lost >= ticks.min(most - 1024));
                assert!(!event.flags().has(EventFlags::FAILED));
            }
        }
    }

    #[test]
    fn what_ends_was_begun() {
        let (ends, begins): (Vec<_>, Vec<_>) = (
            Kind::ALL.iter().filter(|kind| kind.is_end()).collect(),
            Kind::ALL.iter().filter(|kind| kind.begins()).collect(),
        );
        assert_eq!(ends, [&Kind::Completed, &Kind::Received]);
        assert!(begins.iter().all(|kind| !kind.is_end()) && begins.len() == 4 + 1 + 2 + 3 + 22 + 4);
    }

    #[test]
    fn numbers_of_kinds_are_their_own() {
        for &kind in Kind::ALL {
            assert_eq!(Kind::of_number(kind as u8), Some(kind));
        }
        assert_eq!(Kind::of_number(0), None);
    }
}
