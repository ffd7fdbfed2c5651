/* UCX: the surface the UCX netmod will speak.
 * Bindings are made from the headers of UCX 1.13 (Debian 12), types and
 * constants only; functions are found at run time. */
#include <ucp/api/ucp.h>
