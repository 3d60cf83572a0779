// Data alone: it is compiled with the flags of the whole program, and runs nothing.
#include "cli/cpu_check.h"

namespace mbench::cli {

const InstructionSets kCompiledFor = {
#ifdef __SSE4_2__
    .sse42 = true,
#endif
#ifdef __AVX__
    .avx = true,
#endif
#ifdef __AVX2__
    .avx2 = true,
#endif
#ifdef __FMA__
    .fma = true,
#endif
#ifdef __BMI__
    .bmi = true,
#endif
#ifdef __BMI2__
    .bmi2 = true,
#endif
#ifdef __AVX512F__
    .avx512f = true,
#endif
#ifdef __AVX512VL__
    .avx512vl = true,
#endif
#ifdef __AVX512BW__
    .avx512bw = true,
#endif
#ifdef __AVX512DQ__
    .avx512dq = true,
#endif
#ifdef __AVX512CD__
    .avx512cd = true,
#endif
#ifdef __AVX512VNNI__
    .avx512vnni = true,
#endif
#ifdef __AVX512BF16__
    .avx512bf16 = true,
#endif
#ifdef __AVX512FP16__
    .avx512fp16 = true,
#endif
#ifdef __AVX512VBMI__
    .avx512vbmi = true,
#endif
#ifdef __AVX512VBMI2__
    .avx512vbmi2 = true,
#endif
#ifdef __AVX512IFMA__
    .avx512ifma = true,
#endif
#ifdef __AVX512BITALG__
    .avx512bitalg = true,
#endif
#ifdef __AVX512VPOPCNTDQ__
    .avx512vpopcntdq = true,
#endif
#ifdef __AVXVNNI__
    .avxvnni = true,
#endif
#ifdef __GFNI__
    .gfni = true,
#endif
#ifdef __FMA4__
    .fma4 = true,
#endif
#ifdef __XOP__
    .xop = true,
#endif
};

}  // namespace mbench::cli
