/* PMIx: how a process launched by mpirun or prterun learns its peers.
 * Bindings are made from the headers of PMIx 4.2 (Debian 12), types and
 * constants only; functions are found at run time. */
#include <pmix.h>
