#include "engine/point/sizes.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/point/point.h"

namespace mbench {
namespace {

constexpr double kMost = 4611686018427387904.0;  // 2^62
// Planning and simulating a step takes 1 to 4 s for so many, and 10 s where each stage has thousands of chunks.
constexpr std::int64_t kMostPassages = std::int64_t{1} << 21;

}  // namespace

void check_sizes(const Point& p) {
  const ModelSpec& m = p.model;
  // In double, which no product of these leaves.
  const double hidden = static_cast<double>(m.hidden), seq = static_cast<double>(p.seq),
               layers = static_cast<double>(m.layers), heads = static_cast<double>(m.heads),
               words = static_cast<double>(m.vocab) + static_cast<double>(p.vocab_multiple_used() * p.tp),
               batch = static_cast<double>(std::max(p.global_batch, p.micro_batch)),
               columns = heads * static_cast<double>(m.head_dim()),
               experts = static_cast<double>(std::max<std::int64_t>(1, m.experts + m.shared_experts)),
               ffn = static_cast<double>(std::max(m.ffn, m.expert_ffn));
  const auto check = [](const char* what, double count) {
    if (count >= kMost)
      fail(ErrorKind::infeasible, "sizes", "{}, got 2^{:.1f}, need less than 2^62: smaller sizes", what,
           std::log2(count));
  };
  check("bytes of weights and of what the optimizer keeps of them",
        16 * (layers * hidden * (4 * columns + 3 * ffn * experts) +
              hidden * (2 * words + static_cast<double>(m.positions))));
  check("bytes of a step's activations", 4 * batch * seq *
                                             (layers * (16 * hidden + 8 * columns + 6 * ffn) + 3 * words) /
                                             static_cast<double>(p.dp * p.pp));
  // Attention numbers every score, for its dropout.
  check("attention scores of a step", batch * heads * seq * seq);
  if (p.attention == AttentionKind::core)
    check("bytes of a step's attention scores",
          4 * layers * batch * heads * seq * seq / static_cast<double>(p.dp * p.pp));
  const std::int64_t stages = p.pp * p.virtual_stages;
  if (p.micro_batches() > kMostPassages / stages)
    fail(ErrorKind::infeasible, "sizes",
         "micro batches times stages, got {} x {}, need at most {}: a larger micro_batch or more dp", p.micro_batches(),
         stages, kMostPassages);
}

}  // namespace mbench
