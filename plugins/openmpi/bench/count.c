/* Calls of MPI between two ranks, of 8 bytes, again and again: `rankway count-mpi`
 * loads this into two processes under mpirun and steps through some calls of rank
 * 0's. Ranks take turns by a page of memory that both map, not by MPI: what a call
 * meets in its queue is there before, and nothing else is. */
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Messages of a window, all of which every component takes while their receiver
 * does nothing; how often each call is counted, and run before that. */
enum { WINDOW = 32, TIMES = 5, WARM = 20 };

/* Is told before a call that it is counted: what it is called in the report, its
 * function, and what its instructions are divided by. */
typedef void (*counter)(const char *name, void (*function)(void), int many);

static int rank;
static counter count;
static atomic_int *turns;
static int warm;
static MPI_Comm idle;
static MPI_Win win;
static char out[8], in[8];

#define COUNT(name, function, many)                                                                \
	if (rank == 0)                                                                             \
	count(name, (void (*)(void))(function), many)

static void look_around(void)
{
	int there;
	MPI_Iprobe(MPI_ANY_SOURCE, 0, idle, &there, MPI_STATUS_IGNORE);
}

/* Both ranks are here. Rank 1 makes progress meanwhile; rank 0 does nothing, once
 * it is warm. */
static void meet(void)
{
	int mine = atomic_fetch_add(&turns[rank], 1) + 1;
	while (atomic_load(&turns[1 - rank]) < mine) {
		if (rank == 1 || !warm)
			look_around();
		sched_yield();
	}
}

/* A window of messages from one rank to the other: the receives are posted, then
 * all are sent, then the receiver looks. The call in the middle is counted, and
 * the wait for all. */
static void stream(int sender, int middle)
{
	MPI_Request requests[WINDOW];
	int sends = rank == sender;
	if (sends)
		meet();
	for (int k = 0; k < WINDOW; k++) {
		if (k == middle) {
			if (sends) {
				COUNT("MPI_Isend", MPI_Isend, 1);
			} else {
				COUNT("MPI_Irecv", MPI_Irecv, 1);
			}
		}
		if (sends)
			MPI_Isend(out, 8, MPI_CHAR, 1 - rank, 2, MPI_COMM_WORLD, &requests[k]);
		else
			MPI_Irecv(in, 8, MPI_CHAR, 1 - rank, 2, MPI_COMM_WORLD, &requests[k]);
	}
	if (!sends) {
		meet();
		meet();
	}
	COUNT(sends ? "MPI_Waitall, sends" : "MPI_Waitall, receives", MPI_Waitall, WINDOW);
	MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
	if (sends)
		meet();
	meet();
}

/* Open MPI looks at its events every eighth time that it makes progress: `shift`
 * times more before, so that it does in few of the calls that are counted. */
static void one_message(int shift)
{
	MPI_Request request;
	int done = 0;
	if (rank == 1) {
		MPI_Recv(in, 8, MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		meet();
		/* One that lies in rank 0's queue, and one that it has looked at. */
		MPI_Send(out, 8, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
		meet();
		meet();
		MPI_Send(out, 8, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
		meet();
		meet();
		MPI_Send(out, 8, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
		meet();
		return;
	}
	for (int i = 0; i < shift; i++)
		look_around();
	COUNT("MPI_Send", MPI_Send, 1);
	MPI_Send(out, 8, MPI_CHAR, 1, 3, MPI_COMM_WORLD);
	meet();
	meet();
	COUNT("MPI_Recv", MPI_Recv, 1);
	MPI_Recv(in, 8, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	meet();
	meet();
	for (int i = 0; i < 100; i++)
		look_around();
	COUNT("MPI_Recv, unexpected", MPI_Recv, 1);
	MPI_Recv(in, 8, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Irecv(in, 8, MPI_CHAR, 1, 3, MPI_COMM_WORLD, &request);
	for (int i = 0; i < 100; i++)
		look_around();
	COUNT("MPI_Test, nothing there", MPI_Test, 1);
	MPI_Test(&request, &done, MPI_STATUS_IGNORE);
	meet();
	meet();
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Rank 1 makes progress in the meeting behind. */
static void one_sided(void)
{
	if (rank == 1)
		return;
	MPI_Win_lock_all(0, win);
	COUNT("MPI_Put", MPI_Put, 1);
	MPI_Put(out, 8, MPI_CHAR, 1, 0, 8, MPI_CHAR, win);
	COUNT("MPI_Win_flush, a put", MPI_Win_flush, 1);
	MPI_Win_flush(1, win);
	COUNT("MPI_Get", MPI_Get, 1);
	MPI_Get(in, 8, MPI_CHAR, 1, 0, 8, MPI_CHAR, win);
	COUNT("MPI_Win_flush, a get", MPI_Win_flush, 1);
	MPI_Win_flush(1, win);
	COUNT("MPI_Accumulate", MPI_Accumulate, 1);
	MPI_Accumulate(out, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, win);
	MPI_Win_flush(1, win);
	COUNT("MPI_Fetch_and_op", MPI_Fetch_and_op, 1);
	MPI_Fetch_and_op(out, in, MPI_LONG, 1, 0, MPI_SUM, win);
	MPI_Win_flush(1, win);
	MPI_Win_unlock_all(win);
	for (int exclusive = 0; exclusive < 2; exclusive++) {
		COUNT(exclusive ? "MPI_Win_lock, exclusive" : "MPI_Win_lock, shared", MPI_Win_lock, 1);
		MPI_Win_lock(exclusive ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, 1, 0, win);
		COUNT(exclusive ? "MPI_Win_unlock, exclusive" : "MPI_Win_unlock, shared",
		      MPI_Win_unlock, 1);
		MPI_Win_unlock(1, win);
	}
}

/* Runs as a rank of the job; `half` is "two" or "one" for the two-sided or the
 * one-sided calls alone or "both", `created` asks for a window over the program's
 * memory. `ignored` counts nothing: what is run before, to warm up. */
int rankway_count_mpi(atomic_int *page, const char *half, int created, counter counts,
		      counter ignored)
{
	int size;
	void *base = NULL, *own = NULL;
	turns = page;
	MPI_Init(NULL, NULL);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (size != 2)
		MPI_Abort(MPI_COMM_WORLD, 2);
	MPI_Comm_dup(MPI_COMM_WORLD, &idle);
	if (strcmp(half, "one")) {
		for (int i = -WARM; i < TIMES; i++) {
			warm = i >= 0;
			count = warm ? counts : ignored;
			stream(0, 7 + 5 * i);
			stream(1, 7 + 5 * i);
			one_message(i);
		}
	}
	meet();
	if (strcmp(half, "two")) {
		if (created) {
			base = own = calloc(1, 4096);
			MPI_Win_create(base, 4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
		} else {
			MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
			memset(base, 0, 4096);
		}
		MPI_Barrier(MPI_COMM_WORLD);
		for (int i = -WARM; i < TIMES; i++) {
			warm = i >= 0;
			count = warm ? counts : ignored;
			one_sided();
			meet();
		}
		MPI_Win_free(&win);
		free(own);
	}
	MPI_Comm_free(&idle);
	MPI_Finalize();
	return 0;
}
