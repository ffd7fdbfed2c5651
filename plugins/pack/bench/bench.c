// MPI_Pack, MPI_Unpack and messages as the program calls them (with the library
// preloaded: ours) beside the MPI library's own, found in it by name, and memcpy; all
// in one process, in turns, the best of many. Prints nanoseconds for each 8 bytes.
//
//   bench [seconds each]   alone: packing; with two ranks: messages too
#include "../tests/common.h"
#include <time.h>

static double spend = 0.3;
static int rank, ranks;

static double cpu(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef struct {
  const char *name;
  MPI_Datatype type;
  int count;
} Pattern;

static Pattern patterns[32];
static int total;

static void add(const char *name, MPI_Datatype type, int count) {
  MPI_Type_commit(&type);
  patterns[total++] = (Pattern){name, type, count};
}

static void transpose(const char *name, int n) {
  MPI_Datatype column, wide;
  MPI_Type_vector(n, 1, n, MPI_DOUBLE, &column);
  MPI_Type_create_resized(column, 0, sizeof(double), &wide);
  add(name, wide, n);
}

static void vector(const char *name, int n, int block, int stride) {
  MPI_Datatype made;
  MPI_Type_vector(n, block, stride, MPI_DOUBLE, &made);
  add(name, made, 1);
}

static void make(void) {
  transpose("transpose 32 x 32", 32);
  transpose("transpose 512 x 512", 512);
  transpose("transpose 2048 x 2048", 2048);
  vector("vector 64 of 1, stride 2", 64, 1, 2);
  vector("vector 512 of 1, stride 2", 512, 1, 2);
  vector("vector 4096 of 1, stride 2", 4096, 1, 2);
  vector("vector 1M of 1, stride 2", 1 << 20, 1, 2);
  vector("vector 512K of 2, stride 4", 1 << 19, 2, 4);
  vector("vector 128K of 8, stride 16", 1 << 17, 8, 16);
  vector("vector 16K of 64, stride 128", 1 << 14, 64, 128);
  vector("vector 2K of 512, stride 1024", 1 << 11, 512, 1024);
  int counts[] = {1, 3, 2}, sizes[] = {128, 128, 128}, parts[] = {126, 126, 126}, starts[] = {1, 1, 1};
  MPI_Aint places[] = {0, 16, 48};
  MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE, MPI_FLOAT}, made, wide;
  MPI_Type_create_struct(3, counts, places, types, &made);
  MPI_Type_create_resized(made, 0, 64, &wide);
  add("32K structures, 36 of 64 bytes", wide, 1 << 15);
  MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE, &made);
  add("interior of 128 x 128 x 128", made, 1);
  static int at[1 << 16];
  uint64_t state = 3;
  for (int i = 0; i < 1 << 16; i++) at[i] = 3 * i + below(&state, 2);
  MPI_Type_create_indexed_block(1 << 16, 1, at, MPI_DOUBLE, &made);
  add("64K indices, sorted", made, 1);
}

static char *memory, *packed, *other;
static MPI_Aint most = 64 << 20;
enum { KINDS = 3 };

// One call each of memcpy, the library's own, ours.
static void once(const Pattern *p, int unpack, int who, int size) {
  int at = 0;
  if (who == 0) {
    memcpy(unpack ? memory : packed, unpack ? packed : other, (size_t)size);
  } else if (unpack) {
    (who == 1 ? REAL(MPI_Unpack) : MPI_Unpack)(packed, size, &at, memory, p->count, p->type, MPI_COMM_WORLD);
  } else {
    (who == 1 ? REAL(MPI_Pack) : MPI_Pack)(memory, p->count, p->type, packed, size, &at, MPI_COMM_WORLD);
  }
}

static void packing(const Pattern *p, int unpack) {
  int size;
  double best[KINDS] = {1e9, 1e9, 1e9}, end = cpu() + spend;
  MPI_Type_size(p->type, &size);
  size *= p->count;
  int rounds = 1 + 200000 / size;
  do {
    for (int who = 0; who < KINDS; who++) {
      double from = cpu();
      for (int i = 0; i < rounds; i++) once(p, unpack, who, size);
      double took = (cpu() - from) / rounds;
      if (took < best[who]) best[who] = took;
    }
  } while (cpu() < end);
  for (int who = 0; who < KINDS; who++) best[who] *= 8e9 / size;
  printf("%-7s %-30s %8.3f %8.3f %8.3f %8.2f %8.2f\n", unpack ? "unpack" : "pack", p->name, best[0], best[1],
         best[2], best[1] / best[2], best[0] / best[2]);
}

// There and back, seconds.
static double turn(const Pattern *p, int ours) {
  double from = MPI_Wtime();
  MPI_Status status;
  __typeof__(&MPI_Send) send = ours ? MPI_Send : REAL(MPI_Send);
  __typeof__(&MPI_Recv) recv = ours ? MPI_Recv : REAL(MPI_Recv);
  if (rank == 0) send(memory, p->count, p->type, 1, 0, MPI_COMM_WORLD);
  recv(memory, p->count, p->type, 1 - rank, 0, MPI_COMM_WORLD, &status);
  if (rank == 1) send(memory, p->count, p->type, 0, 0, MPI_COMM_WORLD);
  return MPI_Wtime() - from;
}

static void messages(const Pattern *p) {
  int size;
  double best[2] = {1e9, 1e9};
  MPI_Type_size(p->type, &size);
  size *= p->count;
  double end = MPI_Wtime() + spend;
  int go = 1;
  while (go) {
    for (int i = 0; i < 10; i++) {
      for (int ours = 0; ours < 2; ours++) {
        double took = turn(p, ours);
        if (took < best[ours]) best[ours] = took;
      }
    }
    go = MPI_Wtime() < end;
    MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  for (int i = 0; i < 2; i++) best[i] *= 8e9 / size / 2;
  if (rank == 0)
    printf("%-7s %-30s %8s %8.3f %8.3f %8.2f\n", "message", p->name, "", best[0], best[1], best[0] / best[1]);
}

// What a call that is left costs more: a contiguous type, and a basic one.
static void left(const char *name, MPI_Datatype type) {
  double best[2] = {1e9, 1e9};
  enum { CALLS = 20000 };
  for (int round = 0; round < 20; round++) {
    for (int ours = 0; ours < 2; ours++) {
      __typeof__(&MPI_Pack) pack = ours ? MPI_Pack : REAL(MPI_Pack);
      double from = cpu();
      for (int i = 0; i < CALLS; i++) {
        int at = 0;
        pack(memory, 1, type, packed, 4096, &at, MPI_COMM_WORLD);
      }
      double took = (cpu() - from) / CALLS;
      if (took < best[ours]) best[ours] = took;
    }
  }
  printf("left    %-30s %8s %8.1f %8.1f  ns a call\n", name, "", 1e9 * best[0], 1e9 * best[1]);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc > 1) spend = atof(argv[1]);
  memory = malloc(most), packed = malloc(most), other = malloc(most);
  memset(memory, 1, most), memset(packed, 2, most), memset(other, 3, most);
  make();
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (rank == 0) printf("%-7s %-30s %8s %8s %8s %8s %8s\n", "", "ns for 8 bytes", "memcpy", "MPI's", "ours", "MPI/ours", "cpy/ours");
  if (ranks == 1) {
    for (int i = 0; i < total; i++) packing(&patterns[i], 0), packing(&patterns[i], 1);
    MPI_Datatype ten;
    MPI_Type_contiguous(10, MPI_DOUBLE, &ten);
    MPI_Type_commit(&ten);
    left("MPI_DOUBLE", MPI_DOUBLE);
    left("10 doubles, contiguous", ten);
  } else {
    for (int i = 0; i < total; i++) messages(&patterns[i]);
  }
  MPI_Finalize();
  return 0;
}
