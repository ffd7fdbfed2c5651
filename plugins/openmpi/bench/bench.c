/* Point-to-point and one-sided operations between two ranks, measured as the
 * OSU micro-benchmarks do: latencies of one operation at a time, rates of 64
 * under way, bandwidth of long ones, of one piece of memory or of many. Prints
 * "name value" for each value that is better than those before, and "at name"
 * before the first of a figure, so that a library that crashes leaves what it got
 * to. A round goes through all figures: a machine that is slow for half a second spoils part of the rounds
 * then, not all rounds of a figure. Arguments: milliseconds of a figure in a
 * round, rounds, "two" or "one" for the two-sided or the one-sided half alone,
 * "both", "created" for the one-sided half on a window over memory of the
 * program's own, or "crowd" for what four ranks do together, and names of figures
 * to leave out. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a long message, and of the memory that the noncontiguous are spread
 * over. */
enum { WINDOW = 64, LONG = 1 << 20, SPREAD = 2 * LONG };

/* Noncontiguous puts under way: there are libraries that take a second for each. */
enum { FEW = 2 };

static int rank, ranks;
static double slice = 0.003;
static int rounds = 20;
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

/* What is measured, how often in a round, and the least seconds of one. */
struct figure {
	const char *name;
	loop run;
	/* What is printed: seconds times `scale`, or `scale` divided by them. */
	int rate;
	double scale;
	/* The least of them. */
	long count;
	double least;
};

/* Names of figures to leave out. */
static char **omitted;
static int omissions;

static int wanted(const struct figure *f)
{
	for (int i = 0; i < omissions; i++)
		if (!strcmp(omitted[i], f->name))
			return 0;
	return 1;
}

static void begin(struct figure *f)
{
	if (rank == 0) {
		printf("at %s\n", f->name);
		fflush(stdout);
	}
	f->least = 1e30;
	while (timed(f->run, f->count) < slice && f->count < 1L << 30)
		f->count *= 2;
}

static void sample(struct figure *f)
{
	double took = timed(f->run, f->count) / (double)f->count;
	if (took >= f->least)
		return;
	f->least = took;
	if (rank == 0) {
		printf("%s %.6g\n", f->name, f->rate ? f->scale / took : f->scale * took);
		fflush(stdout);
	}
}

/* Measures all figures, round after round. */
static void measure(struct figure *figures, int many)
{
	for (int i = 0; i < rounds; i++)
		for (struct figure *f = figures; f < figures + many; f++) {
			if (!wanted(f))
				continue;
			if (i == 0)
				begin(f);
			sample(f);
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

/* Elements of a datatype on either side. */
struct side {
	MPI_Datatype type;
	int count;
};

static void stream(long count, struct side from, struct side to)
{
	MPI_Request requests[WINDOW];
	for (long i = 0; i < count; i += WINDOW) {
		for (int k = 0; k < WINDOW; k++) {
			if (rank == 0)
				MPI_Isend(out, from.count, from.type, 1, 2, MPI_COMM_WORLD,
					  &requests[k]);
			else
				MPI_Irecv(in, to.count, to.type, 0, 2, MPI_COMM_WORLD,
					  &requests[k]);
		}
		MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
		if (rank == 0)
			MPI_Recv(in, 4, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		else
			MPI_Send(out, 4, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
	}
}

static void stream_bytes(long count, int len)
{
	struct side bytes = { MPI_CHAR, len };
	stream(count, bytes, bytes);
}

static void stream_short(long count) { stream_bytes(count, 8); }
static void stream_long(long count) { stream_bytes(count, LONG); }

/* Every second double; a matrix of 256 by 512 doubles, column by column; and
 * structures of 24 bytes with gaps, 16 bytes of them data. */
static struct side vector, matrix, line, structures;

static void make_types(void)
{
	MPI_Datatype column, parts[] = { MPI_DOUBLE, MPI_INT, MPI_INT }, one;
	MPI_Aint at[] = { 0, 8, 16 };
	int lens[] = { 1, 1, 1 };
	vector.count = matrix.count = 1;
	MPI_Type_vector(LONG / 8, 1, 2, MPI_DOUBLE, &vector.type);
	MPI_Type_commit(&vector.type);
	MPI_Type_vector(256, 1, 512, MPI_DOUBLE, &column);
	MPI_Type_create_hvector(512, 1, 8, column, &matrix.type);
	MPI_Type_commit(&matrix.type);
	MPI_Type_free(&column);
	MPI_Type_create_struct(3, lens, at, parts, &one);
	MPI_Type_create_resized(one, 0, 24, &structures.type);
	MPI_Type_commit(&structures.type);
	MPI_Type_free(&one);
	structures.count = LONG / 16;
	line.type = MPI_DOUBLE;
	line.count = LONG / 8;
}

static void stream_vector(long count) { stream(count, vector, vector); }
static void stream_transposed(long count) { stream(count, matrix, line); }
static void stream_structures(long count) { stream(count, structures, structures); }

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

static void put_sides(long count, struct side from, struct side to)
{
	ORIGIN(MPI_Put(out, from.count, from.type, 1, 0, to.count, to.type, win);
	       if (i % FEW == FEW - 1) MPI_Win_flush(1, win))
}

static void put_vector(long count) { put_sides(count, vector, vector); }
static void put_transposed(long count) { put_sides(count, matrix, line); }
static void put_structures(long count) { put_sides(count, structures, structures); }

static void put_bytes(long count, int len)
{
	ORIGIN(MPI_Put(out, len, MPI_CHAR, 1, 0, len, MPI_CHAR, win);
	       if (i % WINDOW == WINDOW - 1) MPI_Win_flush(1, win))
}

static void get_bytes(long count, int len)
{
	ORIGIN(MPI_Get(in, len, MPI_CHAR, 1, 0, len, MPI_CHAR, win);
	       if (i % WINDOW == WINDOW - 1) MPI_Win_flush(1, win))
}

static void put_8k(long count) { put_bytes(count, 8 << 10); }
static void put_256k(long count) { put_bytes(count, 256 << 10); }
static void get_8k(long count) { get_bytes(count, 8 << 10); }
static void get_long(long count) { get_bytes(count, LONG); }

static void get_latency(long count)
{
	ORIGIN(MPI_Get(in, 8, MPI_CHAR, 1, 0, 8, MPI_CHAR, win); MPI_Win_flush(1, win))
}

static void get_rate(long count)
{
	ORIGIN(MPI_Get(in, 8, MPI_CHAR, 1, 8 * (i % WINDOW), 8, MPI_CHAR, win);
	       if (i % WINDOW == WINDOW - 1) MPI_Win_flush(1, win))
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

/* Long ones: of numbers, of bytes, and with the elements as they were. */
static void accumulate_long(long count)
{
	ORIGIN(MPI_Accumulate(out, LONG / 8, MPI_DOUBLE, 1, 0, LONG / 8, MPI_DOUBLE, MPI_SUM, win);
	       MPI_Win_flush(1, win))
}

static void replace_long(long count)
{
	ORIGIN(MPI_Accumulate(out, LONG / 8, MPI_DOUBLE, 1, 0, LONG / 8, MPI_DOUBLE, MPI_REPLACE,
			      win);
	       MPI_Win_flush(1, win))
}

static void get_accumulate_long(long count)
{
	ORIGIN(MPI_Get_accumulate(out, LONG, MPI_SIGNED_CHAR, in, LONG, MPI_SIGNED_CHAR, 1, 0,
				  LONG, MPI_SIGNED_CHAR, MPI_MAX, win);
	       MPI_Win_flush(1, win))
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

/* Epochs of one rank, with nothing in them. */
static void lock_shared(long count)
{
	ORIGIN(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win); MPI_Win_unlock(1, win))
}

static void lock_exclusive(long count)
{
	ORIGIN(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win); MPI_Win_unlock(1, win))
}

static void fence(long count)
{
	for (long i = 0; i < count; i++)
		MPI_Win_fence(0, win);
}

#define US(name, run) { name, run, 0, 1e6, WINDOW, 0 }
#define RATE(name, run) { name, run, 1, 1e-6, WINDOW, 0 }
#define BYTES(name, run) { name, run, 1, LONG * 1e-6, WINDOW, 0 }
#define SIDES(name, run) { name, run, 1, LONG * 1e-6, FEW, 0 }
#define MANY(figures) ((int)(sizeof figures / sizeof figures[0]))

static struct figure sends[] = {
	{ "send_latency_us", ping_short, 0, 1e6 / 2, WINDOW, 0 },
	RATE("send_rate_M/s", stream_short),
	BYTES("send_bandwidth_MB/s", stream_long),
	BYTES("send_vector_MB/s", stream_vector),
	BYTES("send_transposed_MB/s", stream_transposed),
	BYTES("send_structures_MB/s", stream_structures),
};

static struct figure puts_and_gets[] = {
	US("put_latency_us", put_latency),
	RATE("put_rate_M/s", put_rate),
	BYTES("put_bandwidth_MB/s", put_long),
	{ "put_8KiB_MB/s", put_8k, 1, 8 * 1024e-6, WINDOW, 0 },
	{ "put_256KiB_MB/s", put_256k, 1, 256 * 1024e-6, WINDOW, 0 },
	{ "get_8KiB_MB/s", get_8k, 1, 8 * 1024e-6, WINDOW, 0 },
	BYTES("get_bandwidth_MB/s", get_long),
	SIDES("put_vector_MB/s", put_vector),
	SIDES("put_transposed_MB/s", put_transposed),
	SIDES("put_structures_MB/s", put_structures),
	US("get_latency_us", get_latency),
	RATE("get_rate_M/s", get_rate),
	US("accumulate_latency_us", accumulate_latency),
	RATE("accumulate_rate_M/s", accumulate_rate),
	US("accumulate_1MiB_us", accumulate_long),
	US("accumulate_replace_1MiB_us", replace_long),
	US("get_accumulate_1MiB_us", get_accumulate_long),
	US("fetch_and_op_latency_us", fetch_latency),
	US("compare_and_swap_latency_us", swap_latency),
};

static struct figure locks[] = {
	US("lock_shared_latency_us", lock_shared),
	US("lock_exclusive_latency_us", lock_exclusive),
};

static struct figure fences[] = {
	US("fence_us", fence),
};

static void barrier(long count)
{
	for (long i = 0; i < count; i++)
		MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(long count)
{
	for (long i = 0; i < count; i++)
		MPI_Allreduce(out, in, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(long count)
{
	for (long i = 0; i < count; i++)
		MPI_Alltoall(out, 1, MPI_LONG, in, 1, MPI_LONG, MPI_COMM_WORLD);
}

static void allgather(long count)
{
	for (long i = 0; i < count; i++)
		MPI_Allgather(out, 1, MPI_LONG, in, 1, MPI_LONG, MPI_COMM_WORLD);
}

/* A thousand gets of each rank from all others, between two fences. */
static void get_thousand(long count)
{
	for (long i = 0; i < count; i++) {
		MPI_Win_fence(0, win);
		for (int k = 0; k < 1000; k++)
			MPI_Get(in + 8 * k, 8, MPI_CHAR, (rank + 1 + k % (ranks - 1)) % ranks,
				8 * k, 8, MPI_CHAR, win);
		MPI_Win_fence(0, win);
	}
}

static struct figure together[] = {
	US("barrier_us", barrier),
	US("allreduce_us", allreduce),
	US("alltoall_us", alltoall),
	US("allgather_us", allgather),
	{ "fences_1000_gets_us", get_thousand, 0, 1e6, 2, 0 },
};

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	const char *half = argc > 3 ? argv[3] : "both";
	/* Crowds have a window over memory of their own, too. */
	int crowd = !strcmp(half, "crowd"), created = crowd || !strcmp(half, "created");
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks != (crowd ? 4 : 2)) {
		if (rank == 0)
			fprintf(stderr, "bench: two ranks, of \"crowd\" four, not %d\n", ranks);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	if (argc > 1)
		slice = atof(argv[1]) / 1e3;
	if (argc > 2)
		rounds = atoi(argv[2]);
	if (argc > 4) {
		omitted = argv + 4;
		omissions = argc - 4;
	}
	out = malloc(SPREAD);
	in = malloc(SPREAD);
	if (!out || !in)
		MPI_Abort(MPI_COMM_WORLD, 3);
	memset(out, 0, SPREAD);
	memset(in, 0, SPREAD);
	make_types();

	if (!created && strcmp(half, "one"))
		measure(sends, MANY(sends));
	if (strcmp(half, "two")) {
		void *base;
		if (created) {
			base = malloc(SPREAD);
			if (!base)
				MPI_Abort(MPI_COMM_WORLD, 3);
			MPI_Win_create(base, SPREAD, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
		} else {
			MPI_Win_allocate(SPREAD, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
		}
		memset(base, 0, SPREAD);
		MPI_Barrier(MPI_COMM_WORLD);
		if (crowd) {
			measure(together, MANY(together));
		} else {
			MPI_Win_lock_all(0, win);
			measure(puts_and_gets, MANY(puts_and_gets));
			MPI_Win_unlock_all(win);
			measure(locks, MANY(locks));
			MPI_Win_fence(0, win);
			measure(fences, MANY(fences));
		}
		MPI_Win_free(&win);
	}
	MPI_Finalize();
	return 0;
}
