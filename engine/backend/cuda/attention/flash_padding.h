// The kernels of our own that fused attention needs where keys are hidden.
#pragma once
#include <cstdint>
#include <string_view>

#include "engine/backend/cuda/device/kernel_stream.h"
#include "engine/ops/attention.h"

namespace mbench::cuda {

// queries[b] = seq and keys[b] = kept keys of sample b, which must be its first ones and at least one.
void count_keys(KernelStream& stream, std::string_view op, const ops::AttentionShape& shape, std::int32_t* queries,
                std::int32_t* keys);

// dk and dv of hidden keys = 0.
void clear_hidden_keys(KernelStream& stream, const ops::AttentionGrad& op);

}  // namespace mbench::cuda
