/* What is said of MPICH's datatypes: functions of stubnm_noinline.c's, which includes this
 * once. */
#ifndef RKW_DATATYPES_H
#define RKW_DATATYPES_H

#include "rkw_impl.h"
#include "mpii_fortlogical.h"

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
    {MPI_C_FLOAT_COMPLEX, RANKWAY_COMPLEX}, {MPI_C_DOUBLE_COMPLEX, RANKWAY_DOUBLE_COMPLEX},
    {MPI_CXX_BOOL, RANKWAY_UINT8},
    {MPI_CXX_FLOAT_COMPLEX, RANKWAY_COMPLEX}, {MPI_CXX_DOUBLE_COMPLEX, RANKWAY_DOUBLE_COMPLEX}
};

/* Those of Fortran, whose bytes its compiler decides. (A real of 16 bytes is none of C's.) */
static const MPI_Datatype integers[] = {
    MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8, MPI_CHARACTER,
#if MPII_F_TRUE == 1 && MPII_F_FALSE == 0
    MPI_LOGICAL,                /* true as in C */
#endif
}, reals[] = { MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4, MPI_REAL8 },
    complexes[] = { MPI_COMPLEX, MPI_DOUBLE_COMPLEX, MPI_COMPLEX8, MPI_COMPLEX16 };

/* By the low byte of a handle, which tells predefined datatypes apart: the element and one,
 * or 0. */
static unsigned char element_of[256];

/* (MPICH has no handle for what it was built without.) */
static void list_element(MPI_Datatype datatype, int element)
{
    if (HANDLE_IS_BUILTIN(datatype))
        element_of[datatype & 0xff] = (unsigned char) (element + 1);
}

static void list_by_size(const MPI_Datatype * of, size_t count, size_t bytes, int element)
{
    for (size_t i = 0; i < count; i++)
        if (MPIR_Datatype_get_basic_size(of[i]) == bytes)
            list_element(of[i], element);
}

#define LIST_BY_SIZE(of, bytes, element) \
    list_by_size(of, sizeof of / sizeof *of, bytes, element)

static void list_elements(void)
{
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        list_element(elements[i].datatype, elements[i].element);
    LIST_BY_SIZE(integers, 1, RANKWAY_INT8);
    LIST_BY_SIZE(integers, 2, RANKWAY_INT16);
    LIST_BY_SIZE(integers, 4, RANKWAY_INT32);
    LIST_BY_SIZE(integers, 8, RANKWAY_INT64);
    LIST_BY_SIZE(reals, sizeof(float), RANKWAY_FLOAT);
    LIST_BY_SIZE(reals, sizeof(double), RANKWAY_DOUBLE);
    LIST_BY_SIZE(complexes, 2 * sizeof(float), RANKWAY_COMPLEX);
    LIST_BY_SIZE(complexes, 2 * sizeof(double), RANKWAY_DOUBLE_COMPLEX);
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
    /* (Fortran's by their precision have none either, and are what they are made of.) */
    switch (type->contents->combiner) {
        case MPI_COMBINER_F90_REAL:
        case MPI_COMBINER_F90_COMPLEX:
        case MPI_COMBINER_F90_INTEGER:
            to->combiner = MPI_COMBINER_DUP;
            to->kinds = 1;
            to->types = &type->basic_type;
            return;
    }
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
