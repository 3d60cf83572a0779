// Fused attention of bf16 operands with GEMMs on the CPU's bf16 instructions (bf16_gemms.h). Scores and their softmax are f32.
// Probabilities and the gradient of scores are operands of further GEMMs. Each is the sum of two bf16 numbers: a single one would round to
// 8 bits, unlike f32 attention (attention.cpp). GEMMs on these instructions are cheap enough.
#pragma once
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/ops/attention.h"

namespace mbench::cpu {

// Returns false and does nothing where there are no such instructions or operands are not bf16. Then attention.cpp and attention_grad.cpp
// compute in f32.
bool attend_natively(CpuOps& cpu, const ops::Attention& op);
bool grad_natively(CpuOps& cpu, const ops::AttentionGrad& op);

}  // namespace mbench::cpu
