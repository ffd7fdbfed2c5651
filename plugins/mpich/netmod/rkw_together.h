/* Whom a receive waits for: functions of stubnm_noinline.c's, which includes this once (the slot has no
 * place for a file of its own). */
#ifndef RKW_TOGETHER_H
#define RKW_TOGETHER_H

#include "rkw_impl.h"

/* That of these communicators that is of a channel; a freed one is `reached` by no rank. */
static MPIR_Comm *among(MPIR_Comm * comms, int count, uint64_t channel)
{
    for (MPIR_Comm * comm = comms; comm < comms + count; comm++)
        if (RKW_COMM(comm).reached && comm->recvcontext_id == channel)
            return comm;
    return NULL;
}

/* The communicator of a channel, or null: of a collective's also of the communicators of nodes. */
static MPIR_Comm *comm_of_channel(uint64_t channel)
{
    if (channel & MPIR_CONTEXT_INTRA_COLL)
        channel &= ~(uint64_t) (MPIR_CONTEXT_SUFFIX_MASK | MPIR_CONTEXT_SUBCOMM_MASK);
    MPIR_Comm *found = among(MPIR_Comm_builtin, MPIR_COMM_N_BUILTIN, channel);
    if (!found)
        found = among(MPIR_Comm_direct, MPIR_Comm_mem.direct_size, channel);
    for (int i = 0; !found && i < MPIR_Comm_mem.indirect_size; i++)
        found = among(MPIR_Comm_mem.indirect[i], HANDLE_NUM_INDICES, channel);
    return found;
}

int rkw_host_senders(uint64_t channel, void *seeing)
{
    const MPIR_Comm *comm = comm_of_channel(channel);
    for (int rank = 0; comm && rank < comm->remote_size; rank++)
        rkw_seen(seeing, rkw_lpid(comm, rank));
    return comm != NULL;
}

/* What this thread does with all members of a communicator, in several steps: one that fails in a step
 * goes out, and those that came through it would wait for that one in the next. None of them ends well
 * once a member died, so none waits then. */
static __thread struct {
    int depth, mpi_errno;       /* steps are under way; how the first of them failed */
} together;

/* Threads that do so: all that others look at. */
static int threads_together;

static void begin_together(void)
{
    threads_together += together.depth++ == 0;
}

static int heard(int mpi_errno)
{
    if (unlikely(threads_together) && together.depth && together.mpi_errno == MPI_SUCCESS)
        together.mpi_errno = mpi_errno;
    return mpi_errno;
}

/* What a step of a collective heard, and what is made of it. One that a death broke leaves messages to the
 * next, which takes them for its own and finds them of another length: that is the death's doing. The mark of
 * the message tells, or an earlier collective did, or a member is seen to be dead. */
static __attribute__ ((noinline, cold)) int heard_in(const MPIR_Comm * comm, int mpi_errno,
                                                     MPIR_Errflag_t errflag)
{
    uint64_t channel = comm->recvcontext_id | MPIR_CONTEXT_INTRA_COLL;
    int class = MPIR_ERR_GET_CLASS(mpi_errno);
    int by_death = class == MPIX_ERR_PROC_FAILED || errflag == MPIR_ERR_PROC_FAILED;
    /* (Two groups speak by the communicator of both and by those of each.) */
    MPIR_Comm *all = comm_of_channel(channel & ~(uint64_t) MPIR_CONTEXT_IS_LOCALCOMM_MASK);
    if (all)
        by_death = RKW_COMM(all).met_death |= by_death;
    if (class != MPI_ERR_TRUNCATE)
        return heard(mpi_errno);
    int answer = rkw.dead_member(rkw.state, channel);
    if (answer != RKW_OK)
        mpi_errno = MPIR_Err_create_code(mpi_errno, MPIR_ERR_RECOVERABLE, __func__, __LINE__,
                                         MPIX_ERR_PROC_FAILED, "**other", "%s", rkw_why());
    else if (by_death)
        MPIR_ERR_SET(mpi_errno, MPIX_ERR_PROC_FAILED, "**fail");
    return heard(mpi_errno);
}

static inline int step_of(const MPIR_Comm * comm, int mpi_errno, MPIR_Errflag_t errflag)
{
    if (likely(mpi_errno == MPI_SUCCESS && errflag == MPIR_ERR_NONE))
        return mpi_errno;
    return comm ? heard_in(comm, mpi_errno, errflag) : heard(mpi_errno);
}

/* How all of it ended; MPICH drops it where it makes a dynamic window. */
static int ended_together(int mpi_errno)
{
    int first = together.mpi_errno;
    if (--together.depth == 0) {
        together.mpi_errno = MPI_SUCCESS;
        threads_together--;
    }
    return mpi_errno == MPI_SUCCESS ? first : mpi_errno;
}

/* A collective's receive under way together is told of a death as one of any is, though the bits of what it
 * takes say who sends; of one that was told before at once. */
static const rkw_match_t *from_all(const rkw_match_t * from, rkw_match_t * of_all)
{
    if (together.depth == 0 || !(from->channel & MPIR_CONTEXT_INTRA_COLL))
        return from;
    if (together.mpi_errno == MPI_SUCCESS) {
        int answer = rkw.dead_sender(rkw.state, from->channel, from->peer);
        together.mpi_errno = RKW_ANSWER(answer);
    }
    *of_all = *from;
    of_all->peer = RKW_ANY;
    return of_all;
}

/* Behind a failure a receive has what is there already. */
static void wait_no_more(MPIR_Request * req)
{
    if (together.mpi_errno == MPI_SUCCESS || MPIR_Request_is_complete(req))
        return;
    rkw.cancel(rkw.state, RKW_REQUEST(req).number);
    while (!MPIR_Request_is_complete(req))
        MPID_Progress_test(NULL);
    if (MPIR_STATUS_GET_CANCEL_BIT(req->status)) {
        MPIR_STATUS_SET_CANCEL_BIT(req->status, FALSE);
        req->status.MPI_ERROR = together.mpi_errno;
    }
}

#endif
