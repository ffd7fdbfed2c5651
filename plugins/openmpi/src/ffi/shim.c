/* See shim.h. */
#include "ompi_config.h"

#include <stdlib.h>
#include <string.h>

#include "mpi.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/datatype/opal_datatype.h"
#include "opal/datatype/opal_datatype_internal.h"
#include "opal/mca/pmix/pmix.h"
#include "opal/util/output.h"
#include "opal/util/proc.h"
#include "ompi/constants.h"
#include "ompi/group/group.h"
#include "ompi/mca/mtl/mtl.h"
#include "ompi/mca/mtl/base/base.h"
#include "ompi/mca/mtl/base/mtl_base_datatype.h"
#include "ompi/mca/rte/rte.h"
#include "ompi/message/message.h"
#include "ompi/proc/proc.h"
#include "orte/util/proc_info.h"

#include "shim.h"

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
    OPAL_MODEX_SEND_STRING(rc, OPAL_PMIX_GLOBAL, (char *) key, start, bytes);
    return rc;
}

int rw_modex_commit(void)
{
    return opal_pmix.commit();
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
    OPAL_MODEX_RECV_VALUE(rc, OPAL_PMIX_HOSTNAME, &name, host, OPAL_STRING);
    return rc;
}

void rw_process(uint32_t *jobid, uint32_t *vpid, uint32_t *size, uint32_t *local_peers)
{
    *jobid = OMPI_PROC_MY_NAME->jobid;
    *vpid = OMPI_PROC_MY_NAME->vpid;
    *size = (uint32_t) orte_process_info.num_procs;
    *local_peers = opal_process_info.num_local_peers;
}
