/* What is inline in the header, each in a function of its own, so that its
 * instructions can be counted: `rankway count --c`. */
#include <rankway.h>

/* Which compiler made these. */
const char rankway_c_compiler[] =
#if defined(__clang__)
    __VERSION__;
#else
    "GCC " __VERSION__;
#endif

uint64_t rankway_c_entry(const rankway_lookup_t *lookup, size_t rank);
ptrdiff_t rankway_c_put(const rankway_access_t *access, const void *buf, size_t len, uint32_t rank,
                        size_t disp);

uint64_t rankway_c_entry(const rankway_lookup_t *lookup, size_t rank)
{
    return rankway_lookup_entry(lookup, rank);
}

ptrdiff_t rankway_c_put(const rankway_access_t *access, const void *buf, size_t len, uint32_t rank,
                        size_t disp)
{
    return rankway_put_unchecked(access, buf, len, rank, disp);
}
