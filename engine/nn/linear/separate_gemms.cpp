#include "engine/nn/linear/separate_gemms.h"

#include <optional>
#include <utility>

#include "engine/nn/linear/weight_gradient.h"
#include "engine/nn/runtime/communicate.h"
#include "engine/ops/add.h"
#include "engine/ops/matmul.h"
#include "engine/ops/run.h"

namespace mbench::nn {
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

Tensor SeparateGemms::forward(Context& c, const LinearSite& site, const Tensor& x, LinearSaved& saved) const {
  const Tensor w = site.rows(site.weight->value);
  Tensor y, arrived;
  if (c.keeps().joined_gathers) arrived = communicate_for_each(c, site.input.forward, x);
  for (const Block& block : blocks_of(w.shape()[0], gemms_)) {
    const Tensor& whole = saved.gathered.emplace_back(arrived ? in_order(c, site.input.forward, arrived)
                                                              : communicate(c, site.input.forward, x));
    if (!y) y = c.activation({whole.shape()[0], whole.shape()[1], w.shape()[0]}, "linear output");
    run(c.device,
        ops::Matmul{ops::Matrix(whole), ops::Matrix(w.slice(block.first, block.count)).t(), columns(y, block)});
  }
  return communicate(c, site.output.forward, y);
}

Tensor SeparateGemms::backward(Context& c, const LinearSite& site, const Tensor& dy, LinearSaved& saved) const {
  const Tensor dproduct = communicate(c, site.output.backward, dy), w = site.rows(site.weight->value);
  const std::vector<Block> blocks = blocks_of(w.shape()[0], gemms_);
  const auto add_gradient = [&c, dproduct](const Block& block, const Tensor& whole, const WeightGradient& made) {
    ops::Matmul weight_gradient{columns(dproduct, block).t(), ops::Matrix(whole),
                                ops::Matrix(made.target().slice(block.first, block.count))};
    weight_gradient.beta = made.beta();
    run(c.device, weight_gradient);
  };
  std::optional<WeightGradient> made;
  if (c.later)
    c.leave([site, &c, add_gradient, blocks, gathered = saved.gathered] {
      c.device.host_work(HostWork::gemm);
      WeightGradient all(c, *site.weight, site.rows(site.weight->gradient));
      for (std::size_t b = 0; b < blocks.size(); ++b) add_gradient(blocks[b], gathered[b], all);
      all.finish();
    });
  else
    made.emplace(c, *site.weight, site.rows(site.weight->gradient));
  Tensor sum;
  std::size_t i = 0;
  for (const Block& block : blocks) {
    const Tensor whole = std::exchange(saved.gathered[i++], Tensor());
    Tensor dx = c.activation(whole.shape(), "linear input gradient");
    run(c.device,
        ops::Matmul{columns(dproduct, block), ops::Matrix(w.slice(block.first, block.count)), ops::Matrix(dx)});
    Communication travelling(c, site.input.backward, dx);
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

}  // namespace mbench::nn
