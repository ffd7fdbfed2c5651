/* Datatypes: sizes and bounds as MPI has them, packing in pieces against plain
 * loops, in one form whichever way it was made, and what is refused. */
#include "test.h"

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
    for (int i = 0; i < 3; i++)
        OK(rankway_type_free(parts[i]));
    OK(rankway_type_free(type));
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
    refusals();
    printf("datatypes\n");
    return 0;
}
