// How fast fused attention is by its shape, relative to the one shape that a machine file's shares of the peak are of: a causal mask,
// heads of 128, 8192 positions. Short sequences leave a kernel little to do between its start and its end, a mask wastes part of the
// blocks on the diagonal, and narrow heads do more softmax for each product.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace mbench::sim {

struct AttentionSize {
  double head_dim = 128;  // of keys and values, their mean where they differ
  double positions = 8192;
  bool causal = true;
};

class AttentionRates {
 public:
  // Relative to AttentionSize(): 1 without curves. Between curves and points of them straight lines by the logarithms of head_dim
  // and positions; beyond the ends what the ends have.
  double forward(const AttentionSize& size) const { return at(size, &Curve::forward); }
  double backward(const AttentionSize& size) const { return at(size, &Curve::backward); }

  // An array of {"head_dim", "causal", "positions": [...], "forward_tflops": [...], "backward_tflops": [...], "source"}, of which one is
  // of AttentionSize(). bad_input at `where` and below, for a missing, unknown or impossible key.
  static AttentionRates from_json(const nlohmann::json& json, const std::string& where);

 private:
  struct Curve {
    double head_dim = 0;
    bool causal = false;
    std::vector<double> positions;          // ascending
    std::vector<double> forward, backward;  // of each
  };
  double at(const AttentionSize& size, std::vector<double> Curve::*rates) const;
  std::vector<Curve> curves_;  // by mask, ascending in head_dim
};

}  // namespace mbench::sim
