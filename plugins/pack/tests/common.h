// What the programs share: MPI's own functions, past whatever stands before them,
// and random datatypes.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// LIBMPI is the library's soname: its own symbols are found in it alone.
static void *real(const char *name) {
  static void *library;
  if (!library) library = dlopen(LIBMPI, RTLD_LAZY | RTLD_NOLOAD);
  void *at = library ? dlsym(library, name) : NULL;
  if (!at) {
    fprintf(stderr, "no %s in %s\n", name, LIBMPI);
    exit(2);
  }
  return at;
}

#define REAL(name) ((__typeof__(&name))real("P" #name))

static inline uint64_t next_random(uint64_t *state) {
  *state += 0x9e3779b97f4a7c15u;
  uint64_t z = *state;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static inline int below(uint64_t *state, int n) { return (int)(next_random(state) % (uint64_t)n); }
