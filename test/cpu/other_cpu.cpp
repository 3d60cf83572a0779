// A program that says it was compiled for a CPU that this one is not (CMakeLists.txt): it must say so, and not run.
#include <cstdio>

#include "cli/cpu_check.h"

namespace {
[[gnu::section(".preinit_array"), gnu::used]] void (*check_first)(int, char**, char**) = mbench::cli::check_cpu;
}

int main() {
  std::puts("ran");
}
