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

// How the frozen weights of linear layers in the model's layers are kept. In 4 bits they are NF4 (engine/ops/nf4.h; QLoRA, Dettmers et
// al. 2023, arXiv:2305.14314), and are dequantised before each GEMM.
enum class FrozenBase : std::uint8_t {
  model,       // in the model's type, as all others
  nf4,         // blocks of 64, with scales in f32
  nf4_double,  // with these in 8 bits, by blocks of 256
};

struct AdapterSpec {
  std::int64_t rank = 0;  // 0: no adapters, everything is trained
  double alpha = 0;
  // Any of kAdapterTargets, in that order.
  std::vector<std::string> targets;
  FrozenBase base = FrozenBase::model;
  bool operator==(const AdapterSpec&) const = default;

  bool on() const { return rank > 0; }
  bool in_4_bits() const { return base != FrozenBase::model; }
  float scale() const { return static_cast<float>(alpha / static_cast<double>(rank)); }
};

inline constexpr const char* kAdapterTargets[] = {"qkv", "proj", "fc1", "fc2"};

// "none", or "lora:16" with what differs from its defaults: "lora:16,alpha=32,targets=qkv+proj,base=nf4". The default alpha is the rank,
// the default targets are all four, and the default base is the model's type. bad_input at `where` for anything else.
AdapterSpec read_adapter(const std::string& text, const std::string& where);
std::string str(const AdapterSpec& adapter);

}  // namespace mbench
