/* Bytes that a process holds after more and more meetings with other jobs, with a
 * message both ways in each, by the library that asked for them (a line as heap.c's).
 *
 *   spawn children ROUNDS EVERY     spawns a process, and disconnects from it
 *   spawn connect ROUNDS EVERY      halves of the job connect, accept, disconnect
 *   spawn jobs ROUNDS EVERY         one child, with which the parent connects,
 *                                   accepts and disconnects: two jobs, met again
 *
 * And `spawn speed`: half a round trip with a spawned process, of 8 bytes and of 1 MiB; a put and
 * flush, and a get and flush, of the same two into a created window that both have; in us. */
#include "held.h"

static int rank;

static void talk(MPI_Comm inter)
{
	int n, mine = 4711, theirs = 0;
	MPI_Comm_remote_size(inter, &n);
	MPI_Comm_rank(inter, &rank);
	MPI_Sendrecv(&mine, 1, MPI_INT, rank % n, 0, &theirs, 1, MPI_INT, rank % n, 0, inter, MPI_STATUS_IGNORE);
	if (theirs != mine) {
		fprintf(stderr, "spawn: %d instead of %d\n", theirs, mine);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

/* Between a process and the one it spawned: who is the first, and by what they reach each other. */
struct pair {
	int first;
	MPI_Comm inter;
	MPI_Win win;
};

enum what { MESSAGES, PUT, GET };

/* A message both ways, a put and its flush, or a get and its flush. */
static void once(const struct pair *pair, enum what what, char *data, int bytes)
{
	if (what == MESSAGES) {
		if (pair->first)
			MPI_Send(data, bytes, MPI_BYTE, 0, 2, pair->inter);
		MPI_Recv(data, bytes, MPI_BYTE, 0, 2, pair->inter, MPI_STATUS_IGNORE);
		if (!pair->first)
			MPI_Send(data, bytes, MPI_BYTE, 0, 2, pair->inter);
		return;
	}
	if (what == PUT)
		MPI_Put(data, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, pair->win);
	else
		MPI_Get(data, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, pair->win);
	MPI_Win_flush(1, pair->win);
}

/* us of one, in the fastest of ten lots. */
static double fastest(const struct pair *pair, enum what what, int bytes, int rounds)
{
	char *data = calloc(1, bytes);
	double best = 1e9;
	for (int lot = 0; lot < 10; lot++) {
		double start = MPI_Wtime();
		for (int i = 0; i < rounds; i++)
			once(pair, what, data, bytes);
		double took = (MPI_Wtime() - start) / rounds * 1e6;
		best = took < best ? took : best;
	}
	free(data);
	return best;
}

static void speed(MPI_Comm inter, int first)
{
	const int word = 8, mib = 1 << 20;
	struct pair pair = {first, inter, MPI_WIN_NULL};
	double of[6] = {fastest(&pair, MESSAGES, word, 500) / 2, fastest(&pair, MESSAGES, mib, 5) / 2};
	char *memory = calloc(1, mib);
	MPI_Comm both;
	MPI_Intercomm_merge(inter, !first, &both);
	MPI_Win_create(memory, mib, 1, MPI_INFO_NULL, both, &pair.win);
	MPI_Win_lock_all(0, pair.win);
	for (int i = 0; first && i < 4; i++)
		of[2 + i] = fastest(&pair, i < 2 ? PUT : GET, i % 2 ? mib : word, i % 2 ? 5 : 500);
	MPI_Barrier(both);
	MPI_Win_unlock_all(pair.win);
	MPI_Win_free(&pair.win);
	MPI_Comm_free(&both);
	free(memory);
	if (first)
		printf("speed\t%.3f\t%.1f\t%.3f\t%.1f\t%.3f\t%.1f\n", of[0], of[1], of[2], of[3], of[4], of[5]);
}

/* Meets over `service` again and again. */
static void meet(const char *service, MPI_Comm side, int accepts, int rounds, int every)
{
	for (int round = 0; round < rounds; round++) {
		MPI_Comm inter;
		if (accepts)
			MPI_Comm_accept(service, MPI_INFO_NULL, 0, side, &inter);
		else
			MPI_Comm_connect(service, MPI_INFO_NULL, 0, side, &inter);
		talk(inter);
		MPI_Comm_disconnect(&inter);
		if (accepts && (round + 1) % every == 0)
			report("met", round + 1);
	}
}

int main(int argc, char **argv)
{
	char service[MPI_MAX_PORT_NAME] = "";
	MPI_Comm parent, children;
	MPI_Init(&argc, &argv);
	MPI_Comm_get_parent(&parent);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	const char *how = argc > 1 ? argv[1] : "children";
	int rounds = argc > 2 ? atoi(argv[2]) : 100, every = argc > 3 ? atoi(argv[3]) : 10;
	if (parent != MPI_COMM_NULL) {
		talk(parent);
		if (!strcmp(how, "jobs")) {
			MPI_Recv(service, sizeof(service), MPI_CHAR, 0, 1, parent, MPI_STATUS_IGNORE);
			meet(service, MPI_COMM_SELF, 0, rounds, every);
		} else if (!strcmp(how, "speed")) {
			speed(parent, 0);
		}
		MPI_Comm_disconnect(&parent);
	} else if (!strcmp(how, "connect")) {
		MPI_Comm half;
		MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
		if (rank == 0)
			MPI_Open_port(MPI_INFO_NULL, service);
		MPI_Bcast(service, sizeof(service), MPI_CHAR, 0, MPI_COMM_WORLD);
		meet(service, half, rank % 2 == 0, rounds, every);
		MPI_Comm_free(&half);
	} else if (!strcmp(how, "speed")) {
		MPI_Comm_spawn(argv[0], argv + 1, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
		talk(children);
		speed(children, 1);
		MPI_Comm_disconnect(&children);
	} else if (!strcmp(how, "jobs")) {
		MPI_Comm_spawn(argv[0], argv + 1, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
		talk(children);
		MPI_Open_port(MPI_INFO_NULL, service);
		MPI_Send(service, sizeof(service), MPI_CHAR, 0, 1, children);
		meet(service, MPI_COMM_SELF, 1, rounds, every);
		MPI_Comm_disconnect(&children);
	} else {
		for (int round = 0; round < rounds; round++) {
			MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
			               MPI_ERRCODES_IGNORE);
			talk(children);
			MPI_Comm_disconnect(&children);
			if ((round + 1) % every == 0)
				report("spawned", round + 1);
		}
	}
	MPI_Finalize();
	return 0;
}
