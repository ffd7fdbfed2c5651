/* Rankway: rank maps, address vectors and one-sided operations for MPI device
 * layers. docs/device-layer.md maps these calls to those of MPICH and Open MPI.
 *
 * Made of capi/src and capi/inline.h; do not edit (BLESS=1 ci/check/header.sh).
 *
 * Every call answers a rankway_code. After an error rankway_error_message tells
 * what happened to which object and peer, and what to do. Handles are small
 * structures: zeroed they are null; one that was freed, is of another kind or
 * belongs to another thread is refused with a code. Pointers are null or good.
 */
#ifndef RANKWAY_H
#define RANKWAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Version of this interface. It changes when a program must be compiled anew.
 */
#define RANKWAY_ABI 1

/**
 * A receive or probe takes messages from any source (MPICH's value).
 */
#define RANKWAY_ANY_SOURCE (-2)

/**
 * A receive or probe takes messages with any tag (MPICH's value).
 */
#define RANKWAY_ANY_TAG (-1)

/**
 * No rank: what a process that a group has not is there (MPICH's and Open MPI's value).
 */
#define RANKWAY_UNDEFINED (-32766)

/**
 * The length of the blocks in which an array is dealt is the default: as even
 * as it goes, or 1 where they are dealt in turn.
 */
#define RANKWAY_DISTRIBUTE_DEFAULT (-1)

/**
 * Answer of rankway_put_unchecked: the provider has no space now. Call
 * rankway_progress, then call again.
 */
#define RANKWAY_AGAIN (-11)



/**
 * The return code of every call.
 */
typedef enum rankway_code {
    /**
     * Done.
     */
    RANKWAY_SUCCESS = 0,
    /**
     * A pointer that must not be null is null.
     */
    RANKWAY_ERR_NULL = 1,
    /**
     * A handle that is null, was freed, or is of another kind.
     */
    RANKWAY_ERR_HANDLE = 2,
    /**
     * A handle of another thread, or two threads in one device at once.
     */
    RANKWAY_ERR_THREAD = 3,
    /**
     * An argument that makes no sense, or differs between the members.
     */
    RANKWAY_ERR_ARG = 4,
    /**
     * A rank outside the communicator.
     */
    RANKWAY_ERR_RANK = 5,
    /**
     * An operation that leaves the target's memory.
     */
    RANKWAY_ERR_RANGE = 6,
    /**
     * No epoch is open, or another one.
     */
    RANKWAY_ERR_EPOCH = 7,
    /**
     * An operation that MPI does not have for the type.
     */
    RANKWAY_ERR_OP = 8,
    /**
     * A message longer than its receive.
     */
    RANKWAY_ERR_TRUNCATE = 9,
    /**
     * Something that is made of the object is still in use: free it first.
     */
    RANKWAY_ERR_BUSY = 10,
    /**
     * No network library, or no provider that serves.
     */
    RANKWAY_ERR_PROVIDER = 11,
    /**
     * Nothing reaches a peer.
     */
    RANKWAY_ERR_UNREACHABLE = 12,
    /**
     * The process of a peer has ended.
     */
    RANKWAY_ERR_PEER_DIED = 13,
    /**
     * A peer did not do what it was asked for, or answers garbage.
     */
    RANKWAY_ERR_PEER = 14,
    /**
     * The network library refused or failed.
     */
    RANKWAY_ERR_NETWORK = 15,
    /**
     * The launcher, or the set-up channel.
     */
    RANKWAY_ERR_BOOT = 16,
    /**
     * No memory.
     */
    RANKWAY_ERR_MEMORY = 17,
    /**
     * A call that waits within a handler.
     */
    RANKWAY_ERR_NESTED = 18,
    /**
     * A fault in Rankway itself. Nothing can be said of the object's state.
     */
    RANKWAY_ERR_INTERNAL = 19,
} rankway_code;

/**
 * Which threads will call. As MPI's levels, with a stricter rule for the last.
 */
typedef enum rankway_threads {
    /**
     * The thread that opened the device. Handles used by another are refused.
     */
    RANKWAY_THREAD_SINGLE = 0,
    /**
     * Any thread, one at a time, as under the lock of a CH4 VCI. Two at once
     * are refused.
     */
    RANKWAY_THREAD_SERIALIZED = 1,
    /**
     * Several at once, each with a context of its own (rankway_context_open).
     * Objects of a context belong to the thread that opened it; handles
     * used by another are refused.
     */
    RANKWAY_THREAD_MULTIPLE = 2,
} rankway_threads;

/**
 * Types of elements (MPI's predefined ones).
 */
typedef enum rankway_type {
    RANKWAY_INT8 = 0,
    /**
     * MPI_BYTE and C's bool too.
     */
    RANKWAY_UINT8 = 1,
    RANKWAY_INT16 = 2,
    RANKWAY_UINT16 = 3,
    RANKWAY_INT32 = 4,
    RANKWAY_UINT32 = 5,
    RANKWAY_INT64 = 6,
    RANKWAY_UINT64 = 7,
    RANKWAY_FLOAT = 8,
    RANKWAY_DOUBLE = 9,
    /**
     * x86's 80 bits in 16 bytes.
     */
    RANKWAY_LONG_DOUBLE = 10,
    RANKWAY_COMPLEX = 11,
    RANKWAY_DOUBLE_COMPLEX = 12,
    /**
     * From here on for datatypes alone; operations take the integers of their
     * size.
     */
    RANKWAY_BYTE = 13,
    RANKWAY_CHAR = 14,
    RANKWAY_WCHAR = 15,
    RANKWAY_BOOL = 16,
} rankway_type;

/**
 * Operations on elements (MPI's predefined ones).
 */
typedef enum rankway_op {
    RANKWAY_SUM = 0,
    RANKWAY_PROD = 1,
    RANKWAY_MIN = 2,
    RANKWAY_MAX = 3,
    RANKWAY_BAND = 4,
    RANKWAY_BOR = 5,
    RANKWAY_BXOR = 6,
    RANKWAY_LAND = 7,
    RANKWAY_LOR = 8,
    RANKWAY_LXOR = 9,
    RANKWAY_REPLACE = 10,
    RANKWAY_NO_OP = 11,
} rankway_op;

/**
 * How a lock excludes others.
 */
typedef enum rankway_lock {
    RANKWAY_LOCK_EXCLUSIVE = 1,
    RANKWAY_LOCK_SHARED = 2,
} rankway_lock;

/**
 * Promises about an epoch, joined with `|` (MPI-4.1, section 12.5.5).
 */
typedef enum rankway_assert {
    RANKWAY_MODE_NOCHECK = 1,
    RANKWAY_MODE_NOSTORE = 2,
    RANKWAY_MODE_NOPUT = 4,
    RANKWAY_MODE_NOPRECEDE = 8,
    RANKWAY_MODE_NOSUCCEED = 16,
} rankway_assert;

/**
 * How groups compare, with MPICH's and Open MPI's values.
 */
typedef enum rankway_comparison {
    /**
     * The same members in the same order.
     */
    RANKWAY_IDENT = 0,
    /**
     * The same members in another order.
     */
    RANKWAY_SIMILAR = 2,
    /**
     * Other members.
     */
    RANKWAY_UNEQUAL = 3,
} rankway_comparison;

/**
 * In which order an array's elements lie in memory.
 */
typedef enum rankway_order {
    /**
     * The last dimension's are neighbours.
     */
    RANKWAY_ORDER_C = 0,
    /**
     * The first dimension's are neighbours.
     */
    RANKWAY_ORDER_FORTRAN = 1,
} rankway_order;

/**
 * How a dimension of an array is dealt to processes (MPI-4.1, section 5.1.4).
 */
typedef enum rankway_distribution {
    /**
     * Not dealt: the process has all of it.
     */
    RANKWAY_DISTRIBUTE_NONE = 0,
    /**
     * One block for each process.
     */
    RANKWAY_DISTRIBUTE_BLOCK = 1,
    /**
     * Blocks dealt in turn.
     */
    RANKWAY_DISTRIBUTE_CYCLIC = 2,
} rankway_distribution;

/**
 * The job as the caller describes it: for device layers whose MPI is connected
 * to the launcher already. Functions return 0, or anything else for failure;
 * they are called by the thread that called Rankway. Copied when the device is
 * opened.
 */
typedef struct rankway_boot_t {
    /**
     * Given to every function.
     */
    void *self;
    /**
     * Rank of this process in the job.
     */
    uint32_t rank;
    /**
     * Processes of the job.
     */
    uint32_t size;
    /**
     * The same in all processes of the job, different between jobs on a
     * machine, not 0.
     */
    uint64_t job;
    /**
     * Publishes `bytes` bytes under a key, for all peers after the next fence.
     */
    int (*put)(void *self, const char *key, const void *value, size_t bytes);
    /**
     * Copies what `rank` published before the last fence into `value`, at most
     * `capacity` bytes, and stores how many there are, which may be more.
     */
    int (*get)(void *self,
               uint32_t rank,
               const char *key,
               void *value,
               size_t capacity,
               size_t *bytes);
    /**
     * Waits for all processes.
     */
    int (*fence)(void *self);
    /**
     * The node of a rank, numbered from 0 and agreed on by all.
     */
    uint32_t (*node)(void *self, uint32_t rank);
    /**
     * Ends the job. Null: the process is ended.
     */
    void (*abort)(void *self, int code, const char *why);
} rankway_boot_t;

/**
 * How a device is opened. Begin with RANKWAY_OPTIONS_INIT.
 */
typedef struct rankway_options_t {
    /**
     * RANKWAY_ABI, so that a library of another one refuses.
     */
    uint32_t abi;
    /**
     * A rankway_threads.
     */
    int threads;
    /**
     * `node`, `ofi` or `ucx`. Null: RANKWAY_NETMOD, else the best there is.
     */
    const char *netmod;
    /**
     * Providers of libfabric: `shm`, `tcp;ofi_rxm`, or both with a comma. Null:
     * RANKWAY_PROVIDER, else the best there are. UCX has UCX_TLS.
     */
    const char *provider;
    /**
     * The job. Null: that of the launcher, which is detected.
     */
    const struct rankway_boot_t *boot;
} rankway_options_t;

/**
 * A device: peers, providers and address vectors of this process. Of all
 * threads. Zeroed: no device.
 */
typedef struct rankway_device_t {
    uint64_t id;
} rankway_device_t;

/**
 * An endpoint and completion queue for each provider (a VCI). Zeroed: none.
 */
typedef struct rankway_context_t {
    uint64_t id;
} rankway_context_t;

/**
 * A device's node, netmod, launcher and providers.
 */
typedef struct rankway_info_t {
    /**
     * Rank of this process in the job.
     */
    uint32_t rank;
    /**
     * Processes of the job.
     */
    uint32_t size;
    /**
     * Rank of this process on its node.
     */
    uint32_t node_rank;
    /**
     * Processes on this node.
     */
    uint32_t node_size;
    /**
     * `node`, `ofi` or `ucx`.
     */
    char netmod[16];
    /**
     * The launcher of the job: `pmix`, `pmi1`, `local`, `alone`, `caller`.
     */
    char launcher[16];
    /**
     * The provider for the network; empty where none is open.
     */
    char network[64];
    /**
     * The provider for peers on the node; empty where none is open.
     */
    char local[64];
    /**
     * The longest put that is copied at the call, bytes.
     */
    size_t inject_size;
} rankway_info_t;

/**
 * A rank map: rank -> (process group, lpid). Of all threads. Zeroed: none.
 */
typedef struct rankway_rankmap_t {
    uint64_t id;
} rankway_rankmap_t;

/**
 * The name of a process: process group and index in its address vector.
 */
typedef struct rankway_process_t {
    /**
     * Process group; 0 is the job.
     */
    uint32_t pgid;
    /**
     * Local process id: in group 0 the rank in the job.
     */
    uint32_t lpid;
} rankway_process_t;

/**
 * Rank -> entry of the address vector, the hot form of a rank map: what a
 * communicator of a device layer keeps by value. 64 bytes; read by
 * rankway_lookup_entry only.
 */
typedef struct rankway_lookup_t {
    /**
     * 0: direct, offset, stride. Others go through `select`.
     */
    uint32_t kind;
    uint32_t phase;
    /**
     * The entry of rank 0.
     */
    const char *base;
    /**
     * Bytes from the entry of one rank to that of the next.
     */
    ptrdiff_t stride;
    uint64_t (*select)(const struct rankway_lookup_t *lookup, size_t rank);
    uint64_t params[4];
} rankway_lookup_t;

/**
 * A communicator. Zeroed: none.
 */
typedef struct rankway_comm_t {
    uint64_t id;
} rankway_comm_t;

/**
 * A datatype: which bytes of memory an operation takes, in which order. Of all
 * threads. Zeroed: none.
 */
typedef struct rankway_type_t {
    uint64_t id;
} rankway_type_t;

/**
 * A window. Zeroed: none.
 */
typedef struct rankway_win_t {
    uint64_t id;
} rankway_win_t;

/**
 * A window as a put reads it: read by rankway_put_unchecked only. The library
 * makes it, it is longer than this, and it stays where it is until its window
 * is freed.
 */
typedef struct rankway_access_t {
    /**
     * Rank -> entry.
     */
    struct rankway_lookup_t lookup;
    /**
     * In the epoch: private to the library.
     */
    uint32_t gate[3];
    /**
     * Which path its puts take.
     */
    uint32_t path;
    /**
     * The provider's own fi_inject_write.
     */
    ptrdiff_t (*inject)(void *endpoint,
                        const void *buf,
                        size_t len,
                        uint64_t dest,
                        uint64_t addr,
                        uint64_t key);
    /**
     * The endpoint of the network provider.
     */
    void *endpoint;
    size_t inject_size;
    /**
     * Bytes of a displacement.
     */
    size_t unit;
    /**
     * Address of the targets' memory.
     */
    uint64_t base;
    /**
     * Key of the targets' memory.
     */
    uint64_t key;
    size_t short_len;
    size_t short_disps;
    const void *remote_keys;
    size_t bytes;
    size_t max_disp;
    size_t word_disps;
    /**
     * The number of ranks.
     */
    uint32_t ranks;
    uint8_t stores;
    /**
     * Where the memory of rank 0 is mapped in this process.
     */
    char *mapped_start;
    /**
     * Bytes from the memory of one rank to that of the next.
     */
    ptrdiff_t mapped_stride;
    /**
     * The longest put that may go to `inject`.
     */
    size_t longest;
    /**
     * All other puts.
     */
    ptrdiff_t (*other)(const struct rankway_access_t *access,
                       const void *buf,
                       size_t len,
                       uint32_t rank,
                       size_t disp);
    /**
     * Which ranks were put to since the last flush, modulo 256.
     */
    uint8_t marks[256];
} rankway_access_t;

/**
 * An operation under way. Zeroed: none.
 */
typedef struct rankway_request_t {
    uint64_t id;
} rankway_request_t;

/**
 * Carries out a rankway_custom at the target: changes the `span` bytes at `at` as
 * `code` and `operand` say, and writes what the origin asked for to `result`. No
 * other operator touches those bytes meanwhile. All are good until it returns.
 * Returns 0, or refuses. It must not wait, and calls nothing of rankway's.
 */
typedef int (*rankway_operator_t)(uint64_t code,
                                  void *at,
                                  size_t span,
                                  const void *operand,
                                  size_t operand_bytes,
                                  void *result,
                                  size_t result_bytes);

/**
 * The status of a receive or a probe.
 */
typedef struct rankway_status_t {
    /**
     * Rank of the sender in the communicator.
     */
    int source;
    int tag;
    /**
     * Bytes of the message.
     */
    uint64_t count;
    /**
     * The 64 match bits as they travelled.
     */
    uint64_t bits;
    /**
     * Rank of the sender in the job.
     */
    uint32_t peer;
    /**
     * Not 0: it was cancelled, and the rest means nothing.
     */
    int cancelled;
} rankway_status_t;

/**
 * A message that a matched probe took. Zeroed: none.
 */
typedef struct rankway_message_t {
    uint64_t id;
} rankway_message_t;

/**
 * The handler that an active message calls where it arrives: within progress,
 * in the order of each sender. `source` is the sender's rank in the job;
 * header and data are valid until it returns. Returns 0 when it consumed the
 * message; after anything else the message is held and offered again. It must
 * not wait, so it may send with rankway_am_try_send.
 */
typedef int (*rankway_am_handler_t)(void *argument,
                                    uint32_t source,
                                    const void *hdr,
                                    size_t hdr_bytes,
                                    const void *data,
                                    size_t bytes);

/**
 * An operation that has ended, out of a completion queue.
 */
typedef struct rankway_completion_t {
    /**
     * The operation's.
     */
    uint64_t cookie;
    /**
     * Of a message; of others nothing.
     */
    struct rankway_status_t status;
    /**
     * A rankway_code: how it ended.
     */
    int code;
} rankway_completion_t;

/**
 * What a code means, in a few words; never null. For what happened to which
 * object and peer: rankway_error_message.
 */
const char *rankway_strerror(int code);

/**
 * The message of this thread's last failed call: the call, the object, the
 * peer, what to do. Never null; valid until the next call that fails. Calls
 * that succeed leave it.
 */
const char *rankway_error_message(void);

/**
 * The rank in the job of the peer that made this thread's last failed call
 * fail, or -1.
 */
int64_t rankway_error_peer(void);

/**
 * Opens the device of this process and its first context, which belongs to
 * the calling thread. `options` may be null. Collective over the job. After
 * rankway_finalize, and while another device is open, only with a
 * rankway_boot_t of the caller's: launchers take a process once.
 */
int rankway_init(const struct rankway_options_t *options,
                 struct rankway_device_t *device,
                 struct rankway_context_t *context);

/**
 * Closes the device and disconnects from the launcher. All contexts must have
 * been closed. As before MPI_Finalize, all communication must be complete: end
 * with rankway_comm_barrier.
 */
int rankway_finalize(struct rankway_device_t device);

/**
 * Ends every process of the job, this one with `code`. Does not return.
 * Without a device this process alone is ended.
 */
void rankway_abort(struct rankway_device_t device, int code, const char *why);

/**
 * A device's node, netmod, launcher and providers.
 */
int rankway_info(struct rankway_device_t device, struct rankway_info_t *info);

/**
 * Adds a process group of members of the job: `members` says which rank of
 * the job each lpid is. Rank maps over it name it by the number that comes
 * back. Local; where it is to agree between processes, all must add the same
 * groups in the same order.
 */
int rankway_group_add(struct rankway_device_t device,
                      struct rankway_rankmap_t members,
                      uint32_t *pgid);

/**
 * Opens a further context for the calling thread, on a device opened with
 * RANKWAY_THREAD_SERIALIZED or RANKWAY_THREAD_MULTIPLE. What is sent on
 * context `index` arrives on the peers' of the same index; -1 takes the
 * smallest that is free. Not collective. The first message to a peer goes once
 * that peer's first context has made progress, which tells where the other is;
 * one opened again speaks to those that were opened again, too. Its messages go
 * on, in and out, in calls on it alone: what was sent, and is complete for the
 * sender, may lie here until rankway_progress or rankway_context_close sends it.
 * Operations on windows go to the peers' first contexts, which must make progress.
 * Over the node's own module some 16 contexts of each process at a time reach a
 * peer.
 */
int rankway_context_open(struct rankway_device_t device,
                         int index,
                         struct rankway_context_t *context);

/**
 * Closes a context. Everything made on it must have been freed. Sends what still
 * waits for space, a connection or credit, also of requests that were freed: it takes
 * until those peers have made progress, as long as they live and have neither left nor
 * closed their context of this number, and at most RANKWAY_TIMEOUT, after which
 * RANKWAY_ERR_PEER names the first of them; the context is closed all the same. What was
 * sent here and not received is refused: who waits for such a send is told so.
 */
int rankway_context_close(struct rankway_context_t context);

/**
 * The number of a context: that of the peers' contexts it sends to.
 */
int rankway_context_index(struct rankway_context_t context, int *index);

/**
 * Makes progress once, for operations of this process and for those
 * that target it.
 */
int rankway_progress(struct rankway_context_t context);

/**
 * rankway_progress that tells whether it was of use: `made` 1 if a packet came in, or if
 * rankway_cq_read has something.
 */
int rankway_progress_made(struct rankway_context_t context, int *made);

/**
 * Returns 1 if a launcher (mpirun, mpiexec, srun) started this process, else 0.
 */
int rankway_launched(void);

/**
 * Forks `ranks` processes, has each call `body(argument)` and end with what it
 * answers, and waits for all. `code`, if not null, gets a code for the caller
 * to exit with: 0 when all answered 0. Call it before the program starts a
 * thread; each process then calls rankway_init.
 */
int rankway_run_local(int ranks, int (*body)(void *argument), void *argument, int *code);

/**
 * The smallest map of an indirect mapping array: `lpids[rank]` of process
 * group `pgid`, as CH4 4.x has it. The array is read once and not kept.
 */
int rankway_rankmap_from_lpids(uint32_t pgid,
                               int size,
                               const int *lpids,
                               struct rankway_rankmap_t *map);

/**
 * The smallest map of an array of processes of several groups.
 */
int rankway_rankmap_from_processes(int size,
                                   const struct rankway_process_t *processes,
                                   struct rankway_rankmap_t *map);

/**
 * lpid = `base` + `stride` * rank.
 */
int rankway_rankmap_affine(uint32_t pgid,
                           uint32_t base,
                           int64_t stride,
                           uint32_t size,
                           struct rankway_rankmap_t *map);

/**
 * lpid = `base` + `step` * (rank modulo `block`) + `pitch` * (rank divided by `block`): ranks in
 * blocks, as CH4's MPIDI_RANK_MAP_STRIDE_BLOCK has them.
 */
int rankway_rankmap_blockstride(uint32_t pgid,
                                uint32_t base,
                                int32_t step,
                                uint32_t block,
                                int32_t pitch,
                                uint32_t size,
                                struct rankway_rankmap_t *map);

/**
 * The map of a map: rank r of the result is rank `child[r]` of `parent`.
 */
int rankway_rankmap_compose(struct rankway_rankmap_t parent,
                            struct rankway_rankmap_t child,
                            struct rankway_rankmap_t *map);

/**
 * Frees a map. Communicators made of it stay valid; its lookups do not.
 */
int rankway_rankmap_free(struct rankway_rankmap_t map);

/**
 * The number of ranks of a map.
 */
int rankway_rankmap_size(struct rankway_rankmap_t map, uint32_t *size);

/**
 * The process that a rank is. The general lookup; operations use a
 * rankway_lookup_t.
 */
int rankway_rankmap_get(struct rankway_rankmap_t map, int rank, struct rankway_process_t *process);

/**
 * The rank of a process, the smallest if it has several; -1 if it has none.
 */
int rankway_rankmap_rank_of(struct rankway_rankmap_t map,
                            struct rankway_process_t process,
                            int *rank);

/**
 * Bytes of a map, tables that it shares with others included.
 */
int rankway_rankmap_bytes(struct rankway_rankmap_t map, size_t *bytes);

/**
 * The mapping model, under the name of Guo et al. (2017): `direct`, `offset`,
 * `stride`, `blockstride`, `md-blockstride`, `segments`, `compact`, `lut`,
 * `mlut`. The text is never freed.
 */
int rankway_rankmap_model(struct rankway_rankmap_t map, const char **model);

/**
 * The lookup of a map in the address vector of a context. It is good while
 * both are open, in any thread. Entries of peers nobody spoke to are 0:
 * rankway_connect fills them in.
 */
int rankway_rankmap_lookup(struct rankway_rankmap_t map,
                           struct rankway_context_t context,
                           struct rankway_lookup_t *lookup);

/**
 * Inserts a process into the address vector, if it is not there, and answers
 * its entry: the slow half of a translation that answered 0.
 */
int rankway_connect(struct rankway_context_t context,
                    struct rankway_process_t process,
                    uint64_t *entry);

/**
 * The communicator of all processes of the job, in the order of their ranks; on contexts of
 * different indices it is another.
 */
int rankway_comm_world(struct rankway_context_t context, struct rankway_comm_t *comm);

/**
 * A communicator of the processes of a map, for device layers that have agreed
 * on it themselves: members that name the same `id` (MPICH's context_id), also
 * those of other jobs, mean the same communicator. This process must be in the
 * map. Sends no message, and is called by the members only. One with members of
 * other jobs is for messages: what all call together, and windows, it refuses.
 */
int rankway_comm_from_rankmap(struct rankway_context_t context,
                              struct rankway_rankmap_t map,
                              uint64_t id,
                              struct rankway_comm_t *comm);

/**
 * A communicator between two groups, of which `map` is the other one and does not hold this
 * process, which is `rank` of its own: an intercommunicator's messages, probes and active
 * messages go by the other group's ranks. Both groups name the same `id`; the other group's map
 * is this one. Sends no message. What all members call together is refused, but for
 * rankway_comm_dup; rankway_comm_rank is `rank`, rankway_comm_size the size of `map`.
 */
int rankway_comm_from_remote(struct rankway_context_t context,
                             struct rankway_rankmap_t map,
                             int rank,
                             uint64_t id,
                             struct rankway_comm_t *comm);

/**
 * The same processes with a context of their own. Collective, sends no
 * message.
 */
int rankway_comm_dup(struct rankway_comm_t comm, struct rankway_comm_t *newcomm);

/**
 * One communicator for each color, ranks in the order of `key`, then of rank
 * here. A negative color joins none and gets a null handle. Collective.
 */
int rankway_comm_split(struct rankway_comm_t comm,
                       int color,
                       int key,
                       struct rankway_comm_t *newcomm);

/**
 * A communicator of the given ranks, in the given order; a null handle for
 * processes that are not among them. Collective over `comm` with the same
 * list, sends no message.
 */
int rankway_comm_create(struct rankway_comm_t comm,
                        int size,
                        const int *ranks,
                        struct rankway_comm_t *newcomm);

/**
 * Frees a communicator. Its windows have their own; requests under way
 * go on. Lookups of it are no longer good.
 */
int rankway_comm_free(struct rankway_comm_t comm);

/**
 * The rank of this process.
 */
int rankway_comm_rank(struct rankway_comm_t comm, int *rank);

/**
 * The number of processes.
 */
int rankway_comm_size(struct rankway_comm_t comm, int *size);

/**
 * The channel of a communicator's messages: equal in all members.
 */
int rankway_comm_channel(struct rankway_comm_t comm, uint64_t *channel);

/**
 * The process that a rank is.
 */
int rankway_comm_get_lpid(struct rankway_comm_t comm, int rank, struct rankway_process_t *process);

/**
 * The rank in the job of a rank.
 */
int rankway_comm_world_rank(struct rankway_comm_t comm, int rank, uint32_t *peer);

/**
 * Sets 1 if a rank runs on this process's node, else 0.
 */
int rankway_rank_is_local(int rank, struct rankway_comm_t comm, int *flag);

/**
 * The node of a rank, by the order in which nodes have their first ranks in the job, and its
 * rank among those of the job there.
 */
int rankway_comm_node_of(int rank,
                         struct rankway_comm_t comm,
                         uint32_t *node,
                         uint32_t *node_rank);

/**
 * The rank map of a communicator, as a map of its own.
 */
int rankway_comm_rankmap(struct rankway_comm_t comm, struct rankway_rankmap_t *map);

/**
 * The lookup of a communicator's ranks. It is good until the communicator is
 * freed or its context closed. Entries of peers nobody spoke to are 0:
 * rankway_comm_connect fills them in.
 */
int rankway_comm_lookup(struct rankway_comm_t comm, struct rankway_lookup_t *lookup);

/**
 * Inserts a rank into the address vector, if it is not there, and answers its
 * entry: the slow half of a translation that answered 0.
 */
int rankway_comm_connect(struct rankway_comm_t comm, int rank, uint64_t *entry);

/**
 * Waits for all members, making progress meanwhile. Collective. A set-up
 * call over sockets, not a fast barrier.
 */
int rankway_comm_barrier(struct rankway_comm_t comm);

/**
 * The group of a communicator's ranks (MPI_Comm_group).
 */
int rankway_comm_group(struct rankway_comm_t comm, struct rankway_rankmap_t *group);

/**
 * A communicator of a group's ranks; a null handle for processes that are not
 * among them. Collective over the group, whose members name it alike; others need not
 * call it. Sends no message (MPI_Comm_create_group).
 */
int rankway_comm_create_group(struct rankway_comm_t comm,
                              struct rankway_rankmap_t group,
                              struct rankway_comm_t *newcomm);

/**
 * The group of these ranks, in the order of the list (MPI_Group_incl).
 */
int rankway_group_incl(struct rankway_rankmap_t group,
                       int n,
                       const int *ranks,
                       struct rankway_rankmap_t *newgroup);

/**
 * The group without these ranks, in its own order (MPI_Group_excl).
 */
int rankway_group_excl(struct rankway_rankmap_t group,
                       int n,
                       const int *ranks,
                       struct rankway_rankmap_t *newgroup);

/**
 * The group of the ranks of ranges, each of a first rank, a last and a stride
 * (MPI_Group_range_incl).
 */
int rankway_group_range_incl(struct rankway_rankmap_t group,
                             int n,
                             const int (*ranges)[3],
                             struct rankway_rankmap_t *newgroup);

/**
 * The group without the ranks of ranges (MPI_Group_range_excl).
 */
int rankway_group_range_excl(struct rankway_rankmap_t group,
                             int n,
                             const int (*ranges)[3],
                             struct rankway_rankmap_t *newgroup);

/**
 * The members of a group, then those of another that are not in it
 * (MPI_Group_union).
 */
int rankway_group_union(struct rankway_rankmap_t group1,
                        struct rankway_rankmap_t group2,
                        struct rankway_rankmap_t *newgroup);

/**
 * The members of the first that the second has too (MPI_Group_intersection).
 */
int rankway_group_intersection(struct rankway_rankmap_t group1,
                               struct rankway_rankmap_t group2,
                               struct rankway_rankmap_t *newgroup);

/**
 * The members of the first that the second has not (MPI_Group_difference).
 */
int rankway_group_difference(struct rankway_rankmap_t group1,
                             struct rankway_rankmap_t group2,
                             struct rankway_rankmap_t *newgroup);

/**
 * Sets a rankway_comparison of two groups (MPI_Group_compare).
 */
int rankway_group_compare(struct rankway_rankmap_t group1,
                          struct rankway_rankmap_t group2,
                          int *result);

/**
 * The ranks in the second group of `n` ranks of the first; RANKWAY_UNDEFINED for
 * those that it has not (MPI_Group_translate_ranks).
 */
int rankway_group_translate_ranks(struct rankway_rankmap_t group1,
                                  int n,
                                  const int *ranks1,
                                  struct rankway_rankmap_t group2,
                                  int *ranks2);

/**
 * One element of a rankway_type. Every datatype is the caller's until
 * rankway_type_free; what is made of it, and operations that began, keep what
 * they need of it.
 */
int rankway_type_basic(int element, struct rankway_type_t *made);

/**
 * `count` elements, an extent apart (MPI_Type_contiguous).
 */
int rankway_type_contiguous(uint64_t count, struct rankway_type_t of, struct rankway_type_t *made);

/**
 * `count` blocks of `block` elements, `stride` extents apart
 * (MPI_Type_vector).
 */
int rankway_type_vector(uint64_t count,
                        uint64_t block,
                        int64_t stride,
                        struct rankway_type_t of,
                        struct rankway_type_t *made);

/**
 * rankway_type_vector with a stride in bytes (MPI_Type_create_hvector).
 */
int rankway_type_hvector(uint64_t count,
                         uint64_t block,
                         int64_t stride,
                         struct rankway_type_t of,
                         struct rankway_type_t *made);

/**
 * `count` blocks, each of so many elements and so many extents from the origin
 * (MPI_Type_indexed).
 */
int rankway_type_indexed(size_t count,
                         const uint64_t *blocks,
                         const int64_t *displacements,
                         struct rankway_type_t of,
                         struct rankway_type_t *made);

/**
 * rankway_type_indexed with displacements in bytes (MPI_Type_create_hindexed).
 */
int rankway_type_hindexed(size_t count,
                          const uint64_t *blocks,
                          const int64_t *displacements,
                          struct rankway_type_t of,
                          struct rankway_type_t *made);

/**
 * `count` blocks of `block` elements, each at so many extents from the origin
 * (MPI_Type_create_indexed_block).
 */
int rankway_type_indexed_block(size_t count,
                               uint64_t block,
                               const int64_t *displacements,
                               struct rankway_type_t of,
                               struct rankway_type_t *made);

/**
 * rankway_type_indexed_block with displacements in bytes
 * (MPI_Type_create_hindexed_block).
 */
int rankway_type_hindexed_block(size_t count,
                                uint64_t block,
                                const int64_t *displacements,
                                struct rankway_type_t of,
                                struct rankway_type_t *made);

/**
 * `count` blocks of different datatypes, with displacements in bytes
 * (MPI_Type_create_struct). The extent is rounded up to the strictest
 * alignment in it, as C lays out structures, also where a block was resized,
 * whose bounds MPI would take for the whole's: rankway_type_resized sets others.
 */
int rankway_type_struct(size_t count,
                        const uint64_t *blocks,
                        const int64_t *displacements,
                        const struct rankway_type_t *types,
                        struct rankway_type_t *made);

/**
 * A part of an array: of each dimension its size, how many of it, and which is
 * the first (MPI_Type_create_subarray). The extent is that of the whole array.
 */
int rankway_type_subarray(size_t dimensions,
                          const uint64_t *sizes,
                          const uint64_t *subsizes,
                          const uint64_t *starts,
                          int array_order,
                          struct rankway_type_t of,
                          struct rankway_type_t *made);

/**
 * The part of an array that process `process` of a grid has: of each dimension
 * its size, its rankway_distribution, the length of a block or
 * RANKWAY_DISTRIBUTE_DEFAULT, and the processes along it
 * (MPI_Type_create_darray). The extent is that of the whole array.
 */
int rankway_type_darray(uint64_t process,
                        size_t dimensions,
                        const uint64_t *sizes,
                        const int *distributions,
                        const int64_t *blocks,
                        const uint64_t *processes,
                        int array_order,
                        struct rankway_type_t of,
                        struct rankway_type_t *made);

/**
 * The same bytes with another lower bound and extent
 * (MPI_Type_create_resized).
 */
int rankway_type_resized(struct rankway_type_t of,
                         int64_t lb,
                         int64_t extent,
                         struct rankway_type_t *made);

/**
 * The same datatype under another handle, to be freed for itself
 * (MPI_Type_dup). The two share what they hold.
 */
int rankway_type_dup(struct rankway_type_t of, struct rankway_type_t *made);

/**
 * Frees a datatype. Those made of it, and operations under way, go on.
 */
int rankway_type_free(struct rankway_type_t datatype);

/**
 * The bytes of data in a datatype (MPI_Type_size).
 */
int rankway_type_size(struct rankway_type_t datatype, uint64_t *size);

/**
 * The lower bound, and the bytes from one element to the next
 * (MPI_Type_get_extent).
 */
int rankway_type_extent(struct rankway_type_t datatype, int64_t *lb, int64_t *extent);

/**
 * The first byte taken, and the bytes from there to the end of the last one
 * (MPI_Type_get_true_extent); both 0 where no byte is taken.
 */
int rankway_type_true_extent(struct rankway_type_t datatype, int64_t *lb, int64_t *extent);

/**
 * Copies bytes `from` and on of the packed stream of `count` elements at
 * `memory` to `stream`, until either ends, and stores how many: all that are
 * left where `capacity` is enough (MPI_Pack, in pieces of any
 * length).
 */
int rankway_type_pack(const void *memory,
                      uint64_t count,
                      struct rankway_type_t datatype,
                      uint64_t from,
                      void *stream,
                      size_t capacity,
                      size_t *packed);

/**
 * Copies `bytes` bytes of a stream, packed bytes `from` and on of `count`
 * elements, to where they belong at `memory`, and stores how many belong
 * there (MPI_Unpack, in pieces of any length).
 */
int rankway_type_unpack(const void *stream,
                        size_t bytes,
                        uint64_t from,
                        void *memory,
                        uint64_t count,
                        struct rankway_type_t datatype,
                        size_t *unpacked);

/**
 * The bytes of `count` elements in external32 (MPI_Pack_external_size).
 */
int rankway_pack_external_size(uint64_t count, struct rankway_type_t datatype, uint64_t *size);

/**
 * rankway_type_pack in external32, which every machine reads alike: big endian,
 * 2 bytes a wide character, 16 a long double. `from` counts bytes of that form
 * (MPI_Pack_external).
 */
int rankway_pack_external(const void *memory,
                          uint64_t count,
                          struct rankway_type_t datatype,
                          uint64_t from,
                          void *stream,
                          size_t capacity,
                          size_t *packed);

/**
 * rankway_type_unpack of a stream in external32, of which `from` counts the
 * bytes. What a piece has of an element is laid over the element that is at
 * `memory` (MPI_Unpack_external).
 */
int rankway_unpack_external(const void *stream,
                            size_t bytes,
                            uint64_t from,
                            void *memory,
                            uint64_t count,
                            struct rankway_type_t datatype,
                            size_t *unpacked);

/**
 * Allocates `bytes` of zeroed memory in every member and makes a window of it;
 * sizes and units may differ. Members of one node share the memory, so that a
 * put between them is a store. `base`, if not null, gets this process's
 * memory, which lives as long as the window. Collective.
 */
int rankway_win_allocate(size_t bytes,
                         int disp_unit,
                         struct rankway_comm_t comm,
                         void **base,
                         struct rankway_win_t *win);

/**
 * As rankway_win_allocate, all members on one node and their memory side by
 * side in the order of ranks: rankway_win_shared_query tells where. Collective.
 */
int rankway_win_allocate_shared(size_t bytes,
                                int disp_unit,
                                struct rankway_comm_t comm,
                                void **base,
                                struct rankway_win_t *win);

/**
 * Makes a window of memory the caller has, which must stay until the window
 * is freed. Collective.
 */
int rankway_win_create(void *base,
                       size_t bytes,
                       int disp_unit,
                       struct rankway_comm_t comm,
                       struct rankway_win_t *win);

/**
 * Promises something of the operations to come, by one of MPI's info keys
 * (`accumulate_ordering`, `accumulate_ops`) and its value, on all members alike and before any
 * operation. `known` 1: it is a key that is known here; 0: nothing has happened. May be null.
 */
int rankway_win_set_hint(struct rankway_win_t win, const char *key, const char *value, int *known);

/**
 * Makes a window without memory, to which members attach their own while it
 * lives. Displacements are addresses at the target. Collective.
 */
int rankway_win_create_dynamic(struct rankway_comm_t comm, struct rankway_win_t *win);

/**
 * Waits for all members and gives the window back. Its requests must be
 * complete. Collective. After an error other than RANKWAY_ERR_EPOCH,
 * RANKWAY_ERR_BUSY and RANKWAY_ERR_NESTED the window is freed too.
 */
int rankway_win_free(struct rankway_win_t win);

/**
 * This process's memory of a window.
 */
int rankway_win_local(struct rankway_win_t win, void **base, size_t *bytes);

/**
 * Where the memory of a rank is mapped in this process: it is of this node,
 * and the window allocated it.
 */
int rankway_win_shared_query(struct rankway_win_t win,
                             int target_rank,
                             size_t *bytes,
                             int *disp_unit,
                             void **base);

/**
 * Attaches memory to a dynamic window: peers reach it at its addresses.
 */
int rankway_win_attach(struct rankway_win_t win, void *base, size_t bytes);

/**
 * Takes attached memory back, by its start.
 */
int rankway_win_detach(struct rankway_win_t win, const void *base);

/**
 * A window as rankway_put_unchecked reads it. It is good until the window is
 * freed, on the thread of its context.
 */
int rankway_win_access(struct rankway_win_t win, const struct rankway_access_t **access);

/**
 * Why the last rankway_put_unchecked on a window answered RANKWAY_FAILED: the
 * code, with rankway_error_message and rankway_error_peer. RANKWAY_SUCCESS when
 * none did.
 */
int rankway_win_error(struct rankway_win_t win);

/**
 * Puts `bytes` bytes into the memory of a rank, `target_disp` units from its
 * start. The origin is the operation's until a flush, and does not overlap what
 * it is put to, as in every operation here. rankway_put_unchecked is for callers
 * that have checked everything themselves.
 */
int rankway_put(const void *origin,
                size_t bytes,
                int target_rank,
                size_t target_disp,
                struct rankway_win_t win);

/**
 * Gets `bytes` bytes from the memory of a rank. They are there after a flush.
 */
int rankway_get(void *origin,
                size_t bytes,
                int target_rank,
                size_t target_disp,
                struct rankway_win_t win);

/**
 * Applies a rankway_op to `count` elements of a rankway_type in the memory of
 * a rank, with those at the origin, which may be used again on return.
 */
int rankway_accumulate(const void *origin,
                       size_t count,
                       int datatype,
                       int target_rank,
                       size_t target_disp,
                       int op,
                       struct rankway_win_t win);

/**
 * As rankway_accumulate, with the elements as they were in `result` after a
 * flush. With RANKWAY_NO_OP the origin may be null. Origin and result must not overlap
 * (MPI_Get_accumulate).
 */
int rankway_get_accumulate(const void *origin,
                           void *result,
                           size_t count,
                           int datatype,
                           int target_rank,
                           size_t target_disp,
                           int op,
                           struct rankway_win_t win);

/**
 * rankway_get_accumulate of one element.
 */
int rankway_fetch_and_op(const void *origin,
                         void *result,
                         int datatype,
                         int target_rank,
                         size_t target_disp,
                         int op,
                         struct rankway_win_t win);

/**
 * Puts the element at the origin in the place of one that equals `compare`,
 * and brings the element as it was into `result` after a flush.
 */
int rankway_compare_and_swap(const void *origin,
                             const void *compare,
                             void *result,
                             int datatype,
                             int target_rank,
                             size_t target_disp,
                             struct rankway_win_t win);

/**
 * Puts `origin_count` elements of a datatype at the origin to where
 * `target_count` elements of another have them in the memory of a rank, around
 * `target_disp` units; both have as many bytes, which are paired in the order of
 * the type maps. With `request` null the origin is the operation's until a
 * flush, else until the request is complete (MPI_Put, MPI_Rput).
 */
int rankway_put_typed(const void *origin,
                      uint64_t origin_count,
                      struct rankway_type_t origin_type,
                      int target_rank,
                      size_t target_disp,
                      uint64_t target_count,
                      struct rankway_type_t target_type,
                      struct rankway_win_t win,
                      struct rankway_request_t *request);

/**
 * Gets elements of a datatype from the memory of a rank, as rankway_put_typed
 * puts them. With `request` null they are there after a flush (MPI_Get,
 * MPI_Rget).
 */
int rankway_get_typed(void *origin,
                      uint64_t origin_count,
                      struct rankway_type_t origin_type,
                      int target_rank,
                      size_t target_disp,
                      uint64_t target_count,
                      struct rankway_type_t target_type,
                      struct rankway_win_t win,
                      struct rankway_request_t *request);

/**
 * rankway_accumulate with datatypes of one and the same basic type. The origin
 * may be used again on return; `request` may be null (MPI_Accumulate,
 * MPI_Raccumulate).
 */
int rankway_accumulate_typed(const void *origin,
                             uint64_t origin_count,
                             struct rankway_type_t origin_type,
                             int target_rank,
                             size_t target_disp,
                             uint64_t target_count,
                             struct rankway_type_t target_type,
                             int op,
                             struct rankway_win_t win,
                             struct rankway_request_t *request);

/**
 * rankway_get_accumulate with datatypes of one and the same basic type. With
 * `request` null the elements as they were are in `result` after a flush; with
 * RANKWAY_NO_OP the origin may be null, and its datatype is not looked at. Origin and
 * result must not overlap (MPI_Get_accumulate, MPI_Rget_accumulate).
 */
int rankway_get_accumulate_typed(const void *origin,
                                 uint64_t origin_count,
                                 struct rankway_type_t origin_type,
                                 void *result,
                                 uint64_t result_count,
                                 struct rankway_type_t result_type,
                                 int target_rank,
                                 size_t target_disp,
                                 uint64_t target_count,
                                 struct rankway_type_t target_type,
                                 int op,
                                 struct rankway_win_t win,
                                 struct rankway_request_t *request);

/**
 * rankway_put with a request: complete when the origin may be used again.
 */
int rankway_rput(const void *origin,
                 size_t bytes,
                 int target_rank,
                 size_t target_disp,
                 struct rankway_win_t win,
                 struct rankway_request_t *request);

/**
 * rankway_get with a request: complete when the bytes are there.
 */
int rankway_rget(void *origin,
                 size_t bytes,
                 int target_rank,
                 size_t target_disp,
                 struct rankway_win_t win,
                 struct rankway_request_t *request);

/**
 * rankway_get_accumulate with a request: complete when the result is there.
 */
int rankway_rget_accumulate(const void *origin,
                            void *result,
                            size_t count,
                            int datatype,
                            int target_rank,
                            size_t target_disp,
                            int op,
                            struct rankway_win_t win,
                            struct rankway_request_t *request);

/**
 * Has a function carry out rankway_custom on the windows of this process: one
 * for the process, which stays until it ends, registered before a peer's first
 * custom operation.
 */
int rankway_register_operator(struct rankway_context_t context, rankway_operator_t operator_);

/**
 * Has the process of a rank carry out an operation of the caller's own, `code`,
 * on `span` bytes of its memory: pairs of MPI_MINLOC, types that rankway_type
 * does not have. Atomic with other custom operations on the window, in order
 * with all towards the rank, and carried out when the target makes progress. The
 * operand may be used again on return. With `request` null the result is there
 * after a flush.
 */
int rankway_custom(uint64_t code,
                   const void *operand,
                   size_t operand_bytes,
                   void *result,
                   size_t result_bytes,
                   int target_rank,
                   size_t target_disp,
                   size_t span,
                   struct rankway_win_t win,
                   struct rankway_request_t *request);

/**
 * The most bytes of operand, and of result, that one rankway_custom on a rank has. More are
 * refused with RANKWAY_ERR_ARG.
 */
int rankway_custom_limit(int target_rank, struct rankway_win_t win, size_t *bytes);

/**
 * Ends the epoch that is open, waits until all members' operations are done
 * everywhere, and opens the next. `assert` is a sum of rankway_asserts.
 * Collective.
 */
int rankway_win_fence(int assert, struct rankway_win_t win);

/**
 * Opens an epoch to one rank, with a rankway_lock.
 */
int rankway_win_lock(int lock, int target_rank, int assert, struct rankway_win_t win);

/**
 * Closes the epoch of rankway_win_lock; everything issued to the rank is done
 * there on return.
 */
int rankway_win_unlock(int target_rank, struct rankway_win_t win);

/**
 * Opens an epoch to all ranks. Not collective.
 */
int rankway_win_lock_all(int assert, struct rankway_win_t win);

/**
 * Closes the epoch of rankway_win_lock_all; everything issued in it is done at
 * the targets on return.
 */
int rankway_win_unlock_all(struct rankway_win_t win);

/**
 * Waits until everything issued to a rank is done there.
 */
int rankway_win_flush(int target_rank, struct rankway_win_t win);

/**
 * Waits until everything issued is done at the targets.
 */
int rankway_win_flush_all(struct rankway_win_t win);

/**
 * Waits until the buffers of everything issued to a rank are the caller's.
 */
int rankway_win_flush_local(int target_rank, struct rankway_win_t win);

/**
 * Waits until the buffers of everything issued are the caller's.
 */
int rankway_win_flush_local_all(struct rankway_win_t win);

/**
 * Makes this process's own stores to its memory and those of peers visible to
 * each other.
 */
int rankway_win_sync(struct rankway_win_t win);

/**
 * Opens an access epoch to the ranks of a group, which call rankway_win_post.
 */
int rankway_win_start(int size, const int *group, int assert, struct rankway_win_t win);

/**
 * Closes the epoch of rankway_win_start.
 */
int rankway_win_complete(struct rankway_win_t win);

/**
 * Opens an exposure epoch for the ranks of a group, which call
 * rankway_win_start.
 */
int rankway_win_post(int size, const int *group, int assert, struct rankway_win_t win);

/**
 * Waits until the group of rankway_win_post has completed.
 */
int rankway_win_wait(struct rankway_win_t win);

/**
 * Sets 1 if the group of rankway_win_post has completed, which closes the
 * exposure epoch, else 0.
 */
int rankway_win_test(struct rankway_win_t win, int *flag);

/**
 * Begins a send. The buffer is the operation's until the request is complete.
 */
int rankway_isend(const void *buf,
                  size_t bytes,
                  int dest,
                  int tag,
                  struct rankway_comm_t comm,
                  struct rankway_request_t *request);

/**
 * Begins a synchronous send: complete when a receive took the message.
 */
int rankway_issend(const void *buf,
                   size_t bytes,
                   int dest,
                   int tag,
                   struct rankway_comm_t comm,
                   struct rankway_request_t *request);

/**
 * Begins a receive. `source` may be RANKWAY_ANY_SOURCE, `tag` RANKWAY_ANY_TAG.
 */
int rankway_irecv(void *buf,
                  size_t bytes,
                  int source,
                  int tag,
                  struct rankway_comm_t comm,
                  struct rankway_request_t *request);

/**
 * rankway_isend of `count` elements of a datatype at `memory`, which are the
 * operation's until the request is complete; the datatype may be freed before. What
 * is received may have another datatype of the same basic types, or none.
 */
int rankway_isend_type(const void *memory,
                       uint64_t count,
                       struct rankway_type_t datatype,
                       int dest,
                       int tag,
                       struct rankway_comm_t comm,
                       struct rankway_request_t *request);

/**
 * rankway_issend of `count` elements of a datatype, as rankway_isend_type.
 */
int rankway_issend_type(const void *memory,
                        uint64_t count,
                        struct rankway_type_t datatype,
                        int dest,
                        int tag,
                        struct rankway_comm_t comm,
                        struct rankway_request_t *request);

/**
 * rankway_irecv into `count` elements of a datatype at `memory`; nothing between
 * them is written to.
 */
int rankway_irecv_type(void *memory,
                       uint64_t count,
                       struct rankway_type_t datatype,
                       int source,
                       int tag,
                       struct rankway_comm_t comm,
                       struct rankway_request_t *request);

/**
 * Sets `flag` to 1 if a message that fits has arrived, else to 0. Makes
 * progress.
 */
int rankway_iprobe(int source,
                   int tag,
                   struct rankway_comm_t comm,
                   int *flag,
                   struct rankway_status_t *status);

/**
 * Waits for a message that fits.
 */
int rankway_probe(int source, int tag, struct rankway_comm_t comm, struct rankway_status_t *status);

/**
 * Takes a message that fits, if one came in, so that no other receive finds
 * it: `flag` 1 and a handle for rankway_imrecv, or 0.
 */
int rankway_improbe(int source,
                    int tag,
                    struct rankway_comm_t comm,
                    int *flag,
                    struct rankway_message_t *message,
                    struct rankway_status_t *status);

/**
 * Waits for a message that fits and takes it.
 */
int rankway_mprobe(int source,
                   int tag,
                   struct rankway_comm_t comm,
                   struct rankway_message_t *message,
                   struct rankway_status_t *status);

/**
 * Begins to receive a message that a matched probe took. Its handle ends.
 */
int rankway_imrecv(void *buf,
                   size_t bytes,
                   struct rankway_message_t message,
                   struct rankway_request_t *request);

/**
 * rankway_imrecv into `count` elements of a datatype, as rankway_irecv_type.
 */
int rankway_imrecv_type(void *memory,
                        uint64_t count,
                        struct rankway_type_t datatype,
                        struct rankway_message_t message,
                        struct rankway_request_t *request);

/**
 * Begins a send by match bits, for device layers that lay them out
 * themselves: to a rank of the job, on a channel, which is any number both
 * sides know. With `synchronous` not 0 it is complete when a receive took the
 * message.
 */
int rankway_tagged_isend(struct rankway_context_t context,
                         const void *buf,
                         size_t bytes,
                         uint32_t peer,
                         uint64_t channel,
                         uint64_t match_bits,
                         int synchronous,
                         struct rankway_request_t *request);

/**
 * rankway_tagged_isend of `count` elements of a datatype, as rankway_isend_type.
 */
int rankway_tagged_isend_type(struct rankway_context_t context,
                              const void *memory,
                              uint64_t count,
                              struct rankway_type_t datatype,
                              uint32_t peer,
                              uint64_t channel,
                              uint64_t match_bits,
                              int synchronous,
                              struct rankway_request_t *request);

/**
 * Begins a receive by match bits; those set in `ignore` need not agree. `peer`
 * is the only possible sender, so that its death ends the receive, or -1; it is a
 * promise, and no part of the match.
 */
int rankway_tagged_irecv(struct rankway_context_t context,
                         void *buf,
                         size_t bytes,
                         int64_t peer,
                         uint64_t channel,
                         uint64_t match_bits,
                         uint64_t ignore,
                         struct rankway_request_t *request);

/**
 * rankway_tagged_irecv into `count` elements of a datatype, as rankway_irecv_type.
 */
int rankway_tagged_irecv_type(struct rankway_context_t context,
                              void *memory,
                              uint64_t count,
                              struct rankway_type_t datatype,
                              int64_t peer,
                              uint64_t channel,
                              uint64_t match_bits,
                              uint64_t ignore,
                              struct rankway_request_t *request);

/**
 * rankway_iprobe by match bits.
 */
int rankway_tagged_iprobe(struct rankway_context_t context,
                          int64_t peer,
                          uint64_t channel,
                          uint64_t match_bits,
                          uint64_t ignore,
                          int *flag,
                          struct rankway_status_t *status);

/**
 * rankway_improbe by match bits.
 */
int rankway_tagged_improbe(struct rankway_context_t context,
                           int64_t peer,
                           uint64_t channel,
                           uint64_t match_bits,
                           uint64_t ignore,
                           int *flag,
                           struct rankway_message_t *message,
                           struct rankway_status_t *status);

/**
 * Makes progress; whether an operation is complete: `flag` 1 or 0. Complete,
 * its handle ends and `*request` becomes null, with an error of the
 * operation too. `status` may be null.
 */
int rankway_test(struct rankway_request_t *request, int *flag, struct rankway_status_t *status);

/**
 * Waits for an operation. Its handle ends and `*request` becomes null, with
 * an error of the operation too; within a handler, where one that is not
 * complete is refused with RANKWAY_ERR_NESTED, both stay. `status` may be null.
 */
int rankway_wait(struct rankway_request_t *request, struct rankway_status_t *status);

/**
 * Waits for operations, null handles among them left out, whatever becomes
 * of the others; answers the first error. Within a handler, where one that is
 * not complete is refused with RANKWAY_ERR_NESTED, all stay. `statuses` may be
 * null.
 */
int rankway_waitall(int count,
                    struct rankway_request_t *requests,
                    struct rankway_status_t *statuses);

/**
 * Asks that a receive be taken back: `flag` 1 if it had no message yet, and
 * it then completes as cancelled; 0 if it is too late, and for sends. Either
 * way it must be waited for. `flag` may be null.
 */
int rankway_cancel(struct rankway_request_t request, int *flag);

/**
 * Lets go of an operation: it goes on by itself, but for a receive without a
 * message, which is taken back. Its buffer is its own until it would have
 * been complete. `*request` becomes null.
 */
int rankway_request_free(struct rankway_request_t *request);

/**
 * Has a number call a handler from now on, on this context. Messages for it
 * that came before are offered to it by the next progress. It stays until the
 * context is closed.
 */
int rankway_am_register(struct rankway_context_t context,
                        int handler_id,
                        rankway_am_handler_t handler,
                        void *argument);

/**
 * Calls a handler of a rank's, on its context of the same index; makes
 * progress until there is credit. Header and data are the caller's again on
 * return.
 */
int rankway_am_send(int rank,
                    struct rankway_comm_t comm,
                    int handler_id,
                    const void *hdr,
                    size_t hdr_bytes,
                    const void *data,
                    size_t bytes);

/**
 * rankway_am_send that does not wait: `flag` 1 when it was sent, 0 when there
 * is no credit now.
 */
int rankway_am_try_send(int rank,
                        struct rankway_comm_t comm,
                        int handler_id,
                        const void *hdr,
                        size_t hdr_bytes,
                        const void *data,
                        size_t bytes,
                        int *flag);

/**
 * rankway_am_send whose handler may answer with rankway_am_reply.
 */
int rankway_am_request(int rank,
                       struct rankway_comm_t comm,
                       int handler_id,
                       const void *hdr,
                       size_t hdr_bytes,
                       const void *data,
                       size_t bytes);

/**
 * rankway_am_request that does not wait.
 */
int rankway_am_try_request(int rank,
                           struct rankway_comm_t comm,
                           int handler_id,
                           const void *hdr,
                           size_t hdr_bytes,
                           const void *data,
                           size_t bytes,
                           int *flag);

/**
 * Within a handler: answers the request it runs for, once, by calling a
 * handler of the requester's. Never waits.
 */
int rankway_am_reply(int handler_id,
                     const void *hdr,
                     size_t hdr_bytes,
                     const void *data,
                     size_t bytes);

/**
 * The most bytes of data that an active message to a rank takes, with a
 * header of at most 12 bytes; a longer header counts as data. Longer data goes
 * as a message.
 */
int rankway_am_limit(int rank, struct rankway_comm_t comm, size_t *bytes);

/**
 * rankway_tagged_isend without a request: rankway_cq_read hands out `cookie`, which is
 * not 0, when the send has ended. `id` 0: it is done, and does not come there.
 */
int rankway_cq_isend(struct rankway_context_t context,
                     const void *buf,
                     size_t bytes,
                     uint32_t peer,
                     uint64_t channel,
                     uint64_t match_bits,
                     int synchronous,
                     uint64_t cookie,
                     uint64_t *id);

/**
 * rankway_tagged_irecv without a request: rankway_cq_read hands out `cookie`, which is
 * not 0, when it has ended, also where that is at once. `id` names it for
 * rankway_cq_cancel; 0: there is nothing to take back.
 */
int rankway_cq_irecv(struct rankway_context_t context,
                     void *buf,
                     size_t bytes,
                     int64_t peer,
                     uint64_t channel,
                     uint64_t match_bits,
                     uint64_t ignore,
                     uint64_t cookie,
                     uint64_t *id);

/**
 * Asks that a receive be taken back: `flag` 1 if it had no message yet, and it then
 * comes out of the queue as cancelled; 0 if it is too late, for sends, and for an `id`
 * that names nothing any more. `flag` may be null.
 */
int rankway_cq_cancel(struct rankway_context_t context, uint64_t id, int *flag);

/**
 * Calls a handler of a process's, a rank of the job, with header and data of any length,
 * whenever the way there has space: never waits, also within a handler. The header, of at
 * most 4 bytes less than rankway_am_limit says, is the caller's again on return. `done` 1:
 * the data is, too, and no completion comes; 0: it is when rankway_cq_read hands out
 * `cookie`. Those posted to a process arrive in their order.
 */
int rankway_am_post(struct rankway_context_t context,
                    uint32_t peer,
                    int handler_id,
                    const void *hdr,
                    size_t hdr_bytes,
                    const void *data,
                    size_t bytes,
                    uint64_t cookie,
                    int *done);

/**
 * Takes up to `most` operations out of the queue that have ended since, each once; makes
 * no progress. `count` is how many; the code of each is in its completion, and
 * rankway_error_message has the last one that failed.
 */
int rankway_cq_read(struct rankway_context_t context,
                    struct rankway_completion_t *completions,
                    int most,
                    int *count);

/**
 * What processes of other jobs meet this one by, for the device layer to hand to them (as in
 * the name of a port): who it is, and its raw addresses, `bytes` in all, at most `capacity` of
 * which go to `introduction`. More are refused with RANKWAY_ERR_RANGE, and `bytes` says how many
 * there are. On the first context of a process, whose rankway_options_t has a rankway_boot_t.
 * Opens a network where there is none yet.
 */
int rankway_introduction(struct rankway_context_t context,
                         void *introduction,
                         size_t capacity,
                         size_t *bytes);

/**
 * Meets the process that introduces itself so: its number, which is its rank if it is of
 * this job, else one from the job's size on that it has until it is forgotten. Those of a job
 * have consecutive numbers, by rank. It is a `peer` of rankway_cq_isend, rankway_tagged_isend,
 * rankway_am_post and their kin, and an lpid of group 0 for a device layer's own maps. Nothing
 * is sent before the first message, which introduces this process in turn; one that does not
 * answer is waited for no longer than the device layer likes. Needs a rankway_boot_t, as
 * rankway_introduction.
 */
int rankway_meet(struct rankway_context_t context,
                 const void *introduction,
                 size_t bytes,
                 uint32_t *peer);

/**
 * Forgets the job of a process that was met, once all of its processes that this one spoke to
 * have ended: `flag` 1, and their numbers are given out again; 0: some are there, or on
 * another machine, which does not tell, or `peer` is no number of another job's. Not within a
 * handler. Needs a rankway_boot_t, as rankway_introduction.
 */
int rankway_forget(struct rankway_context_t context, uint32_t peer, int *flag);

/* ---- What costs no call ----
 *
 * The structures above are the library's own. Nothing below looks at its
 * arguments: it is for device layers that have. */

/** Answer of rankway_put_unchecked: it failed, and rankway_win_error says why. */
#define RANKWAY_FAILED PTRDIFF_MIN

/** Options of a device, with which anything else begins. */
#define RANKWAY_OPTIONS_INIT { RANKWAY_ABI, RANKWAY_THREAD_SINGLE, NULL, NULL, NULL }

#if defined(__GNUC__)
#define RANKWAY_LIKELY(x) __builtin_expect(!!(x), 1)
/* Behind a peer's insertion, whichever thread did it. */
#define RANKWAY_LOAD(at) __atomic_load_n((const uint64_t *)(const void *)(at), __ATOMIC_ACQUIRE)
/* Keeps each put an event of its own: peers share the memory. */
#define RANKWAY_FENCE() __atomic_signal_fence(__ATOMIC_RELEASE)
#define RANKWAY_COPY(to, from, len) __builtin_memcpy(to, from, len)
#else
#include <string.h>
#define RANKWAY_LIKELY(x) (x)
#define RANKWAY_LOAD(at) (*(const volatile uint64_t *)(const void *)(at))
#define RANKWAY_FENCE() ((void)0)
#define RANKWAY_COPY(to, from, len) memcpy(to, from, len)
#endif

/* Marks are the one thing that a put changes in an access. */
#define RANKWAY_MARK(access, rank) ((uint8_t *)(uintptr_t)&(access)->marks[(rank) % 256])

/* Layouts, as capi/src/layout.rs compares them with the library's. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define RANKWAY_ASSERT(test) static_assert(test, #test)
#elif !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define RANKWAY_ASSERT(test) _Static_assert(test, #test)
#else
#define RANKWAY_ASSERT(test) extern int rankway_assert_[(test) ? 1 : -1]
#endif
#if UINTPTR_MAX == 0xffffffffffffffff
RANKWAY_ASSERT(sizeof(rankway_lookup_t) == 64);
RANKWAY_ASSERT(offsetof(rankway_lookup_t, base) == 8);
RANKWAY_ASSERT(offsetof(rankway_lookup_t, stride) == 16);
RANKWAY_ASSERT(offsetof(rankway_lookup_t, select) == 24);
RANKWAY_ASSERT(offsetof(rankway_access_t, path) == 76);
RANKWAY_ASSERT(offsetof(rankway_access_t, inject) == 80);
RANKWAY_ASSERT(offsetof(rankway_access_t, unit) == 104);
RANKWAY_ASSERT(offsetof(rankway_access_t, mapped_start) == 184);
RANKWAY_ASSERT(offsetof(rankway_access_t, longest) == 200);
RANKWAY_ASSERT(offsetof(rankway_access_t, marks) == 216);
RANKWAY_ASSERT(sizeof(rankway_comm_t) == sizeof(uint64_t));
#endif

/**
 * The address-vector entry of a rank: 0 when that peer was never inserted
 * (rankway_comm_connect). `rank` is below the size of the lookup's map.
 */
static inline uint64_t rankway_lookup_entry(const rankway_lookup_t *lookup, size_t rank)
{
    if (RANKWAY_LIKELY(lookup->kind == 0))
        return RANKWAY_LOAD(lookup->base + rank * (size_t)lookup->stride);
    return lookup->select(lookup, rank);
}

/**
 * The same through a map known to be direct, offset or stride
 * (`lookup->kind == 0`), without the test.
 */
static inline uint64_t rankway_lookup_affine(const rankway_lookup_t *lookup, size_t rank)
{
    return RANKWAY_LOAD(lookup->base + rank * (size_t)lookup->stride);
}

/**
 * Over libfabric: whether an entry is reached through the network provider,
 * and then its fi_addr_t in `*address`. 0 for peers on the node and for those
 * not inserted yet.
 */
static inline int rankway_entry_network(uint64_t entry, uint64_t *address)
{
    *address = entry - 1;
    return (int64_t)*address >= 0;
}

/**
 * Over libfabric: whether a peer is on the node, and then its rank there in
 * `*node_rank`.
 */
static inline int rankway_entry_local(uint64_t entry, uint64_t *node_rank)
{
    *node_rank = (entry & ~((uint64_t)1 << 63)) - 1;
    return (int64_t)entry < 0;
}

/**
 * Puts without any test of epoch, rank, displacement or length.
 *
 * Answers 0; RANKWAY_AGAIN, for which the provider has no space now; another
 * negative number of the provider; or RANKWAY_FAILED (see rankway_win_error).
 * Whatever is not 0, rankway_put then does the same put: it makes progress until
 * there is space, and says what is wrong, a peer that died by its rank. (A loop
 * of rankway_progress and this again puts as well, but of a death only a flush
 * tells: it may never end.)
 *
 * The caller answers for this: the window is not freed, an epoch is open, and
 * the thread is that of its context; `rank` is below its size; the target's
 * memory holds `len` bytes from `disp` units on; `buf` stays readable until
 * the window was flushed for `rank`.
 */
static inline ptrdiff_t rankway_put_unchecked(const rankway_access_t *access, const void *buf,
                                              size_t len, uint32_t rank, size_t disp)
{
    if (RANKWAY_LIKELY(access->path == 0)) {
        /* A provider, an affine map, a window alike in all ranks. Taking one
         * away leaves the address of a network peer, and a negative number for
         * one that is on the node or was not inserted yet. */
        uint64_t dest = rankway_lookup_affine(&access->lookup, rank) - 1;
        if (RANKWAY_LIKELY((int64_t)dest >= 0) && RANKWAY_LIKELY(len - 1 < access->longest)) {
            *RANKWAY_MARK(access, rank) = 1;
            return access->inject(access->endpoint, buf, len, dest,
                                  access->base + disp * access->unit, access->key);
        }
    } else if (access->path == 1 && len == 8) {
        /* Every rank's memory is mapped here. */
        char *region = access->mapped_start + (ptrdiff_t)rank * access->mapped_stride;
        if (!*RANKWAY_MARK(access, rank))
            *RANKWAY_MARK(access, rank) = 1;
        RANKWAY_COPY(region + disp * access->unit, buf, 8);
        RANKWAY_FENCE();
        return 0;
    }
    return access->other(access, buf, len, rank, disp);
}

#ifdef __cplusplus
}
#endif

#endif /* RANKWAY_H */
