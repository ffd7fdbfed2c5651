// What a program that calls MPI_Send finds: how many instructions stand before MPI's own.
#include "../../pack/tests/common.h"

static void look(const char *name) {
  const unsigned char *code = dlsym(RTLD_DEFAULT, name);
  int32_t offset;
  memcpy(&offset, code + 3, 4);
  // mov offset(%rip), %rax; jmp *%rax
  if (code[0] == 0x48 && code[1] == 0x8b && code[2] == 0x05 && code[7] == 0xff && code[8] == 0xe0) {
    void *to;
    memcpy(&to, code + 7 + offset, sizeof to);
    printf("%s: 2 instructions, then %s\n", name, to == real(name) ? "MPI's own" : "others");
  } else {
    printf("%s: other instructions\n", name);
  }
}

int main(int argc, char **argv) {
  int sent = 7, come = 0;
  MPI_Request request;
  MPI_Init(&argc, &argv);
  // Each is looked for with its first call.
  MPI_Isend(&sent, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &request);
  MPI_Recv(&come, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Send(&sent, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_SELF);
  PMPI_Send(&sent, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_SELF);
  MPI_Allreduce(&sent, &come, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
  look("MPI_Send");
  look("PMPI_Send");
  look("MPI_Isend");
  look("MPI_Recv");
  look("MPI_Allreduce");
  MPI_Finalize();
  return 0;
}
