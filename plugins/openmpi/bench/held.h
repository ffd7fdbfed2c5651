/* Bytes that a process holds, by the library that asked for them. Every call of the
 * allocator and of mmap goes through here, with the address it came from; whose
 * it was is looked up when they are counted. So this counts any library as it is,
 * without the allocator's own overhead: bytes asked for and not freed. Build with
 * -rdynamic, so that libraries find these functions before the C library's. */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The C library's own. */
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

/* What is live: a hash table with open addressing that never moves. */
enum { PLACES = 1 << 20, GONE = 1 };
struct held {
	uintptr_t start, caller;
	size_t bytes;
	int shared;
};
static struct held heap[PLACES], maps[1 << 12];
static atomic_flag busy = ATOMIC_FLAG_INIT;

static void lock(void)
{
	while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
		;
}
static void unlock(void) { atomic_flag_clear_explicit(&busy, memory_order_release); }

static size_t place(uintptr_t start, size_t places) { return (start >> 4) * 0x9e3779b97f4a7c15u >> 20 & (places - 1); }

static void hold(struct held *table, size_t places, void *start, size_t bytes, void *caller, int shared)
{
	if (!start || start == MAP_FAILED)
		return;
	lock();
	size_t at = place((uintptr_t)start, places), looked = 0;
	while (table[at].start > GONE && table[at].start != (uintptr_t)start && looked++ < places)
		at = (at + 1) & (places - 1);
	table[at] = (struct held){ (uintptr_t)start, (uintptr_t)caller, bytes, shared };
	unlock();
}

static void drop(struct held *table, size_t places, void *start)
{
	if (!start)
		return;
	lock();
	for (size_t at = place((uintptr_t)start, places), looked = 0; table[at].start && looked < places;
	     at = (at + 1) & (places - 1), looked++)
		if (table[at].start == (uintptr_t)start) {
			table[at].start = GONE;
			break;
		}
	unlock();
}

#define HEAP(start, bytes) hold(heap, PLACES, start, bytes, __builtin_return_address(0), 0)

void *malloc(size_t bytes)
{
	void *start = __libc_malloc(bytes);
	HEAP(start, bytes);
	return start;
}
void *calloc(size_t count, size_t bytes)
{
	void *start = __libc_calloc(count, bytes);
	HEAP(start, count * bytes);
	return start;
}
void *realloc(void *old, size_t bytes)
{
	/* Before: the place may be another thread's as soon as it is free. */
	drop(heap, PLACES, old);
	void *start = __libc_realloc(old, bytes);
	if (bytes)
		HEAP(start, bytes);
	return start;
}
void *memalign(size_t to, size_t bytes)
{
	void *start = __libc_memalign(to, bytes);
	HEAP(start, bytes);
	return start;
}
void *aligned_alloc(size_t to, size_t bytes)
{
	void *start = __libc_memalign(to, bytes);
	HEAP(start, bytes);
	return start;
}
int posix_memalign(void **out, size_t to, size_t bytes)
{
	void *start = __libc_memalign(to, bytes);
	if (!start)
		return ENOMEM;
	HEAP(start, bytes);
	*out = start;
	return 0;
}
void free(void *start)
{
	drop(heap, PLACES, start);
	__libc_free(start);
}
void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	void *start = (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
	hold(maps, sizeof maps / sizeof *maps, start, bytes, __builtin_return_address(0), (flags & MAP_SHARED) != 0);
	return start;
}
void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	void *start = (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
	hold(maps, sizeof maps / sizeof *maps, start, bytes, __builtin_return_address(0), (flags & MAP_SHARED) != 0);
	return start;
}
int munmap(void *start, size_t bytes)
{
	drop(maps, sizeof maps / sizeof *maps, start);
	return (int)syscall(SYS_munmap, start, bytes);
}

/* Where the code of a library is. */
struct range {
	const char *name;
	uintptr_t from, to;
};
static int find(struct dl_phdr_info *info, size_t size, void *out)
{
	struct range *range = out;
	(void)size;
	if (!strstr(info->dlpi_name, range->name))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
			range->from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
			range->to = range->from + info->dlpi_phdr[i].p_memsz;
		}
	return 1;
}
static int within(const struct range *range, uintptr_t address) { return address >= range->from && address < range->to; }

/* Bytes of pages in memory; of shared ones, by whichever process. */
static size_t resident(const struct held *map)
{
	static unsigned char pages[1 << 20];
	size_t count = (map->bytes + 4095) / 4096, there = 0;
	if (count > sizeof pages || syscall(SYS_mincore, map->start, map->bytes, pages) != 0)
		return 0;
	for (size_t i = 0; i < count; i++)
		there += pages[i] & 1;
	return there * 4096;
}

static void report(const char *when, int rank)
{
	/* Names as the dynamic linker has them: the components are links. */
	struct range ours[] = { { "_rankway.so", 0, 0 }, { "librankway_openmpi.so", 0, 0 } }, fabric = { "libfabric", 0, 0 };
	size_t bytes = 0, calls = 0, network = 0, rest = 0, private = 0, shared = 0, pages[2] = { 0, 0 };
	dl_iterate_phdr(find, &ours[0]);
	dl_iterate_phdr(find, &ours[1]);
	dl_iterate_phdr(find, &fabric);
	if (!ours[0].from && !ours[1].from) {
		fprintf(stderr, "heap: no component of rankway is loaded\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (size_t i = 0; i < PLACES; i++) {
		const struct held *it = &heap[i];
		if (it->start <= GONE)
			continue;
		if (within(&ours[0], it->caller) || within(&ours[1], it->caller)) {
			bytes += it->bytes;
			calls++;
			if (getenv("HEAP_LIST"))
				fprintf(stderr, "%d %zu from %#lx\n", rank, it->bytes,
				        (unsigned long)(it->caller - (within(&ours[0], it->caller) ? ours[0].from : ours[1].from)));
		} else if (within(&fabric, it->caller)) {
			network += it->bytes;
		} else {
			rest += it->bytes;
		}
	}
	for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
		const struct held *it = &maps[i];
		if (it->start <= GONE || !(within(&ours[0], it->caller) || within(&ours[1], it->caller)))
			continue;
		*(it->shared ? &shared : &private) += it->bytes;
		pages[it->shared] += resident(it);
	}
	printf("%s %d ours %zu %zu private %zu %zu shared %zu %zu libfabric %zu rest %zu\n", when, rank, bytes, calls, private,
	       pages[0], shared, pages[1], network, rest);
	fflush(stdout);
}
