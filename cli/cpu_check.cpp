// Compiled for the oldest CPU there is (CMakeLists.txt): what it looks for must not be what ends it.
#include "cli/cpu_check.h"

#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstring>

namespace mbench::cli {
namespace {

[[maybe_unused]] void say(const char* text) {
  [[maybe_unused]] const ssize_t reported = ::write(STDERR_FILENO, text, std::strlen(text));
}

#if defined(__x86_64__)
// What not every compiler's __builtin_cpu_supports knows by name: the bits of Intel's manual.
struct Cpuid {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};
Cpuid cpuid(unsigned leaf, unsigned part) {
  Cpuid r;
  __get_cpuid_count(leaf, part, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}
#endif

}  // namespace

void check_cpu(int, char**, char**) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const Cpuid leaf7 = cpuid(7, 0), leaf7_1 = cpuid(7, 1);
  struct Need {
    const char* name;
    bool needed, there;
  };
  const Need needs[] = {
      {"sse4.2", kCompiledFor.sse42, __builtin_cpu_supports("sse4.2") != 0},
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
      {"avx512vbmi", kCompiledFor.avx512vbmi, __builtin_cpu_supports("avx512vbmi") != 0},
      {"avx512vbmi2", kCompiledFor.avx512vbmi2, __builtin_cpu_supports("avx512vbmi2") != 0},
      {"avx512ifma", kCompiledFor.avx512ifma, __builtin_cpu_supports("avx512ifma") != 0},
      {"avx512bitalg", kCompiledFor.avx512bitalg, __builtin_cpu_supports("avx512bitalg") != 0},
      {"avx512vpopcntdq", kCompiledFor.avx512vpopcntdq, __builtin_cpu_supports("avx512vpopcntdq") != 0},
      {"gfni", kCompiledFor.gfni, __builtin_cpu_supports("gfni") != 0},
      {"avx512fp16", kCompiledFor.avx512fp16, (leaf7.edx >> 23 & 1) != 0},
      {"avxvnni", kCompiledFor.avxvnni, (leaf7_1.eax >> 4 & 1) != 0},
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
