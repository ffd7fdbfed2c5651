/* What MPI forbids is refused with a code; and waits make Open MPI's progress,
 * so that a peer which waits for this process comes along. */
#include "check.h"

#define REFUSED(call, class)                                                                       \
    do {                                                                                           \
        int code_ = (call), class_;                                                                \
        MPI_Error_class(code_, &class_);                                                           \
        CHECK(class_ == (class), "class %d", class_);                                              \
    } while (0)

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Win win;
    int *base, value = 1;
    MPI_Win_allocate(64 * sizeof(int), sizeof(int), MPI_INFO_NULL, world, &base, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    int to = (rank + 1) % size;

    REFUSED(MPI_Put(&value, 1, MPI_INT, to, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_flush(to, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_unlock(to, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
    REFUSED(MPI_Put(&value, 1, MPI_INT, to, 64, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    REFUSED(MPI_Put(&value, 1, MPI_INT, to, -1, 1, MPI_INT, win), MPI_ERR_DISP);
    REFUSED(MPI_Accumulate(&value, 1, MPI_INT, to, 1000000, 1, MPI_INT, MPI_SUM, win),
            MPI_ERR_RMA_RANGE);
    for (int i = 0; i < 3; i++) {
        double operand = 3, old = 5;
        MPI_Op op = (MPI_Op[]) { MPI_BAND, MPI_LXOR, MPI_MINLOC }[i];
        REFUSED(MPI_Fetch_and_op(&operand, &old, MPI_DOUBLE, to, 0, op, win), MPI_ERR_OP);
        CHECK(old == 5, "%g was fetched", old);
    }
    REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    if (size > 1)
        REFUSED(MPI_Put(&value, 1, MPI_INT, rank, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    MPI_Win_unlock(to, win);
    MPI_Win_lock_all(0, win);
    REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win), MPI_ERR_RMA_SYNC);
    CHECK(MPI_Put(&value, 1, MPI_INT, to, 0, 1, MPI_INT, win) == MPI_SUCCESS);
    MPI_Win_unlock_all(win);
    MPI_Barrier(world);

    /* Who fences first must help the one whose message is to be received. */
    enum { MANY = 1 << 20 };
    char *bytes = malloc(MANY);
    for (int round = 0; round < 4; round++) {
        MPI_Request request;
        int other = rank ^ 1;
        if (other < size && rank % 2 == round % 2) {
            MPI_Irecv(bytes, MANY, MPI_BYTE, other, 0, world, &request);
        } else if (other < size) {
            fill((unsigned char *) bytes, MANY, rank + round);
            MPI_Send(bytes, MANY, MPI_BYTE, other, 0, world);
        }
        if (round < 2) {
            MPI_Win_fence(0, win);
        } else {
            /* A lock that is given when the message has come. */
            if (other < size && rank % 2 != round % 2) {
                MPI_Win_unlock(rank, win);
            } else if (other < size) {
                MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, win);
                MPI_Win_unlock(other, win);
            }
        }
        if (other < size && rank % 2 == round % 2) {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            CHECK(differs((unsigned char *) bytes, MANY, other + round) == MANY);
        }
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        /* For the next round: who will send holds its own lock. */
        if (round >= 1 && round < 3 && rank % 2 != (round + 1) % 2 && (rank ^ 1) < size)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
        MPI_Barrier(world);
    }
    free(bytes);
    MPI_Win_free(&win);

    /* What was detached is not there. */
    MPI_Win_create_dynamic(MPI_INFO_NULL, world, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    static int own[16];
    MPI_Aint address, addresses[64];
    MPI_Win_attach(win, own, sizeof own);
    REFUSED(MPI_Win_attach(win, own + 4, 8), MPI_ERR_RMA_ATTACH);
    REFUSED(MPI_Win_detach(win, own + 4), MPI_ERR_RMA_ATTACH);
    MPI_Get_address(own, &address);
    MPI_Allgather(&address, 1, MPI_AINT, addresses, 1, MPI_AINT, world);
    MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
    CHECK(MPI_Put(&value, 1, MPI_INT, to, addresses[to], 1, MPI_INT, win) == MPI_SUCCESS);
    CHECK(MPI_Win_flush(to, win) == MPI_SUCCESS);
    MPI_Win_unlock(to, win);
    MPI_Barrier(world);
    CHECK(own[0] == 1);
    MPI_Win_detach(win, own);
    MPI_Barrier(world);
    MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
    int put = MPI_Put(&value, 1, MPI_INT, to, addresses[to], 1, MPI_INT, win);
    int flushed = MPI_Win_flush(to, win);
    REFUSED(put == MPI_SUCCESS ? flushed : put, MPI_ERR_RMA_RANGE);
    MPI_Win_unlock(to, win);
    MPI_Win_free(&win);
    return finish();
}
