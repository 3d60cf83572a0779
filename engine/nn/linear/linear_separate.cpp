// A linear layer whose outputs are several products of a framework (queries, keys and values; gates and ups), each of which gathers
// the layer's input over tp for itself, keeps what it gathered, and scatters its own gradient: DTensor's ColwiseParallel without a
// PrepareModuleInput around the block. Here they are blocks of the weight's rows, as even as can be.
#include <optional>
#include <utility>

#include "engine/nn/linear/linear.h"
#include "engine/nn/linear/weight_gradient.h"
#include "engine/nn/runtime/communicate.h"
#include "engine/ops/add.h"
#include "engine/ops/bias_add.h"
#include "engine/ops/matmul.h"
#include "engine/ops/run.h"

namespace mbench {
namespace {

struct Block {
  std::int64_t first, count;
};

std::vector<Block> blocks_of(std::int64_t rows, std::int64_t gemms) {
  std::vector<Block> blocks;
  for (std::int64_t i = 0; i < gemms; ++i) {
    const std::int64_t first = rows * i / gemms;
    blocks.push_back({first, rows * (i + 1) / gemms - first});
  }
  return blocks;
}

// The columns that a block makes of all outputs [seq, batch, out].
ops::Matrix columns(const Tensor& t, const Block& b) {
  return {t, t.shape().rows(), b.count, t.shape().cols(), b.first};
}

}  // namespace

Tensor Linear::forward_separate(Context& c, const Tensor& x, Saved& saved) const {
  const Tensor w = rows(weight_->value);
  Tensor y;
  for (const Block& block : blocks_of(w.shape()[0], gemms_)) {
    const Tensor& whole = saved.gathered.emplace_back(communicate(c, input_.forward, x));
    if (!y) y = c.activation({whole.shape()[0], whole.shape()[1], w.shape()[0]}, "linear output");
    run(c.device,
        ops::Matmul{ops::Matrix(whole), ops::Matrix(w.slice(block.first, block.count)).t(), columns(y, block)});
  }
  return communicate(c, output_.forward, y);
}

Tensor Linear::backward_separate(Context& c, const Tensor& dy, Saved& saved) const {
  add_bias_gradient(c, dy);
  const Tensor dproduct = communicate(c, output_.backward, dy), w = rows(weight_->value);
  const std::vector<Block> blocks = blocks_of(w.shape()[0], gemms_);
  const auto add_gradient = [&c, dproduct](const Block& block, const Tensor& whole, const WeightGradient& made) {
    ops::Matmul weight_gradient{columns(dproduct, block).t(), ops::Matrix(whole),
                                ops::Matrix(made.target().slice(block.first, block.count))};
    weight_gradient.beta = made.beta();
    run(c.device, weight_gradient);
  };
  std::optional<WeightGradient> made;
  if (c.later)
    c.leave([this, &c, add_gradient, blocks, gathered = saved.gathered] {
      c.device.host_work(HostWork::gemm);
      WeightGradient all(c, *weight_, rows(weight_->gradient));
      for (std::size_t b = 0; b < blocks.size(); ++b) add_gradient(blocks[b], gathered[b], all);
      all.finish();
    });
  else
    made.emplace(c, *weight_, rows(weight_->gradient));
  Tensor sum;
  std::size_t i = 0;
  for (const Block& block : blocks) {
    const Tensor whole = std::exchange(saved.gathered[i++], Tensor());
    Tensor dx = c.activation(whole.shape(), "linear input gradient");
    run(c.device,
        ops::Matmul{columns(dproduct, block), ops::Matrix(w.slice(block.first, block.count)), ops::Matrix(dx)});
    Communication travelling(c, input_.backward, dx);
    dx.reset();
    if (made) add_gradient(block, whole, *made);
    const Tensor part = travelling.finish();
    if (sum)
      run(c.device, ops::Add{sum, part, sum});
    else
      sum = part;
  }
  if (made) made->finish();
  saved.gathered.clear();
  return sum;
}

}  // namespace mbench
