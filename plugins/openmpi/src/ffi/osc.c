/* Macros and static inlines of Open MPI that one-sided communication needs. */
#include "ompi_config.h"

#include "mpi.h"
#include "ompi/constants.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/op/op.h"
#include "ompi/request/request.h"
#include "ompi/win/win.h"

#include "osc.h"

/* Where an operation has its function for a type; -1 where it has none. */
static int slot_of(const struct ompi_op_t *op, const struct ompi_datatype_t *type)
{
    int slot = 0 <= type->id && type->id < OMPI_DATATYPE_MAX_PREDEFINED
                   ? ompi_op_ddt_map[type->id] : -1;
    bool intrinsic = 0 != (op->o_flags & OMPI_OP_FLAGS_INTRINSIC);
    return intrinsic && ompi_datatype_is_predefined(type) && 0 <= slot &&
                   NULL != op->o_func.intrinsic.fns[slot] ? slot : -1;
}

bool rw_op_is_for(const struct ompi_op_t *op, const struct ompi_datatype_t *type)
{
    return op == &ompi_mpi_op_replace.op || op == &ompi_mpi_op_no_op.op || 0 <= slot_of(op, type);
}

bool rw_op_reduce(struct ompi_op_t *op, void *from, void *to, size_t count,
                  struct ompi_datatype_t *type)
{
    int slot = slot_of(op, type);
    if (0 > slot) {
        return false;
    }
    /* As ompi_op_reduce does it, whose header needs more of Fortran than the
     * package ships. */
    int elements = (int) count;
    op->o_func.intrinsic.fns[slot](from, to, &elements, &type,
                                   op->o_func.intrinsic.modules[slot]);
    return true;
}

/* A request that is freed before it is complete goes away with its end. */
static int freed(ompi_request_t **request)
{
    ompi_request_t *it = *request;
    *request = MPI_REQUEST_NULL;
    if (!REQUEST_COMPLETE(it)) {
        it->req_complete_cb_data = it;
        return OMPI_SUCCESS;
    }
    OMPI_REQUEST_FINI(it);
    OBJ_RELEASE(it);
    return OMPI_SUCCESS;
}

static int cancelled(ompi_request_t *request, int flag)
{
    (void) request;
    (void) flag;
    return MPI_ERR_REQUEST;
}

struct ompi_request_t *rw_request_new(struct ompi_win_t *win)
{
    ompi_request_t *it = OBJ_NEW(ompi_request_t);
    if (NULL == it) {
        return NULL;
    }
    OMPI_REQUEST_INIT(it, false);
    it->req_type = OMPI_REQUEST_WIN;
    it->req_state = OMPI_REQUEST_ACTIVE;
    it->req_status = ompi_status_empty;
    it->req_free = freed;
    it->req_cancel = cancelled;
    it->req_mpi_object.win = win;
    return it;
}

void rw_request_done(struct ompi_request_t *request, int code)
{
    bool gone = request->req_complete_cb_data == request;
    request->req_status.MPI_ERROR = ompi_errcode_get_mpi_code(code);
    ompi_request_complete(request, true);
    if (gone) {
        freed(&request);
    }
}
