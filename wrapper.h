/* libfabric: the surface the OFI netmod and the null provider speak.
 * Bindings are made from the headers of libfabric 1.17 (Debian 12), types and
 * constants only; functions are found at run time. */
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>
