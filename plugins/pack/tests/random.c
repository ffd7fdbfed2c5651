// Random nested datatypes: MPI_Pack and MPI_Unpack as the program calls them beside
// those of the MPI library itself, byte by byte; types freed and made again, whose
// handles are the old ones.
#include "common.h"

enum { SPAN = 1 << 20, DEEP = 3 };
static uint64_t dice = 20;

// (No long double: of its 16 bytes MPICH copies the 10 that count.)
static MPI_Datatype basic(void) {
  MPI_Datatype all[] = {MPI_CHAR,  MPI_SHORT,  MPI_INT,        MPI_FLOAT, MPI_DOUBLE, MPI_BYTE,
                        MPI_LONG,  MPI_2INT,   MPI_DOUBLE_INT, MPI_C_DOUBLE_COMPLEX,
                        MPI_SHORT_INT};
  return all[below(&dice, sizeof all / sizeof *all)];
}

static MPI_Aint extent(MPI_Datatype type) {
  MPI_Aint lb, extent;
  MPI_Type_get_extent(type, &lb, &extent);
  return extent;
}

// The basic ones are named: they are not freed. (Asking ends the program where a type has
// counts of 64 bits and the call none.)
static int is_named(MPI_Datatype type) {
  int combiner;
#if MPI_VERSION >= 4
  MPI_Count integers, addresses, large, inside;
  MPI_Type_get_envelope_c(type, &integers, &addresses, &large, &inside, &combiner);
#else
  int integers, addresses, inside;
  MPI_Type_get_envelope(type, &integers, &addresses, &inside, &combiner);
#endif
  return combiner == MPI_COMBINER_NAMED;
}

#if MPI_VERSION >= 4
// The same constructors with counts of 64 bits.
static MPI_Datatype large(MPI_Datatype inner, MPI_Aint ext) {
  int n = 1 + below(&dice, 4);
  MPI_Count lens[8], places[8], far[8], whole[2], part[2], first[2];
  MPI_Datatype types[8], made;
  for (int i = 0; i < n; i++) {
    lens[i] = 1 + below(&dice, 3), places[i] = 4 * i + below(&dice, 2);
    far[i] = places[i] * ext, types[i] = inner;
  }
  for (int i = 0; i < 2; i++) {
    whole[i] = 2 + below(&dice, 4), part[i] = 1 + below(&dice, whole[i]);
    first[i] = below(&dice, whole[i] - part[i] + 1);
  }
  switch (below(&dice, 10)) {
  case 0: MPI_Type_contiguous_c(n, inner, &made); break;
  case 1: MPI_Type_vector_c(n, 1 + below(&dice, 3), 3 + below(&dice, 3), inner, &made); break;
  case 2: MPI_Type_create_hvector_c(n, 2, 3 * ext, inner, &made); break;
  case 3: MPI_Type_indexed_c(n, lens, places, inner, &made); break;
  case 4: MPI_Type_create_hindexed_c(n, lens, far, inner, &made); break;
  case 5: MPI_Type_create_indexed_block_c(n, 2, places, inner, &made); break;
  case 6: MPI_Type_create_hindexed_block_c(n, 2, far, inner, &made); break;
  case 7: MPI_Type_create_struct_c(n, lens, far, types, &made); break;
  case 8: MPI_Type_create_subarray_c(2, whole, part, first, MPI_ORDER_C, inner, &made); break;
  default: MPI_Type_create_resized_c(inner, 0, ext + 8 * below(&dice, 4), &made); break;
  }
  return made;
}
#else
#define large(inner, ext) MPI_DATATYPE_NULL
#endif

static MPI_Datatype type(int depth) {
  if (depth == 0) return basic();
  MPI_Datatype inner = type(below(&dice, depth)), made, other;
  int n = 1 + below(&dice, 5), counts[8], places[8];
  MPI_Aint far[8], ext = extent(inner), at = 0;
  if (ext < 0) ext = -ext;
  MPI_Datatype types[8];
  for (int i = 0; i < n; i++) {
    counts[i] = below(&dice, 4);
    at += below(&dice, 3) * ext;
    far[i] = at;
    places[i] = (int)(ext ? at / ext : 0);
    at += counts[i] * ext;
    types[i] = inner;
  }
  int sizes[3] = {2 + below(&dice, 4), 2 + below(&dice, 4), 2 + below(&dice, 4)}, parts[3], starts[3];
  int dealt[3], defaults[3], grid[3], processes = 1;
  for (int i = 0; i < 3; i++) {
    parts[i] = 1 + below(&dice, sizes[i]);
    starts[i] = below(&dice, sizes[i] - parts[i] + 1);
    grid[i] = 1 + below(&dice, 2);
    dealt[i] = below(&dice, 2) ? MPI_DISTRIBUTE_BLOCK : MPI_DISTRIBUTE_CYCLIC;
    defaults[i] = MPI_DISTRIBUTE_DFLT_DARG;
    if (grid[i] == 1 && below(&dice, 2)) dealt[i] = MPI_DISTRIBUTE_NONE;
    processes *= grid[i];
  }
  int order = below(&dice, 2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
  switch (below(&dice, MPI_VERSION >= 4 ? 20 : 13)) {
  case 0: MPI_Type_contiguous(n, inner, &made); break;
  case 1: MPI_Type_vector(n, 1 + below(&dice, 3), 3 + below(&dice, 3), inner, &made); break;
  case 2: MPI_Type_vector(n, 1, -2, inner, &made); break;
  case 3: MPI_Type_create_hvector(n, 2, 3 * ext + 8 * below(&dice, 3), inner, &made); break;
  case 4: MPI_Type_indexed(n, counts, places, inner, &made); break;
  case 5: MPI_Type_create_hindexed(n, counts, far, inner, &made); break;
  case 6:
    for (int i = 0; i < n; i++) places[i] = 3 * i + below(&dice, 2);
    MPI_Type_create_indexed_block(n, 2, places, inner, &made);
    break;
  case 7:
    for (int i = 0; i < n; i++) far[i] = 3 * ext * (n - i);
    MPI_Type_create_hindexed_block(n, 2, far, inner, &made);
    break;
  case 8:
    other = basic();
    types[n - 1] = other;
    far[n - 1] += 16 - far[n - 1] % 16;
    MPI_Type_create_struct(n, counts, far, types, &made);
    break;
  case 9: MPI_Type_create_subarray(3, sizes, parts, starts, order, inner, &made); break;
  case 10: // (Open MPI makes none of some types.)
    made = MPI_DATATYPE_NULL;
    MPI_Type_create_darray(processes, below(&dice, processes), 3, sizes, dealt, defaults, grid, order, inner,
                           &made);
    if (made == MPI_DATATYPE_NULL) MPI_Type_dup(inner, &made);
    break;
  case 11: MPI_Type_create_resized(inner, 0, ext + 8 * below(&dice, 4), &made); break;
  case 12: MPI_Type_dup(inner, &made); break;
  default: made = large(inner, ext); break;
  }
  if (!is_named(inner)) MPI_Type_free(&inner);
  return made;
}

static unsigned char *memory(int fill) {
  unsigned char *at = malloc(SPAN);
  uint64_t state = 7;
  for (int i = 0; i < SPAN; i++) at[i] = fill < 0 ? (unsigned char)next_random(&state) : (unsigned char)fill;
  return at;
}

// What a type is made of, to tell it by.
static void explain(MPI_Datatype type, int depth) {
  int size, integers[64], combiner;
  MPI_Aint addresses[64], lb, ext;
  MPI_Datatype types[64];
#if MPI_VERSION >= 4
  MPI_Count n, a, c, t, counts[64];
  MPI_Type_get_envelope_c(type, &n, &a, &c, &t, &combiner);
#else
  int n, a, c = 0, t, counts[1];
  MPI_Type_get_envelope(type, &n, &a, &t, &combiner);
#endif
  MPI_Type_get_extent(type, &lb, &ext), MPI_Type_size(type, &size);
  fprintf(stderr, "%*scombiner %d, %d bytes in %ld from %ld:", 2 * depth, "", combiner, size, (long)ext, (long)lb);
  if (combiner == MPI_COMBINER_NAMED || n > 64 || c > 64) {
    fprintf(stderr, "\n");
    return;
  }
#if MPI_VERSION >= 4
  MPI_Type_get_contents_c(type, n, a, c, t, integers, addresses, counts, types);
#else
  MPI_Type_get_contents(type, n, a, t, integers, addresses, types);
#endif
  for (int i = 0; i < n; i++) fprintf(stderr, " %d", integers[i]);
  for (int i = 0; i < a; i++) fprintf(stderr, " %ld", (long)addresses[i]);
  for (int i = 0; i < c; i++) fprintf(stderr, " %ld", (long)counts[i]);
  fprintf(stderr, "\n");
  for (int i = 0; i < t; i++) explain(types[i], depth + 1);
}

// Returns 0 if both do the same.
static int compare(MPI_Datatype made, int count) {
  MPI_Aint lb, ext = extent(made), span;
  int size, wrong = 0;
  MPI_Type_get_true_extent(made, &lb, &span);
  MPI_Type_size(made, &size);
  MPI_Aint step = (count - 1) * ext, low = lb + (step < 0 ? step : 0);
  MPI_Aint high = lb + span + (step > 0 ? step : 0), len = (MPI_Aint)size * count;
  if (len == 0 || high - low > SPAN - 64 || len > SPAN - 64) return 0;
  static unsigned char *from, *ours, *theirs, *mine, *yours;
  if (!from) from = memory(-1), ours = memory(0), theirs = memory(0), mine = memory(0), yours = memory(0);
  int at = 5, there = 5;
  memset(ours, 9, len + 32), memset(theirs, 9, len + 32);
  MPI_Pack(from - low, count, made, ours, SPAN, &at, MPI_COMM_WORLD);
  REAL(MPI_Pack)(from - low, count, made, theirs, SPAN, &there, MPI_COMM_WORLD);
  wrong |= at != there || memcmp(ours, theirs, len + 32);
  // Memory that is met twice has no certain bytes after an unpack.
  static unsigned char *ones;
  if (!ones) ones = memory(1);
  memset(yours, 0, high - low);
  there = 0;
  REAL(MPI_Unpack)(ones, SPAN, &there, yours - low, count, made, MPI_COMM_WORLD);
  MPI_Aint met = 0;
  for (MPI_Aint i = 0; i < high - low; i++) met += yours[i];
  if (met == len) {
    memset(mine, 3, high - low + 32), memset(yours, 3, high - low + 32);
    at = there = 5;
    MPI_Unpack(ours, SPAN, &at, mine - low, count, made, MPI_COMM_WORLD);
    REAL(MPI_Unpack)(ours, SPAN, &there, yours - low, count, made, MPI_COMM_WORLD);
    wrong |= at != there || memcmp(mine, yours, high - low + 32);
  }
  return wrong;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rounds = argc > 1 ? atoi(argv[1]) : 2000, wrong = 0;
  for (int i = 0; i < rounds; i++) {
    MPI_Datatype made = type(1 + below(&dice, DEEP));
    MPI_Type_commit(&made);
    int count = below(&dice, 2) ? 1 + below(&dice, 4) : 20 + below(&dice, 400);
    if (compare(made, count) || compare(made, 1) || compare(made, count)) {
      if (++wrong < 5) fprintf(stderr, "type %d, %d times: other bytes\n", i, count), explain(made, 1);
    }
    // Freed by another name, its handle goes to the next one.
    if (!is_named(made)) (i % 2 ? MPI_Type_free : PMPI_Type_free)(&made);
  }
  printf("%d types, %d wrong\n", rounds, wrong);
  MPI_Finalize();
  return wrong > 0;
}
