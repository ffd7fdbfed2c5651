/* Datatypes: sizes and bounds as MPI has them, packing in pieces against plain
 * loops, in one form whichever way it was made, external32 against bytes written by
 * hand, and what is refused. */
#include "test.h"
#include <wchar.h>

enum { ROWS = 7, COLUMNS = 11 };

static rankway_type_t basic(int element)
{
    rankway_type_t type;
    OK(rankway_type_basic(element, &type));
    return type;
}

static void measures(rankway_type_t type, uint64_t size, int64_t lb, int64_t extent,
                     int64_t true_lb, int64_t true_extent)
{
    uint64_t bytes;
    int64_t first, all;
    OK(rankway_type_size(type, &bytes));
    ENSURE(bytes == size);
    OK(rankway_type_extent(type, &first, &all));
    ENSURE(first == lb && all == extent);
    OK(rankway_type_true_extent(type, &first, &all));
    ENSURE(first == true_lb && all == true_extent);
}

/* The elements of a type of ints are those at these indices, packed whole and in
 * pieces, and come back to where they were alone. */
static void takes(rankway_type_t type, uint64_t count, const int *memory, int length, int origin,
                  const int *indices, size_t n)
{
    int packed[256], back[256];
    size_t done;
    ENSURE(n <= 256 && length <= 256);
    OK(rankway_type_pack(memory + origin, count, type, 0, packed, sizeof packed, &done));
    ENSURE(done == 4 * n);
    for (size_t i = 0; i < n; i++)
        ENSURE(packed[i] == memory[indices[i]]);
    for (size_t piece = 1; piece < 12; piece += 3) {
        unsigned char stream[1024];
        for (size_t from = 0; from < 4 * n; from += done) {
            OK(rankway_type_pack(memory + origin, count, type, from, stream + from, piece, &done));
            ENSURE(done == (4 * n - from < piece ? 4 * n - from : piece));
        }
        ENSURE(memcmp(stream, packed, 4 * n) == 0);
        for (int i = 0; i < length; i++)
            back[i] = -1;
        for (size_t from = 0; from < 4 * n; from += done) {
            size_t left = 4 * n - from < piece ? 4 * n - from : piece;
            OK(rankway_type_unpack(stream + from, left, from, back + origin, count, type, &done));
            ENSURE(done == left);
        }
        for (int i = 0; i < length; i++) {
            int taken = 0;
            for (size_t k = 0; k < n; k++)
                taken |= indices[k] == i;
            ENSURE(back[i] == (taken ? memory[i] : -1));
        }
    }
    OK(rankway_type_free(type));
}

static void constructors(void)
{
    int matrix[ROWS * COLUMNS], at[ROWS * COLUMNS];
    rankway_type_t type, column, i32 = basic(RANKWAY_INT32);
    size_t n = 0;

    for (int i = 0; i < ROWS * COLUMNS; i++)
        matrix[i] = 1000 + i;
    /* A column, and all columns: a transpose. */
    OK(rankway_type_vector(ROWS, 1, COLUMNS, i32, &column));
    measures(column, 4 * ROWS, 0, 4 * (COLUMNS * (ROWS - 1) + 1), 0, 4 * (COLUMNS * (ROWS - 1) + 1));
    OK(rankway_type_resized(column, 0, 4, &type));
    OK(rankway_type_free(column));
    for (int c = 0; c < COLUMNS; c++)
        for (int r = 0; r < ROWS; r++)
            at[n++] = r * COLUMNS + c;
    takes(type, COLUMNS, matrix, ROWS * COLUMNS, 0, at, n);

    /* Backwards: a negative stride, and a block before the origin. */
    OK(rankway_type_hvector(5, 1, -8, i32, &type));
    measures(type, 20, -32, 36, -32, 36);
    takes(type, 1, matrix, ROWS * COLUMNS, 20, (int[]){20, 18, 16, 14, 12}, 5);

    OK(rankway_type_indexed(3, (uint64_t[]){2, 0, 1}, (int64_t[]){4, 9, -3}, i32, &type));
    measures(type, 12, -12, 36, -12, 36);
    takes(type, 1, matrix, ROWS * COLUMNS, 10, (int[]){14, 15, 7}, 3);
    OK(rankway_type_hindexed(2, (uint64_t[]){1, 2}, (int64_t[]){40, 8}, i32, &type));
    takes(type, 1, matrix, ROWS * COLUMNS, 0, (int[]){10, 2, 3}, 3);
    OK(rankway_type_indexed_block(3, 2, (int64_t[]){8, 0, 4}, i32, &type));
    takes(type, 1, matrix, ROWS * COLUMNS, 0, (int[]){8, 9, 0, 1, 4, 5}, 6);
    OK(rankway_type_hindexed_block(2, 1, (int64_t[]){12, 4}, i32, &type));
    takes(type, 2, matrix, ROWS * COLUMNS, 0, (int[]){3, 1, 6, 4}, 4);

    OK(rankway_type_subarray(2, (uint64_t[]){ROWS, COLUMNS}, (uint64_t[]){2, 3},
                             (uint64_t[]){1, 4}, RANKWAY_ORDER_C, i32, &type));
    measures(type, 24, 0, 4 * ROWS * COLUMNS, 4 * (COLUMNS + 4), 4 * (COLUMNS + 3));
    takes(type, 1, matrix, ROWS * COLUMNS, 0,
          (int[]){COLUMNS + 4, COLUMNS + 5, COLUMNS + 6, 2 * COLUMNS + 4, 2 * COLUMNS + 5,
                  2 * COLUMNS + 6}, 6);
    OK(rankway_type_subarray(2, (uint64_t[]){4, 3}, (uint64_t[]){1, 3}, (uint64_t[]){2, 0},
                             RANKWAY_ORDER_FORTRAN, i32, &type));
    takes(type, 1, matrix, ROWS * COLUMNS, 0, (int[]){2, 6, 10}, 3);

    /* The second of two processes, blocks of two dealt in turn. */
    OK(rankway_type_darray(1, 1, (uint64_t[]){9}, (int[]){RANKWAY_DISTRIBUTE_CYCLIC},
                           (int64_t[]){2}, (uint64_t[]){2}, RANKWAY_ORDER_C, i32, &type));
    takes(type, 1, matrix, ROWS * COLUMNS, 0, (int[]){2, 3, 6, 7}, 4);
    OK(rankway_type_darray(2, 2, (uint64_t[]){2, 5},
                           (int[]){RANKWAY_DISTRIBUTE_NONE, RANKWAY_DISTRIBUTE_BLOCK},
                           (int64_t[]){RANKWAY_DISTRIBUTE_DEFAULT, RANKWAY_DISTRIBUTE_DEFAULT},
                           (uint64_t[]){1, 3}, RANKWAY_ORDER_C, i32, &type));
    takes(type, 1, matrix, ROWS * COLUMNS, 0, (int[]){4, 9}, 2);

    OK(rankway_type_contiguous(6, i32, &column));
    OK(rankway_type_dup(column, &type));
    OK(rankway_type_free(column));
    takes(type, 1, matrix, ROWS * COLUMNS, 1, (int[]){1, 2, 3, 4, 5, 6}, 6);
    OK(rankway_type_contiguous(0, i32, &type));
    measures(type, 0, 0, 0, 0, 0);
    takes(type, 3, matrix, ROWS * COLUMNS, 0, NULL, 0);
    OK(rankway_type_free(i32));
}

/* Structures have the extent that C gives them. */
static void structures(void)
{
    struct pair {
        double value;
        char mark;
        int16_t small;
    } pairs[5], back[5];
    rankway_type_t type, parts[3] = {basic(RANKWAY_DOUBLE), basic(RANKWAY_CHAR),
                                     basic(RANKWAY_INT16)};
    unsigned char stream[64];
    size_t done;

    OK(rankway_type_struct(3, (uint64_t[]){1, 1, 1},
                           (int64_t[]){offsetof(struct pair, value), offsetof(struct pair, mark),
                                       offsetof(struct pair, small)},
                           parts, &type));
    measures(type, 11, 0, sizeof(struct pair), 0, 12);
    memset(back, 0, sizeof back);
    for (int i = 0; i < 5; i++)
        pairs[i] = (struct pair){i + 0.5, (char)('a' + i), (int16_t)(-i)};
    OK(rankway_type_pack(pairs, 5, type, 0, stream, sizeof stream, &done));
    ENSURE(done == 55);
    OK(rankway_type_unpack(stream, done, 0, back, 5, type, &done));
    ENSURE(done == 55);
    for (int i = 0; i < 5; i++)
        ENSURE(back[i].value == i + 0.5 && back[i].mark == 'a' + i && back[i].small == -i);
    OK(rankway_type_free(type));
    /* A block without elements aligns nothing. */
    OK(rankway_type_struct(3, (uint64_t[]){0, 0, 3}, (int64_t[]){0, 1, 0}, parts, &type));
    measures(type, 6, 0, 6, 0, 6);
    for (int i = 0; i < 3; i++)
        OK(rankway_type_free(parts[i]));
    OK(rankway_type_free(type));
}

/* Every basic type has C's size in memory, and in external32 that of MPI. */
static void sizes(void)
{
    static const size_t bytes[] = {1, 1, 2, 2, 4, 4, 8, 8, sizeof(float), sizeof(double),
                                   sizeof(long double), 8, 16, 1, sizeof(char), sizeof(wchar_t), 1};
    for (int element = RANKWAY_INT8; element <= RANKWAY_BOOL; element++) {
        rankway_type_t type = basic(element);
        uint64_t size, external;
        OK(rankway_type_size(type, &size));
        OK(rankway_pack_external_size(3, type, &external));
        ENSURE(size == bytes[element]);
        ENSURE(external == 3 * (element == RANKWAY_WCHAR ? 2 : size));
        OK(rankway_type_free(type));
    }
}

/* Packed in external32 whole and in pieces, and back to the elements alone. */
static void external(void)
{
    struct record {
        int32_t number;
        double value;
        uint16_t parts[2];
        wchar_t mark;
        long double wide;
    } records[3], back[3];
    /* -2, 1.5, 0x1234, 0x5678, an e with an acute accent, -1. */
    static const unsigned char wanted[34] = {255,  255,  255,  254,  0x3f, 0xf8, 0, 0,    0,   0, 0, 0,
                                             0x12, 0x34, 0x56, 0x78, 0,    0xe9, 0xbf, 0xff};
    const size_t n = 3 * sizeof wanted;
    rankway_type_t type, types[5] = {basic(RANKWAY_INT32), basic(RANKWAY_DOUBLE),
                                     basic(RANKWAY_UINT16), basic(RANKWAY_WCHAR),
                                     basic(RANKWAY_LONG_DOUBLE)};
    unsigned char stream[3 * sizeof wanted], piecewise[3 * sizeof wanted];
    uint64_t size;
    size_t done;

    OK(rankway_type_struct(5, (uint64_t[]){1, 1, 2, 1, 1},
                           (int64_t[]){offsetof(struct record, number),
                                       offsetof(struct record, value),
                                       offsetof(struct record, parts),
                                       offsetof(struct record, mark),
                                       offsetof(struct record, wide)},
                           types, &type));
    for (int i = 0; i < 3; i++)
        records[i] = (struct record){-2, 1.5, {0x1234, 0x5678}, 0xe9, -1};
    OK(rankway_pack_external_size(3, type, &size));
    ENSURE(size == n);
    OK(rankway_pack_external(records, 3, type, 0, stream, sizeof stream, &done));
    ENSURE(done == n);
    for (int i = 0; i < 3; i++)
        ENSURE(memcmp(stream + i * sizeof wanted, wanted, sizeof wanted) == 0);
    for (size_t piece = 1; piece < n; piece += 4) {
        memset(back, 0x5a, sizeof back);
        for (size_t from = 0; from < n; from += done) {
            size_t left = n - from < piece ? n - from : piece;
            OK(rankway_pack_external(records, 3, type, from, piecewise + from, left, &done));
            ENSURE(done == left);
            OK(rankway_unpack_external(stream + from, left, from, back, 3, type, &done));
            ENSURE(done == left);
        }
        ENSURE(memcmp(piecewise, stream, n) == 0);
        for (int i = 0; i < 3; i++) {
            unsigned char gap[4];
            memcpy(gap, (unsigned char *)&back[i] + 4, sizeof gap);
            ENSURE(back[i].number == -2 && back[i].value == 1.5 && back[i].mark == 0xe9);
            ENSURE(back[i].parts[0] == 0x1234 && back[i].parts[1] == 0x5678);
            ENSURE(back[i].wide == -1 && memcmp(gap, "ZZZZ", 4) == 0);
        }
    }
    /* Nothing is left past the end. */
    OK(rankway_pack_external(NULL, 3, type, n, stream, sizeof stream, &done));
    ENSURE(done == 0);
    OK(rankway_unpack_external(stream, sizeof stream, n, NULL, 3, type, &done));
    ENSURE(done == 0);
    REFUSED(RANKWAY_ERR_NULL, "2 bytes is null",
            rankway_pack_external(NULL, 1, types[3], 0, stream, sizeof stream, &done));
    REFUSED(RANKWAY_ERR_NULL, "2 bytes is null",
            rankway_unpack_external(stream, sizeof stream, 0, NULL, 1, types[3], &done));
    REFUSED(RANKWAY_ERR_NULL, "packed",
            rankway_pack_external(records, 3, type, 0, stream, sizeof stream, NULL));
    REFUSED(RANKWAY_ERR_NULL, "size", rankway_pack_external_size(3, type, NULL));
    for (int i = 0; i < 5; i++)
        OK(rankway_type_free(types[i]));
    OK(rankway_type_free(type));
    REFUSED(RANKWAY_ERR_HANDLE, "freed",
            rankway_unpack_external(stream, sizeof stream, 0, back, 3, type, &done));
}

static void *elsewhere(void *type)
{
    uint64_t size;
    OK(rankway_type_size(*(rankway_type_t *)type, &size));
    ENSURE(size == 8);
    return NULL;
}

static void refusals(void)
{
    rankway_type_t type, none = {0}, freed, map = {(uint64_t)7 << 60 | 1 << 20};
    uint64_t size, huge = (uint64_t)1 << 62;
    size_t done;
    char buffer[8];
    pthread_t thread;

    type = basic(RANKWAY_INT64);
    ENSURE(pthread_create(&thread, NULL, elsewhere, &type) == 0);
    ENSURE(pthread_join(thread, NULL) == 0);
    OK(rankway_type_dup(type, &freed));
    OK(rankway_type_free(freed));
    REFUSED(RANKWAY_ERR_HANDLE, "datatype handle is null", rankway_type_size(none, &size));
    REFUSED(RANKWAY_ERR_HANDLE, "rank map handle", rankway_type_size(map, &size));
    REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_type_size(freed, &size));
    REFUSED(RANKWAY_ERR_HANDLE, "freed", rankway_type_free(freed));
    REFUSED(RANKWAY_ERR_NULL, "size", rankway_type_size(type, NULL));
    REFUSED(RANKWAY_ERR_NULL, "made", rankway_type_basic(RANKWAY_BYTE, NULL));
    REFUSED(RANKWAY_ERR_ARG, "99 is no rankway_type", rankway_type_basic(99, &freed));
    REFUSED(RANKWAY_ERR_ARG, "2^61", rankway_type_contiguous(huge, type, &freed));
    REFUSED(RANKWAY_ERR_ARG, "2^61", rankway_type_hvector(2, 1, INT64_MIN, type, &freed));
    REFUSED(RANKWAY_ERR_ARG, "2^61", rankway_type_vector(2, 1, INT64_MIN, type, &freed));
    REFUSED(RANKWAY_ERR_NULL, "displacements",
            rankway_type_indexed(1, (uint64_t[]){1}, NULL, type, &freed));
    REFUSED(RANKWAY_ERR_ARG, "length",
            rankway_type_indexed_block(SIZE_MAX, 1, (int64_t[]){1}, type, &freed));
    REFUSED(RANKWAY_ERR_ARG, "dimension 0",
            rankway_type_subarray(1, (uint64_t[]){4}, (uint64_t[]){3}, (uint64_t[]){2},
                                  RANKWAY_ORDER_C, type, &freed));
    REFUSED(RANKWAY_ERR_ARG, "rankway_order",
            rankway_type_subarray(1, (uint64_t[]){4}, (uint64_t[]){3}, (uint64_t[]){1}, 2, type,
                                  &freed));
    REFUSED(RANKWAY_ERR_ARG, "not in the grid",
            rankway_type_darray(2, 1, (uint64_t[]){4}, (int[]){RANKWAY_DISTRIBUTE_BLOCK},
                                (int64_t[]){2}, (uint64_t[]){2}, RANKWAY_ORDER_C, type, &freed));
    REFUSED(RANKWAY_ERR_ARG, "blocks of -2",
            rankway_type_darray(0, 1, (uint64_t[]){4}, (int[]){RANKWAY_DISTRIBUTE_BLOCK},
                                (int64_t[]){-2}, (uint64_t[]){2}, RANKWAY_ORDER_C, type, &freed));
    REFUSED(RANKWAY_ERR_NULL, "8 bytes is null",
            rankway_type_pack(NULL, 1, type, 0, buffer, sizeof buffer, &done));
    OK(rankway_type_pack(NULL, 1, type, 8, buffer, sizeof buffer, &done));
    ENSURE(done == 0);
    OK(rankway_type_free(type));
}

int main(void)
{
    constructors();
    structures();
    sizes();
    external();
    refusals();
    printf("datatypes\n");
    return 0;
}
