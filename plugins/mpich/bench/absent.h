/* One process of a job whose others are not there: a process manager (PMI-1) answers for them
 * with the process's own cards, each on a node of its own, and MPICH's collectives find in all
 * what this process has.
 *
 * For that the first bytes of some functions of libmpi are written over, which are found in
 * its file by name; of a library without its table of symbols (the distribution's) a start is
 * all that can be had.
 */
#include <elf.h>
#include <link.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- collectives ---- */

/* The size of the communicator that collectives are of, and this process's rank there. */
static int absent_ranks, absent_rank;

/* (MPICH's handles of its own datatypes have their sizes in the second byte.) */
static size_t bytes_of(MPI_Aint count, MPI_Datatype datatype)
{
    return (size_t) count * ((unsigned) datatype >> 8 & 0xff);
}

static int absent_allreduce(const void *from, void *to, MPI_Aint count, MPI_Datatype datatype,
                            MPI_Op op, void *comm, void *error)
{
    (void) op, (void) comm, (void) error;
    if (from != MPI_IN_PLACE)
        memcpy(to, from, bytes_of(count, datatype));
    return MPI_SUCCESS;
}

static int absent_allgather(const void *from, MPI_Aint sent, MPI_Datatype sent_type, void *to,
                            MPI_Aint count, MPI_Datatype datatype, void *comm, void *error)
{
    (void) sent, (void) sent_type, (void) comm, (void) error;
    size_t bytes = bytes_of(count, datatype);
    char *all = to, *mine = all + (size_t) absent_rank * bytes;
    if (from != MPI_IN_PLACE)
        memcpy(mine, from, bytes);
    for (int rank = 0; rank < absent_ranks; rank++)
        if (rank != absent_rank)
            memcpy(all + (size_t) rank * bytes, mine, bytes);
    return MPI_SUCCESS;
}

/* A broadcast of this process's, or a barrier. */
static int absent_nothing(void)
{
    return MPI_SUCCESS;
}

static const struct {
    const char *name;
    const void *in_its_place;
} replaced[] = {
    {"MPIR_Allreduce", absent_allreduce}, {"MPIR_Allreduce_impl", absent_allreduce},
    {"MPIR_Allreduce_allcomm_auto", absent_allreduce},
    {"MPIR_Allgather", absent_allgather}, {"MPIR_Barrier", absent_nothing},
    {"MPIR_Bcast", absent_nothing}, {"MPIR_Bcast_impl", absent_nothing},
    {"MPIR_Bcast_allcomm_auto", absent_nothing},
};

/* Writes a jump over a function's first bytes. */
static int redirect(char *from, const void *to)
{
    static const unsigned char jump[] = { 0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3 };
    unsigned char code[sizeof jump];
    memcpy(code, jump, sizeof jump);
    memcpy(code + 2, &to, sizeof to);
    uintptr_t page = (uintptr_t) from & ~(uintptr_t) 4095;
    size_t len = (uintptr_t) from + sizeof code - page;
    if (mprotect((void *) page, len, PROT_READ | PROT_WRITE | PROT_EXEC))
        return -1;
    memcpy(from, code, sizeof code);
    return mprotect((void *) page, len, PROT_READ | PROT_EXEC);
}

/* Of libmpi, once it is seen. */
static int in_library(struct dl_phdr_info *library, size_t size, void *found)
{
    (void) size;
    if (!strstr(library->dlpi_name, "/libmpi.so"))
        return 0;
    FILE *file = fopen(library->dlpi_name, "r");
    if (!file || fseek(file, 0, SEEK_END))
        return -1;
    long bytes = ftell(file);
    char *image = mmap(NULL, (size_t) bytes, PROT_READ, MAP_PRIVATE, fileno(file), 0);
    fclose(file);
    if (image == MAP_FAILED)
        return -1;
    const Elf64_Ehdr *head = (const Elf64_Ehdr *) image;
    const Elf64_Shdr *sections = (const Elf64_Shdr *) (image + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        const Elf64_Sym *symbols = (const Elf64_Sym *) (image + sections[i].sh_offset);
        const char *names = image + sections[sections[i].sh_link].sh_offset;
        for (size_t at = 0; at < sections[i].sh_size / sizeof *symbols; at++)
            for (size_t r = 0; r < sizeof replaced / sizeof *replaced; r++)
                if (symbols[at].st_value && !strcmp(names + symbols[at].st_name, replaced[r].name))
                    *(int *) found += !redirect((char *) library->dlpi_addr + symbols[at].st_value,
                                                replaced[r].in_its_place);
    }
    munmap(image, (size_t) bytes);
    return 1;
}

/* Returns true if collectives can be called from now on; before MPI is started. */
static int absent_collectives(void)
{
    int found = 0;
    dl_iterate_phdr(in_library, &found);
    return found == sizeof replaced / sizeof *replaced;
}

/* ---- orders without a rule ---- */

static int scattered(int rank)
{
    unsigned hash = (unsigned) rank * 2654435761u;
    return (int) ((hash ^ hash >> 15) >> 1);
}

/* All but the first, which is this process. */
static void scatter(int *ranks, int count)
{
    for (int at = 1; at < count; at++) {
        int other = 1 + scattered(at) % (count - 1), this = ranks[at];
        ranks[at] = ranks[other];
        ranks[other] = this;
    }
}

/* ---- the process manager ---- */

static struct {
    char key[128], value[1024];
} store[256];
static int stored;

/* A key without its numbers: every rank's is the process's own. */
static void plain(char *key)
{
    char *to = key;
    for (char *at = key; *at; at++)
        if (*at < '0' || *at > '9')
            *to++ = *at;
        else if (to == key || to[-1] != '#')
            *to++ = '#';
    *to = 0;
}

static void field(const char *line, const char *name, char *to, size_t size)
{
    *to = 0;
    const char *at = strstr(line, name);
    if (at) {
        at += strlen(name);
        /* (A value goes to the line's end.) */
        size_t len = strcspn(at, strcmp(name, "value=") ? " \n" : "\n");
        if (len >= size)
            len = size - 1;
        memcpy(to, at, len);
        to[len] = 0;
    }
}

static void answer(FILE * to, const char *line, int size)
{
    char command[64], key[128], value[1024];
    field(line, "cmd=", command, sizeof command);
    field(line, "key=", key, sizeof key);
    if (!strcmp(command, "init"))
        fputs("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n", to);
    else if (!strcmp(command, "get_maxes"))
        fputs("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n", to);
    else if (!strcmp(command, "get_appnum"))
        fputs("cmd=appnum appnum=0\n", to);
    else if (!strcmp(command, "get_my_kvsname"))
        fputs("cmd=my_kvsname kvsname=kvs_of_nobody\n", to);
    else if (!strcmp(command, "get_universe_size"))
        fprintf(to, "cmd=universe_size size=%d\n", size);
    else if (!strcmp(command, "barrier_in"))
        fputs("cmd=barrier_out rc=0\n", to);
    else if (!strcmp(command, "put")) {
        plain(key);
        field(line, "value=", value, sizeof value);
        int at = 0;
        while (at < stored && strcmp(store[at].key, key))
            at++;
        if (at < 256) {
            strcpy(store[at].key, key);
            strcpy(store[at].value, value);
            stored += at == stored;
        }
        fputs("cmd=put_result rc=0 msg=success\n", to);
    } else if (!strcmp(command, "get") && !strcmp(key, "PMI_process_mapping"))
        fprintf(to, "cmd=get_result rc=0 msg=success value=(vector,(0,%d,1))\n", size);
    else if (!strcmp(command, "get")) {
        plain(key);
        for (int at = 0; at < stored; at++)
            if (!strcmp(store[at].key, key)) {
                fprintf(to, "cmd=get_result rc=0 msg=success value=%s\n", store[at].value);
                return;
            }
        fputs("cmd=get_result rc=-1 msg=key_not_found value=unknown\n", to);
    } else if (!strcmp(command, "finalize"))
        fputs("cmd=finalize_ack rc=0\n", to);
    else
        fprintf(to, "cmd=%s rc=-1 msg=unknown\n", command);
}

/* Calls `body` in a process that is `rank` of a job of so many, before MPI is started there. */
static int absent_others(int rank, int size, void (*body) (int size))
{
    int ends[2], status = 1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) {
        perror("socketpair");
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        const struct {
            const char *name;
            int value;
        } told[] = { {"PMI_FD", ends[1]}, {"PMI_RANK", rank}, {"PMI_SIZE", size} };
        close(ends[0]);
        for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
            char number[16];
            snprintf(number, sizeof number, "%d", told[i].value);
            setenv(told[i].name, number, 1);
        }
        absent_ranks = size;
        absent_rank = rank;
        body(size);
        fflush(stdout);
        /* There is nobody to leave together with. */
        _exit(0);
    }
    close(ends[1]);
    FILE *from = fdopen(ends[0], "r"), *to = fdopen(dup(ends[0]), "w");
    char line[4096];
    while (from && to && fgets(line, sizeof line, from)) {
        answer(to, line, size);
        fflush(to);
    }
    waitpid(child, &status, 0);
    return status != 0;
}
