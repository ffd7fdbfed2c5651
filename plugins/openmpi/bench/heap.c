/* Bytes that a process holds after MPI_Init, before it has spoken to anybody, by
 * the library that asked for them.
 *
 * Prints a line for each rank: its number; heap of librankway_openmpi.so, and
 * the calls that gave it; its mappings, private and shared, and their pages in
 * memory; heap of libfabric and its providers, and of all the rest. Then the
 * same after a message from each rank to its right neighbour. */
#include "held.h"

int main(int argc, char **argv)
{
	int rank, size, token = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	report("init", rank);
	MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &token, 1, MPI_INT, (rank + size - 1) % size, 0,
	             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	report("ring", rank);
	MPI_Finalize();
	return 0;
}
