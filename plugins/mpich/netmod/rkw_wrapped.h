/* What the linker puts in the place of functions of MPICH's (--wrap, ci/install/mpich.sh): of
 * stubnm_noinline.c, which includes this once. */
#ifndef RKW_WRAPPED_H
#define RKW_WRAPPED_H

#include "rkw_impl.h"
#include <stdio.h>
#include <unistd.h>

/* Some of this job ended without leaving it. */
static int some_died;

int __real_MPIDU_Init_shm_finalize(void);
int __wrap_MPIDU_Init_shm_finalize(void) RKW_HIDDEN;

/* MPICH's last barrier on the node waits for those that are dead, too. */
int __wrap_MPIDU_Init_shm_finalize(void)
{
    return some_died ? MPI_SUCCESS : __real_MPIDU_Init_shm_finalize();
}

void __real_MPIR_pmi_abort(int code, const char *why);
void __wrap_MPIR_pmi_abort(int code, const char *why) RKW_HIDDEN;

/* Hydra drops output that it has not forwarded when it ends a job, such as why it is ended. */
void __wrap_MPIR_pmi_abort(int code, const char *why)
{
    fflush(stderr);
    usleep(200000);
    __real_MPIR_pmi_abort(code, why);
}

#endif
