/* Macros and static inlines of Open MPI that one-sided communication needs. */
#ifndef RANKWAY_OSC_H
#define RANKWAY_OSC_H

#include <stdbool.h>
#include <stddef.h>

struct ompi_datatype_t;
struct ompi_op_t;
struct ompi_request_t;
struct ompi_win_t;

/* Whether MPI has an operation for a type. */
bool rw_op_is_for(const struct ompi_op_t *op, const struct ompi_datatype_t *type);

/* to = from op to for elements of a predefined type; false where Open MPI has
 * no such reduction. */
bool rw_op_reduce(struct ompi_op_t *op, void *from, void *to, size_t count,
                  struct ompi_datatype_t *type);

/* A request for an operation on a window, active; NULL without memory. */
struct ompi_request_t *rw_request_new(struct ompi_win_t *win);
/* Completes it with one of Open MPI's codes. */
void rw_request_done(struct ompi_request_t *request, int code);

#endif
