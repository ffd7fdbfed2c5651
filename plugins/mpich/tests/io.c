/* MPI-IO: collective writes and reads through views that interleave the ranks, in each representation of a
 * call: at once, in two halves, without waiting; at explicit places, by pointers of one's own and by the shared one.
 * What is in the file is read past MPI, too. Argument: a directory. */
#include "../../openmpi/tests/check.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 24, COLUMNS = 36, BLOCK = 1 << 18 };

static char name[4096];
static int dims[2], coords[2], rows, columns;

/* What the matrix has in a place; `version` tells writes apart. */
static int value(int row, int column, int version)
{
    return version * 1000000 + row * 1000 + column;
}

static MPI_File opened(int mode)
{
    MPI_File file;
    CHECK(MPI_File_open(world, name, mode, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    return file;
}

/* The bytes of the file, past MPI. */
static void in_file(const void *bytes, size_t len, off_t at)
{
    char *found = malloc(len);
    int fd = open(name, O_RDONLY);
    CHECK(fd >= 0 && pread(fd, found, len, at) == (ssize_t) len && memcmp(found, bytes, len) == 0);
    close(fd);
    free(found);
}

static void whole_matrix(int version)
{
    int all[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++)
        all[i] = value(i / COLUMNS, i % COLUMNS, version);
    in_file(all, sizeof all, 64);
}

/* Each rank has a block of a matrix, with a border around it in memory. */
static void matrix(void)
{
    int whole[] = { ROWS, COLUMNS }, part[] = { rows, columns }, start[] = { coords[0] * rows, coords[1] * columns };
    int around[] = { rows + 2, columns + 2 }, inside[] = { 1, 1 };
    int *mine = calloc((rows + 2) * (columns + 2), sizeof(int)), *got = malloc((rows + 2) * (columns + 2) * sizeof(int));
    MPI_Datatype in_memory, in_the_file;
    MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_INT, &in_the_file);
    MPI_Type_create_subarray(2, around, part, inside, MPI_ORDER_C, MPI_INT, &in_memory);
    MPI_Type_commit(&in_the_file);
    MPI_Type_commit(&in_memory);
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_File_set_view(file, 64, MPI_INT, in_the_file, "native", MPI_INFO_NULL);
    for (int version = 1; version <= 5; version++) {
        MPI_Status status;
        MPI_Request request;
        int count;
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < columns; j++)
                mine[(i + 1) * (columns + 2) + j + 1] = value(start[0] + i, start[1] + j, version);
        memset(got, 0, (rows + 2) * (columns + 2) * sizeof(int));
        MPI_File_seek(file, 0, MPI_SEEK_SET);
        switch (version) {
            case 1:
                MPI_File_write_all(file, mine, 1, in_memory, &status);
                break;
            case 2:
                MPI_File_write_at_all_begin(file, 0, mine, 1, in_memory);
                MPI_File_write_at_all_end(file, mine, &status);
                break;
            case 3:
                MPI_File_iwrite_all(file, mine, 1, in_memory, &request);
                MPI_Wait(&request, &status);
                break;
            case 4:
                MPI_File_write_at(file, 0, mine, 1, in_memory, &status);
                break;
            default:
                MPI_File_iwrite_at_all(file, 0, mine, 1, in_memory, &request);
                MPI_Barrier(world);
                MPI_Wait(&request, &status);
        }
        MPI_Get_count(&status, in_memory, &count);
        CHECK(count == 1);
        CHECK(MPI_File_sync(file) == MPI_SUCCESS);
        MPI_Barrier(world);
        whole_matrix(version);
        switch (version) {
            case 1:
                MPI_File_seek(file, 0, MPI_SEEK_SET);
                MPI_File_read_all(file, got, 1, in_memory, &status);
                break;
            case 2:
                MPI_File_read_at_all_begin(file, 0, got, 1, in_memory);
                MPI_File_read_at_all_end(file, got, &status);
                break;
            case 3:
                MPI_File_seek(file, 0, MPI_SEEK_SET);
                MPI_File_iread_all(file, got, 1, in_memory, &request);
                MPI_Wait(&request, &status);
                break;
            case 4:
                MPI_File_iread_at(file, 0, got, 1, in_memory, &request);
                MPI_Wait(&request, &status);
                break;
            default:
                MPI_File_iread_at_all(file, 0, got, 1, in_memory, &request);
                MPI_Wait(&request, &status);
        }
        CHECK(memcmp(got, mine, (rows + 2) * (columns + 2) * sizeof(int)) == 0);
        MPI_Barrier(world);
    }
    MPI_Type_free(&in_the_file);
    MPI_Type_free(&in_memory);
    MPI_File_close(&file);
    free(mine);
    free(got);
}

/* Blocks of bytes of all ranks in turns, by few who write for all; more than a message's worth. */
static void interleaved(void)
{
    MPI_Info hints;
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "romio_cb_write", "enable");
    MPI_Info_set(hints, "romio_cb_read", "enable");
    MPI_Info_set(hints, "cb_buffer_size", "1048576");
    MPI_Datatype turns;
    MPI_Type_vector(BLOCK / 64, 64, 64 * size, MPI_BYTE, &turns);
    MPI_Type_commit(&turns);
    char *bytes = malloc(BLOCK), *got = malloc(BLOCK), *all = malloc((size_t) BLOCK * size);
    for (int i = 0; i < BLOCK; i++)
        bytes[i] = (char) (rank * 31 + i * 7 + i / 251);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < BLOCK; i++)
            all[((size_t) (i / 64) * size + r) * 64 + i % 64] = (char) (r * 31 + i * 7 + i / 251);
    MPI_File file;
    MPI_Status status;
    int count;
    CHECK(MPI_File_open(world, name, MPI_MODE_CREATE | MPI_MODE_RDWR, hints, &file) == MPI_SUCCESS);
    MPI_File_set_size(file, 0);
    MPI_File_set_view(file, rank * 64, MPI_BYTE, turns, "native", hints);
    CHECK(MPI_File_write_at_all(file, 0, bytes, BLOCK, MPI_BYTE, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(count == BLOCK);
    MPI_File_sync(file);
    MPI_Barrier(world);
    in_file(all, (size_t) BLOCK * size, 0);
    CHECK(MPI_File_read_at_all(file, 0, got, BLOCK, MPI_BYTE, &status) == MPI_SUCCESS);
    CHECK(memcmp(got, bytes, BLOCK) == 0);
    /* What two write at once in atomic mode is one's or the other's. */
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_set_atomicity(file, 1);
    memset(bytes, 'a' + rank, BLOCK);
    MPI_File_write_at(file, 0, bytes, BLOCK, MPI_BYTE, &status);
    MPI_Barrier(world);
    MPI_File_read_at(file, 0, got, BLOCK, MPI_BYTE, &status);
    for (int i = 1; i < BLOCK; i++)
        CHECK(got[i] == got[0]);
    MPI_File_close(&file);
    MPI_Type_free(&turns);
    MPI_Info_free(&hints);
    free(bytes);
    free(got);
    free(all);
}

/* One pointer for all: in order of ranks, and as they come. */
static void shared(void)
{
    MPI_Status status;
    MPI_Request request;
    int record[16], all[16 * 64], seen[64] = { 0 };
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_File_set_size(file, 0);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    for (int i = 0; i < 16; i++)
        record[i] = rank * 100 + i;
    CHECK(MPI_File_write_ordered(file, record, 16, MPI_INT, &status) == MPI_SUCCESS);
    MPI_File_write_ordered_begin(file, record, 16, MPI_INT);
    MPI_File_write_ordered_end(file, record, &status);
    MPI_File_sync(file);
    MPI_Barrier(world);
    for (int i = 0; i < 32 * size; i++)
        all[i] = i / 16 % size * 100 + i % 16;
    in_file(all, 32 * size * sizeof(int), 0);
    MPI_Barrier(world);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    CHECK(MPI_File_write_shared(file, record, 16, MPI_INT, &status) == MPI_SUCCESS);
    MPI_File_iwrite_shared(file, record, 16, MPI_INT, &request);
    MPI_Wait(&request, &status);
    MPI_File_sync(file);
    MPI_Barrier(world);
    MPI_Offset at;
    MPI_File_get_position_shared(file, &at);
    CHECK(at == 32 * size);
    MPI_File_read_at(file, 0, all, 32 * size, MPI_INT, &status);
    for (int i = 0; i < 2 * size; i++) {
        int of = all[i * 16] / 100;
        for (int j = 0; j < 16; j++)
            CHECK(all[i * 16 + j] == of * 100 + j);
        seen[of]++;
    }
    for (int i = 0; i < size; i++)
        CHECK(seen[i] == 2);
    MPI_Barrier(world);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    memset(record, 0, sizeof record);
    CHECK(MPI_File_read_ordered(file, record, 16, MPI_INT, &status) == MPI_SUCCESS);
    CHECK(memcmp(record, all + rank * 16, sizeof record) == 0);
    MPI_File_close(&file);
}

/* Many writes under way; what is wrong is told; a file goes when it is closed. */
static void many(void)
{
    enum { MANY = 50 };
    MPI_Request requests[MANY];
    int numbers[MANY], got[MANY], class;
    MPI_File file = opened(MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    for (int i = 0; i < MANY; i++) {
        numbers[i] = rank * 1000 + i;
        MPI_File_iwrite_at(file, (rank * MANY + i) * sizeof(int), &numbers[i], 1, MPI_INT, &requests[i]);
    }
    MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    MPI_File_sync(file);
    MPI_Barrier(world);
    int next = (rank + 1) % size;
    for (int i = 0; i < MANY; i++)
        MPI_File_iread_at(file, (next * MANY + i) * sizeof(int), &got[i], 1, MPI_INT, &requests[i]);
    MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++)
        CHECK(got[i] == next * 1000 + i);
    MPI_Barrier(world);
    MPI_Error_class(MPI_File_write_at(file, -5, numbers, 1, MPI_INT, MPI_STATUS_IGNORE), &class);
    CHECK(class == MPI_ERR_ARG);
    MPI_File_close(&file);
    CHECK(access(name, F_OK) != 0);
    MPI_Barrier(world);
    MPI_Error_class(MPI_File_open(world, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), &class);
    CHECK(class == MPI_ERR_NO_SUCH_FILE);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    snprintf(name, sizeof name, "%s/io.data", argc > 1 ? argv[1] : ".");
    MPI_Dims_create(size, 2, dims);
    coords[0] = rank / dims[1];
    coords[1] = rank % dims[1];
    rows = ROWS / dims[0];
    columns = COLUMNS / dims[1];
    matrix();
    interleaved();
    shared();
    many();
    return finish();
}
