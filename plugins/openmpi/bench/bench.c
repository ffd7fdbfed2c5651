/* Point-to-point and one-sided operations between two ranks, measured as the
 * OSU micro-benchmarks do: latencies of one operation at a time, rates of 64
 * under way, bandwidth of long ones. Prints lines of "name value"; the best
 * of several rounds counts. Arguments: milliseconds a round, rounds, and
 * "two" or "one" for the two-sided or the one-sided half alone. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, LONG = 1 << 20, WORDS = LONG / 8 };

static int rank;
static double slice = 0.02;
static int rounds = 7;
static char *out, *in;
static MPI_Win win;

typedef void (*loop)(long count);

/* Seconds of `count` of them; both ranks run the loop, rank 0 has the clock. */
static double timed(loop run, long count)
{
	MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	run(count);
	double took = MPI_Wtime() - start;
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Bcast(&took, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	return took;
}

static double best(loop run)
{
	long count = WINDOW;
	while (timed(run, count) < slice && count < 1L << 30)
		count *= 2;
	double least = 1e30;
	for (int i = 0; i < rounds; i++) {
		double took = timed(run, count) / (double)count;
		if (took < least)
			least = took;
	}
	return least;
}

static void say(const char *name, double value)
{
	if (rank == 0) {
		printf("%s %.6g\n", name, value);
		fflush(stdout);
	}
}

static void ping(long count, int len)
{
	for (long i = 0; i < count; i++) {
		if (rank == 0) {
			MPI_Send(out, len, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
			MPI_Recv(in, len, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(in, len, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(out, len, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
		}
	}
}

static void ping_short(long count) { ping(count, 8); }

static void stream(long count, int len)
{
	MPI_Request requests[WINDOW];
	for (long i = 0; i < count; i += WINDOW) {
		for (int k = 0; k < WINDOW; k++) {
			if (rank == 0)
				MPI_Isend(out, len, MPI_CHAR, 1, 2, MPI_COMM_WORLD, &requests[k]);
			else
				MPI_Irecv(in, len, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &requests[k]);
		}
		MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
		if (rank == 0)
			MPI_Recv(in, 4, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		else
			MPI_Send(out, 4, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
	}
}

static void stream_short(long count) { stream(count, 8); }
static void stream_long(long count) { stream(count, LONG); }

/* Rank 1 waits in the barrier behind. */
#define ORIGIN(body)                                                                               \
	if (rank == 0)                                                                             \
		for (long i = 0; i < count; i++) {                                                 \
			body;                                                                      \
		}

static void put_latency(long count)
{
	ORIGIN(MPI_Put(out, 8, MPI_CHAR, 1, 0, 8, MPI_CHAR, win); MPI_Win_flush(1, win))
}

static void put_rate(long count)
{
	ORIGIN(MPI_Put(out, 8, MPI_CHAR, 1, 8 * (i % WINDOW), 8, MPI_CHAR, win);
	       if (i % WINDOW == WINDOW - 1) MPI_Win_flush(1, win))
}

static void put_long(long count)
{
	ORIGIN(MPI_Put(out, LONG, MPI_CHAR, 1, 0, LONG, MPI_CHAR, win);
	       if (i % WINDOW == WINDOW - 1) MPI_Win_flush(1, win))
}

static void get_latency(long count)
{
	ORIGIN(MPI_Get(in, 8, MPI_CHAR, 1, 0, 8, MPI_CHAR, win); MPI_Win_flush(1, win))
}

static void accumulate_latency(long count)
{
	ORIGIN(MPI_Accumulate(out, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, win);
	       MPI_Win_flush(1, win))
}

static void accumulate_rate(long count)
{
	ORIGIN(MPI_Accumulate(out, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, win);
	       if (i % WINDOW == WINDOW - 1) MPI_Win_flush(1, win))
}

static void fetch_latency(long count)
{
	ORIGIN(MPI_Fetch_and_op(out, in, MPI_LONG, 1, 0, MPI_SUM, win); MPI_Win_flush(1, win))
}

static void swap_latency(long count)
{
	static long wanted;
	ORIGIN(MPI_Compare_and_swap(out, &wanted, in, MPI_LONG, 1, 0, win); MPI_Win_flush(1, win))
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	int size;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (size != 2) {
		if (rank == 0)
			fprintf(stderr, "bench: two ranks, not %d\n", size);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	if (argc > 1)
		slice = atof(argv[1]) / 1e3;
	if (argc > 2)
		rounds = atoi(argv[2]);
	const char *half = argc > 3 ? argv[3] : "both";
	out = calloc(1, LONG);
	in = calloc(1, LONG);
	if (!out || !in)
		MPI_Abort(MPI_COMM_WORLD, 3);

	if (strcmp(half, "one")) {
		say("send_latency_us", best(ping_short) * 1e6 / 2);
		say("send_rate_M/s", 1e-6 / best(stream_short));
		say("send_bandwidth_MB/s", LONG * 1e-6 / best(stream_long));
	}
	if (strcmp(half, "two")) {
		void *base;
		MPI_Win_allocate(LONG, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
		memset(base, 0, LONG);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Win_lock_all(0, win);
		say("put_latency_us", best(put_latency) * 1e6);
		say("put_rate_M/s", 1e-6 / best(put_rate));
		say("put_bandwidth_MB/s", LONG * 1e-6 / best(put_long));
		say("get_latency_us", best(get_latency) * 1e6);
		say("accumulate_latency_us", best(accumulate_latency) * 1e6);
		say("accumulate_rate_M/s", 1e-6 / best(accumulate_rate));
		say("fetch_and_op_latency_us", best(fetch_latency) * 1e6);
		say("compare_and_swap_latency_us", best(swap_latency) * 1e6);
		MPI_Win_unlock_all(win);
		MPI_Win_free(&win);
	}
	MPI_Finalize();
	return 0;
}
