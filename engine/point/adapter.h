// Low-rank adapters (LoRA, Hu et al. 2021, arXiv 2106.09685): the spec's field `adapter`.
//
// A target is a linear layer y = x W^T whose weight is frozen. It gets two weights that are trained, A [rank, in] and B [out, rank], and
// y = x W^T + alpha / rank * (x A^T) B^T. Everything else of the model is frozen too: embeddings, norms, biases, other linear layers.
// A target's name is Megatron's: queries, keys and values are one layer, with one A and one B.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace mbench {

struct AdapterSpec {
  std::int64_t rank = 0;  // 0: no adapters, everything is trained
  double alpha = 0;
  // Any of kAdapterTargets, in that order.
  std::vector<std::string> targets;
  bool operator==(const AdapterSpec&) const = default;

  bool on() const { return rank > 0; }
  float scale() const { return static_cast<float>(alpha / static_cast<double>(rank)); }
};

inline constexpr const char* kAdapterTargets[] = {"qkv", "proj", "fc1", "fc2"};

// "none", or "lora:16" with what differs from its defaults: "lora:16,alpha=32,targets=qkv+proj". The default alpha is the rank, and the
// default targets are all four. bad_input at `where` for anything else.
AdapterSpec read_adapter(const std::string& text, const std::string& where);
std::string str(const AdapterSpec& adapter);

}  // namespace mbench
