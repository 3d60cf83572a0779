// Fused attention of bf16 operands whose products run on the CPU's bf16 instructions (bf16_gemms.h). Scores and their softmax are
// f32. Probabilities and the gradient of scores, which are operands of further products, are each the sum of two bf16 numbers: one alone
// would round them to 8 bits, which f32 attention (attention.cpp) does not, and products on these instructions cost little.
#pragma once
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/ops/attention.h"

namespace mbench::cpu {

// False, and nothing is done, where there are no such instructions or operands are not bf16: attention.cpp and attention_grad.cpp then
// compute in f32.
bool attend_natively(CpuOps& cpu, const ops::Attention& op);
bool grad_natively(CpuOps& cpu, const ops::AttentionGrad& op);

}  // namespace mbench::cpu
