#include "strategies/expert_pages.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "engine/point/adapter_weights.h"
#include "engine/point/architecture.h"
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

// Of one tensor that experts keep.
struct Kept {
  std::int64_t row_bytes = 0, rows = 0;
};
using KeptByLayer = std::vector<std::vector<Kept>>;  // [layer with experts of a chunk]

// What the experts of a rank keep of `rows` rows (engine/nn/moe/experts.h).
class ExpertsKeep {
 public:
  ExpertsKeep(const Point& p, const Plan& plan, std::int64_t rows)
      : p_(p), plan_(plan), precision_(precision_plan(p)), rows_(rows), experts_(p.model.experts / p.ep) {}

  std::vector<Kept> of(const MoeSpec& moe, bool quantised, Regions dropped) {
    kept_.clear();
    const MlpSpec& expert = moe.expert;
    const std::int64_t etp = p_.expert_tp(), narrow = expert.fc2.in / etp,
                       size = static_cast<std::int64_t>(size_of(precision_.model));
    const bool again = dropped.has(Region::moe_act), adapts_1 = adapts(p_.adapter, expert.fc1),
               adapts_2 = adapts(p_.adapter, expert.fc2), trains = !p_.adapter.on();
    add(expert.fc1.out / etp * size);
    // In FP8 a frozen weight wants no input, and its adapter one in 16 bits.
    if (quantised && trains) add_codes(expert.fc1.in);
    if (quantised ? adapts_1 : trains || adapts_1) add(expert.fc1.in * size);
    if (quantised && trains && !again) add_codes(narrow);
    if ((!quantised || adapts_2) && !again) add(narrow * size);
    const bool weighs = plan_.keeps().weights_within_experts && moe.routing.weighted == Weighted::output;
    if (weighs && !is_gated(expert.activation) && !again) add(narrow * size);
    for (const bool adapts : {adapts_1, adapts_2})
      if (adapts) add(p_.adapter.rank * size);
    return std::move(kept_);
  }

 private:
  void add(std::int64_t row_bytes) { kept_.push_back({row_bytes, rows_}); }
  // Codes of so many columns, and where rows share scales these, of 32 rows in a row (Megatron-Core's SCALE_INV_BLOCK_SIZE). An expert's
  // are of whole blocks (engine/ops/quantise.h).
  void add_codes(std::int64_t columns) {
    const bool of_4_bits = *precision_.fp8 == Fp8Recipe::nvfp4, mx = *precision_.fp8 == Fp8Recipe::mxfp8;
    add(of_4_bits ? columns / 2 : columns);
    if (!of_4_bits && !mx && *precision_.fp8 != Fp8Recipe::blockwise) return;
    const std::int64_t block = of_4_bits ? 64 : 128, each = (rows_ + experts_ - 1) / experts_,
                       rows = experts_ * ((each + block - 1) / block) * (block / 32),
                       whole = (columns + 127) / 128 * 128;
    kept_.push_back({of_4_bits ? 2 * whole : mx ? whole : columns, rows});
  }

  const Point& p_;
  const Plan& plan_;
  PrecisionPlan precision_;
  std::int64_t rows_, experts_;
  std::vector<Kept> kept_;
};

// [chunk of the stage]
std::vector<KeptByLayer> kept_on(const Point& p, const Plan& plan, std::size_t stage, std::int64_t rows) {
  ExpertsKeep keep(p, plan, rows);
  const PrecisionPlan precision = precision_plan(p);
  std::vector<KeptByLayer> all;
  const auto add = [&](const LayerSpec& layer, bool quantised, std::int64_t at) {
    for (const BranchSpec& branch : layer.branches)
      if (const auto* moe = std::get_if<MoeSpec>(&branch.mixer))
        all.back().push_back(keep.of(*moe, quantised, plan.recompute[static_cast<std::size_t>(at)]));
  };
  for (const ChunkPlan& chunk : plan.chunks[stage]) {
    all.emplace_back();
    if (chunk.expert_layers == 0) continue;
    for (std::int64_t i = chunk.first_layer; i < chunk.first_layer + chunk.layers; ++i)
      if (p.model.has_experts(i))
        add(layer_of(p.model, i), precision.fp8 && !precision.in_16_bits(i, p.model.layers), i);
    for (std::int64_t depth = 0; depth < chunk.depths; ++depth)
      add(depth_of(p.model, depth, p.model.vocab).layer, precision.fp8.has_value(), p.model.layers + depth);
  }
  return all;
}

// Calls f(action, number of the layer among its chunk's with experts) as the experts of a stage run. Where actions stop while tokens travel,
// experts run in every second part.
template <class F>
void for_each_run(const Plan& plan, std::size_t stage, const F& f) {
  for (const Action& a : plan.schedule[stage]) {
    const bool forward = a.kind == Action::Kind::forward;
    if (!forward && a.kind != Action::Kind::backward) continue;
    const ChunkPlan& chunk = plan.chunks[stage][static_cast<std::size_t>(a.chunk)];
    const int layers = chunk.expert_layers;
    const auto run = [&](int i) { f(a, static_cast<std::size_t>(forward ? i : layers - 1 - i)); };
    if (chunk.pauses == 0)
      for (int i = 0; i < layers; ++i) run(i);
    else if (a.part % 2 == 1)
      run(a.part / 2);
  }
}

}  // namespace

// Megatron-Core sees in its first step how many rows wait at most, and rounds them down before it rounds pages up (allocate_stash_buffers).
std::vector<std::vector<ExpertRoom::Pages>> pages_for(const Point& p, const Plan& plan, std::int64_t balanced_rows) {
  std::vector<std::vector<ExpertRoom::Pages>> all;
  for (std::size_t stage = 0; stage < plan.chunks.size(); ++stage) {
    const auto kept = kept_on(p, plan, stage, balanced_rows);
    std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>>
        rows;  // by bytes of a row: that wait now, and at most
    for_each_run(plan, stage, [&](const Action& a, std::size_t layer) {
      for (const Kept& k : kept[static_cast<std::size_t>(a.chunk)][layer]) {
        auto& [now, most] = rows[k.row_bytes];
        now += a.kind == Action::Kind::forward ? k.rows : -k.rows;
        most = std::max(most, now);
      }
    });
    all.emplace_back();
    for (const auto& [bytes, of] : rows) {
      const auto pages = [most = static_cast<double>(of.second)](double factor) {
        return ExpertRoom::pages_of(static_cast<std::int64_t>(most * factor));
      };
      all.back().push_back({bytes, pages(p.paged_stash), pages(p.paged_stash_host)});
    }
  }
  return all;
}

FoundPages find_pages(const Point& p, const Plan& plan, std::size_t stage, std::int64_t rows,
                      const std::vector<ExpertRoom::Pages>& pages) {
  const auto kept = kept_on(p, plan, stage, rows);
  std::map<std::int64_t, ExpertRoom::Pages> free;
  for (const ExpertRoom::Pages& each : pages) free[each.row_bytes] = each;
  FoundPages found;
  std::map<std::tuple<int, int, std::size_t>, std::vector<bool>>
      places;  // by chunk, micro batch and layer: whether on the host
  for_each_run(plan, stage, [&](const Action& a, std::size_t layer) {
    const ChunkPlan& chunk = plan.chunks[stage][static_cast<std::size_t>(a.chunk)];
    const std::vector<Kept>& tensors = kept[static_cast<std::size_t>(a.chunk)][layer];
    if (!found.all || (chunk.backward_follows() && layer + 1 == static_cast<std::size_t>(chunk.expert_layers))) return;
    const std::tuple key(a.chunk, a.micro, layer);
    std::vector<bool>& on_host = places[key];
    const bool forward = a.kind == Action::Kind::forward;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::int64_t wanted = ExpertRoom::pages_of(tensors[i].rows);
      ExpertRoom::Pages& of = free[tensors[i].row_bytes];
      if (forward) on_host.push_back(of.device < wanted);
      std::int64_t& place = on_host[i] ? of.host : of.device;
      place += forward ? -wanted : wanted;
      found.host = found.host || on_host[i];
      if (place >= 0) continue;
      place += wanted;
      found.all = false, found.row_bytes = tensors[i].row_bytes, found.wanted = wanted;
      found.free = std::max(of.device, of.host);
      return;
    }
    if (!forward) places.erase(key);
  });
  return found;
}

}  // namespace mbench::strategies
