// Opens a program that was built as a library, for itself alone, as Python opens
// its modules: MPI is then in no one's sight but the module's.
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  void *module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  int (*run)(int, char **) = module ? (int (*)(int, char **))dlsym(module, "main") : NULL;
  if (!run) return fprintf(stderr, "%s\n", dlerror()), 2;
  return run(argc - 1, argv + 1);
}
