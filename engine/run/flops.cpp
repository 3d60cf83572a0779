#include "engine/run/flops.h"

#include <algorithm>
#include <map>

#include "engine/point/adapter_weights.h"
#include "engine/point/point.h"

namespace mbench {
namespace {

// Of one pass over these weights: 2 for each token that meets one.
double flops_of_a_pass(const Point& p, const std::vector<WeightSpec>& all) {
  double per_token = 0, per_sample = 0;
  for (const WeightSpec& w : all) {
    const double weights = static_cast<double>(w.shape.numel());
    if (w.meets == Meets::every_token) per_token += weights;
    if (w.meets == Meets::routed_token) per_token += weights * w.share;
    if (w.meets == Meets::one_token) per_sample += weights;
  }
  return 2 * static_cast<double>(p.global_batch) * (per_token * static_cast<double>(p.seq) + per_sample);
}

// A forward, and a backward for the inputs' gradients and one for the weights', which frozen weights have not.
double weight_flops_per_step(const Point& p) {
  const double model = flops_of_a_pass(p, weights_of(p.model, p.model.vocab));
  if (!p.adapter.on()) return 3 * model;
  std::vector<WeightSpec> trained = adapter_weights_of(p.model, p.adapter);
  const double of_trained = 3 * flops_of_a_pass(p, trained);
  std::erase_if(trained, [](const WeightSpec& w) { return !w.thawed; });  // which are the model's too
  return 2 * (model - flops_of_a_pass(p, trained)) + of_trained;
}

// Of a scan's forward for each token, as Megatron-LM counts (training.py, mamba_layer_flops: 7 for each element of the states; for
// Gated DeltaNet 4 products of a head's state). Of the first Mamba 9, as its own repository counts (flops_selective_scan_fn).
double scan_flops(const StateMixerSpec& s) {
  const double state = static_cast<double>(s.heads * s.head_dim * s.state_dim);
  return (s.selective() ? 9 : s.kind == MixerKind::mamba2 ? 7 : 8) * state;
}

// Of lightning attention likewise: k v^T and its sum with what decays, and h^T q.
double scan_flops(const LightningSpec& s) {
  return 5 * static_cast<double>(s.heads * s.dim * s.dim);
}

// The share of all tokens that is in documents of each length, where attention cuts them into chunks.
using Lengths = std::map<std::int64_t, double>;
Lengths lengths_of(const Point& p, std::int64_t chunk) {
  const DocumentsOrNone documents = in_chunks(documents_of(p.document_lengths, p.seq, p.seed), p.seq, chunk);
  if (!documents) return {{p.seq, 1.0}};
  Lengths shares;
  for (std::int64_t d = 0; d < documents->count(); ++d) {
    const std::int64_t length = documents->end(d) - documents->first(d);
    shares[length] += static_cast<double>(length) / static_cast<double>(p.seq);
  }
  return shares;
}

// Products of Q with K and of probabilities with V, full square and causal. Scans cost the same in both.
struct AttentionFlops {
  double full = 0, causal = 0;
};
AttentionFlops attention_flops_per_step(const Point& p) {
  const double tokens = static_cast<double>(p.global_batch * p.seq);
  AttentionFlops flops;
  std::map<std::int64_t, Lengths> by_chunk;
  for (const std::int64_t chunk : p.model.attention_chunks()) by_chunk[chunk] = lengths_of(p, chunk);
  // Of a window the full variant has so many keys for every query, the causal one those that are there.
  const auto add = [&](std::int64_t heads, std::int64_t qk_dim, std::int64_t v_dim, bool causal, std::int64_t window,
                       const Lengths& lengths) {
    const double a_key = 6 * static_cast<double>(heads * (qk_dim + v_dim));
    for (const auto& [length, share] : lengths) {
      const double seq = static_cast<double>(length), of_tokens = share * tokens;
      const double keys = window > 0 ? static_cast<double>(std::min(window, length)) : seq;
      const double full = a_key * keys * of_tokens;
      flops.full += full;
      if (keys < seq)
        flops.causal += a_key * (keys * (keys + 1) / 2 + (seq - keys) * keys) / seq * of_tokens;
      else
        flops.causal += causal ? full / 2 : full;
    }
  };
  const auto add_layer = [&](std::int64_t i) {
    for (const BranchSpec& branch : layer_of(p.model, i).branches)
      if (const auto* a = std::get_if<AttentionSpec>(&branch.mixer))
        add(a->heads, a->qk_dim, a->v_dim, a->causal, a->window, by_chunk.at(a->chunk));
      else if (const auto* latent = std::get_if<LatentAttentionSpec>(&branch.mixer))
        add(latent->heads, latent->qk_dim(), latent->v_dim, latent->causal, 0, by_chunk.at(0));
      else if (const auto* lightning = std::get_if<LightningSpec>(&branch.mixer))
        flops.full += 3 * scan_flops(*lightning) * tokens, flops.causal += 3 * scan_flops(*lightning) * tokens;
      else if (const auto* state = std::get_if<StateMixerSpec>(&branch.mixer))
        flops.full += 3 * scan_flops(*state) * tokens, flops.causal += 3 * scan_flops(*state) * tokens;
  };
  for (std::int64_t i = 0; i < p.model.layers; ++i) add_layer(i);
  for (std::int64_t depth = 0; depth < p.model.mtp_layers; ++depth) add_layer(p.model.layer_of_depth(depth));
  return flops;
}

}  // namespace

double model_flops(const Point& p) {
  return weight_flops_per_step(p) + attention_flops_per_step(p).full;
}

double model_flops_causal(const Point& p) {
  return weight_flops_per_step(p) + attention_flops_per_step(p).causal;
}

}  // namespace mbench
