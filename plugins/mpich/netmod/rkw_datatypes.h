/* What is said of MPICH's datatypes: functions of stubnm_noinline.c's, which includes this
 * once. */
#ifndef RKW_DATATYPES_H
#define RKW_DATATYPES_H

#include "rkw_impl.h"

/* The type of Rankway's operations that a predefined datatype is. */
static const struct {
    MPI_Datatype datatype;
    int element;
} elements[] = {
    {MPI_CHAR, RANKWAY_INT8}, {MPI_SIGNED_CHAR, RANKWAY_INT8}, {MPI_INT8_T, RANKWAY_INT8},
    {MPI_UNSIGNED_CHAR, RANKWAY_UINT8}, {MPI_UINT8_T, RANKWAY_UINT8}, {MPI_BYTE, RANKWAY_UINT8},
    {MPI_C_BOOL, RANKWAY_UINT8}, {MPI_PACKED, RANKWAY_UINT8},
    {MPI_SHORT, RANKWAY_INT16}, {MPI_INT16_T, RANKWAY_INT16},
    {MPI_UNSIGNED_SHORT, RANKWAY_UINT16}, {MPI_UINT16_T, RANKWAY_UINT16},
    {MPI_INT, RANKWAY_INT32}, {MPI_INT32_T, RANKWAY_INT32}, {MPI_WCHAR, RANKWAY_INT32},
    {MPI_UNSIGNED, RANKWAY_UINT32}, {MPI_UINT32_T, RANKWAY_UINT32},
    {MPI_LONG, RANKWAY_INT64}, {MPI_LONG_LONG, RANKWAY_INT64}, {MPI_INT64_T, RANKWAY_INT64},
    {MPI_AINT, RANKWAY_INT64}, {MPI_OFFSET, RANKWAY_INT64}, {MPI_COUNT, RANKWAY_INT64},
    {MPI_UNSIGNED_LONG, RANKWAY_UINT64}, {MPI_UNSIGNED_LONG_LONG, RANKWAY_UINT64},
    {MPI_UINT64_T, RANKWAY_UINT64},
    {MPI_FLOAT, RANKWAY_FLOAT}, {MPI_DOUBLE, RANKWAY_DOUBLE},
    {MPI_LONG_DOUBLE, RANKWAY_LONG_DOUBLE},
    {MPI_C_FLOAT_COMPLEX, RANKWAY_COMPLEX}, {MPI_C_DOUBLE_COMPLEX, RANKWAY_DOUBLE_COMPLEX}
};

/* By the low byte of a handle, which tells predefined datatypes apart: the element and one,
 * or 0. */
static unsigned char element_of[256];

static void list_elements(void)
{
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        element_of[elements[i].datatype & 0xff] = (unsigned char) (elements[i].element + 1);
}

int rkw_host_element(int datatype)
{
    return HANDLE_IS_BUILTIN(datatype) ? element_of[datatype & 0xff] - 1 : -1;
}

void rkw_host_type(int datatype, rkw_type_t * to)
{
    memset(to, 0, sizeof *to);
    to->element = rkw_host_element(datatype);
    if (HANDLE_IS_BUILTIN(datatype)) {
        to->leaf = 1;
        to->size = to->extent = to->true_ub = MPIR_Datatype_get_basic_size(datatype);
        return;
    }
    MPIR_Datatype *type;
    MPIR_Datatype_get_ptr(datatype, type);
    to->size = type->size;
    to->extent = type->extent;
    to->lb = type->lb;
    to->true_lb = type->true_lb;
    to->true_ub = type->true_ub;
    /* (Pairs have no contents.) */
    to->leaf = type->contents == NULL;
    if (to->leaf)
        return;
    int *ints;
    MPI_Aint *aints, *counts;
    MPI_Datatype *types;
    MPIR_Datatype_access_contents(type->contents, &ints, &aints, &counts, &types);
    to->combiner = type->contents->combiner;
    to->ints = type->contents->nr_ints;
    to->aints = type->contents->nr_aints;
    to->counts = type->contents->nr_counts;
    to->kinds = type->contents->nr_types;
    to->integers = ints;
    to->addresses = (const int64_t *) aints;
    to->large = (const int64_t *) counts;
    to->types = types;
}

void **rkw_host_type_place(int datatype)
{
    MPIR_Datatype *type;
    if (HANDLE_IS_BUILTIN(datatype))
        return NULL;
    MPIR_Datatype_get_ptr(datatype, type);
    return type->is_committed ? &type->dev.netmod.stubnm.translated : NULL;
}

int rkw_host_op_is_for(int op, int datatype)
{
    int number = op & 0xf;
    return number > 0 && number < 0xf && MPIR_OP_HDL_TO_DTYPE_FN(op) (datatype) == MPI_SUCCESS;
}

int rkw_host_reduce(int op, int datatype, void *from, void *at, int64_t count)
{
    MPI_Aint n = count;
    MPI_Datatype type = datatype;
    MPIR_op_function *reduce = op > 0 && op < 0xf ? MPIR_OP_HDL_TO_FN(op) : NULL;
    if (reduce == NULL)
        return 0;
    reduce(from, at, &n, &type);
    return 1;
}

#endif
