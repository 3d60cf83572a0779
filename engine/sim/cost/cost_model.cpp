#include "engine/sim/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <tuple>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/fp8.h"
#include "engine/ops/attention_pieces.h"

namespace mbench::sim {

CostModel::CostModel(Machine machine, const Framework& framework, double share, Precision precision, int ranks_on_node,
                     bool fills)
    : machine_(std::move(machine)),
      share_(share),
      ranks_on_node_(ranks_on_node),
      fills_(fills),
      tf32_(precision == Precision::tf32),
      precision_(precision),
      bandwidth_(machine_.device.memory_bandwidth * machine_.device.memory_efficiency * share),
      streaming_(bandwidth_ * framework.traffic_efficiency),
      f32_flops_(machine_.device.peak_flops[static_cast<std::size_t>(Precision::f32)] * share),
      attention_(framework.attention),
      ordered_gradients_(framework.attention_workspace && framework.keeps.deterministic_attention &&
                         !machine_.immediate),
      attention_forward_(framework.attention_forward),
      attention_backward_(framework.attention_backward),
      unfused_(framework.unfused) {
  if (machine_.measured) std::tie(tables_, longer_) = machine_.measured->tables(ranks_on_node);
}

// The units that compute products of a storage type. A device without 16-bit units computes in f32, as the
// CPU does.
Precision CostModel::units_of(DType dtype) const {
  const Precision wanted = is_fp8(dtype)          ? Precision::fp8
                           : dtype == DType::u8   ? Precision::nvfp4  // packed codes of 4 bits
                           : dtype == DType::f16  ? Precision::fp16
                           : dtype == DType::bf16 ? Precision::bf16
                           : tf32_                ? Precision::tf32
                                                  : Precision::f32;
  return machine_.device.peak_flops[static_cast<std::size_t>(wanted)] > 0 ? wanted : Precision::f32;
}

double CostModel::sustained_flops(DType dtype) const {
  const auto i = static_cast<std::size_t>(units_of(dtype));
  return machine_.device.peak_flops[i] * machine_.gemm.sustained[i] * share_ * machine_.device.power_share;
}

namespace {

// How many tiles of `tile` rows hold `mean` rows on average, where those are normally distributed: the sum over i of the probability that
// there are more than i * tile of them.
double tiles_along(double mean, double deviation, double tile) {
  if (deviation == 0) return std::ceil(mean / tile);
  constexpr double kWide = 5;  // deviations
  double i = std::max(0.0, std::floor((mean - kWide * deviation) / tile)), tiles = i;
  for (; i * tile < mean + kWide * deviation; ++i)
    tiles += std::erfc((i * tile + 0.5 - mean) / (deviation * std::numbers::sqrt2)) / 2;
  return tiles;
}

}  // namespace

double CostModel::tiled(const GemmSize& s) const {
  const double m = static_cast<double>(s.m), n = static_cast<double>(s.n), k = static_cast<double>(s.k),
               batch = static_cast<double>(s.batch), parts = static_cast<double>(s.parts);
  const double units = std::max(1.0, machine_.device.multiprocessors * share_);
  const double unit_flops = sustained_flops(s.dtype) * (s.accumulates ? machine_.gemm.accumulating : 1) / units;
  double best = std::numeric_limits<double>::max();
  for (const GemmTile& t : machine_.gemm.tiles) {
    const double tiles = tiles_along(m, s.deviation, t.m) * std::ceil(n / t.n) * batch;
    for (double split = 1; split <= 16; split *= 2) {
      if (split > 1 && (tiles * split > 2 * units || k / split < 2 * machine_.gemm.k_overhead)) break;
      const double waves = std::ceil(parts * tiles * split / units) / parts;
      double seconds = waves * 2 * t.m * t.n * (k / split + machine_.gemm.k_overhead) / (unit_flops * t.efficiency);
      if (split > 1) seconds += traffic(2 * split * m * n * batch * 4);
      best = std::min(best, seconds);
    }
  }
  return best;
}

// Products of a batch are shared out among the threads whole, where there are as many: each takes what it takes where every core
// computes on one thread.
std::optional<double> CostModel::measured_gemm(const GemmSize& s) const {
  if (!tables_ || tf32_) return std::nullopt;
  const auto seconds = [&](const RankTables& tables) -> std::optional<double> {
    const auto grid = tables.gemms.find({s.form, s.dtype});
    if (grid == tables.gemms.end()) return std::nullopt;
    const double m = static_cast<double>(s.m), n = static_cast<double>(s.n), k = static_cast<double>(s.k);
    return static_cast<double>(s.batch) * 2 * m * n * k / grid->second.at(m, n, k) * longer_;
  };
  if (s.batch >= tables_->threads && tables_->threads > 1)
    for (const RankTables& each : machine_.measured->by_ranks)
      if (each.threads == 1)
        if (const auto alone = seconds(each)) return *alone / tables_->threads;
  return seconds(*tables_);
}

std::optional<double> CostModel::measured_seconds(std::string_view op, const Cost& cost) const {
  if (!tables_) return std::nullopt;
  const auto curve = tables_->ops.find(std::pair(std::string(op), precision_));
  if (curve == tables_->ops.end()) return std::nullopt;
  return curve->second.at(cost.matmul ? cost.flops : cost.bytes) * longer_;
}

double CostModel::gemm_seconds(const GemmSize& size, const Cost& cost) {
  if (const auto measured = measured_gemm(size)) return *measured;
  const auto [it, fresh] = gemms_.try_emplace(size, 0);
  if (fresh) it->second = tiled(size);
  return std::max(it->second, traffic(cost.bytes)) + machine_.device.kernel_latency;
}

double CostModel::epilogue_seconds(const Cost& cost) const {
  return machine_.immediate ? streaming_seconds(cost) : cost.flops / f32_flops_;
}

double CostModel::attention_seconds(const AttentionSize& size, const Cost& cost, DType dtype, bool backward) const {
  const Machine& m = machine_;
  const AttentionSpeed* speed = m.attention_on(attention_);
  if (!speed) return std::numeric_limits<double>::infinity();  // a bound may ask; why_lacking() refuses the point
  const double reached = backward ? speed->backward * speed->by_shape.backward(size) * attention_backward_
                                  : speed->forward * speed->by_shape.forward(size) * attention_forward_;
  const double flops =
      m.device.peak_flops[static_cast<std::size_t>(units_of(dtype))] * share_ * m.device.power_share * reached;
  return std::max(cost.flops / flops, traffic(cost.bytes)) + machine_.device.kernel_latency;
}

double CostModel::ordered_gradient_seconds(std::int64_t samples, std::int64_t heads, std::int64_t seq) const {
  if (!ordered_gradients_) return 0;
  return traffic(2.0 * static_cast<double>(ops::score_gradient_bytes(samples, heads, seq)));
}

double CostModel::streaming_seconds(const Cost& cost) const {
  return std::max(cost.bytes / streaming_, cost.flops / f32_flops_) + machine_.device.kernel_latency;
}

double CostModel::streaming_seconds(const Cost& cost, const UnfusedOp& op) const {
  const bool f32 = precision_ == Precision::f32 || precision_ == Precision::tf32;
  const double bytes = cost.bytes * (f32 ? op.traffic_f32 : op.traffic);
  return std::max(bytes / streaming_, cost.flops / f32_flops_) + op.calls * machine_.device.kernel_latency;
}

const UnfusedOp* CostModel::unfused(std::string_view op) const {
  if (unfused_.empty()) return nullptr;
  const auto found = unfused_.find(op);
  return found == unfused_.end() ? nullptr : &found->second;
}

double CostModel::host_seconds(const Cost& cost) const {
  if (machine_.immediate) return streaming_seconds(cost);
  return cost.bytes * ranks_on_node_ / (machine_.host.memory_bandwidth * machine_.host.adam_efficiency);
}

double CostModel::host_copy_seconds(double bytes) const {
  if (machine_.immediate) return streaming_seconds({0, 2 * bytes});
  return bytes / std::min(machine_.host.copy_bandwidth, machine_.host.memory_bandwidth / ranks_on_node_);
}

}  // namespace mbench::sim
