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
