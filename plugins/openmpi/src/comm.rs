//! A communicator's group as a rank map.
//!
//! Built once for each communicator, by its hook; regular maps are a formula.
//! The process table of Open MPI is asked for names here and nowhere else, and
//! makes no process for it.

use crate::boot::Name;
use crate::log::log;
use crate::state::State;
use crate::{ffi, params, senders};
use rankway::boot::Boot;
use rankway::netmod::Netmod;
use rankway::rankmap::{Detector, Model, RankMap};

/// What the MTL keeps of a communicator.
pub(crate) struct Comm {
    /// Rank of the remote group → number of the process.
    map: RankMap,
    /// The same of ranks below `affine`: `first + step · rank`.
    affine: u32,
    first: u32,
    step: u32,
    /// The channel of its messages: the context id, which both sides of an
    /// intercommunicator know it by.
    pub(crate) channel: u64,
    /// This process's rank, in the upper half of the match bits.
    pub(crate) me: u64,
    /// Other jobs with members in it, which are held.
    jobs: Box<[u32]>,
}

impl Comm {
    /// Of a new communicator.
    ///
    /// # Errors
    /// A member that is not reached, by name.
    ///
    /// # Safety
    /// `comm` is a communicator with its groups set.
    pub(crate) unsafe fn new<N: Netmod>(
        state: &State<N>,
        comm: *mut ffi::ompi_communicator_t,
    ) -> Result<Comm, String> {
        // SAFETY: [MPI].
        let (group, me) = unsafe { ((*comm).c_remote_group, (*comm).c_my_rank) };
        // What its members agreed on: from 5.0 on the identifier itself is of
        // 128 bits where they did not have to.
        #[cfg(not(openmpi5))]
        // SAFETY: [MPI].
        let id = unsafe { (*comm).c_contextid };
        #[cfg(openmpi5)]
        // SAFETY: [MPI].
        let id = unsafe { (*comm).c_index };
        // SAFETY: the group of a communicator.
        let GroupMap { map, jobs } = unsafe { group_map(state, group)? };
        jobs.iter().for_each(|&jobid| state.boot().hold(jobid));
        log(20, || format!("communicator {id}: rank {me} of {:?}", map.model()));
        let number = |rank| map.get(rank).map_or(0, |process| process.lpid);
        let (first, second) = (number(0), number(1));
        let affine = match map.model() {
            Model::Direct | Model::Offset | Model::Stride => map.len(),
            _ => 0,
        };
        senders::add(u64::from(id), &map);
        Ok(Comm {
            map,
            affine,
            first,
            step: second.wrapping_sub(first),
            channel: u64::from(id),
            me: u64::from(me as u32) << 32,
            jobs,
        })
    }

    /// It is deleted, and what came for it was received.
    pub(crate) fn release<N: Netmod>(self, state: &State<N>) {
        senders::remove(self.channel);
        self.jobs.iter().for_each(|&jobid| state.boot().release(jobid));
    }

    /// What was kept of a communicator.
    ///
    /// # Safety
    /// `comm` was added and not deleted yet.
    #[inline]
    pub(crate) unsafe fn of<'a>(comm: *mut ffi::ompi_communicator_t) -> &'a Comm {
        // SAFETY: `add_comm` put a box there, which stays until `del_comm`.
        unsafe { &*(*comm).c_pml_comm.cast::<Comm>() }
    }

    /// The number of the process that is a rank of the remote group, where that is a
    /// formula; `None` also of what is no rank, such as `MPI_ANY_SOURCE`.
    #[inline(always)]
    pub(crate) fn affine_peer(&self, rank: i32) -> Option<u32> {
        let rank = rank as u32;
        let peer = || self.first.wrapping_add(self.step.wrapping_mul(rank));
        if rank < self.affine { Some(peer()) } else { None }
    }

    /// The same of any map.
    pub(crate) fn peer(&self, rank: i32) -> u32 {
        // A rank outside the group is refused by Open MPI, and by the peer
        // tables below.
        self.map.get(rank as u32).map_or(u32::MAX, |process| process.lpid)
    }
}

/// Rank in a group → number of the process (world rank, or beyond), in the form
/// that the user's strategy picks, and the other jobs that have members in it.
pub(crate) struct GroupMap {
    pub(crate) map: RankMap,
    jobs: Box<[u32]>,
}

/// The map of a group.
///
/// # Errors
/// A member that is not reached, by name.
///
/// # Safety
/// `group` is a group with its members set.
pub(crate) unsafe fn group_map<N: Netmod>(
    state: &State<N>,
    group: *mut ffi::ompi_group_t,
) -> Result<GroupMap, String> {
    // SAFETY: [MPI].
    let size = unsafe { (*group).grp_proc_count };
    let mut jobs = Vec::new();
    let mut number = |rank| {
        let (mut jobid, mut vpid) = (0, 0);
        // SAFETY: a rank of the group, and live places.
        unsafe { ffi::rw_group_name(group, rank, &mut jobid, &mut vpid) };
        let name = Name { jobid, vpid };
        // (Those found before are not held yet.)
        if jobs.is_empty() && state.boot().is_news(name) {
            state.boot().forget_idle(|numbers| state.forget_ended(numbers));
        }
        let number = state.boot().number(name);
        if number.is_some_and(|number| number >= state.boot().size()) && !jobs.contains(&jobid) {
            state.enable_dynamic_processes()?;
            jobs.push(jobid);
        }
        number.ok_or_else(|| {
            format!(
                "rank {rank} of a group is {name}, which another mpirun started; use --mca pml \
                 ob1 to speak to its jobs"
            )
        })
    };
    let mut map = Detector::new();
    for rank in 0..size {
        map.push(number(rank)?);
    }
    let map = map.finish().map_err(|e| e.to_string())?;
    let map = map.held_as(params::strategy()?).map_err(|e| e.to_string())?;
    Ok(GroupMap { map, jobs: jobs.into() })
}
