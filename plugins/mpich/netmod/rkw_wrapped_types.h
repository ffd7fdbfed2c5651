/* What MPICH's engine of datatypes has wrong, in its place (rkw_wrapped.h): of stubnm_noinline.c, which
 * includes this once. */
#ifndef RKW_WRAPPED_TYPES_H
#define RKW_WRAPPED_TYPES_H

#include "rkw_impl.h"

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
