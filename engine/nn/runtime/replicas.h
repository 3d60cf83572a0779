// Replicas in one process, as in PyTorch's nn.DataParallel. The first has the inputs of all and computes the loss of
// all. Parts of its tensors go to the others, and theirs come to it. Rows are replicas.
#pragma once
#include "engine/nn/runtime/context.h"

namespace mbench::nn {

// Whether this rank is one of several, and which.
bool is_replicated(const Context& context);
bool is_first_replica(const Context& context);

// Every replica's part to the first one, which gets [replicas, part]; the others get nothing.
Tensor gather_to_first(Context& context, const Tensor& part, Category category, std::string_view what);
// The parts of the first one's `all`, [replicas, part]; the others' `all` is ignored.
void scatter_from_first(Context& context, const Tensor& all, const Tensor& part);

}  // namespace mbench::nn
