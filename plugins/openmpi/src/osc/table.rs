//! The functions Open MPI calls on a window.

use super::module::Functions;
use super::{access, accumulate, create, epoch, request};
use crate::ffi;
use crate::state::State;
use rankway::netmod::Netmod;

/// Those of a state's netmod.
pub(super) fn functions<N: Netmod>(_: &State<N>) -> Functions {
    ffi::ompi_osc_base_module_3_0_0_t {
        osc_win_shared_query: Some(create::shared_query::<N>),
        osc_win_attach: Some(create::attach::<N>),
        osc_win_detach: Some(create::detach::<N>),
        osc_free: Some(create::free::<N>),
        osc_put: Some(access::put::<N>),
        osc_get: Some(access::get::<N>),
        osc_accumulate: Some(accumulate::accumulate::<N>),
        osc_compare_and_swap: Some(accumulate::compare_and_swap::<N>),
        osc_fetch_and_op: Some(accumulate::fetch_and_op::<N>),
        osc_get_accumulate: Some(accumulate::get_accumulate::<N>),
        osc_rput: Some(request::rput::<N>),
        osc_rget: Some(request::rget::<N>),
        osc_raccumulate: Some(request::raccumulate::<N>),
        osc_rget_accumulate: Some(request::rget_accumulate::<N>),
        osc_fence: Some(epoch::fence::<N>),
        osc_start: Some(epoch::start::<N>),
        osc_complete: Some(epoch::complete::<N>),
        osc_post: Some(epoch::post::<N>),
        osc_wait: Some(epoch::wait::<N>),
        osc_test: Some(epoch::test::<N>),
        osc_lock: Some(epoch::lock::<N>),
        osc_unlock: Some(epoch::unlock::<N>),
        osc_lock_all: Some(epoch::lock_all::<N>),
        osc_unlock_all: Some(epoch::unlock_all::<N>),
        osc_sync: Some(epoch::sync::<N>),
        osc_flush: Some(epoch::flush::<N>),
        osc_flush_all: Some(epoch::flush_all::<N>),
        osc_flush_local: Some(epoch::flush_local::<N>),
        osc_flush_local_all: Some(epoch::flush_local_all::<N>),
    }
}
