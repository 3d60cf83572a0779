#include "engine/point/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/point/point.h"

namespace mbench {
namespace {

// Of the losses of the first steps. Beside each the worst that was seen between a layout and its serial run, over
// 356 random layouts of 49 small models.
struct Limit {
  Precision precision;
  double loss;
};
constexpr Limit kLimits[] = {
    {Precision::f32, 1e-5},    // 5e-7 seen
    {Precision::bf16, 2e-3},   // 2e-4 seen
    {Precision::fp16, 2e-3},   // 1e-4 seen
    {Precision::tf32, 2e-3},   // not seen: its products round their operands as fp16 does, to 11 bits
    {Precision::fp8, 3e-2},    // e4m3 rounds 16 times as coarsely as bf16
    {Precision::nvfp4, 6e-2},  // e2m1 4 times as coarsely as that, with blocks of 16; gradients round at random
};

// A norm sums over all gradients, each with its own roundings, where a loss is a mean over tokens. Seen over the
// same layouts: 2e-5 in f32, 4e-3 in bf16, 1e-3 in fp16.
constexpr double kNormFactor = 10;

// Training multiplies a difference, step by step. The losses of gpt-bytes-tiny in bf16 at a learning rate of 1e-3
// were 3e-5 apart between tp 1 and tp 2 in the first 10 steps, 3e-4 in the first 50 and 8e-3 in the first 150;
// norms 2e-4, 2e-2 and 6e-1. A layout that computes something else shows at once, so the first steps are held sharply, the
// losses of the later ones to ten times as much, and norms of later ones not at all.
constexpr std::size_t kSharpSteps = 20;
constexpr double kLaterFactor = 10;

}  // namespace

// Moments in 8 bits are rounded to within half a step of their map, 0.4 to 5 % of a value, with the largest of a block for a
// scale; which elements are a block is the layout's where tp cuts a matrix. An update is as far off at most, and moves a weight by
// about the learning rate: 1e-4 of weights of 2e-2, so that it is off by less than the 2e-3 by which bf16 rounds a weight.
Precision tolerance_of(const Point& p) {
  const bool exact = p.precision == Precision::f32 || p.precision == Precision::tf32;
  return exact && p.optimizer == OptimizerKind::adamw8bit ? Precision::bf16 : p.precision;
}

namespace {

// Which tokens a rank dispatches together.
std::string dispatched_together(const Point& p) {
  const std::int64_t of_tp = p.sequence_parallel ? p.tp / p.expert_tp() : 1, parts = p.cp * of_tp;
  if (parts == 1) return "whole sequences";
  // Of cp's ranks each has two chunks, one from either end; an even number of parts of them are ranges again.
  const bool two_chunks = p.cp > 1 && p.cp_communication != CpCommunication::all_to_all && of_tp % 2 == 1;
  if (!two_chunks) return fmt::format("sequences in {} parts", parts);
  return fmt::format("sequences in {} parts of two chunks", parts);
}

}  // namespace

std::string decided_by_layout(const Point& p) {
  const ModelSpec& m = p.model;
  std::string all;
  if (m.experts > 0 && p.router.routing == Routing::capacity)
    all = fmt::format("router {} drops tokens of {}", str(p.router), dispatched_together(p));
  const bool by_matrix = p.optimizer == OptimizerKind::adafactor || p.optimizer == OptimizerKind::muon;
  if (by_matrix && m.kv_heads > 0 && m.kv_heads < m.heads)
    all += fmt::format("{}{} has keys and values {}", all.empty() ? "" : " and ",
                       p.optimizer == OptimizerKind::muon ? "Muon" : "Adafactor",
                       m.kv_heads % p.tp == 0 ? "in the matrix of queries" : "in a matrix of their own");
  return all;
}

double loss_tolerance(Precision precision, std::size_t step) {
  for (const Limit& limit : kLimits)
    if (limit.precision == precision) return limit.loss * (step < kSharpSteps ? 1 : kLaterFactor);
  fail(ErrorKind::internal, "tolerance", "precision {} has no limit", name_of(precision));
}

double repeated_loss_tolerance(Precision precision, std::size_t step) {
  return loss_tolerance(precision, step) * (precision == Precision::f32 ? 0.1 : 1);
}

std::optional<double> gradient_norm_tolerance(Precision precision, std::size_t step) {
  if (step >= kSharpSteps) return std::nullopt;
  return kNormFactor * loss_tolerance(precision, step);
}

double relative_difference(double a, double b, double least) {
  if (!std::isfinite(a) && !std::isfinite(b)) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
  return std::abs(a - b) / std::max({std::abs(a), std::abs(b), least});
}

}  // namespace mbench
