#include "engine/backend/cuda/attention/flash_padding.h"
#include "engine/backend/cuda/attention/padding.cuh"

namespace mbench::cuda {

void count_keys(KernelStream& stream, std::string_view op, const ops::AttentionShape& shape, std::int32_t* queries,
                std::int32_t* keys) {
  enqueue_count_keys(stream, op, shape, queries, keys);
}

void clear_hidden_keys(KernelStream& stream, const ops::AttentionGrad& op) {
  enqueue_clear_hidden_keys(stream, op);
}

}  // namespace mbench::cuda
