//! Communicators between two groups: ranks are those of the other one, in which this process is
//! not. Messages alone; what needs all members is refused.

use crate::abi::rankway_code;
use crate::am;
use crate::error::Fail;
use crate::objects::{Comm, SourceAndTag, Win};
use crate::operation::{Matched, Operation};
use std::rc::Rc;
use transport::datatype::Layout;
use transport::msg::Status;
use transport::rankmap::{Lookup, RankMap};

/// A communicator over the map of the other group, in which the rank is that of this process
/// in its own.
pub(crate) struct Intercomm(pub(crate) Rc<dyn Comm>);

fn refused<T>(call: &str) -> Result<T, Fail> {
    let why = format!("{call} is for communicators of one group, and this one is between two");
    Err(Fail::new(rankway_code::RANKWAY_ERR_ARG, why))
}

/// What is the other communicator's.
macro_rules! its {
    ($(fn $call:ident(&self $(, $name:ident: $ty:ty)*) -> $result:ty;)*) => {
        $(fn $call(&self $(, $name: $ty)*) -> $result {
            self.0.$call($($name),*)
        })*
    };
}

impl Comm for Intercomm {
    its! {
        fn context_id(&self) -> usize;
        fn rank(&self) -> u32;
        fn map(&self) -> &RankMap;
        fn id(&self) -> u64;
        fn world_rank(&self, rank: u32) -> Result<u32, Fail>;
        fn node_of(&self, rank: u32) -> Result<(u32, u32), Fail>;
        fn is_local(&self, rank: u32) -> Result<bool, Fail>;
        fn lookup(&self) -> Lookup;
        fn connect(&self, rank: u32) -> Result<u64, Fail>;
        fn isend(
            &self, buf: (*const u8, usize), to: u32, tag: u32, sync: bool
        ) -> Result<Operation, Fail>;
        fn irecv(&self, buf: (*mut u8, usize), from: SourceAndTag) -> Result<Operation, Fail>;
        fn isend_type(
            &self, data: (*const u8, &Layout), to: (u32, u32), sync: bool
        ) -> Result<Operation, Fail>;
        fn irecv_type(
            &self, data: (*mut u8, &Layout), from: SourceAndTag
        ) -> Result<Operation, Fail>;
        fn iprobe(&self, from: SourceAndTag) -> Result<Option<Status>, Fail>;
        fn probe(&self, from: SourceAndTag) -> Result<Status, Fail>;
        fn improbe(&self, from: SourceAndTag) -> Result<Option<Matched>, Fail>;
        fn mprobe(&self, from: SourceAndTag) -> Result<Matched, Fail>;
        fn am_send(
            &self, to: u32, am: am::OutgoingAm<'_>, mode: am::SendMode
        ) -> Result<bool, Fail>;
        fn am_longest(&self, to: u32) -> Result<usize, Fail>;
    }

    fn dup(&self) -> Rc<dyn Comm> {
        Rc::new(Intercomm(self.0.dup()))
    }

    fn split(&self, _color: Option<u32>, _key: i32) -> Result<Option<Rc<dyn Comm>>, Fail> {
        refused("a split")
    }

    fn create(&self, _ranks: &[u32]) -> Result<Option<Rc<dyn Comm>>, Fail> {
        refused("a communicator of some ranks")
    }

    fn barrier(&self) -> Result<(), Fail> {
        refused("a barrier")
    }

    fn win_allocate(&self, _bytes: usize, _unit: usize) -> Result<Rc<dyn Win>, Fail> {
        refused("a window")
    }

    fn win_shared(&self, _bytes: usize, _unit: usize) -> Result<Rc<dyn Win>, Fail> {
        refused("a window")
    }

    fn win_dynamic(&self) -> Result<Rc<dyn Win>, Fail> {
        refused("a window")
    }

    unsafe fn win_create(
        &self,
        _start: *mut u8,
        _bytes: usize,
        _unit: usize,
    ) -> Result<Rc<dyn Win>, Fail> {
        refused("a window")
    }
}
