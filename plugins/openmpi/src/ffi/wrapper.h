/* What is bound of Open MPI. ompi_config.h comes first, as in its sources. */
#include "ompi_config.h"
#include "mpi.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"
#include "ompi/constants.h"
#include "ompi/communicator/communicator.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/datatype/opal_datatype_internal.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/datatype/ompi_datatype_internal.h"
#include "ompi/group/group.h"
#include "ompi/info/info.h"
#include "ompi/mca/mtl/mtl.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/mca/osc/base/base.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/message/message.h"
#include "ompi/op/op.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"
#include "ompi/runtime/mpiruntime.h"
#include "ompi/win/win.h"
#if __has_include("orte/util/proc_info.h")
#include "orte/util/proc_info.h"
#endif

#include "osc.h"
#include "shim.h"

/* Flags of a convertor whose bytes are not just copied: they are in a device's
 * memory, or summed up. */
enum {
#ifdef CONVERTOR_ACCELERATOR
    RW_CONVERTOR_DEVICE = CONVERTOR_ACCELERATOR | CONVERTOR_ACCELERATOR_UNIFIED,
#else
    RW_CONVERTOR_DEVICE = CONVERTOR_CUDA | CONVERTOR_CUDA_UNIFIED,
#endif
#ifdef CONVERTOR_WITH_CHECKSUM
    RW_CONVERTOR_SUMMED = CONVERTOR_WITH_CHECKSUM,
#else
    RW_CONVERTOR_SUMMED = 0,
#endif
};
