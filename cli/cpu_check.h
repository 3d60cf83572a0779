// Whether this CPU has the instructions that the program was compiled for, looked at before any of them runs.
#pragma once

namespace mbench::cli {

// Where one is missing, says which and ends the process with exit code 3. As the loader calls it, before all initialisation.
void check_cpu(int argc, char** argv, char** environment);

// The instruction sets that this program may use, by the flags it was compiled with.
struct InstructionSets {
  bool sse42 = false, avx = false, avx2 = false, fma = false, bmi = false, bmi2 = false;
  bool avx512f = false, avx512vl = false, avx512bw = false, avx512dq = false, avx512cd = false, avx512vnni = false;
  bool avx512bf16 = false, avx512fp16 = false, avx512vbmi = false, avx512vbmi2 = false, avx512ifma = false;
  bool avx512bitalg = false, avx512vpopcntdq = false, avxvnni = false, gfni = false, fma4 = false, xop = false;
};
extern const InstructionSets kCompiledFor;

}  // namespace mbench::cli
