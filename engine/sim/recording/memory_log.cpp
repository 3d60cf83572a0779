#include "engine/sim/recording/memory_log.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <unordered_map>

#include "engine/sim/cost/device.h"

namespace mbench::sim {
namespace {

using nlohmann::json;

struct Live {
  std::size_t bytes;
  Category category;
  const TensorName* name;
  std::optional<Action> action;
};

// What is there when the first block is taken with which most is handed out.
class AtPeak final : public MemoryListener {
 public:
  // `at`: the number of that block; none: it is to be found.
  explicit AtPeak(std::optional<std::size_t> at) : at_(at) {}

  void step(int) override {}
  void taken(std::size_t block, std::size_t bytes, Category category, const TensorName& name,
             const Action* action) override {
    if (ended_) return;
    total_ += bytes;
    ++taken_;
    live_[block] = {bytes, category, &name, action ? std::optional(*action) : std::nullopt};
    if (total_ > most_) most_ = total_, peak_ = taken_, during_ = action ? phase_name(*action) : "";
    ended_ = at_ == taken_;
  }
  void given(std::size_t block) override {
    if (ended_) return;
    total_ -= live_.at(block).bytes;
    live_.erase(block);
  }

  std::size_t peak() const { return peak_; }  // the number of that block
  std::size_t most() const { return most_; }
  const std::string& during() const { return during_; }
  const std::unordered_map<std::size_t, Live>& live() const { return live_; }

 private:
  std::optional<std::size_t> at_;
  bool ended_ = false;
  std::size_t total_ = 0, most_ = 0, taken_ = 0, peak_ = 0;
  std::string during_;
  std::unordered_map<std::size_t, Live> live_;
};

// Calls run(memory) with a memory of the kind that the framework has.
template <class Run>
auto with_memory(const std::optional<CachingSettings>& caching, const Run& run) {
  if (caching) {
    CachingAllocator memory(*caching, 0);
    return run(memory);
  }
  Arena memory(std::make_unique<CountedMemory>(), 0);
  return run(memory);
}

// "layers 0-3, 8" of those parts; other parts by their names.
std::string where_of(const std::set<std::pair<ModelPart::Kind, std::int32_t>>& parts) {
  std::string text;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  std::vector<std::int32_t> layers;
  for (const auto& [kind, index] : parts)
    if (kind == ModelPart::Kind::layer)
      layers.push_back(index);
    else if (kind != ModelPart::Kind::none)
      add(name_of(ModelPart{kind, index}));
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    const std::string range =
        end == i + 1 ? fmt::format("{}", layers[i]) : fmt::format("{}-{}", layers[i], layers[end - 1]);
    add((i == 0 ? (layers.size() == 1 ? "layer " : "layers ") : "") + range);
    i = end;
  }
  return text;
}

std::string made_by(const std::vector<Action>& actions) {
  if (actions.empty()) return "";
  std::set<std::pair<int, int>> micro_batches;
  for (const Action& a : actions) micro_batches.insert({a.chunk, a.micro});
  const Action& first = actions.front();
  if (micro_batches.size() == 1) return phase_name(first);
  return fmt::format("{} of {} micro batches", name_of(first.kind), micro_batches.size());
}

// A trace of the last step.
class Trace final : public MemoryListener {
 public:
  using Address = std::function<std::size_t(std::size_t block)>;
  explicit Trace(Address address) : address_(std::move(address)) {}

  void step(int) override { entries_ = json::array(); }
  void taken(std::size_t block, std::size_t bytes, Category category, const TensorName& name,
             const Action* action) override {
    Entry& e = live_[block] = {address_(block), bytes, frames_of(category, name, action)};
    entries_.push_back(entry("alloc", e));
  }
  void given(std::size_t block) override {
    const Entry& e = live_.at(block);
    entries_.push_back(entry("free_requested", e));
    entries_.push_back(entry("free_completed", e));
    live_.erase(block);
  }
  json take_entries() { return std::move(entries_); }
  const json& frames(std::size_t block) const { return live_.at(block).frames; }
  std::size_t bytes(std::size_t block) const { return live_.at(block).bytes; }
  std::vector<std::size_t> blocks() const {
    std::vector<std::size_t> all;
    for (const auto& [block, e] : live_) all.push_back(block);
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  struct Entry {
    std::size_t address, bytes;
    json frames;
  };
  static json entry(const char* action, const Entry& e) {
    return {{"action", action}, {"addr", e.address}, {"size", e.bytes}, {"stream", 0}, {"frames", e.frames}};
  }
  // The innermost first, as PyTorch has them: the tensor, the part of the model, the action of the schedule.
  static json frames_of(Category category, const TensorName& name, const Action* action) {
    const auto frame = [](const std::string& file, const std::string& what) {
      return json{{"filename", file}, {"line", 0}, {"name", what}};
    };
    json frames = json::array({frame(std::string(name_of(category)),
                                     fmt::format("{} {} {}", name.what, name.shape.str(), name_of(name.dtype)))});
    if (name.part.kind != ModelPart::Kind::none) frames.push_back(frame("model", name_of(name.part)));
    frames.push_back(frame("step", action ? phase_name(*action) : "outside forward and backward"));
    return frames;
  }

  Address address_;
  std::unordered_map<std::size_t, Entry> live_;
  json entries_ = json::array();
};

// Sums by category over the last step.
class OverStep final : public MemoryListener {
 public:
  void step(int) override {
    over_ = {};
    part_.reset();
    in_step_ = true;
  }
  void taken(std::size_t block, std::size_t bytes, Category category, const TensorName&,
             const Action* action) override {
    if (in_step_) enter(action);
    sizes_[block] = {bytes, category};
    now_[static_cast<std::size_t>(category)] += bytes;
    note();
  }
  void given(std::size_t block) override {
    if (in_step_ && over_.parts.empty()) enter(nullptr);
    const auto [bytes, category] = sizes_.at(block);
    now_[static_cast<std::size_t>(category)] -= bytes;
    sizes_.erase(block);
    note();
  }

  MemoryOverStep take() {
    std::vector<double> moments(over_.parts.size());
    for (const MemoryOverStep::Moment& m : over_.moments) ++moments[static_cast<std::size_t>(m.at)];
    std::size_t in_part = 0, part = 0;
    for (MemoryOverStep::Moment& m : over_.moments) {
      if (const auto of = static_cast<std::size_t>(m.at); of != part) part = of, in_part = 0;
      m.at += static_cast<double>(in_part++) / moments[part];
    }
    over_.moments.push_back({static_cast<double>(over_.parts.size()), now_});
    return std::move(over_);
  }

 private:
  // What is sent or received belongs to the part that it follows.
  void enter(const Action* action) {
    if (!action) {
      if (part_) enter("optimizer", std::nullopt);
      if (over_.parts.empty()) enter("begin", std::nullopt);
      return;
    }
    const bool computes = action->kind == Action::Kind::forward || action->kind == Action::Kind::backward ||
                          action->kind == Action::Kind::weight_gradient;
    if ((computes || over_.parts.empty()) && part_ != *action) enter(phase_name(*action), *action);
  }
  void enter(const std::string& name, const std::optional<Action>& action) {
    over_.parts.push_back(name);
    part_ = action;
    if (over_.parts.size() == 1) note();  // as the step finds it
  }
  void note() {
    if (in_step_) over_.moments.push_back({static_cast<double>(over_.parts.size() - 1), now_});
  }

  MemoryOverStep over_;
  bool in_step_ = false;
  std::optional<Action> part_;  // none before the first and after the last
  std::array<std::size_t, kCategories> now_{};
  std::unordered_map<std::size_t, std::pair<std::size_t, Category>> sizes_;
};

json block_of(std::size_t address, std::size_t size, std::size_t requested, bool used, const json& frames) {
  return {{"address", address},
          {"size", size},
          {"requested_size", requested},
          {"state", used ? "active_allocated" : "inactive"},
          {"frames", frames}};
}

json segment_of(std::size_t address, std::size_t size, const char* type, bool expandable, json blocks) {
  std::size_t used = 0, requested = 0;
  for (const json& b : blocks)
    if (b.at("state") == "active_allocated")
      used += b.at("size").get<std::size_t>(), requested += b.at("requested_size").get<std::size_t>();
  return {{"device", 0},
          {"address", address},
          {"total_size", size},
          {"allocated_size", used},
          {"active_size", used},
          {"requested_size", requested},
          {"stream", 0},
          {"segment_type", type},
          {"segment_pool_id", json::array({0, 0})},
          {"is_expandable", expandable},
          {"frames", json::array()},
          {"blocks", std::move(blocks)}};
}

json segments_of(const CachingAllocator& memory, const Trace& trace, std::size_t base, bool expandable) {
  json all = json::array();
  for (const CachingAllocator::Segment& s : memory.segments()) {
    json blocks = json::array();
    for (const CachingAllocator::Part& p : s.parts)
      blocks.push_back(block_of(base + p.address, p.size, p.used ? trace.bytes(p.block) : 0, p.used,
                                p.used ? trace.frames(p.block) : json::array()));
    all.push_back(segment_of(base + s.address, s.size, s.small ? "small" : "large", expandable, std::move(blocks)));
    all.back()["stream"] = static_cast<int>(s.stream);
    if (s.graph) all.back()["segment_pool_id"] = json::array({0, 1});  // as of torch.cuda.graph_pool_handle()
  }
  return all;
}

// mbench's own arena is one segment, which grows.
json segments_of(const Arena& memory, const Trace& trace, std::size_t base) {
  json blocks = json::array();
  std::size_t end = 0;
  const auto gap = [&](std::size_t to) {
    if (to > end) blocks.push_back(block_of(base + end, to - end, 0, false, json::array()));
  };
  for (const std::size_t offset : trace.blocks()) {
    gap(offset);
    blocks.push_back(block_of(base + offset, trace.bytes(offset), trace.bytes(offset), true, trace.frames(offset)));
    end = offset + trace.bytes(offset);
  }
  gap(memory.reserved());
  return json::array({segment_of(base, memory.reserved(), "large", true, std::move(blocks))});
}

// No block is at address 0, which a viewer takes for none.
constexpr std::size_t kBase = std::size_t{1} << 46;

}  // namespace

PeakByTensor peak_by_tensor(const Plan& plan, const Recording& recording, const RankClasses::Class& of,
                            const std::optional<CachingSettings>& caching) {
  const auto replay = [&](AtPeak& listener) {
    with_memory(caching, [&](auto& memory) { return replay_memory_of(plan, recording, of, memory, &listener); });
  };
  AtPeak find(std::nullopt);
  replay(find);
  AtPeak there(find.peak());
  replay(there);
  struct Alike {
    TensorsAtPeak tensors;
    std::set<std::pair<ModelPart::Kind, std::int32_t>> parts;
    std::vector<Action> actions;
  };
  std::map<std::tuple<std::string, std::string, DType, Category, int>, Alike> alike;
  for (const auto& [block, live] : there.live()) {
    const std::string shape = live.name->shape.str();
    const int maker = live.action ? static_cast<int>(live.action->kind) : -1;
    Alike& a = alike[{live.name->what, shape, live.name->dtype, live.category, maker}];
    a.tensors.what = live.name->what, a.tensors.shape = shape, a.tensors.dtype = name_of(live.name->dtype);
    a.tensors.category = live.category;
    a.tensors.bytes += live.bytes;
    ++a.tensors.count;
    a.parts.insert({live.name->part.kind, live.name->part.index});
    if (live.action) a.actions.push_back(*live.action);
  }
  PeakByTensor peak{find.most(), find.during(), {}};
  for (auto& [key, a] : alike) {
    a.tensors.where = where_of(a.parts);
    a.tensors.made_by = made_by(a.actions);
    peak.tensors.push_back(std::move(a.tensors));
  }
  std::stable_sort(peak.tensors.begin(), peak.tensors.end(),
                   [](const TensorsAtPeak& a, const TensorsAtPeak& b) { return a.bytes > b.bytes; });
  return peak;
}

MemoryOverStep memory_over_step(const Plan& plan, const Recording& recording, const RankClasses::Class& of,
                                const std::optional<CachingSettings>& caching) {
  OverStep listener;
  with_memory(caching, [&](auto& memory) { return replay_memory_of(plan, recording, of, memory, &listener); });
  return listener.take();
}

json memory_snapshot(const Plan& plan, const Recording& recording, const RankClasses::Class& of,
                     const std::optional<CachingSettings>& caching) {
  json snapshot;
  if (caching) {
    CachingAllocator memory(*caching, 0);
    Trace trace([&](std::size_t block) { return kBase + memory.address(block); });
    replay_memory_of(plan, recording, of, memory, &trace);
    snapshot["segments"] = segments_of(memory, trace, kBase, caching->expandable_segments);
    snapshot["device_traces"] = json::array({trace.take_entries()});
  } else {
    Arena memory(std::make_unique<CountedMemory>(), 0);
    Trace trace([](std::size_t offset) { return kBase + offset; });
    replay_memory_of(plan, recording, of, memory, &trace);
    snapshot["segments"] = segments_of(memory, trace, kBase);
    snapshot["device_traces"] = json::array({trace.take_entries()});
  }
  return snapshot;
}

}  // namespace mbench::sim
