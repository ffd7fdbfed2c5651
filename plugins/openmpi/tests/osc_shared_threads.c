/* The same where any thread may call MPI. */
#define LEVEL MPI_THREAD_MULTIPLE
#include "osc_shared.c"
