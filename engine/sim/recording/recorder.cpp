#include "engine/sim/recording/recorder.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "engine/sim/cost/device.h"
#include "engine/sim/recording/recorded_blocks.h"
#include "engine/sim/recording/recording_world.h"
#include "engine/train/trainer.h"

namespace mbench::sim {
namespace {

using Kind = ClockEvent::Kind;

// Whether an action's last one of a step makes gradients complete, which are then reduced.
bool completes_gradients(Action::Kind k) {
  return k == Action::Kind::backward || k == Action::Kind::weight_gradient;
}

bool is_send(Action::Kind k) {
  return k == Action::Kind::send_activation || k == Action::Kind::send_gradient;
}

std::vector<std::size_t> own_elements(const nn::ParameterStore& store) {
  std::vector<std::size_t> all;
  for (const auto& p : store.all()) {
    const Tensor own = store.own_gradient(*p);
    if (!own) continue;
    const std::int64_t experts = p->local.rank() == 3 ? p->local[0] : 1;
    for (std::int64_t i = 0; i < experts; ++i) all.push_back(static_cast<std::size_t>(own.numel() / experts));
  }
  return all;
}

enum class Steps { first, steady };

// Which micro batches are recorded.
enum class Micro { ends, ends_and_second, all };

// The recorded actions: setup, and of a step or two its begin, those of the schedule, its end.
class Session {
 public:
  Session(const Plan& plan, int stage, Micro micro, bool named)
      : stage_(static_cast<std::size_t>(stage)),
        last_(static_cast<int>(plan.training.micro_batches) - 1),
        micro_(micro),
        plan_(plan),
        blocks_(named),
        host_blocks_(named) {
    Schedule& mine = plan_.schedule[stage_];
    std::erase_if(mine, [&](const Action& a) { return !is_recorded(a.micro); });
    step_events_.resize(1 + 2 * length());
  }

  void run(int rank, const RankClasses& classes, std::unique_ptr<CostModel> costs, const Links* links, Steps steps) {
    SimDevice device(std::move(costs), &all_.now);
    meter_ = &device.meter();
    blocks_.watch(device.memory(), &device.in_graph());
    if (uses_host(plan_)) host_blocks_.watch(device.host().memory());
    RecordingWorld world(rank, classes, links, all_);
    next();
    train::Trainer trainer(plan_, device, world, nullptr);
    own_elements_ = own_elements(trainer.parameters());
    next();
    trainer.step([&](const Action*) { next(); });
    copies_ = device.copies();
    pendings_ = all_.pendings;
    steady_ = steps == Steps::steady && !leaves_memory_as_found(0);
    unlike_ = steps == Steps::steady && micro_ != Micro::all && has_deferred();
    if (steady_ && !unlike_ && (micro_ == Micro::all || !reported_by_last())) {
      next();
      trainer.step([&](const Action*) { next(); });
      two_steps_ = true;
    }
    count_sent();
    blocks_.end();
    host_blocks_.end();
    meter_ = nullptr;
  }

  // Nothing where the recorded micro batches do not stand for the others.
  std::optional<StepEvents> result() {
    if (unlike_) return std::nullopt;
    const bool all = micro_ == Micro::all, as_found = !two_steps_ || leaves_memory_as_found(1);
    check(as_found || !all, "sim", "a step that leaves more memory in use each time");
    if (!as_found || !write_memory() || !write_host_memory()) return std::nullopt;
    StepEvents out;
    out.setup = std::move(step_events_.front());
    write_step(0, out);
    std::set<std::uint32_t> before;  // what was started before the first action
    for (const ClockEvent& e : out.begin.clock)
      if (e.kind == Kind::start) before.insert(e.pending);
    if (!all && last_ > 0 && (!same_memory(out) || !same_times(out, before))) return std::nullopt;
    if (two_steps_) {
      write_step(1, out.later.emplace());
      if (!all && last_ > 0 && !same_memory(*out.later)) return std::nullopt;
    } else if (steady_) {
      write_as_last(out, out.later.emplace());
    }
    for (const Blocks::Block& b : blocks_.blocks())
      if (b.made_in > 0 && b.freed_in == Blocks::kNever) out.left[static_cast<std::size_t>(b.category)] += b.size;
    out.groups = std::move(all_.groups);
    out.names = std::move(blocks_.names);
    out.own_elements = std::move(own_elements_);
    out.pendings = pendings_;
    out.kept = kept_;
    out.host_kept = host_kept_;
    out.copies = copies_;
    return out;
  }

 private:
  bool is_recorded(int micro) const {
    return micro_ == Micro::all || micro == 0 || micro == last_ || (micro_ == Micro::ends_and_second && micro == 1);
  }
  const Schedule& schedule() const { return plan_.schedule[stage_]; }
  void next() {
    count_sent();
    all_.now = &step_events_.at(blocks_.events().size());
    blocks_.next_action();
    host_blocks_.next_action();
  }

  // What the recording that ends has handed over.
  void count_sent() {
    if (!all_.now) return;
    const Meter so_far = *meter_;
    all_.now->sent = so_far.since(counted_).communication_bytes;
    counted_ = so_far;
  }

  bool defers() const { return plan_.deferred_gemms > 0; }
  // Recordings of a step, behind that of the setup; what is deferred has one before the end's.
  std::size_t length() const { return schedule().size() + 2 + (defers() ? 1 : 0); }
  bool is_deferred(std::size_t i) const { return defers() && i > 0 && i != Blocks::kNever && (i + 1) % length() == 0; }
  // Whether this stage has any; only the first step's are looked at.
  bool has_deferred() const { return defers() && !step_events_[length() - 1].clock.empty(); }
  std::size_t step_of(std::size_t i) const { return (i - 1) / length(); }
  bool is_end(std::size_t i) const { return i > 0 && i % length() == 0; }
  // Null for setup, begin and end.
  const Action* action(std::size_t i) const {
    const std::size_t in_step = i == 0 ? 0 : (i - 1) % length();
    return in_step > 0 && in_step <= schedule().size() ? &schedule()[in_step - 1] : nullptr;
  }

  // Whether the step gives back all that it makes, and nothing else, on the device and on the host.
  bool leaves_memory_as_found(std::size_t step) const {
    const std::size_t from = 1 + step * length(), to = from + length();
    const auto stays_within = [&](const Blocks::Block& b) {
      const auto inside = [&](std::size_t i) { return i >= from && i < to; };
      return inside(b.made_in) == inside(b.freed_in);
    };
    return std::ranges::all_of(blocks_.blocks(), stays_within) &&
           std::ranges::all_of(host_blocks_.blocks(), stays_within);
  }

  // Whether what lasts comes and goes in actions on the first of several micro batches alone, so that the last one finds it as each
  // later step does.
  bool reported_by_last() const {
    const auto on_first = [&](std::size_t i) { return action(i) && action(i)->micro == 0; };
    return last_ > 0 && std::all_of(blocks_.blocks().begin(), blocks_.blocks().end(), [&](const Blocks::Block& b) {
             const bool stays = b.freed_in == Blocks::kNever;
             if (b.made_in == 0) return stays;
             if (life_of(b) != Life::kept) return true;
             return on_first(b.made_in) && (stays || on_first(b.freed_in));
           });
  }

  enum class Life { scratch, saved, sent, kept, deferred };
  Life life_of(const Blocks::Block& b) const {
    const Action* from = action(b.made_in);
    if (b.freed_in == b.made_in) return Life::scratch;
    if (from && is_deferred(b.freed_in)) return micro_ == Micro::all ? Life::kept : Life::deferred;
    if (!from || b.freed_in == Blocks::kNever || step_of(b.freed_in) != step_of(b.made_in)) return Life::kept;
    const Action* to = action(b.freed_in);
    if (to && !is_send(to->kind) && from->micro == to->micro) return Life::saved;
    // Where every micro batch is recorded, a send itself says what it frees.
    const bool sent = is_end(b.freed_in) || (to && is_send(to->kind));
    return sent && micro_ != Micro::all ? Life::sent : Life::kept;
  }

  void write_step(std::size_t step, RecordedStep& out) {
    const std::size_t begin = 1 + step * length();
    out.begin = std::move(step_events_[begin]);
    out.end = std::move(step_events_[begin + length() - 1]);
    if (defers() && micro_ == Micro::all) out.deferred = std::move(step_events_[begin + length() - 2]);
    for (std::size_t i = 0; i < schedule().size(); ++i) {
      const Action& a = schedule()[i];
      RecordedStep::Of& both = out.actions[key_of(a)];
      if (micro_ == Micro::all) {
        both.each.resize(static_cast<std::size_t>(last_) + 1);
        both.each[static_cast<std::size_t>(a.micro)] = std::move(step_events_[begin + 1 + i]);
        continue;
      }
      ActionEvents& recorded = step_events_[begin + 1 + i];
      if (a.micro == 0 && last_ == 0) both.last = recorded;
      (a.micro == 0 ? both.first : a.micro == last_ ? both.last : both.between.emplace()) = std::move(recorded);
    }
    for (auto& [key, both] : out.actions) {
      const bool again = both.first.keeps && !both.last.keeps && !both.between;
      if (completes_gradients(key.kind) && last_ > 1 && again)
        both.between = ActionEvents{both.first.clock, both.last.memory, both.last.host, both.first.sent};
    }
  }

  // A step whose first micro batches find what the last ones of the first step found.
  static void write_as_last(const StepEvents& first, RecordedStep& out) {
    out.begin.memory = first.begin.memory, out.begin.host = first.begin.host;
    out.end.memory = first.end.memory, out.end.host = first.end.host;
    for (const auto& [key, both] : first.actions) {
      RecordedStep::Of& later = out.actions[key];
      later.last.memory = both.last.memory;
      if (both.between) later.between.emplace().memory = both.between->memory;
      later.first.host = both.first.host, later.last.host = both.last.host;
      if (both.between) later.between->host = both.between->host;
      later.first.memory = both.first.keeps ? both.last.memory : both.first.memory;
    }
  }

  // Which of two neighbours a chunk's message goes to: stages behind this one, or before it.
  std::uint8_t neighbour_of(Action::Kind way, int chunk) const {
    const int position = plan_.chunks[stage_][static_cast<std::size_t>(chunk)].position,
              to = plan_.stage_at(way == Action::Kind::send_activation ? position + 1 : position - 1);
    return to < static_cast<int>(stage_) ? 1 : 0;
  }

  // How a block lives decides its name. False where a block's life is none that is known.
  bool write_memory() {
    using M = MemoryEvent::Kind;
    std::vector<Life> lives;
    for (const Blocks::Block& b : blocks_.blocks()) lives.push_back(life_of(b));
    std::vector<std::uint32_t> number(lives.size());
    // By step, kind of the send, chunk and micro batch.
    std::map<std::tuple<std::size_t, Action::Kind, int, int>, std::pair<ActionKey, std::uint32_t>> to_send;
    const std::size_t step_events = blocks_.events().size();
    for (std::size_t i = 0; i < step_events; ++i) {
      ActionEvents& action_events = step_events_[i];
      std::uint32_t scratch = 0, saved = 0;
      for (const Blocks::Event& e : blocks_.events()[i]) {
        if (lives[e.block] == Life::deferred) continue;
        const Blocks::Block& b = blocks_.blocks()[e.block];
        const Action* maker = action(b.made_in);
        MemoryEvent event{};
        if (maker) event.maker = key_of(*maker);
        if (e.taken)
          event.category = b.category, event.size = b.size, event.name = b.name, event.graph = b.graph,
          event.in_layer = b.in_layer, event.stream = b.stream, event.parts = b.parts;
        switch (lives[e.block]) {
          case Life::scratch:
            event.kind = e.taken ? M::take_scratch : M::free_scratch;
            if (e.taken) number[e.block] = scratch++;
            break;
          case Life::saved:
          case Life::sent:
            event.kind = e.taken ? M::take_saved : M::free_saved;
            if (e.taken) number[e.block] = saved++;
            break;
          case Life::kept:
            event.kind = e.taken ? M::take_kept : M::free_kept;
            if (e.taken) number[e.block] = kept_++;
            action_events.keeps = true;
            break;
          case Life::deferred:
            break;
        }
        event.block = number[e.block];
        if (lives[e.block] == Life::sent) {
          const Action::Kind kind = maker->kind;
          if (kind != Action::Kind::forward && kind != Action::Kind::backward) return false;
          const Action::Kind way =
              kind == Action::Kind::forward ? Action::Kind::send_activation : Action::Kind::send_gradient;
          if (e.taken) {
            const std::tuple message(step_of(i), way, maker->chunk, maker->micro);
            if (!to_send.insert({message, {key_of(*maker), event.block}}).second) return false;
          } else {
            if (action(i) && action(i)->kind != way) return false;
            if (action(i)) continue;  // the send itself says so
            event.kind = M::free_sent;
            event.neighbour = neighbour_of(way, maker->chunk);
          }
        }
        action_events.memory.push_back(event);
      }
    }
    for (std::size_t i = 0; i < step_events; ++i) {
      const Action* a = action(i);
      if (!a || !is_send(a->kind) || micro_ == Micro::all) continue;
      const auto it = to_send.find({step_of(i), a->kind, a->chunk, a->micro});
      if (it == to_send.end() || !step_events_[i].memory.empty()) return false;
      MemoryEvent event{};
      event.kind = M::send;
      event.maker = it->second.first;
      event.neighbour = neighbour_of(a->kind, a->chunk);
      event.block = it->second.second;
      step_events_[i].memory.push_back(event);
      to_send.erase(it);
    }
    return to_send.empty();
  }

  // Of host memory, where nothing is sent. False where a block's life is none that the recorded micro batches show.
  bool write_host_memory() {
    using M = MemoryEvent::Kind;
    std::vector<std::uint32_t> names, number(host_blocks_.blocks().size());
    for (const TensorName& name : host_blocks_.names) {
      names.push_back(static_cast<std::uint32_t>(blocks_.names.size()));
      blocks_.names.push_back(name);
    }
    for (std::size_t i = 0; i < host_blocks_.events().size(); ++i) {
      std::uint32_t saved = 0, scratch = 0;
      for (const Blocks::Event& e : host_blocks_.events()[i]) {
        const Blocks::Block& b = host_blocks_.blocks()[e.block];
        const Life life = life_of(b);
        const Action* maker = action(b.made_in);
        if (life == Life::kept && maker && micro_ != Micro::all) return false;
        MemoryEvent event{};
        if (maker) event.maker = key_of(*maker);
        if (e.taken) event.category = b.category, event.size = b.size, event.name = names[b.name];
        switch (life) {
          case Life::scratch:
            event.kind = e.taken ? M::take_scratch : M::free_scratch;
            if (e.taken) number[e.block] = scratch++;
            break;
          case Life::saved:
            event.kind = e.taken ? M::take_saved : M::free_saved;
            if (e.taken) number[e.block] = saved++;
            break;
          case Life::sent:
          case Life::kept:
          case Life::deferred:
            event.kind = e.taken ? M::take_kept : M::free_kept;
            if (e.taken) number[e.block] = host_kept_++;
            break;
        }
        event.block = number[e.block];
        step_events_[i].host.push_back(event);
      }
    }
    return true;
  }

  // Whether what lies between the first and the last micro batch does to memory as they do.
  bool same_memory(const RecordedStep& step) const {
    return std::all_of(step.actions.begin(), step.actions.end(), [&](const auto& action) {
      const auto& [key, both] = action;
      // What is only done once is not done again: no block of the recording that is replayed is kept.
      const ActionEvents& between = RecordedStep::between(key.kind, both);
      if (last_ > 1 && between.keeps) return false;
      // A buffer that all share may grow in the first one, more than once: what is kept or scratch there is its own.
      const bool first_grows = both.first.keeps;
      const auto own = [first_grows](const MemoryEvent& e) {
        using M = MemoryEvent::Kind;
        return e.kind == M::take_kept || e.kind == M::free_kept ||
               (first_grows && (e.kind == M::take_scratch || e.kind == M::free_scratch));
      };
      const auto lasts_as_long = [&](const ActionEvents& t) {
        return same_but(t.memory, both.last.memory, own, std::equal_to<>()) && t.host == both.last.host;
      };
      return lasts_as_long(both.first) && lasts_as_long(between);
    });
  }

  // And to clocks. The first forward waits for weights besides, and may make of them what the step keeps (FP8 codes); the last backward
  // starts to reduce gradients.
  bool same_times(const RecordedStep& step, const std::set<std::uint32_t>& before) const {
    const bool second = micro_ == Micro::ends_and_second;
    if (second && last_ == 1) return true;  // none lies between
    return std::all_of(step.actions.begin(), step.actions.end(), [&](const auto& action) {
      const bool backward = completes_gradients(action.first.kind);
      const auto own = [&](const ClockEvent& e) {
        return (backward && e.kind == Kind::start) || (e.kind == Kind::wait && before.contains(e.pending));
      };
      const auto& [first, last, between, each] = action.second;
      if (same_but((second ? *between : first).clock, last.clock, own, same_time)) return true;
      return !second && action.first.kind == Action::Kind::forward && adds_kernels(first.clock, last.clock, own);
    });
  }

  // What was started is known by a number of its own in each recording.
  static bool same_time(const ClockEvent& a, ClockEvent b) {
    b.pending = a.pending;
    return a == b;
  }

  // Whether two lists have the same events, without those that are `own`.
  template <class Event, class Own, class Same>
  static bool same_but(const std::vector<Event>& a, const std::vector<Event>& b, const Own& own, const Same& same) {
    auto i = a.begin(), j = b.begin();
    for (;; ++i, ++j) {
      i = std::find_if_not(i, a.end(), own), j = std::find_if_not(j, b.end(), own);
      if (i == a.end() || j == b.end()) return i == a.end() && j == b.end();
      if (!same(*i, *j)) return false;
    }
  }

  // Whether `more` does what `usual` does, in that order, and between that nothing but kernels; without those that are `own`.
  template <class Own>
  static bool adds_kernels(const std::vector<ClockEvent>& more, const std::vector<ClockEvent>& usual, const Own& own) {
    auto next = std::find_if_not(usual.begin(), usual.end(), own);
    for (const ClockEvent& e : more) {
      if (own(e)) continue;
      if (next != usual.end() && same_time(e, *next))
        next = std::find_if_not(next + 1, usual.end(), own);
      else if (e.kind != Kind::kernel)
        return false;
    }
    return next == usual.end();
  }

  std::size_t stage_;
  int last_;  // micro batch
  Micro micro_;
  Plan plan_;
  RecordedGroups all_;
  const Meter* meter_ = nullptr;  // of the device, while it runs
  Meter counted_;                 // as of the last recording's end
  Blocks blocks_, host_blocks_;
  std::vector<ActionEvents> step_events_;
  std::uint32_t kept_ = 0, host_kept_ = 0, copies_ = 0, pendings_ = 0;
  bool steady_ = false;     // later steps find what the first one has left
  bool two_steps_ = false;  // were recorded
  bool unlike_ = false;     // micro batches that are recorded do not stand for the others
  std::vector<std::size_t> own_elements_;
};

// Both ends are recorded: the first micro batch goes first, the last last, in every chunk.
bool in_order(const Schedule& schedule, int micro_batches) {
  std::map<ActionKey, int> next;
  for (const Action& a : schedule)
    if (next[key_of(a)]++ != a.micro) return false;
  return std::all_of(next.begin(), next.end(), [&](const auto& n) { return n.second == micro_batches; });
}

// Whether the life of some tensors is neither one micro batch's nor the whole step's, or micro batches find other memory than each other.
bool shares_among_micro_batches(const Plan& plan) {
  // Where backward is split, gradients that are reduced in every micro batch are summed over several until the last of their GEMMs.
  if (plan.splits_backward() && plan.state.gradients.sharded()) return true;
  // Experts find the pages that the micro batches before have left.
  if (plan.expert_room.spills) return true;
  // And a forward and a backward that take turns share the weights that were gathered for either.
  const auto pauses = [](const std::vector<ChunkPlan>& stage) {
    return std::ranges::any_of(stage, [](const ChunkPlan& c) { return c.pauses > 0; });
  };
  return plan.state.weights.sharded() && std::ranges::any_of(plan.chunks, pauses);
}

// What the first of these recordings that stands for a step has; nothing where none does.
std::optional<StepEvents> step_of(const Plan& plan, const RankClasses& classes, const RankClasses::Class& c,
                                  const MakeCosts& costs, const Links* links, Steps steps,
                                  std::initializer_list<Micro> forms) {
  const int micro_batches = static_cast<int>(plan.training.micro_batches);
  const bool alike =
      !shares_among_micro_batches(plan) && in_order(plan.schedule[static_cast<std::size_t>(c.stage)], micro_batches);
  for (const Micro form : forms) {
    if (form != Micro::all && !alike) continue;
    if (form == Micro::ends_and_second && micro_batches == 1) continue;
    Session session(plan, c.stage, form, steps == Steps::steady);
    session.run(c.rank, classes, costs ? costs() : nullptr, links, steps);
    if (auto made = session.result()) return made;
  }
  return std::nullopt;
}

}  // namespace

bool uses_host(const Plan& plan) {
  return plan.state.optimizer_at == Residence::host || plan.offloaded.any() || plan.expert_room.on_host();
}

Recording record(const Plan& plan, int devices_per_node, const MakeCosts& costs, const Links* links) {
  Recording all{rank_classes(plan, devices_per_node), {}};
  for (const RankClasses::Class& c : all.classes.classes) {
    if (all.step_events.contains(c.kind)) continue;
    auto made =
        step_of(plan, all.classes, c, costs, links, Steps::steady, {Micro::ends, Micro::ends_and_second, Micro::all});
    check(made.has_value(), "sim", "a step of rank {} whose tensors live as no recording says", c.rank);
    all.step_events.emplace(c.kind, *std::move(made));
  }
  return all;
}

std::optional<Recording> record_alike(const Plan& plan, int devices_per_node, const MakeCosts& costs,
                                      const Links* links, std::optional<int> only) {
  Recording all{rank_classes(plan, devices_per_node), {}};
  for (const RankClasses::Class& c : all.classes.classes) {
    if ((only && c.stage != *only) || all.step_events.contains(c.kind)) continue;
    auto made = step_of(plan, all.classes, c, costs, links, Steps::first, {Micro::ends, Micro::ends_and_second});
    if (!made) return std::nullopt;
    all.step_events.emplace(c.kind, *std::move(made));
  }
  return all;
}

}  // namespace mbench::sim
