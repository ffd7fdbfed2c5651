//! Processes of other jobs, for device layers that bring their own rankway_boot_t.

use crate::abi::*;
use crate::am;
use crate::args::{answer, list, out};
use crate::error::{Fail, call};
use crate::objects::Context;
use crate::table::find;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// What processes of other jobs meet this one by, for the device layer to hand to them (as in
/// the name of a port): who it is, and its raw addresses, `bytes` in all, at most `capacity` of
/// which go to `introduction`. More are refused with RANKWAY_ERR_RANGE, and `bytes` says how many
/// there are. On the first context of a process, whose rankway_options_t has a rankway_boot_t.
/// Opens a network where there is none yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_introduction(
    context: rankway_context_t,
    introduction: *mut c_void,
    capacity: usize,
    bytes: *mut usize,
) -> c_int {
    call("rankway_introduction", || {
        // SAFETY: [PTR].
        let to = unsafe { out(bytes, "bytes")? };
        let own = find::<Rc<dyn Context>>(context)?.introduction()?;
        to.set(own.len());
        if own.len() > capacity {
            let why = format!(
                "the introduction has {} bytes, and there is space for {capacity}",
                own.len()
            );
            return Err(Fail::new(rankway_code::RANKWAY_ERR_RANGE, why));
        }
        if introduction.is_null() {
            return Err(Fail::null("introduction"));
        }
        // SAFETY: [PTR]: `capacity` bytes.
        unsafe { introduction.cast::<u8>().copy_from_nonoverlapping(own.as_ptr(), own.len()) };
        Ok(())
    })
}

/// Meets the process that introduces itself so: its number, which is its rank if it is of
/// this job, else one from the job's size on that it has until it is forgotten. Those of a job
/// have consecutive numbers, by rank. It is a `peer` of rankway_cq_isend, rankway_tagged_isend,
/// rankway_am_post and their kin, and an lpid of group 0 for a device layer's own maps. Nothing
/// is sent before the first message, which introduces this process in turn; one that does not
/// answer is waited for no longer than the device layer likes. Needs a rankway_boot_t, as
/// rankway_introduction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_meet(
    context: rankway_context_t,
    introduction: *const c_void,
    bytes: usize,
    peer: *mut u32,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(peer, "peer") };
    answer("rankway_meet", to, || {
        // SAFETY: [PTR].
        let introduction = unsafe { list(bytes, introduction.cast::<u8>(), "introduction")? };
        find::<Rc<dyn Context>>(context)?.meet(introduction)
    })
}

/// Forgets the job of a process that was met, once all of its processes that this one spoke to
/// have ended: `flag` 1, and their numbers are given out again; 0: some are there, or on
/// another machine, which does not tell, or `peer` is no number of another job's. Not within a
/// handler. Needs a rankway_boot_t, as rankway_introduction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rankway_forget(
    context: rankway_context_t,
    peer: u32,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: [PTR].
    let to = unsafe { out(flag, "flag") };
    answer("rankway_forget", to, || {
        let found = find::<Rc<dyn Context>>(context)?;
        am::refuse_within(found.context_id())?;
        Ok(c_int::from(found.forget(peer)?))
    })
}
