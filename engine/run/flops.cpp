#include "engine/run/flops.h"

namespace mbench {
namespace {

double weight_flops_per_step(const Point& p) {
  const ModelSpec& m = p.model;
  const double h = static_cast<double>(m.hidden), f = static_cast<double>(m.ffn);
  double per_token =
      static_cast<double>(m.layers) * (3 * h * h + h * h + 2 * h * f) + h * static_cast<double>(m.vocab);
  double per_sample = 0;
  if (m.family == Family::bert) {
    per_token += h * h;           // language-model head's dense layer
    per_sample += h * h + 2 * h;  // pooler and binary head, on one position
  }
  return 6 * static_cast<double>(p.global_batch) * (per_token * static_cast<double>(p.seq) + per_sample);
}

double attention_flops_per_step(const Point& p) {
  const double tokens = static_cast<double>(p.global_batch * p.seq);
  return 12 * static_cast<double>(p.model.layers * p.model.hidden) * static_cast<double>(p.seq) * tokens;
}

}  // namespace

double model_flops(const Point& p) {
  return weight_flops_per_step(p) + attention_flops_per_step(p);
}

double model_flops_causal(const Point& p) {
  return weight_flops_per_step(p) + attention_flops_per_step(p) * (p.model.family == Family::gpt ? 0.5 : 1);
}

}  // namespace mbench
