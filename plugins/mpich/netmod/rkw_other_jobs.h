/* Processes of other jobs: functions of stubnm_noinline.c's, which includes this once (the slot
 * has no place for a file of its own). */
#ifndef RKW_OTHER_JOBS_H
#define RKW_OTHER_JOBS_H

#include "rkw_impl.h"
#include <sys/random.h>

/* CH4's number of its table of their processes, whose entries take no memory: lpids in it are
 * Rankway's. 0 before the first is met. */
static int others_avtid;

static uint64_t gpid_of(uint32_t lpid)
{
    if (lpid < (uint32_t) MPIR_Process.size)
        return MPIDIU_GPID_CREATE(0, lpid);
    if (others_avtid == 0) {
        MPIDIU_new_avt(1, &others_avtid);
        MPIDIU_avt_add_ref(others_avtid);
    }
    return MPIDIU_GPID_CREATE(others_avtid, lpid);
}

/* Two that meet at a port: who connects says hello, who accepts answers by the number that the hello
 * came under, which is no other's. Both call the same functions, each in its own order. */
static __thread enum { NOBODY, ANSWERS, WAITS } meeting;
static __thread uint32_t met;
static __thread uint64_t hello_number;

/* Behind CH4's contexts; who gave up withdraws its hello. */
#define HELLO (UINT64_C(1) << 32)
#define ANSWER (UINT64_C(2) << 32)
#define WITHDRAWN (UINT64_C(3) << 32)

int MPIDI_STUBNM_get_local_upids(MPIR_Comm * comm, int **local_upid_size, char **local_upids)
{
    int size = comm->local_size, answer, brief = comm == MPIR_Process.comm_self && !exchanges;
    size_t bytes = 0;
    uint32_t *lpids = MPL_malloc(size * sizeof *lpids, MPL_MEM_ADDRESS);
    int *lengths = MPL_malloc(size * sizeof *lengths, MPL_MEM_ADDRESS);
    MPIR_Assertp(lpids && lengths);
    for (int rank = 0; rank < size; rank++)
        lpids[rank] = (uint32_t) lpid_of(comm, rank);
    answer = rkw.gather(rkw.state, lpids, size, brief, lengths);
    MPL_free(lpids);
    if (answer != RKW_OK) {
        MPL_free(lengths);
        return rkw_error(answer, __func__);
    }
    for (int rank = 0; rank < size; rank++)
        bytes += lengths[rank];
    *local_upids = MPL_malloc(bytes, MPL_MEM_ADDRESS);
    MPIR_Assertp(*local_upids);
    rkw.introductions(rkw.state, *local_upids);
    *local_upid_size = lengths;
    return MPI_SUCCESS;
}

int MPIDI_STUBNM_upids_to_gpids(int size, int *remote_upid_size, char *remote_upids,
                                uint64_t * remote_gpids)
{
    for (int i = 0; i < size; remote_upids += remote_upid_size[i++]) {
        uint32_t lpid;
        int answer = rkw.meet(rkw.state, remote_upids, remote_upid_size[i], &lpid);
        if (answer != RKW_OK) {
            meeting = NOBODY;
            return rkw_error(answer, __func__);
        }
        remote_gpids[i] = gpid_of(lpid);
    }
    return MPI_SUCCESS;
}

/* Waits for a request; 0 seconds: as long as it takes. */
static int done_within(MPIR_Request * req, int seconds)
{
    MPL_time_t start, now;
    double passed = 0;
    MPL_wtime(&start);
    while (!MPIR_Request_is_complete(req) && (seconds == 0 || passed < seconds)) {
        int mpi_errno = MPID_Progress_test(NULL);
        if (mpi_errno != MPI_SUCCESS)
            return mpi_errno;
        MPIDI_PROGRESS_YIELD();
        MPL_wtime(&now);
        MPL_wtime_diff(&start, &now, &passed);
    }
    if (MPIR_Request_is_complete(req))
        return req->status.MPI_ERROR;
    return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__,
                                MPI_ERR_PORT, "**other", "%s",
                                "nobody accepted, or answered, at the port in time");
}

static MPIR_Request *say(uint64_t what, int tag, const void *buf, int size)
{
    rkw_match_t to = {.channel = what | (uint32_t) tag,.bits = hello_number,.peer = met };
    MPIR_Request *req = MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__SEND, 0, 2);
    MPIR_Assertp(req);
    send_to(&to, buf, size, MPI_BYTE, 0, req);
    return req;
}

static void withdraw(int tag)
{
    MPIR_Request_free(say(WITHDRAWN, tag, "", 0));
}

int MPIDI_STUBNM_dynamic_send(uint64_t remote_gpid, int tag, const void *buf, int size, int timeout)
{
    int is_answer = meeting == ANSWERS;
    met = MPIDIU_GPID_GET_LPID(remote_gpid);
    if (!is_answer) {
        ssize_t filled = getrandom(&hello_number, sizeof hello_number, 0);
        MPIR_Assertp(filled == sizeof hello_number);
    }
    meeting = is_answer ? NOBODY : WAITS;
    MPIR_Request *req = say(is_answer ? ANSWER : HELLO, tag, buf, size);
    int mpi_errno = done_within(req, timeout);
    /* (What is so short was copied, should it still be under way.) */
    MPIR_Request_free(req);
    if (mpi_errno != MPI_SUCCESS && !is_answer)
        withdraw(tag);
    if (mpi_errno != MPI_SUCCESS)
        meeting = NOBODY;
    return mpi_errno;
}

static int receive_within(const rkw_match_t * from, void *buf, int size, int timeout)
{
    MPIR_Request *req = MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__RECV, 0, 2);
    MPIR_Assertp(req);
    begin_recv(buf, size, MPI_BYTE, from, req);
    int mpi_errno = done_within(req, timeout);
    if (!MPIR_Request_is_complete(req)) {
        rkw.cancel(rkw.state, RKW_REQUEST(req).number);
        while (!MPIR_Request_is_complete(req))
            MPID_Progress_test(NULL);
        /* (It may have come meanwhile.) */
        if (!MPIR_STATUS_GET_CANCEL_BIT(req->status))
            mpi_errno = req->status.MPI_ERROR;
    }
    if (mpi_errno == MPI_SUCCESS)
        hello_number = (uint64_t) (uint32_t) req->status.MPI_SOURCE << 32 |
            (uint32_t) req->status.MPI_TAG;
    MPIR_Request_free(req);
    return mpi_errno;
}

/* The hello that came last. */
static int is_withdrawn(int tag)
{
    rkw_match_t from = {.channel = WITHDRAWN | (uint32_t) tag,.bits = hello_number };
    from.peer = RKW_ANY;
    rkw_status_t found;
    return rkw.iprobe(rkw.state, &from, &found) &&
        receive_within(&from, NULL, 0, 0) == MPI_SUCCESS;
}

/* What CH4 says at a port (`struct dynproc_conn_hdr` of ch4_spawn.c, which has it for itself). */
typedef struct {
    MPIR_Context_id_t context_id;
    int length;
    char introduction[];
} hello_t;

/* Who said this hello has died since; where that cannot be seen, the answer to it fails. */
static int has_ended(const void *buf, int size)
{
    const hello_t *hello = buf;
    return hello->length >= 0 && hello->length <= size - (int) sizeof *hello &&
        rkw.has_ended(hello->introduction, hello->length);
}

int MPIDI_STUBNM_dynamic_recv(int tag, void *buf, int size, int timeout)
{
    int is_answer = meeting == WAITS, mpi_errno;
    rkw_match_t from = {.channel = (is_answer ? ANSWER : HELLO) | (uint32_t) tag };
    from.bits = is_answer ? hello_number : 0;
    from.peer = is_answer ? met : RKW_ANY;
    from.ignore = is_answer ? 0 : UINT64_MAX;
    do
        mpi_errno = receive_within(&from, buf, size, timeout);
    while (mpi_errno == MPI_SUCCESS && !is_answer &&
           (is_withdrawn(tag) || (accepts_any && has_ended(buf, size))));
    if (mpi_errno != MPI_SUCCESS && is_answer)
        withdraw(tag);
    meeting = mpi_errno == MPI_SUCCESS && !is_answer ? ANSWERS : NOBODY;
    return mpi_errno;
}

#endif
