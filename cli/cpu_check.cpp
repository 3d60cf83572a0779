// Compiled for the oldest CPU there is (CMakeLists.txt): what it looks for must not be what ends it.
#include "cli/cpu_check.h"

#include <unistd.h>

#include <cstring>

namespace mbench::cli {
namespace {

[[maybe_unused]] void say(const char* text) {
  [[maybe_unused]] const ssize_t told = ::write(STDERR_FILENO, text, std::strlen(text));
}

}  // namespace

void check_cpu(int, char**, char**) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  struct Need {
    const char* name;
    bool needed, there;
  };
  const Need needs[] = {{"sse4.2", kCompiledFor.sse42, __builtin_cpu_supports("sse4.2") != 0},
                        {"avx", kCompiledFor.avx, __builtin_cpu_supports("avx") != 0},
                        {"avx2", kCompiledFor.avx2, __builtin_cpu_supports("avx2") != 0},
                        {"fma", kCompiledFor.fma, __builtin_cpu_supports("fma") != 0},
                        {"bmi", kCompiledFor.bmi, __builtin_cpu_supports("bmi") != 0},
                        {"bmi2", kCompiledFor.bmi2, __builtin_cpu_supports("bmi2") != 0},
                        {"avx512f", kCompiledFor.avx512f, __builtin_cpu_supports("avx512f") != 0},
                        {"avx512vl", kCompiledFor.avx512vl, __builtin_cpu_supports("avx512vl") != 0},
                        {"avx512bw", kCompiledFor.avx512bw, __builtin_cpu_supports("avx512bw") != 0},
                        {"avx512dq", kCompiledFor.avx512dq, __builtin_cpu_supports("avx512dq") != 0},
                        {"avx512cd", kCompiledFor.avx512cd, __builtin_cpu_supports("avx512cd") != 0},
                        {"avx512vnni", kCompiledFor.avx512vnni, __builtin_cpu_supports("avx512vnni") != 0},
                        {"avx512bf16", kCompiledFor.avx512bf16, __builtin_cpu_supports("avx512bf16") != 0},
                        {"fma4", kCompiledFor.fma4, __builtin_cpu_supports("fma4") != 0},
                        {"xop", kCompiledFor.xop, __builtin_cpu_supports("xop") != 0}};
  bool missing = false;
  for (const Need& need : needs) {
    if (!need.needed || need.there) continue;
    say(missing ? ", " : "mbench: [cpu] this program is compiled for a CPU that has what this one has not, got no ");
    say(need.name);
    missing = true;
  }
  if (!missing) return;
  say(": build it on this machine, or with -DMBENCH_NATIVE=OFF (and -DMBENCH_ARCH=x86-64-v3 or older)\n");
  ::_exit(3);
#endif
}

}  // namespace mbench::cli
