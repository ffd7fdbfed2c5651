/* What the linker puts in the place of functions of MPICH's (--wrap, ci/install/mpich.sh): of
 * stubnm_noinline.c, which includes this once. */
#ifndef RKW_WRAPPED_H
#define RKW_WRAPPED_H

#include "rkw_impl.h"
#include <stdio.h>
#include <unistd.h>

/* Some of this job ended without leaving it. */
static int some_died;

int __real_MPIDU_Init_shm_finalize(void);
int __wrap_MPIDU_Init_shm_finalize(void) RKW_HIDDEN;

/* MPICH's last barrier on the node waits for those that are dead, too. */
int __wrap_MPIDU_Init_shm_finalize(void)
{
    return some_died ? MPI_SUCCESS : __real_MPIDU_Init_shm_finalize();
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
 * they say who died. Of so many the first are kept, and that. */
void __wrap_MPIR_Err_get_string(int code, char *text, int length,
                                MPIR_Err_get_class_string_func_t of_class)
{
    char whole[16 * 1024] = "";
    __real_MPIR_Err_get_string(code, whole, sizeof whole, of_class);
    size_t space = length > 0 ? length : MPI_MAX_ERROR_STRING;
    const char *who = strstr(whole, "rankway: ");
    size_t len = who ? strcspn(who, "\n") : 0;
    if (who && who + len >= whole + space && len + 2 <= space)
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
    return mpi_errno;
}

int __real_MPIR_Allreduce(const void *from, void *to, MPI_Aint count, MPI_Datatype datatype,
                          MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag);
int __wrap_MPIR_Allreduce(const void *from, void *to, MPI_Aint count, MPI_Datatype datatype,
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
    return mpi_errno == MPI_SUCCESS ? request->status.MPI_ERROR : mpi_errno;
}

/* Two leaders tell each other of their communicators: what is told of this process alone is no
 * name of a port, even where it is told of MPI_COMM_SELF. */
static __thread int exchanges;

int __real_MPID_Intercomm_exchange_map(MPIR_Comm * local, int leader, MPIR_Comm * peer, int remote,
                                       int *size, uint64_t ** gpids, int *is_low);
int __wrap_MPID_Intercomm_exchange_map(MPIR_Comm * local, int leader, MPIR_Comm * peer, int remote,
                                       int *size, uint64_t ** gpids, int *is_low) RKW_HIDDEN;

int __wrap_MPID_Intercomm_exchange_map(MPIR_Comm * local, int leader, MPIR_Comm * peer, int remote,
                                       int *size, uint64_t ** gpids, int *is_low)
{
    exchanges = 1;
    int mpi_errno =
        __real_MPID_Intercomm_exchange_map(local, leader, peer, remote, size, gpids, is_low);
    exchanges = 0;
    return mpi_errno;
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

/* What MPICH's engine of datatypes has wrong. */

int __real_MPIR_Typerep_create_struct(MPI_Aint count, const MPI_Aint * blocks,
                                      const MPI_Aint * displacements, const MPI_Datatype * types,
                                      MPIR_Datatype * made);
int __wrap_MPIR_Typerep_create_struct(MPI_Aint count, const MPI_Aint * blocks,
                                      const MPI_Aint * displacements, const MPI_Datatype * types,
                                      MPIR_Datatype * made) RKW_HIDDEN;

/* Contiguous is what has each block's bytes, which are, behind those before: MPICH compares
 * bounds, which may be other ones, and lengths, of which an overlap makes up for a gap. */
int __wrap_MPIR_Typerep_create_struct(MPI_Aint count, const MPI_Aint * blocks,
                                      const MPI_Aint * displacements, const MPI_Datatype * types,
                                      MPIR_Datatype * made)
{
    int mpi_errno =
        __real_MPIR_Typerep_create_struct(count, blocks, displacements, types, made);
    MPI_Aint end = made->true_lb;
    for (MPI_Aint i = 0; mpi_errno == MPI_SUCCESS && made->is_contig && i < count; i++) {
        MPI_Aint size, start = displacements[i];
        MPIR_Datatype_get_size_macro(types[i], size);
        if (size == 0 || blocks[i] == 0)
            continue;
        if (!HANDLE_IS_BUILTIN(types[i])) {
            MPIR_Datatype *part;
            MPIR_Datatype_get_ptr(types[i], part);
            start += part->true_lb;
        }
        made->is_contig = start == end;
        end = start + size * blocks[i];
    }
    return mpi_errno;
}

int MPIR_Dataloop_create_contiguous(MPI_Aint count, MPI_Datatype type, void **loop);
int __real_MPIR_Dataloop_create_indexed(MPI_Aint count, const MPI_Aint * blocks,
                                        const MPI_Aint * displacements, int in_bytes,
                                        MPI_Datatype type, void **loop);
int __wrap_MPIR_Dataloop_create_indexed(MPI_Aint count, const MPI_Aint * blocks,
                                        const MPI_Aint * displacements, int in_bytes,
                                        MPI_Datatype type, void **loop) RKW_HIDDEN;

/* Elements without an extent are all at the same place, where it fails to count blocks. */
int __wrap_MPIR_Dataloop_create_indexed(MPI_Aint count, const MPI_Aint * blocks,
                                        const MPI_Aint * displacements, int in_bytes,
                                        MPI_Datatype type, void **loop)
{
    MPI_Aint extent, elements = 0;
    MPIR_Datatype_get_extent_macro(type, extent);
    if (extent != 0 || in_bytes)
        return __real_MPIR_Dataloop_create_indexed(count, blocks, displacements, in_bytes, type,
                                                   loop);
    for (MPI_Aint i = 0; i < count; i++)
        elements += blocks[i];
    return MPIR_Dataloop_create_contiguous(elements, type, loop);
}

/* Of a dimension of a distributed array, `whole` of `old`: what one of `processes` has of it, with the
 * extent of all. */
static int part_of_dimension(MPI_Aint whole, int distribution, int argument, int processes, int place,
                             MPI_Datatype old, MPI_Datatype * part)
{
    MPI_Aint extent, block = argument;
    MPIR_Datatype_get_extent_macro(old, extent);
    if (distribution == MPI_DISTRIBUTE_NONE)
        block = whole;
    else if (argument == MPI_DISTRIBUTE_DFLT_DARG)
        block = distribution == MPI_DISTRIBUTE_CYCLIC ? 1 : (whole + processes - 1) / processes;
    MPI_Aint stride = block * processes, start = block * place;
    MPI_Aint blocks = whole - start < block ? 0 : (whole - start - block) / stride + 1;
    MPI_Aint rest = start + blocks * stride;
    MPI_Aint parts[] = { 1, MPL_MAX(0, MPL_MIN(whole - rest, block)) };
    MPI_Aint displacements[] = { start * extent, rest * extent };
    MPI_Datatype both, types[] = { MPI_DATATYPE_NULL, old };
    int mpi_errno =
        MPIR_Type_create_hvector_large_impl(blocks, block, stride * extent, old, &types[0]);
    if (mpi_errno != MPI_SUCCESS)
        return mpi_errno;
    mpi_errno = MPIR_Type_create_struct_large_impl(2, parts, displacements, types, &both);
    MPIR_Type_free_impl(&types[0]);
    if (mpi_errno != MPI_SUCCESS)
        return mpi_errno;
    mpi_errno = MPIR_Type_create_resized_large_impl(both, 0, whole * extent, part);
    MPIR_Type_free_impl(&both);
    return mpi_errno;
}

int __wrap_MPII_Typerep_convert_darray(int size, int rank, int dimensions, const MPI_Aint * wholes,
                                       const int *distributions, const int *arguments,
                                       const int *processes, int order, MPI_Datatype old,
                                       MPI_Datatype * made) RKW_HIDDEN;

/* MPICH's has blocks of a later dimension lie too close together. */
int __wrap_MPII_Typerep_convert_darray(int size, int rank, int dimensions, const MPI_Aint * wholes,
                                       const int *distributions, const int *arguments,
                                       const int *processes, int order, MPI_Datatype old,
                                       MPI_Datatype * made)
{
    MPI_Datatype inner = old;
    int mpi_errno = MPI_SUCCESS;
    *made = old;
    for (int i = 0; mpi_errno == MPI_SUCCESS && i < dimensions; i++) {
        int dimension = order == MPI_ORDER_C ? dimensions - 1 - i : i;
        int behind = 1;         /* processes of one place in this dimension; row-major */
        for (int later = dimension + 1; later < dimensions; later++)
            behind *= processes[later];
        mpi_errno =
            part_of_dimension(wholes[dimension], distributions[dimension], arguments[dimension],
                              processes[dimension], rank / behind % processes[dimension], inner,
                              made);
        if (i > 0)
            MPIR_Type_free_impl(&inner);
        inner = *made;
    }
    return mpi_errno;
}

#endif
