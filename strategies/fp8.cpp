// Products in FP8: whether those of a rank are as cuBLASLt's want them, and whether their weights can live in FP8 alone. What the
// recipes mean stands in engine/nn/linear/fp8.h; which recipe, and where weights live, is part of the precision (plan.cpp).
#include <cmath>

#include "engine/framework/framework.h"
#include "strategies/routing.h"
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

// What cuBLASLt asks of every dim of an FP8 GEMM: rows of 16 bytes, straight and transposed.
constexpr std::int64_t kMultiple = 16;
// Transformer Engine's MXFP8 tensors consist of whole blocks, along both dims. Codes of NVFP4 are two to a byte: of these 32
// have 16 bytes, and two of its blocks.
constexpr std::int64_t kMxBlock = 32;
// Rows of a weight that share a scale of `blockwise`.
constexpr std::int64_t kScaleBlock = 128;

// The products of a layer's linear parts on a rank: [tokens, in] x [in, out].
struct Gemm {
  std::string name;
  std::int64_t tokens, in, out;
};

class Gemms {
 public:
  explicit Gemms(const Point& p)
      : p_(p),
        tokens_(p.seq / p.cp * p.micro_batch),
        local_(p.sequence_parallel ? tokens_ / p.tp : tokens_),
        multiplied_(p.tp_comm_overlap ? local_ : tokens_) {}

  void add(const AttentionSpec& a) {
    if (a.kv_heads % p_.tp == 0) {
      add(a.qkv);
    } else {
      add(a.queries());
      all.push_back({a.qkv.name, tokens_, a.qkv.in, a.qk_dim + a.v_dim});
    }
    // Keys and values alone.
    if (p_.recompute.regions.has(Region::alternate_gemms))
      for (const std::int64_t dim : {a.qk_dim, a.v_dim})
        all.push_back({a.qkv.name, tokens_, a.qkv.in, a.kv_heads / p_.tp * dim});
    add(a.proj);
  }
  void add(const LatentAttentionSpec& a) {
    for (const LinearSpec* linear : {&a.down, &a.q, &a.kv, &a.proj}) add(*linear);
  }
  void add(const StateMixerSpec& s) { add(s.in), add(s.out); }
  void add(const ShortConvSpec& s) { add(s.in), add(s.out); }
  void add(const LightningSpec& s) { add(s.in), add(s.out); }
  void add(const MlpSpec& m) { add(m.fc1), add(m.fc2); }
  void add(const MoeSpec& m) {
    const std::int64_t dispatched = p_.sequence_parallel ? local_ * p_.expert_tp() : tokens_;
    const double share = static_cast<double>(dispatched * m.active) / static_cast<double>(m.experts);
    const auto each =
        static_cast<std::int64_t>(std::ceil(p_.router.routing == Routing::capacity ? p_.router.factor * share : share));
    const std::int64_t rows = each * p_.ep, etp = p_.expert_tp();
    all.push_back({m.expert.fc1.name, rows, m.expert.fc1.in, m.expert.fc1.out / etp});
    all.push_back({m.expert.fc2.name, rows, m.expert.fc2.in / etp, m.expert.fc2.out});
    if (m.shared) add(*m.shared);
  }
  std::vector<Gemm> all;

 private:
  void add(const LinearSpec& l) {
    switch (l.role) {
      case Role::column:
        return all.push_back({l.name, multiplied_, l.in, l.out / p_.tp});
      case Role::row:
        return all.push_back({l.name, multiplied_, l.in / p_.tp, l.out});
      default:
        return all.push_back({l.name, local_, l.in, l.out});
    }
  }
  const Point& p_;
  std::int64_t tokens_, local_,
      multiplied_;  // of this rank's share of the sequence, between branches, and by one product
};

std::int64_t multiple_of(const Point& p) {
  return p.precision == Precision::nvfp4 || p.fp8_recipe == Fp8Recipe::mxfp8 ? kMxBlock : kMultiple;
}

constexpr Way kWhole = one_of("precision.fp8_parameters", "false"), kIn16Bits = one_of("precision", "bf16");

// Whether a rank may have room for its own part of gradients alone.
bool shards_gradients(const Point& p) {
  return (p.zero != Zero::none && p.zero != Zero::stage_1 && p.zero != Zero::oss) ||
         (p.zero == Zero::stage_1 && framework_of(p.framework)->buckets.early);
}

// Weights in MXFP8 are gathered in 16 bits in the memory of gradients (engine/nn/state/fp8_parameters.h).
MaybeFault refuse_mx_parameters(const Point& p) {
  const Way other = one_of("precision.fp8_recipe", "tensorwise|delayed|blockwise");
  if (shards_gradients(p))
    return not_built_in({one_of("zero", "0|1|oss"), other, kWhole},
                        "precision.fp8_parameters with fp8_recipe mxfp8 and zero {}, whose gradients leave no room for "
                        "gathered weights,",
                        name_of(p.zero));
  if (p.adapter.on())
    return not_built_in({other, kWhole},
                        "precision.fp8_parameters with fp8_recipe mxfp8 and an adapter, whose frozen weights have no "
                        "gradients,");
  return std::nullopt;
}

MaybeFault refuse_parameters(const Point& p) {
  if (!p.fp8_parameters) return std::nullopt;
  if (p.precision == Precision::nvfp4)
    return not_built_in({kWhole}, "precision.fp8_parameters with precision nvfp4 (Megatron-Core's --fp4-param-gather)");
  if (p.precision != Precision::fp8)
    return infeasible({one_of("precision", "fp8"), kWhole}, "precision.fp8_parameters with precision {}",
                      name_of(p.precision));
  if (p.fp8_recipe == Fp8Recipe::rowwise)
    return not_built_in({one_of("precision.fp8_recipe", "tensorwise|delayed|blockwise|mxfp8"), kWhole},
                        "precision.fp8_parameters with fp8_recipe rowwise, whose weights torchao gathers in 16 bits,");
  if (p.offload != Offload::none)
    return not_built_in({one_of("offload", "none"), kWhole}, "precision.fp8_parameters with offload {}",
                        name_of(p.offload));
  if (p.replicas == Replicas::single_process)
    return not_built_in({one_of("replicas", "ranks"), kWhole}, "precision.fp8_parameters with replicas single_process");
  if (p.fp8_recipe == Fp8Recipe::mxfp8)
    if (auto fault = refuse_mx_parameters(p)) return fault;
  // Keys and values that several ranks have whole: each reads rows of its own of the codes.
  const std::int64_t kv_heads = p.model.kv_heads == 0 ? p.model.heads : p.model.kv_heads, rows = 2 * p.model.head_dim();
  if (p.fp8_recipe == Fp8Recipe::blockwise && kv_heads % p.tp != 0 && rows % kScaleBlock != 0)
    return infeasible({divisor("tp", kv_heads), one_of("precision.fp8_recipe", "tensorwise|delayed"), kWhole},
                      "precision.fp8_parameters with fp8_recipe blockwise and tp {}: a rank's own {} rows of keys and "
                      "values of {} heads begin within a "
                      "block of {} rows that share a scale",
                      p.tp, rows, kv_heads, kScaleBlock);
  return std::nullopt;
}

// A weight that is transposed for each use: its codes, which need the scales of the straight ones.
MaybeFault refuse_freed_transposes(const Point& p) {
  if (!framework_of(p.framework)->keeps.fp8_transposes_freed) return std::nullopt;
  constexpr Way kKept = one_of("framework.keep_fp8_weight_transpose_cache", "true");
  const auto refused = [&](std::string_view what) {
    return infeasible({kKept},
                      "keep_fp8_weight_transpose_cache false with {}, whose two sides have scales of their own", what);
  };
  if (p.precision == Precision::nvfp4) return refused("precision nvfp4");
  if (p.fp8_recipe == Fp8Recipe::mxfp8 || p.fp8_recipe == Fp8Recipe::rowwise)
    return refused(fmt::format("fp8_recipe {}", name_of(p.fp8_recipe)));
  return std::nullopt;
}

MaybeFault refuse_layers(const Point& p) {
  const std::int64_t in_16_bits = p.first_layers_in_bf16 + p.last_layers_in_bf16;
  if (in_16_bits == 0) return std::nullopt;
  const Way none =
      one_of(p.first_layers_in_bf16 > 0 ? "precision.first_layers_in_bf16" : "precision.last_layers_in_bf16", "0");
  if (!quantises(p.precision))
    return infeasible({one_of("precision", "fp8|nvfp4"), none}, "precision.{} {} with precision {}",
                      p.first_layers_in_bf16 > 0 ? "first_layers_in_bf16" : "last_layers_in_bf16",
                      std::max(p.first_layers_in_bf16, p.last_layers_in_bf16), name_of(p.precision));
  if (in_16_bits >= p.model.layers)
    return infeasible({kIn16Bits, none}, "precision {} with {} of {} layers in bf16", name_of(p.precision), in_16_bits,
                      p.model.layers);
  if (p.last_layers_in_bf16 > 0 && p.model.mtp_layers > 0)
    return not_built_in({one_of("precision.last_layers_in_bf16", "0")},
                        "precision.last_layers_in_bf16 with multi-token prediction, whose layers stand behind them");
  return std::nullopt;
}

MaybeFault refuse(const Point& p) {
  if (auto fault = refuse_layers(p)) return fault;
  if (auto fault = refuse_parameters(p)) return fault;
  if (p.fp8_recipe != Fp8Recipe::tensorwise && p.precision != Precision::fp8)
    return infeasible({one_of("precision", "fp8"), one_of("precision.fp8_recipe", "tensorwise")},
                      "precision.fp8_recipe {} with precision {}", name_of(p.fp8_recipe), name_of(p.precision));
  if (!quantises(p.precision)) return std::nullopt;
  if (auto fault = refuse_freed_transposes(p)) return fault;
  const std::string precision = std::string(name_of(p.precision));
  const std::int64_t multiple = multiple_of(p);
  if (reads_rows(p))
    return infeasible({one_of("router", "balanced|capacity:1"), kIn16Bits},
                      "precision {} with router {}, whose experts have different numbers of rows here, where its "
                      "GEMMs have multiples of {}",
                      precision, str(p.router), multiple);
  for (const std::int64_t i : kinds_of_layers(p.model)) {
    Gemms gemms(p);
    for (const BranchSpec& branch : layer_of(p.model, i).branches)
      std::visit([&](const auto& mixer) { gemms.add(mixer); }, branch.mixer);
    for (const Gemm& x : gemms.all)
      if (x.tokens % multiple != 0 || x.in % multiple != 0 || x.out % multiple != 0)
        return infeasible({x.tokens % multiple == 0 ? kIn16Bits : within("seq", 1, p.model.positions), kIn16Bits},
                          "precision {}: {} is a GEMM of {} tokens, {} inputs and {} outputs on a rank, and wants "
                          "multiples of {}",
                          precision, x.name, x.tokens, x.in, x.out, multiple);
  }
  return std::nullopt;
}

}  // namespace

Strategy fp8() {
  return {"fp8", {}, refuse, nullptr, nullptr};
}

}  // namespace mbench::strategies
