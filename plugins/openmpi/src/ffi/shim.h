/* Macros, static inlines and variadics of Open MPI as functions. */
#ifndef RANKWAY_SHIM_H
#define RANKWAY_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ompi_group_t;
struct ompi_message_t;
struct opal_convertor_t;

/* Name of a member of a group, without an ompi_proc_t being made for it. */
void rw_group_name(struct ompi_group_t *group, int rank, uint32_t *jobid, uint32_t *vpid);

/* Address and bytes of what a convertor sends, packed into a new buffer only
 * where it must be; *owned says whether that is to be freed. For data in more
 * than one piece. */
int rw_send_buffer(struct opal_convertor_t *convertor, void **start, size_t *bytes, bool *owned);
/* Where a convertor's data is to be received; as above. */
int rw_recv_buffer(struct opal_convertor_t *convertor, void **start, size_t *bytes, bool *owned);
/* Puts received bytes where the convertor says. */
int rw_unpack(struct opal_convertor_t *convertor, void *start, size_t bytes);

/* Frees what is said here to be freed. */
void rw_free(void *start);

struct ompi_message_t *rw_message_alloc(void);
void rw_message_return(struct ompi_message_t *message);

/* One line at a verbosity level of an output stream. */
void rw_say(int stream, const char *line);
void rw_abort(int code, const char *line);

/* The launcher's store: values of this process for all, of others by name.
 * A value that is got is to be freed with rw_free. */
int rw_modex_put(const char *key, const void *start, size_t bytes);
int rw_modex_commit(void);
/* Has `came` called once all ranks of the job have asked for the same, where the
 * launcher's interface has such a call. */
bool rw_modex_meets(void);
int rw_modex_meet(void (*came)(int code, void *place), void *place);
int rw_modex_get(uint32_t jobid, uint32_t vpid, const char *key, void **start, size_t *bytes);
/* The host a process runs on; to be freed with rw_free. */
int rw_modex_host(uint32_t jobid, uint32_t vpid, char **name);

/* The ranks of this process's job on its node, as the launcher lists them, in the
 * same way; and how many processes another job has. */
int rw_modex_local_peers(char **list);
int rw_modex_job_size(uint32_t jobid, uint32_t *size);

/* This process, its job's size, and how many others of it share the node. */
void rw_process(uint32_t *jobid, uint32_t *vpid, uint32_t *size, uint32_t *local_peers);

#endif
