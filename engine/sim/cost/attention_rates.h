// How the speed of fused attention depends on its shape. Rates are relative to the shape of a machine file's shares of the peak: a
// causal mask, heads of 128, 8192 positions. Short sequences leave a kernel little work between its start and its end. A mask wastes
// part of the blocks on the diagonal. Narrow heads do more softmax for each matmul.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace mbench::sim {

struct AttentionSize {
  double head_dim = 128;  // of keys and values, their average where they differ
  double positions = 8192;
  bool causal = true;
};

class AttentionRates {
 public:
  // Relative to AttentionSize(); 1 without curves. Interpolates linearly in the logarithms of head_dim and positions, and takes the
  // end's value beyond an end.
  double forward(const AttentionSize& size) const { return at(size, &Curve::forward); }
  double backward(const AttentionSize& size) const { return at(size, &Curve::backward); }

  // An array of {"head_dim", "causal", "positions": [...], "forward_tflops": [...], "backward_tflops": [...], "source"}. One of them
  // must have the shape AttentionSize(). Throws bad_input at `where` and below, for a missing, unknown or impossible key.
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
