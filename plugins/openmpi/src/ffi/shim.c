/* See shim.h. */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

#include "mpi.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/datatype/opal_datatype.h"
#include "opal/datatype/opal_datatype_internal.h"
#if OPAL_MAJOR_VERSION >= 5
#include "opal/mca/pmix/pmix-internal.h"
#else
#include "opal/mca/pmix/pmix.h"
#endif
#include "opal/util/output.h"
#include "opal/util/proc.h"
#include "ompi/constants.h"
#include "ompi/group/group.h"
#include "ompi/mca/mtl/mtl.h"
#include "ompi/mca/mtl/base/base.h"
#include "ompi/mca/mtl/base/mtl_base_datatype.h"
#include "ompi/message/message.h"
#include "ompi/proc/proc.h"
#if OPAL_MAJOR_VERSION >= 5
#include "ompi/runtime/ompi_rte.h"
#else
#include "ompi/mca/rte/rte.h"
#include "orte/util/proc_info.h"
#endif

#include "shim.h"

/* The launcher's interface is PMIx itself from 5.0 on. */
#if OPAL_MAJOR_VERSION >= 5
#define RW_GLOBAL PMIX_GLOBAL
#define RW_HOSTNAME PMIX_HOSTNAME
#define RW_STRING PMIX_STRING
#define RW_COMMIT() opal_pmix_convert_status(PMIx_Commit())
#define RW_PROCESSES opal_process_info.num_procs
#define RW_LOCAL_PEERS PMIX_LOCAL_PEERS
#define RW_JOB_SIZE PMIX_JOB_SIZE
#define RW_UINT32 PMIX_UINT32
#else
#define RW_GLOBAL OPAL_PMIX_GLOBAL
#define RW_HOSTNAME OPAL_PMIX_HOSTNAME
#define RW_STRING OPAL_STRING
#define RW_COMMIT() opal_pmix.commit()
#define RW_PROCESSES orte_process_info.num_procs
#define RW_LOCAL_PEERS OPAL_PMIX_LOCAL_PEERS
#define RW_JOB_SIZE OPAL_PMIX_JOB_SIZE
#define RW_UINT32 OPAL_UINT32
#endif

void rw_group_name(struct ompi_group_t *group, int rank, uint32_t *jobid, uint32_t *vpid)
{
    opal_process_name_t name = ompi_group_get_proc_name(group, rank);
    *jobid = name.jobid;
    *vpid = name.vpid;
}

int rw_send_buffer(struct opal_convertor_t *convertor, void **start, size_t *bytes, bool *owned)
{
    return ompi_mtl_datatype_pack(convertor, start, bytes, owned);
}

int rw_recv_buffer(struct opal_convertor_t *convertor, void **start, size_t *bytes, bool *owned)
{
    int rc = ompi_mtl_datatype_recv_buf(convertor, start, bytes, owned);
    return OMPI_SUCCESS == rc && 0 < *bytes && NULL == *start ? OMPI_ERR_OUT_OF_RESOURCE : rc;
}

int rw_unpack(struct opal_convertor_t *convertor, void *start, size_t bytes)
{
    struct iovec iov = {.iov_base = start, .iov_len = bytes};
    uint32_t count = 1;
    size_t done = bytes;
    return 0 > opal_convertor_unpack(convertor, &iov, &count, &done) ? OMPI_ERROR : OMPI_SUCCESS;
}

void rw_free(void *start)
{
    free(start);
}

struct ompi_message_t *rw_message_alloc(void)
{
    return ompi_message_alloc();
}

void rw_message_return(struct ompi_message_t *message)
{
    ompi_message_return(message);
}

void rw_say(int stream, const char *line)
{
    opal_output(stream, "%s", line);
}

void rw_abort(int code, const char *line)
{
    ompi_rte_abort(code, (char *) "%s", line);
}

int rw_modex_put(const char *key, const void *start, size_t bytes)
{
    int rc;
    OPAL_MODEX_SEND_STRING(rc, RW_GLOBAL, (char *) key, start, bytes);
    return rc;
}

int rw_modex_commit(void)
{
    return RW_COMMIT();
}

bool rw_modex_meets(void)
{
#if OPAL_MAJOR_VERSION >= 5
    return true;
#else
    return NULL != opal_pmix.fence_nb;
#endif
}

int rw_modex_meet(void (*came)(int code, void *place), void *place)
{
#if OPAL_MAJOR_VERSION >= 5
    pmix_status_t rc = PMIx_Fence_nb(NULL, 0, NULL, 0, (pmix_op_cbfunc_t) came, place);
    if (PMIX_OPERATION_SUCCEEDED == rc) {
        came(OMPI_SUCCESS, place);
        return OMPI_SUCCESS;
    }
    return opal_pmix_convert_status(rc);
#else
    return opal_pmix.fence_nb(NULL, 0, came, place);
#endif
}

int rw_modex_get(uint32_t jobid, uint32_t vpid, const char *key, void **start, size_t *bytes)
{
    opal_process_name_t name = {.jobid = jobid, .vpid = vpid};
    int rc;
    *start = NULL;
    *bytes = 0;
    OPAL_MODEX_RECV_STRING(rc, key, &name, (uint8_t **) start, bytes);
    return rc;
}

int rw_modex_host(uint32_t jobid, uint32_t vpid, char **host)
{
    opal_process_name_t name = {.jobid = jobid, .vpid = vpid};
    int rc;
    *host = NULL;
    OPAL_MODEX_RECV_VALUE(rc, RW_HOSTNAME, &name, host, RW_STRING);
    return rc;
}

int rw_modex_local_peers(char **list)
{
    opal_process_name_t name = {.jobid = OMPI_PROC_MY_NAME->jobid, .vpid = OPAL_VPID_WILDCARD};
    int rc;
    *list = NULL;
    OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, RW_LOCAL_PEERS, &name, list, RW_STRING);
    return rc;
}

int rw_modex_job_size(uint32_t jobid, uint32_t *size)
{
    opal_process_name_t name = {.jobid = jobid, .vpid = OPAL_VPID_WILDCARD};
    int rc;
    OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, RW_JOB_SIZE, &name, &size, RW_UINT32);
    return rc;
}

void rw_process(uint32_t *jobid, uint32_t *vpid, uint32_t *size, uint32_t *local_peers)
{
    *jobid = OMPI_PROC_MY_NAME->jobid;
    *vpid = OMPI_PROC_MY_NAME->vpid;
    *size = (uint32_t) RW_PROCESSES;
    *local_peers = opal_process_info.num_local_peers;
}
