/* Windows at the edges: no bytes are attached and detached; what no memory is as long as is refused in all,
 * as often as the argument says (4), and nothing of it stays; memory is shared whatever is hinted. */
#include "../../openmpi/tests/check.h"

static const MPI_Aint too_long = (MPI_Aint) 1 << 50;

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static void no_bytes(void)
{
    static char memory[64];
    MPI_Win win;
    MPI_Win_create_dynamic(MPI_INFO_NULL, world, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    for (int round = 0; round < 2; round++) {
        CHECK(MPI_Win_attach(win, memory, 0) == MPI_SUCCESS);
        CHECK(MPI_Win_attach(win, memory, sizeof memory) == MPI_SUCCESS);
        CHECK(MPI_Win_attach(win, memory + 8, 0) == MPI_SUCCESS);
        CHECK(MPI_Win_detach(win, memory + 8) == MPI_SUCCESS);
        CHECK(MPI_Win_detach(win, memory) == MPI_SUCCESS);
        CHECK(MPI_Win_detach(win, memory) == MPI_SUCCESS);
        CHECK(class_of(MPI_Win_detach(win, memory)) == MPI_ERR_RMA_ATTACH);
        CHECK(class_of(MPI_Win_detach(win, memory + 8)) == MPI_ERR_RMA_ATTACH);
    }
    MPI_Win_free(&win);
}

/* Of all, or of one. */
static void refused(MPI_Comm comm, int shared, int all)
{
    MPI_Win win;
    void *base;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Aint bytes = all || rank == size - 1 ? too_long : 8;
    int length, code = shared ?
        MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, comm, &base, &win) :
        MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, comm, &base, &win);
    MPI_Error_string(code, text, &length);
    CHECK(class_of(code) == MPI_ERR_NO_MEM && strstr(text, "rankway: "), "%s", text);
}

static void too_long_for_any(int times)
{
    MPI_Comm comm, made;
    MPI_Win win;
    long *base;
    MPI_Comm_dup(world, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < times; i++)
        refused(comm, i % 2, i % 4 < 2);
    CHECK(MPI_Comm_dup(comm, &made) == MPI_SUCCESS);
    MPI_Comm_free(&made);
    CHECK(MPI_Win_allocate(8, 8, MPI_INFO_NULL, comm, &base, &win) == MPI_SUCCESS);
    *base = rank;
    MPI_Win_fence(0, win);
    long of = -1, to = (rank + 1) % size;
    MPI_Get(&of, 1, MPI_LONG, to, 0, 1, MPI_LONG, win);
    MPI_Win_fence(0, win);
    CHECK(of == to, "%ld", of);
    MPI_Win_free(&win);
    MPI_Comm_free(&comm);
}

static void is_said_to_be_shared(MPI_Win win)
{
    MPI_Info said;
    char value[8] = "";
    int found;
    MPI_Win_get_info(win, &said);
    MPI_Info_get(said, "alloc_shm", sizeof value - 1, value, &found);
    CHECK(found && !strcmp(value, "true"), "%s", value);
    MPI_Info_free(&said);
}

static void shared_whatever_is_hinted(void)
{
    MPI_Info hint;
    MPI_Win win;
    MPI_Aint bytes;
    int unit;
    long *base, *theirs;
    MPI_Info_create(&hint);
    MPI_Info_set(hint, "alloc_shm", "false");
    MPI_Win_allocate(8, 8, hint, world, &base, &win);
    is_said_to_be_shared(win);
    MPI_Win_free(&win);
    MPI_Win_allocate_shared(8, 8, hint, world, &base, &win);
    is_said_to_be_shared(win);
    MPI_Win_set_info(win, hint);
    is_said_to_be_shared(win);
    MPI_Win_lock_all(0, win);
    *base = 100 + rank;
    MPI_Win_sync(win);
    MPI_Barrier(world);
    MPI_Win_sync(win);
    MPI_Win_shared_query(win, (rank + 1) % size, &bytes, &unit, &theirs);
    CHECK(bytes == 8 && unit == 8 && *theirs == 100 + (rank + 1) % size, "%ld", *theirs);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Info_free(&hint);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    no_bytes();
    too_long_for_any(argc > 1 ? atoi(argv[1]) : 4);
    shared_whatever_is_hinted();
    return finish();
}
