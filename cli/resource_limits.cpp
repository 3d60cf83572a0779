#include "cli/resource_limits.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace mbench::cli {
namespace {

constexpr unsigned long long kMiB = 1 << 20;
constexpr unsigned long long kBlasBuffer = 128 * kMiB;  // OpenBLAS' for each thread, and for each product that runs

// How many threads OpenBLAS will have, as it finds out itself.
unsigned long long threads(char** environment) {
  for (const char* name : {"OPENBLAS_NUM_THREADS=", "GOTO_NUM_THREADS=", "OMP_NUM_THREADS="})
    for (char** entry = environment; entry && *entry; ++entry)
      if (std::strncmp(*entry, name, std::strlen(name)) == 0)
        if (const int given = std::atoi(*entry + std::strlen(name)); given > 0)
          return static_cast<unsigned long long>(std::min(given, 1024));
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned long long>(std::max(1, CPU_COUNT(&set)))
                                                       : 1;
}

void check(int resource, const char* what, const char* option, unsigned long long need) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= need) return;
  char text[400];
  const int size =
      std::snprintf(text, sizeof text,
                    "mbench: [limits] the limit on %s (ulimit %s) leaves no room for the libraries, got %llu MiB, "
                    "need %llu MiB: raise it, or set OMP_NUM_THREADS to fewer threads\n",
                    what, option, static_cast<unsigned long long>(limit.rlim_cur) / kMiB, need / kMiB);
  const ssize_t reported = ::write(STDERR_FILENO, text, static_cast<std::size_t>(size));
  ::_exit(reported == size ? 3 : 4);
}

}  // namespace

void check_resource_limits(int, char**, char** environment) {
  const unsigned long long buffers = threads(environment) * kBlasBuffer;
  // Beside them a product's own buffer, and the programs themselves: 150 MiB of addresses, 20 of data, and as much again for
  // MPI and the matrices of a quick measurement.
  check(RLIMIT_AS, "address space", "-v", buffers + 2 * kBlasBuffer + 256 * kMiB);
  check(RLIMIT_DATA, "data", "-d", buffers + kBlasBuffer + 128 * kMiB);
}

}  // namespace mbench::cli
