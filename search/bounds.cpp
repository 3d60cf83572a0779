#include "search/bounds.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/device/arena.h"
#include "engine/point/fields.h"
#include "search/chunk_work.h"
#include "search/recorded_stage.h"
#include "search/small_model.h"
#include "strategies/schedule.h"
#include "strategies/strategies.h"

namespace mbench::search {
namespace {

using ChunkLayers = std::vector<std::vector<ChunkPlan>>;

// No layer takes less than one that computes nothing again, and whose activations stay where they are.
Point least_work(const Point& point) {
  Point p = point.recompute_layers > 0 ? at_default(point, {BearsOn::recompute}) : point;
  p.offload_activations = {};
  p.min_offloaded_tensor_size = 0;
  return p;
}

}  // namespace

double LowerBound::total_bytes() const {
  return sum(bytes);
}
Category LowerBound::largest() const {
  return static_cast<Category>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
}

double joules_at_least(const Point& point, double seconds, double busy_joules, const sim::Machine& machine) {
  if (!machine.device.watts) return 0;
  return machine.device.watts->idle * static_cast<double>(point.world()) * seconds + busy_joules;
}

struct Bounds::Memo {
  sim::Machine machine;
  Probes probes;
  std::mutex mutex = {};  // of the maps
  std::map<std::tuple<std::int64_t, std::int64_t, ScheduleKind, std::int64_t, std::int64_t, std::string>, ChunkLayers>
      chunks = {};
  // The most micro batches, or parts of them, that a stage holds at once.
  using Order = std::tuple<ScheduleKind, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  std::map<Order, int> under_way = {};
  std::map<Order, Schedule> starts = {};

  // The value of that key, computed once. Two threads may compute it at the same time, with the same result.
  template <class Map, class Make>
  const typename Map::mapped_type& once(Map& map, const typename Map::key_type& key, const Make& make) {
    {
      const std::lock_guard lock(mutex);
      if (const auto found = map.find(key); found != map.end()) return found->second;
    }
    auto made = make();
    const std::lock_guard lock(mutex);
    return map.emplace(key, std::move(made)).first->second;
  }

  // Of every kind that the model has, and null for the others.
  using States = std::array<const Parts<Bytes>*, kLayerKinds>;

  // The state of a kind. It does not depend on the samples, where one of them can be counted.
  const std::optional<Parts<Bytes>>& state(ProbeKey& key, std::int64_t micro_batch) {
    const auto& found = probes.state(key, 1);
    return found || micro_batch == 1 ? found : probes.state(key, micro_batch);
  }

  Bytes state_at(const Point& point, const States& states, int stage) {
    Bytes bytes{};
    const auto add = [&](const Bytes& part, double times) {
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] += part[i] * times * (1 - kSlack);
    };
    bool first = false, last = false;
    for (const ChunkPlan& c : chunks_of(point)[static_cast<std::size_t>(stage)]) {
      const ByKind count = kinds_of(point, c);
      for (std::size_t k = 0; k < kLayerKinds; ++k)
        if (states[k]) add(states[k]->layer, count[k]);
      if (!has_known_end(point, c)) continue;
      first = first || c.first, last = last || c.last;
    }
    // Both ends may be in chunks of their own, and share a table of words all the same.
    const Parts<Bytes>& ends = *states[first_kind(kinds_of(point))];
    if (first || last) add(first && last ? ends.both : first ? ends.first : ends.last, 1);
    return bytes;
  }

  // The state of a layer where nothing is sharded.
  Bytes layer_state(const Point& point, std::size_t kind) {
    ProbeKey key = Probes::state_key(at_default(point, {BearsOn::state}), kind);
    const auto& found = state(key, point.micro_batch);
    return found ? found->layer : Bytes{};
  }

  // Where weights are sharded, a layer's weights are whole while it computes, next to all that is kept when the first backward begins.
  // This is the part of them that other ranks own. Experts' weights may be sharded over fewer ranks.
  double gathered(const Point& p) {
    if (p.zero != Zero::stage_3 && p.zero != Zero::fsdp) return 0;
    const Kinds kinds = kinds_of(p);
    double least = 1e18;
    for (std::size_t k = 0; k < kLayerKinds; ++k)
      if (kinds[k]) least = std::min(least, layer_state(p, k)[static_cast<std::size_t>(Category::weights)]);
    const double sharers = static_cast<double>(p.dp * p.cp / p.optimizer_instances) /
                           (p.model.experts > 0 ? static_cast<double>(p.ep) : 1.0);
    return least * std::max(0.0, 1 - 1 / sharers) * (1 - kSlack);
  }

  static Order order_of(const Point& p, int stage) {
    return {p.schedule, p.pp, stage, p.virtual_stages, p.micro_batches(), p.micro_batch_group};
  }

  // The chunks of each stage, from a plan of as few micro batches as there can be.
  const ChunkLayers& chunks_of(const Point& point) {
    return once(chunks,
                std::tuple(point.pp, point.virtual_stages, point.schedule, point.first_stage_layers,
                           point.last_stage_layers, point.pipeline_layout),
                [&] {
                  Point p = point;
                  p.global_batch = p.micro_batch * p.dp * 2 * p.pp;
                  p.micro_batch_group = 0;
                  return strategies::make_plan(p).chunks;
                });
  }

  // Forwards and backwards until the most micro batches are in flight: those up to the first backward, and two more rounds through all
  // chunks.
  const Schedule& start_of(const Point& p, int stage) {
    return once(starts, order_of(p, stage), [&] {
      Schedule start;
      auto more = static_cast<std::size_t>(4 * std::max(p.pp, p.micro_batch_group) * p.virtual_stages);
      bool back = false;
      for (const Action& a :
           strategies::make_schedule(p.schedule, static_cast<int>(p.pp), stage, static_cast<int>(p.virtual_stages),
                                     static_cast<int>(p.micro_batches()), static_cast<int>(p.micro_batch_group))) {
        const bool computes = a.kind == Action::Kind::forward || a.kind == Action::Kind::backward;
        if (!computes && a.kind != Action::Kind::weight_gradient) continue;
        back = back || a.kind == Action::Kind::backward;
        if (back && computes && more-- == 0) break;
        start.push_back(a);
      }
      return start;
    });
  }

  int most_under_way(const Point& p, int stage) {
    return once(under_way, order_of(p, stage), [&] {
      int now = 0, most = 0;
      for (const Action& a :
           strategies::make_schedule(p.schedule, static_cast<int>(p.pp), stage, static_cast<int>(p.virtual_stages),
                                     static_cast<int>(p.micro_batches()), static_cast<int>(p.micro_batch_group))) {
        if (a.kind == Action::Kind::forward) most = std::max(most, ++now);
        if (a.kind == Action::Kind::backward) --now;
      }
      return most;
    });
  }

  std::vector<int> fuller_stages(const Point& point) {
    const auto& plan = chunks_of(point);
    const int last = static_cast<int>(plan.size()) - 1;
    double most = -1;
    int at = 0;
    for (int s = 0; s <= last; ++s) {
      double layers = 0;
      constexpr double kFar = 1e6;  // a layer with experts counts more than all without
      for (const ChunkPlan& c : plan[static_cast<std::size_t>(s)]) {
        const ByKind count = kinds_of(point, c);
        for (std::size_t k = 0; k < kLayerKinds; ++k) layers += count[k] * (has_experts(k) ? kFar : 1);
      }
      if (layers > most) most = layers, at = s;
    }
    std::vector<int> stages{0};
    if (at != 0 && at != last) stages.push_back(at);
    if (last != 0) stages.push_back(last);
    return stages;
  }
};

// What layouts that differ in their micro batch have in common.
struct Bounds::Family::Common {
  Memo& memo;
  const Point point;  // one of them
  Kinds kinds = kinds_of(point);
  // Made once they are asked for. Of a layout whose layers cannot be had none is asked for: it may have no stages.
  std::vector<int> stages = {};         // that may be the fullest
  std::vector<ByKind> least_kept = {};  // [stages]: layers of each kind in the chunk that has fewest
  std::optional<Point> least = {};      // least_work()
  std::array<std::unique_ptr<ProbeKey>, kLayerKinds> work = {}, kept = {},
                                                     state = {};  // a key is long, and few kinds are there
  std::optional<double> gathered = {};
  std::optional<std::vector<Bytes>> state_of_stages = {};

  template <class Make>
  static ProbeKey& made(std::unique_ptr<ProbeKey>& key, const Make& make) {
    if (!key) key = std::make_unique<ProbeKey>(make());
    return *key;
  }

  // Nothing where layers of one kind cannot be counted. `one`: all were, with one sample.
  std::optional<Memo::States> states_of(std::int64_t micro_batch, bool& one) {
    Memo::States all{};
    one = true;
    for (std::size_t k = 0; k < kLayerKinds; ++k) {
      if (!kinds[k]) continue;
      ProbeKey& key = made(state[k], [&] { return Probes::state_key(point, k); });
      const auto& found = memo.state(key, micro_batch);
      if (!found) return std::nullopt;
      one = one && key.point.micro_batch == 1;
      all[k] = &*found;
    }
    return all;
  }

  void find_stages() {
    stages = memo.fuller_stages(point);
    for (const int s : stages) {
      ByKind& fewest = least_kept.emplace_back();
      fewest.fill(1e18);
      for (const ChunkPlan& c : memo.chunks_of(point)[static_cast<std::size_t>(s)]) {
        const ByKind count = kinds_of(point, c);
        for (std::size_t k = 0; k < kLayerKinds; ++k) fewest[k] = std::min(fewest[k], count[k]);
      }
    }
  }

  // Bytes of a rank's state on each of `stages`.
  std::optional<std::vector<Bytes>> states_at(std::int64_t micro_batch) {
    if (state_of_stages) return state_of_stages;
    bool one = false;
    const auto states = states_of(micro_batch, one);
    if (!states) return std::nullopt;
    if (stages.empty()) find_stages();
    std::vector<Bytes> bytes;
    for (const int s : stages) bytes.push_back(memo.state_at(point, *states, s));
    if (one) state_of_stages = bytes;
    return bytes;
  }

  ProbeKey& work_key_of(std::size_t kind) {
    return made(work[kind], [&] {
      if (!least) least = least_work(point);
      return Probes::work_key(*least, kind);
    });
  }

  // A layer's forward keeps as much more with every sample, and each block is rounded up. So one and two samples give the figure of any
  // number, where they are possible.
  std::optional<Bytes> kept_by(std::size_t kind, std::int64_t micro_batch) {
    if (point.offload_activations.any()) return Bytes{};  // what stays on the device is not known to grow evenly
    // Fewer layers that compute again keep more: every layer drops what the first ones do.
    ProbeKey& key = point.recompute_layers == 0 ? work_key_of(kind) : made(kept[kind], [&] {
      Point p = point;
      p.recompute_layers = 0;
      return Probes::work_key(p, kind);
    });
    const auto own = [&] {
      const auto& found = memo.probes.work(key, micro_batch);
      return found ? std::optional(found->layer_kept.bytes) : std::nullopt;
    };
    if (micro_batch <= 2) return own();
    const auto &one = memo.probes.work(key, 1), &two = memo.probes.work(key, 2);
    if (!one || !two) return own();
    const auto samples = static_cast<double>(micro_batch);
    Bytes bytes = one->layer_kept.bytes;
    double left = static_cast<double>(Arena::kRounding) * two->layer_kept.blocks * samples;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] += std::max(0.0, two->layer_kept.bytes[i] - one->layer_kept.bytes[i]) * (samples - 1);
      const double rounding = std::min(bytes[i], left);
      bytes[i] -= rounding;
      left -= rounding;
    }
    return bytes;
  }

  // Of layers that compute nothing again where a layout lets some do so. Nothing where layers of one kind cannot be recorded.
  std::optional<ChunkWork> chunk_work(std::int64_t micro_batch) {
    ChunkWork found{point};
    found.first = first_kind(kinds);
    for (std::size_t k = 0; k < kLayerKinds; ++k) {
      if (!kinds[k]) continue;
      ProbeKey& key = work_key_of(k);
      const auto& probed = memo.probes.work(key, micro_batch);
      if (!probed) return std::nullopt;
      found.work[k] = &probed->work;
    }
    return found;
  }
};

Bounds::Family::Family(const Bounds& bounds, const Point& point) : common_(new Common{*bounds.memo_, point}) {}
Bounds::Family::~Family() = default;

LowerBound Bounds::Family::memory(const Point& point, double far_too_much) {
  Common& c = *common_;
  LowerBound lower_bound;
  auto state = c.states_at(point.micro_batch);
  if (!state) return lower_bound;
  const int ranks = static_cast<int>(point.world() / point.pp);
  const auto keep_fuller = [&](const Bytes& bytes, int stage) {
    if (sum(bytes) <= lower_bound.total_bytes()) return;
    lower_bound.bytes = bytes;
    lower_bound.rank = ranks * stage;
  };
  for (std::size_t i = 0; i < c.stages.size(); ++i) keep_fuller((*state)[i], c.stages[i]);
  if (lower_bound.total_bytes() > far_too_much) return lower_bound;

  std::array<std::optional<Bytes>, kLayerKinds> kept;
  for (std::size_t k = 0; k < kLayerKinds; ++k) {
    if (!c.kinds[k]) continue;
    kept[k] = c.kept_by(k, point.micro_batch);
    if (!kept[k]) return {};
  }
  if (!c.gathered) c.gathered = c.memo.gathered(point);
  for (std::size_t i = 0; i < c.stages.size(); ++i) {
    Bytes& bytes = (*state)[i];
    const double under_way = c.memo.most_under_way(point, c.stages[i]);
    for (std::size_t k = 0; k < kLayerKinds; ++k)
      if (kept[k])
        for (std::size_t b = 0; b < bytes.size(); ++b) bytes[b] += (*kept[k])[b] * c.least_kept[i][k] * under_way;
    bytes[static_cast<std::size_t>(Category::weights)] += *c.gathered;
    keep_fuller(bytes, c.stages[i]);
  }
  return lower_bound;
}

double Bounds::Family::seconds(const Point& point) {
  Common& common = *common_;
  const auto work = common.chunk_work(point.micro_batch);
  if (!work) return 0;
  const auto micro_batches = static_cast<double>(point.micro_batches());
  const bool immediate = common.memo.machine.immediate;
  double least = 0,
         before = 0;  // the first micro batch through the first chunks of the stages so far, and the last one back
  for (const auto& stage : common.memo.chunks_of(point)) {
    Busy all;
    for (const ChunkPlan& c : stage) all = all + work->both_ways(c);
    all = all * micro_batches;
    least = std::max({least, before + all.chained(immediate, point.overlap_moe), all.host});
    // Where backward is split, gradients of weights are a stage's last action, behind which no other stage has to do anything.
    const ChunkPlan& front = stage.front();
    before += (splits_backward(point.schedule) ? work->of(front, &Work::forward) : work->both_ways(front))
                  .chained(immediate, point.overlap_moe);
  }
  return least * (1 - 1e-9);  // sums are rounded in another order
}

double Bounds::Family::busy_joules(const Point& point) {
  Common& common = *common_;
  if (!common.memo.machine.device.watts) return 0;
  const auto work = common.chunk_work(point.micro_batch);
  if (!work) return 0;
  double joules = 0;  // of a micro batch, on one rank of each stage
  for (const auto& stage : common.memo.chunks_of(point))
    for (const ChunkPlan& c : stage) joules += work->both_ways(c).joules;
  const auto ranks = static_cast<double>(point.world() / point.pp);
  return joules * ranks * static_cast<double>(point.micro_batches()) * (1 - 1e-9);
}

Bounds::Bounds(const sim::Machine& machine, Host host) : memo_(new Memo{machine, Probes(machine, host)}) {}
Bounds::~Bounds() = default;

double Bounds::seconds(const Point& point) const {
  return Family(*this, point).seconds(point);
}
double Bounds::busy_joules(const Point& point) const {
  return Family(*this, point).busy_joules(point);
}

LowerBound Bounds::lower_bound(const Point& point) const {
  Family family(*this, point);
  LowerBound lower_bound = family.memory(point);
  lower_bound.seconds = family.seconds(point);
  lower_bound.busy_joules = family.busy_joules(point);
  return lower_bound;
}

const std::vector<std::vector<ChunkPlan>>& Bounds::chunks_of(const Point& point) const {
  return memo_->chunks_of(point);
}
std::vector<int> Bounds::fuller_stages(const Point& point) const {
  return memo_->fuller_stages(point);
}
const Schedule& Bounds::start_of(const Point& point, int stage) const {
  return memo_->start_of(point, stage);
}

std::array<double, kCategories> Bounds::state(const Point& point, int stage) const {
  Family family(*this, point);
  bool one = false;
  const auto states = family.common_->states_of(point.micro_batch, one);
  return states ? memo_->state_at(point, *states, stage) : Bytes{};
}

std::array<double, kCategories> Bounds::layer_state(const Point& point) const {
  return memo_->layer_state(point, first_kind(kinds_of(point)));
}

}  // namespace mbench::search
