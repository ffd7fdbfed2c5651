/* CH4's table of an irregular communicator's ranks: given back where our map says the same in
 * less memory. What CH4 reads there it gets for as long as it makes another communicator of
 * this one, and for good where it exchanges it with another group. */
#ifndef RKW_WRAPPED_MAPS_H
#define RKW_WRAPPED_MAPS_H

#include <utlist.h>

/* Whose map the communicator has that is being made, if another's. */
static const MPIR_Comm *alike;

static void give_back(MPIR_Comm * comm)
{
    MPIDI_rank_map_t *map = &MPIDI_COMM(comm, map);
    MPIDIU_release_lut(map->irreg.lut.t);
    map->irreg.lut.t = NULL;
    map->irreg.lut.lpid = NULL;
}

/* Whether it was CH4's no longer. */
static int lend(MPIR_Comm * comm)
{
    MPIDI_rank_map_t *map = &MPIDI_COMM(comm, map);
    if (!rkw_has_no_table(comm))
        return 0;
    MPIDIU_alloc_lut(&map->irreg.lut.t, map->size);
    MPIR_Assertp(map->irreg.lut.t);
    map->irreg.lut.lpid = map->irreg.lut.t->lpid;
    rkw_map_write(RKW_COMM(comm).map.map, map->irreg.lut.lpid);
    return 1;
}

/* What CH4 keeps of the ranks of `comm`: a table of this job's processes may be ours, or stay. */
static void keep_ranks(MPIR_Comm * comm)
{
    rkw_map_t *map = &RKW_COMM(comm).map;
    const int *table = MPIDI_COMM(comm, map).irreg.lut.lpid;
    if (alike)
        map->map = rkw_map_share(RKW_COMM(alike).map.map);
    else
        map->map = rkw_map_pack(MPIDI_COMM(comm, map).size, table);
    alike = NULL;
    if (map->map)
        give_back(comm);
    else
        map->table = table;
}

int __real_MPIDI_comm_create_rank_map(MPIR_Comm * comm);
int __wrap_MPIDI_comm_create_rank_map(MPIR_Comm * comm) RKW_HIDDEN;

int __wrap_MPIDI_comm_create_rank_map(MPIR_Comm * comm)
{
    MPIR_Comm_map_t *mapper;
    const MPIDI_rank_map_t *made = &MPIDI_COMM(comm, map);
    LL_FOREACH(comm->mapper_head, mapper)
        RKW_COMM(mapper->src_comm).lends |= lend(mapper->src_comm);
    int mpi_errno = __real_MPIDI_comm_create_rank_map(comm);
    alike = NULL;
    LL_FOREACH(comm->mapper_head, mapper) {
        MPIR_Comm *of = mapper->src_comm;
        if (!RKW_COMM(of).lends)
            continue;
        const MPIDI_rank_map_t *lent = &MPIDI_COMM(of, map);
        if (rkw_is_table(made) && made->irreg.lut.lpid == lent->irreg.lut.lpid
            && made->size == lent->size)
            alike = of;
        RKW_COMM(of).lends = 0;
        give_back(of);
    }
    return mpi_errno;
}

int __real_MPIDIU_release_lut(MPIDI_rank_map_lut_t * table);
int __wrap_MPIDIU_release_lut(MPIDI_rank_map_lut_t * table) RKW_HIDDEN;

int __wrap_MPIDIU_release_lut(MPIDI_rank_map_lut_t * table)
{
    return table ? __real_MPIDIU_release_lut(table) : MPI_SUCCESS;
}

int __wrap_MPID_Comm_get_lpid(MPIR_Comm * comm, int rank, uint64_t * lpid,
                              bool is_remote) RKW_HIDDEN;

int __wrap_MPID_Comm_get_lpid(MPIR_Comm * comm, int rank, uint64_t * lpid, bool is_remote)
{
    return MPIDI_NM_comm_get_gpid(comm, rank, lpid, is_remote);
}

#endif
