/* What the linker puts in the place of functions of MPICH's (--wrap, ci/install/mpich.sh): of
 * stubnm_noinline.c, which includes this once. */
#ifndef RKW_WRAPPED_H
#define RKW_WRAPPED_H

#include "rkw_impl.h"
#include "rkw_together.h"
#include <setjmp.h>
#include <stdio.h>
#include <unistd.h>

int __wrap_MPIDU_Init_shm_init(void) RKW_HIDDEN;

/* The memory in which MPICH's processes of a node tell each other their addresses: ours have other
 * means, its name stayed where one was killed meanwhile, and the others waited for that one. */
int __wrap_MPIDU_Init_shm_init(void)
{
    return MPI_SUCCESS;
}

/* How the first process of a job that was spawned came to its parents, as it tells the others. */
static struct {
    int is_awaited, mpi_errno;
} first_met;

int __wrap_MPID_InitCompleted(void) RKW_HIDDEN;

/* MPICH drops why there is no communicator with the parents, and misses that. The first process
 * knows, and the others say what it says. */
int __wrap_MPID_InitCompleted(void)
{
    char port[MPI_MAX_PORT_NAME], why[MPI_MAX_ERROR_STRING] = "";
    MPIR_Comm **parent = &MPIR_Process.comm_parent, *all = MPIR_Process.comm_world;
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;
    if (!MPIR_Process.has_parent)
        return MPI_SUCCESS;
    int mpi_errno = MPIR_pmi_kvs_get(-1, MPIDI_PARENT_PORT_KVSKEY, port, MPI_MAX_PORT_NAME);
    first_met.is_awaited = 1;
    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = MPID_Comm_connect(port, NULL, 0, all, parent);
    first_met.is_awaited = 0;
    if (mpi_errno == MPI_SUCCESS)
        MPL_strncpy((*parent)->name, "MPI_COMM_PARENT", MPI_MAX_OBJECT_NAME);
    if (mpi_errno == MPI_SUCCESS || first_met.mpi_errno == MPI_SUCCESS)
        return mpi_errno;
    if (all->rank == 0)
        MPIR_Err_get_string(mpi_errno, why, sizeof why, NULL);
    MPIR_Bcast_allcomm_auto(why, sizeof why, MPI_CHAR, 0, all, &errflag);
    const char *who = strstr(why, "rankway: ");
    if (all->rank != 0 && who)
        mpi_errno = MPIR_Err_create_code(mpi_errno, MPIR_ERR_RECOVERABLE, __func__, __LINE__,
                                         MPIX_ERR_PROC_FAILED, "**other", "%s", who);
    return mpi_errno;
}

/* The program accepts at a port of its own: another may connect where one has died. (At those of a spawn and of
 * MPI_Comm_join nobody else does, which call this where it is defined.) */
static __thread int accepts_any;

int __real_MPIR_Comm_accept_impl(const char *port, MPIR_Info * info, int root, MPIR_Comm * comm,
                                 MPIR_Comm ** made);
int __wrap_MPIR_Comm_accept_impl(const char *port, MPIR_Info * info, int root, MPIR_Comm * comm,
                                 MPIR_Comm ** made) RKW_HIDDEN;

int __wrap_MPIR_Comm_accept_impl(const char *port, MPIR_Info * info, int root, MPIR_Comm * comm,
                                 MPIR_Comm ** made)
{
    accepts_any = 1;
    int mpi_errno = __real_MPIR_Comm_accept_impl(port, info, root, comm, made);
    accepts_any = 0;
    return mpi_errno;
}

void __real_MPIR_pmi_abort(int code, const char *why);
void __wrap_MPIR_pmi_abort(int code, const char *why) RKW_HIDDEN;

/* Hydra drops output that it has not forwarded when it ends a job, such as why it is ended. */
void __wrap_MPIR_pmi_abort(int code, const char *why)
{
    fflush(stderr);
    usleep(200000);
    __real_MPIR_pmi_abort(code, why);
}

void __real_MPIR_Err_get_string(int code, char *text, int length,
                                MPIR_Err_get_class_string_func_t of_class);
void __wrap_MPIR_Err_get_string(int code, char *text, int length,
                                MPIR_Err_get_class_string_func_t of_class) RKW_HIDDEN;

/* MPICH writes behind a text that is too short for all of an error's steps, as it mostly is where
 * they say who died. Of so many the first are kept, and that. Who is told of a death by the mark of
 * a collective, or within one that does not wait, knows no more. */
void __wrap_MPIR_Err_get_string(int code, char *text, int length,
                                MPIR_Err_get_class_string_func_t of_class)
{
    char whole[16 * 1024] = "";
    __real_MPIR_Err_get_string(code, whole, sizeof whole, of_class);
    /* (Of a collective that does not wait MPICH says the wrong thing.) */
    char *wrong = strstr(whole, "MPIDU_Sched_progress_state(");
    wrong = wrong ? strstr(wrong, "Invalid communicator") : NULL;
    if (wrong)
        memcpy(wrong, "A collective failed.", strlen("A collective failed."));
    size_t space = length > 0 ? length : MPI_MAX_ERROR_STRING;
    const char *who = strstr(whole, "rankway: ");
    int is_short = who && who + strcspn(who, "\n") < whole + space;
    if (!who && code != MPIX_ERR_PROC_FAILED && MPIR_ERR_GET_CLASS(code) == MPIX_ERR_PROC_FAILED)
        who = "rankway: a process of the communicator died, as another of its members told";
    size_t len = who ? strcspn(who, "\n") : 0;
    if (who && !is_short && len + 2 <= space)
        snprintf(text, space, "%.*s\n%.*s", (int) (space - len - 2), whole, (int) len, who);
    else
        MPL_strncpy(text, whole, space);
}

/* What others tell of an error, and that of a step of one's own, MPICH drops where it reduces by
 * recursive doubling, by halves or by node; where it scans it drops that somebody died. */
static int failed_too(int mpi_errno, MPIR_Errflag_t errflag)
{
    if (errflag != MPIR_ERR_NONE && (mpi_errno == MPI_SUCCESS ||
                                     (errflag == MPIR_ERR_PROC_FAILED &&
                                      MPIR_ERR_GET_CLASS(mpi_errno) == MPI_ERR_OTHER)))
        MPIR_ERR_SET(mpi_errno, errflag, "**coll_fail");
    return heard(mpi_errno);
}

int __real_MPIR_Allreduce(const void *from, void *to, MPI_Aint count, MPI_Datatype datatype,
                          MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag);
int __wrap_MPIR_Allreduce(const void *from, void *to, MPI_Aint count, MPI_Datatype datatype,
                          MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag) RKW_HIDDEN;
int __real_MPIR_Allreduce_impl(const void *from, void *to, MPI_Aint count, MPI_Datatype datatype,
                               MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag);
int __wrap_MPIR_Allreduce_impl(const void *from, void *to, MPI_Aint count, MPI_Datatype datatype,
                               MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag) RKW_HIDDEN;
int __real_MPIR_Reduce(const void *from, void *to, MPI_Aint count, MPI_Datatype datatype,
                       MPI_Op op, int root, MPIR_Comm * comm, MPIR_Errflag_t * errflag);
int __wrap_MPIR_Reduce(const void *from, void *to, MPI_Aint count, MPI_Datatype datatype,
                       MPI_Op op, int root, MPIR_Comm * comm, MPIR_Errflag_t * errflag) RKW_HIDDEN;

int __wrap_MPIR_Allreduce(const void *from, void *to, MPI_Aint count, MPI_Datatype datatype,
                          MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno = __real_MPIR_Allreduce(from, to, count, datatype, op, comm, errflag);
    return failed_too(mpi_errno, *errflag);
}

/* What MPICH itself calls, as where it makes a communicator. */
int __wrap_MPIR_Allreduce_impl(const void *from, void *to, MPI_Aint count, MPI_Datatype datatype,
                               MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno = __real_MPIR_Allreduce_impl(from, to, count, datatype, op, comm, errflag);
    return failed_too(mpi_errno, *errflag);
}

int __wrap_MPIR_Reduce(const void *from, void *to, MPI_Aint count, MPI_Datatype datatype,
                       MPI_Op op, int root, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno = __real_MPIR_Reduce(from, to, count, datatype, op, root, comm, errflag);
    return failed_too(mpi_errno, *errflag);
}

int __real_MPIR_Exscan(const void *from, void *to, MPI_Aint count, MPI_Datatype datatype,
                       MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag);
int __wrap_MPIR_Exscan(const void *from, void *to, MPI_Aint count, MPI_Datatype datatype,
                       MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag) RKW_HIDDEN;

int __wrap_MPIR_Exscan(const void *from, void *to, MPI_Aint count, MPI_Datatype datatype,
                       MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno = __real_MPIR_Exscan(from, to, count, datatype, op, comm, errflag);
    return failed_too(mpi_errno, *errflag);
}

int __wrap_MPIR_Err_combine_codes(int first, int second) RKW_HIDDEN;

/* MPICH puts the second error behind all that led to the first one, also where that led to the
 * second: its chain is a ring then, and who follows it does so for ever. The first alone says who
 * died; of the second its class is kept where the first has none. */
int __wrap_MPIR_Err_combine_codes(int first, int second)
{
    if (first == MPI_SUCCESS || second == MPI_SUCCESS)
        return first == MPI_SUCCESS ? second : first;
    int class = MPIR_ERR_GET_CLASS(second);
    if (MPIR_ERR_GET_CLASS(first) == MPI_ERR_OTHER && class != MPI_ERR_OTHER)
        MPIR_ERR_SET(first, class, "**fail");
    return first;
}

int __real_MPIC_Wait(MPIR_Request * request, MPIR_Errflag_t * errflag);
int __wrap_MPIC_Wait(MPIR_Request * request, MPIR_Errflag_t * errflag) RKW_HIDDEN;

/* What MPICH does by the call that does not wait, as among neighbours, fails as that does. */
int __wrap_MPIC_Wait(MPIR_Request * request, MPIR_Errflag_t * errflag)
{
    int mpi_errno = __real_MPIC_Wait(request, errflag);
    return step_of(request->comm, mpi_errno == MPI_SUCCESS ? request->status.MPI_ERROR : mpi_errno,
                   *errflag);
}

int __real_MPIC_Recv(void *buf, MPI_Aint count, MPI_Datatype datatype, int from, int tag,
                     MPIR_Comm * comm, MPI_Status * status, MPIR_Errflag_t * errflag);
int __wrap_MPIC_Recv(void *buf, MPI_Aint count, MPI_Datatype datatype, int from, int tag,
                     MPIR_Comm * comm, MPI_Status * status, MPIR_Errflag_t * errflag) RKW_HIDDEN;

int __wrap_MPIC_Recv(void *buf, MPI_Aint count, MPI_Datatype datatype, int from, int tag,
                     MPIR_Comm * comm, MPI_Status * status, MPIR_Errflag_t * errflag)
{
    int mpi_errno = __real_MPIC_Recv(buf, count, datatype, from, tag, comm, status, errflag);
    return step_of(comm, mpi_errno, *errflag);
}

int __real_MPIC_Waitall(int count, MPIR_Request ** requests, MPI_Status * statuses,
                        MPIR_Errflag_t * errflag);
int __wrap_MPIC_Waitall(int count, MPIR_Request ** requests, MPI_Status * statuses,
                        MPIR_Errflag_t * errflag) RKW_HIDDEN;

/* Those that are left beside one that failed MPICH does not free, which hold their communicator, and
 * gives them a class, which it refuses as the code that it takes it for. Of more than so many at once it
 * tells no statuses. */
int __wrap_MPIC_Waitall(int count, MPIR_Request ** requests, MPI_Status * statuses,
                        MPIR_Errflag_t * errflag)
{
    enum { AT_ONCE = 64 };
    MPI_Status own[AT_ONCE];
    int mpi_errno = MPI_SUCCESS;
    const MPIR_Comm *comm = NULL;
    for (int i = 0; i < count && !comm; i++)
        comm = requests[i]->comm;
    for (int from = 0; from < count; from += AT_ONCE) {
        int some = MPL_MIN(count - from, AT_ONCE), is_over = mpi_errno != MPI_SUCCESS;
        MPI_Status *of = statuses == MPI_STATUSES_IGNORE ? own : statuses + from;
        if (!is_over)
            mpi_errno = __real_MPIC_Waitall(some, requests + from, of, errflag);
        for (int i = 0; MPIR_ERR_GET_CLASS(mpi_errno) == MPI_ERR_IN_STATUS && i < some; i++) {
            if (is_over)
                of[i].MPI_ERROR = MPI_ERR_PENDING;
            int is_left = of[i].MPI_ERROR == MPI_ERR_PENDING;
            if (of[i].MPI_ERROR == MPIX_ERR_PROC_FAILED_PENDING) {
                is_left = 1;
                of[i].MPI_ERROR = MPI_SUCCESS;
                MPIR_ERR_SET(of[i].MPI_ERROR, MPIX_ERR_PROC_FAILED, "**fail");
            }
            if (is_left)
                MPIR_Request_free(requests[from + i]);
            else
                of[i].MPI_ERROR = step_of(comm, of[i].MPI_ERROR, *errflag);
        }
    }
    return step_of(comm, mpi_errno, *errflag);
}

/* Of MPI_Bsend nothing is heard once it is done: MPICH asks again for the end of one that failed, when its
 * request is another's. */
static __thread int is_buffering;

int __real_MPIR_Bsend_isend(const void *buf, int count, MPI_Datatype datatype, int rank, int tag,
                            MPIR_Comm * comm, MPIR_Request ** req_p);
int __wrap_MPIR_Bsend_isend(const void *buf, int count, MPI_Datatype datatype, int rank, int tag,
                            MPIR_Comm * comm, MPIR_Request ** req_p) RKW_HIDDEN;

int __wrap_MPIR_Bsend_isend(const void *buf, int count, MPI_Datatype datatype, int rank, int tag,
                            MPIR_Comm * comm, MPIR_Request ** req_p)
{
    is_buffering = 1;
    int mpi_errno = __real_MPIR_Bsend_isend(buf, count, datatype, rank, tag, comm, req_p);
    is_buffering = 0;
    return mpi_errno;
}

/* This thread has looked whether all members of a communicator are there. */
static __thread int has_looked;

/* Of a communicator's members one that fails tells the others where they wait for it, in a barrier. */
static int all_are_there(MPIR_Comm * comm)
{
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;
    has_looked = 1;
    int mpi_errno = MPIR_Barrier(comm, &errflag);
    return failed_too(mpi_errno, errflag);
}

/* The leaders tell each other of their communicators: what is told of this process alone is no name of a
 * port, even where it is told of MPI_COMM_SELF. */
static __thread int exchanges, are_told;

/* Where two groups meet a leader to whom the other leader does not answer goes straight out in MPICH, and its
 * own group waits for what it would have told them. Here it goes on with nothing, and tells that. */
static __thread struct {
    const MPIR_Comm *over;      /* by which they speak */
    int mpi_errno;
} leaders;

static MPIR_Errflag_t mark_of(int mpi_errno)
{
    return MPIR_ERR_GET_CLASS(mpi_errno) == MPIX_ERR_PROC_FAILED ? MPIR_ERR_PROC_FAILED :
        MPIR_ERR_OTHER;
}

int __real_MPIC_Sendrecv(const void *out, MPI_Aint outs, MPI_Datatype outs_type, int to, int out_tag,
                         void *in, MPI_Aint ins, MPI_Datatype ins_type, int from, int in_tag,
                         MPIR_Comm * comm, MPI_Status * status, MPIR_Errflag_t * errflag);
int __wrap_MPIC_Sendrecv(const void *out, MPI_Aint outs, MPI_Datatype outs_type, int to, int out_tag,
                         void *in, MPI_Aint ins, MPI_Datatype ins_type, int from, int in_tag,
                         MPIR_Comm * comm, MPI_Status * status,
                         MPIR_Errflag_t * errflag) RKW_HIDDEN;

int __wrap_MPIC_Sendrecv(const void *out, MPI_Aint outs, MPI_Datatype outs_type, int to, int out_tag,
                         void *in, MPI_Aint ins, MPI_Datatype ins_type, int from, int in_tag,
                         MPIR_Comm * comm, MPI_Status * status, MPIR_Errflag_t * errflag)
{
    int mpi_errno = __real_MPIC_Sendrecv(out, outs, outs_type, to, out_tag, in, ins, ins_type, from,
                                         in_tag, comm, status, errflag);
    mpi_errno = step_of(comm, mpi_errno, *errflag);
    /* (The other leader's group has failed.) */
    if (exchanges)
        mpi_errno = failed_too(mpi_errno, *errflag);
    if (mpi_errno == MPI_SUCCESS || leaders.over != comm)
        return heard(mpi_errno);
    if (leaders.mpi_errno == MPI_SUCCESS)
        leaders.mpi_errno = mpi_errno;
    *errflag = mark_of(mpi_errno);
    memset(in, 0, ins * MPIR_Datatype_get_basic_size(ins_type));
    return MPI_SUCCESS;
}

/* How a meeting ended: for a leader as it heard itself. */
static int met_as(int mpi_errno)
{
    int first = leaders.mpi_errno;
    leaders.over = NULL;
    leaders.mpi_errno = MPI_SUCCESS;
    return first != MPI_SUCCESS ? first : mpi_errno;
}

/* The communicator, where it has two groups. */
static MPIR_Comm *of_two_groups(MPIR_Comm * comm)
{
    return comm->comm_kind == MPIR_COMM_KIND__INTERCOMM ? comm : NULL;
}

/* A leader whose own group has failed goes straight out, too, and the other group would wait for it: so two
 * groups look first whether all are there. One has no leaders. */
#define MEETS(real, wrap, parameters, arguments, by) \
int real parameters; \
int wrap parameters RKW_HIDDEN; \
int wrap parameters \
{ \
    int mpi_errno = of_two_groups(comm) ? all_are_there(comm) : MPI_SUCCESS; \
    if (mpi_errno != MPI_SUCCESS) \
        return mpi_errno; \
    leaders.over = by; \
    if (leaders.over == NULL) { \
        begin_together(); \
        return ended_together(real arguments); \
    } \
    return met_as(real arguments); \
}

MEETS(__real_MPIR_Get_intercomm_contextid, __wrap_MPIR_Get_intercomm_contextid,
      (MPIR_Comm * comm, MPIR_Context_id_t * to, MPIR_Context_id_t * from), (comm, to, from), comm)
MEETS(__real_MPIR_Intercomm_create_impl, __wrap_MPIR_Intercomm_create_impl,
      (MPIR_Comm * comm, int leader, MPIR_Comm * peer, int remote, int tag, MPIR_Comm ** made),
      (comm, leader, peer, remote, tag, made), peer)
MEETS(__real_MPIR_Intercomm_merge_impl, __wrap_MPIR_Intercomm_merge_impl,
      (MPIR_Comm * comm, int high, MPIR_Comm ** made), (comm, high, made), comm)
MEETS(__real_MPIR_Comm_create_impl, __wrap_MPIR_Comm_create_impl,
      (MPIR_Comm * comm, MPIR_Group * group, MPIR_Comm ** made), (comm, group, made), of_two_groups(comm))
MEETS(__real_MPIR_Comm_split_impl, __wrap_MPIR_Comm_split_impl,
      (MPIR_Comm * comm, int color, int key, MPIR_Comm ** made), (comm, color, key, made), of_two_groups(comm))

int __real_MPIR_Progress_hook_exec_all(int *made);
int __wrap_MPIR_Progress_hook_exec_all(int *made) RKW_HIDDEN;

/* Nonblocking collectives, of whichever communicators, go on within whatever waits: what they do is not
 * done together, nor buffered. */
int __wrap_MPIR_Progress_hook_exec_all(int *made)
{
    int depth = together.depth, first = together.mpi_errno, buffering = is_buffering;
    together.depth = is_buffering = 0;
    together.mpi_errno = MPI_SUCCESS;
    int mpi_errno = __real_MPIR_Progress_hook_exec_all(made);
    together.depth = depth;
    together.mpi_errno = first;
    is_buffering = buffering;
    return mpi_errno;
}

#define TOGETHER(real, wrap, parameters, arguments) \
int real parameters; \
int wrap parameters RKW_HIDDEN; \
int wrap parameters \
{ \
    begin_together(); \
    return ended_together(real arguments); \
}

TOGETHER(__real_MPID_Win_create, __wrap_MPID_Win_create,
         (void *base, MPI_Aint bytes, int unit, MPIR_Info * info, MPIR_Comm * comm, MPIR_Win ** made),
         (base, bytes, unit, info, comm, made))
TOGETHER(__real_MPID_Win_allocate, __wrap_MPID_Win_allocate,
         (MPI_Aint bytes, int unit, MPIR_Info * info, MPIR_Comm * comm, void *base, MPIR_Win ** made),
         (bytes, unit, info, comm, base, made))
TOGETHER(__real_MPID_Win_allocate_shared, __wrap_MPID_Win_allocate_shared,
         (MPI_Aint bytes, int unit, MPIR_Info * info, MPIR_Comm * comm, void **base, MPIR_Win ** made),
         (bytes, unit, info, comm, base, made))
TOGETHER(__real_MPID_Win_create_dynamic, __wrap_MPID_Win_create_dynamic,
         (MPIR_Info * info, MPIR_Comm * comm, MPIR_Win ** made), (info, comm, made))

int __real_MPID_Win_free(MPIR_Win ** win_p);
int __wrap_MPID_Win_free(MPIR_Win ** win_p) RKW_HIDDEN;

/* (Of a window that is no more no error can be told.) */
int __wrap_MPID_Win_free(MPIR_Win ** win_p)
{
    begin_together();
    int mpi_errno = __real_MPID_Win_free(win_p);
    ended_together(mpi_errno);
    return mpi_errno;
}

int __real_MPIR_Bcast_allcomm_auto(void *buf, MPI_Aint count, MPI_Datatype datatype, int root,
                                   MPIR_Comm * comm, MPIR_Errflag_t * errflag);
int __wrap_MPIR_Bcast_allcomm_auto(void *buf, MPI_Aint count, MPI_Datatype datatype, int root,
                                   MPIR_Comm * comm, MPIR_Errflag_t * errflag) RKW_HIDDEN;

int __wrap_MPIR_Bcast_allcomm_auto(void *buf, MPI_Aint count, MPI_Datatype datatype, int root,
                                   MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    are_told = 1;
    int mpi_errno = __real_MPIR_Bcast_allcomm_auto(buf, count, datatype, root, comm, errflag);
    /* (A tag, and an error's code.) */
    if (first_met.is_awaited && mpi_errno == MPI_SUCCESS)
        first_met.mpi_errno = ((int *) buf)[1];
    first_met.is_awaited = 0;
    return mpi_errno;
}

int __real_MPID_Intercomm_exchange_map(MPIR_Comm * local, int leader, MPIR_Comm * peer, int remote,
                                       int *size, uint64_t ** gpids, int *is_low);
int __wrap_MPID_Intercomm_exchange_map(MPIR_Comm * local, int leader, MPIR_Comm * peer, int remote,
                                       int *size, uint64_t ** gpids, int *is_low) RKW_HIDDEN;

int __wrap_MPID_Intercomm_exchange_map(MPIR_Comm * local, int leader, MPIR_Comm * peer, int remote,
                                       int *size, uint64_t ** gpids, int *is_low)
{
    const MPIR_Comm *over = leaders.over;
    leaders.over = NULL;
    are_told = 0;
    int mpi_errno = all_are_there(local);
    if (mpi_errno != MPI_SUCCESS) {
        int none = 0, theirs;
        MPIR_Errflag_t errflag = mark_of(mpi_errno);
        if (local->rank == leader)
            MPIC_Sendrecv(&none, 1, MPI_INT, remote, MPIR_TAG_COLL_BIT, &theirs, 1, MPI_INT, remote,
                          MPIR_TAG_COLL_BIT, peer, MPI_STATUS_IGNORE, &errflag);
        leaders.over = over;
        return mpi_errno;
    }
    exchanges = 1;
    /* (Other threads may be at the same with `peer`: not given back again.) */
    lend(local);
    if (local->rank == leader)
        lend(peer);
    mpi_errno =
        __real_MPID_Intercomm_exchange_map(local, leader, peer, remote, size, gpids, is_low);
    exchanges = 0;
    leaders.over = over;
    /* The others wait for the map that the leader was to make. */
    if (mpi_errno != MPI_SUCCESS && local->rank == leader && !are_told) {
        int map[4] = { 0 };
        MPIR_Errflag_t errflag = mark_of(mpi_errno);
        MPIR_Bcast_allcomm_auto(map, 4, MPI_INT, leader, local, &errflag);
    }
    return mpi_errno;
}

/* Where MPICH has no communicator for a graph it gives back arrays that it has not made yet. */
static __thread struct {
    jmp_buf begun;
    int is_made, mpi_errno;
} graph;

int __real_MPII_Comm_copy(MPIR_Comm * comm, int size, MPIR_Info * info, MPIR_Comm ** made);
int __wrap_MPII_Comm_copy(MPIR_Comm * comm, int size, MPIR_Info * info,
                          MPIR_Comm ** made) RKW_HIDDEN;

int __wrap_MPII_Comm_copy(MPIR_Comm * comm, int size, MPIR_Info * info, MPIR_Comm ** made)
{
    int mpi_errno = __real_MPII_Comm_copy(comm, size, info, made);
    if (mpi_errno != MPI_SUCCESS && graph.is_made) {
        graph.mpi_errno = mpi_errno;
        longjmp(graph.begun, 1);
    }
    return mpi_errno;
}

int __real_MPIR_Dist_graph_create_impl(MPIR_Comm * comm, int count, const int sources[],
                                       const int degrees[], const int targets[],
                                       const int weights[], MPIR_Info * info, int reorder,
                                       MPIR_Comm ** made);
int __wrap_MPIR_Dist_graph_create_impl(MPIR_Comm * comm, int count, const int sources[],
                                       const int degrees[], const int targets[],
                                       const int weights[], MPIR_Info * info, int reorder,
                                       MPIR_Comm ** made) RKW_HIDDEN;

int __wrap_MPIR_Dist_graph_create_impl(MPIR_Comm * comm, int count, const int sources[],
                                       const int degrees[], const int targets[],
                                       const int weights[], MPIR_Info * info, int reorder,
                                       MPIR_Comm ** made)
{
    begin_together();
    if (setjmp(graph.begun) == 0) {
        graph.is_made = 1;
        graph.mpi_errno = __real_MPIR_Dist_graph_create_impl(comm, count, sources, degrees, targets,
                                                             weights, info, reorder, made);
    }
    graph.is_made = 0;
    return ended_together(graph.mpi_errno);
}

/* CH4 looks for the address of MPI_PROC_NULL, too. */
int __wrap_MPID_Psend_init(const void *buf, int partitions, MPI_Aint count, MPI_Datatype datatype,
                           int rank, int tag, MPIR_Comm * comm, MPIR_Info * info,
                           MPIR_Request ** req_p) RKW_HIDDEN;
int __wrap_MPID_Precv_init(void *buf, int partitions, MPI_Aint count, MPI_Datatype datatype,
                           int rank, int tag, MPIR_Comm * comm, MPIR_Info * info,
                           MPIR_Request ** req_p) RKW_HIDDEN;

int __wrap_MPID_Psend_init(const void *buf, int partitions, MPI_Aint count, MPI_Datatype datatype,
                           int rank, int tag, MPIR_Comm * comm, MPIR_Info * info,
                           MPIR_Request ** req_p)
{
    return MPIDI_STUBNM_mpi_psend_init(buf, partitions, count, datatype, rank, tag, comm, info,
                                       NULL, req_p);
}

int __wrap_MPID_Precv_init(void *buf, int partitions, MPI_Aint count, MPI_Datatype datatype,
                           int rank, int tag, MPIR_Comm * comm, MPIR_Info * info,
                           MPIR_Request ** req_p)
{
    return MPIDI_STUBNM_mpi_precv_init(buf, partitions, count, datatype, rank, tag, comm, info,
                                       NULL, req_p);
}

int __real_MPIR_Request_get_error(MPIR_Request * request);
int __wrap_MPIR_Request_get_error(MPIR_Request * request) RKW_HIDDEN;

/* MPI_Testall asks it of each that is complete: MPICH's knows neither partitioned requests nor persistent
 * collectives. */
int __wrap_MPIR_Request_get_error(MPIR_Request * request)
{
    if (MPIR_Request_is_partitioned(request))
        return request->status.MPI_ERROR;
    if (request->kind != MPIR_REQUEST_KIND__PREQUEST_COLL)
        return __real_MPIR_Request_get_error(request);
    const MPIR_Request *real = request->u.persist_coll.real_request;
    return real ? real->status.MPI_ERROR : request->status.MPI_ERROR;
}

/* MPICH's two tables of a communicator's ranks by node are ours: rkw.h says which functions. */

int __wrap_MPIDIU_get_node_id(MPIR_Comm * comm, int rank, int *id) RKW_HIDDEN;
int __wrap_MPIR_Find_local(MPIR_Comm * comm, int *size, int *mine, int **ranks,
                           int **table) RKW_HIDDEN;
int __wrap_MPIR_Find_external(MPIR_Comm * comm, int *size, int *mine, int **ranks,
                              int **table) RKW_HIDDEN;
int __wrap_MPIR_Get_intranode_rank(MPIR_Comm * comm, int rank) RKW_HIDDEN;
int __wrap_MPIR_Get_internode_rank(MPIR_Comm * comm, int rank) RKW_HIDDEN;
int __wrap_MPII_Comm_is_node_consecutive(MPIR_Comm * comm) RKW_HIDDEN;

int __wrap_MPIDIU_get_node_id(MPIR_Comm * comm, int rank, int *id)
{
    *id = rkw_node(rkw_lpid(comm, rank));
    return MPI_SUCCESS;
}

/* MPICH asks for the ranks of this node, then for the first one of each node. */
static rkw_ranks_t firsts;

static int *list_of(const rkw_ranks_t * of, int *size, int *mine)
{
    *size = of->size;
    *mine = of->mine;
    return of->ranks;
}

int __wrap_MPIR_Find_local(MPIR_Comm * comm, int *size, int *mine, int **ranks, int **table)
{
    rkw_ranks_t local;
    MPIR_Assert(RKW_COMM(comm).nodes == NULL);
    RKW_COMM(comm).nodes =
        rkw_nodes_make(&RKW_COMM(comm).map, comm->remote_size, comm->rank, &local, &firsts);
    /* (MPICH goes on without nodes then.) */
    if (RKW_COMM(comm).nodes == NULL)
        return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__,
                                    MPI_ERR_OTHER, "**dynamic_node_ids", 0);
    *ranks = list_of(&local, size, mine);
    return MPI_SUCCESS;
}

int __wrap_MPIR_Find_external(MPIR_Comm * comm, int *size, int *mine, int **ranks, int **table)
{
    *ranks = list_of(&firsts, size, mine);
    /* Of a node each MPICH makes nothing, and asks nothing. */
    if (*size == comm->remote_size) {
        rkw_nodes_free(RKW_COMM(comm).nodes);
        RKW_COMM(comm).nodes = NULL;
    }
    return MPI_SUCCESS;
}

int __wrap_MPIR_Get_intranode_rank(MPIR_Comm * comm, int rank)
{
    return rkw_nodes_local(RKW_COMM(comm).nodes, rank);
}

int __wrap_MPIR_Get_internode_rank(MPIR_Comm * comm, int rank)
{
    return rkw_nodes_first(RKW_COMM(comm).nodes, rkw_lpid(comm, rank));
}

int __wrap_MPII_Comm_is_node_consecutive(MPIR_Comm * comm)
{
    return MPIR_Comm_is_parent_comm(comm) && rkw_nodes_consecutive(RKW_COMM(comm).nodes);
}

#endif
