#include "engine/sim/play/replay_memory.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "engine/sim/cost/device.h"

namespace mbench::sim {
namespace {

using M = MemoryEvent::Kind;

struct Block {
  std::size_t offset = 0, size = 0;
  Category category{};
};

// The steps that a caching allocator is watched for at most. What it reserves grows in the first ones: blocks that were cut for one step
// are not where the next would cut them.
constexpr int kSteps = 6;

// Memory: Arena or CachingAllocator, the policy by which blocks are found.
template <class Memory>
class Replay {
 public:
  // `of`: whose memory, the device's or the host's.
  Replay(const StepEvents& step_events, const Schedule& schedule, int chunks, int micro_batches,
         const OptimizerPlan& optimizer, Memory& memory, MemoryListener* listener,
         std::vector<MemoryEvent> ActionEvents::*of = &ActionEvents::memory)
      : of_(of),
        step_events_(step_events),
        schedule_(schedule),
        optimizer_(optimizer),
        micro_batches_(micro_batches),
        arena_(memory),
        listener_(listener),
        parts_(parts_of(schedule)),
        saved_(static_cast<std::size_t>(chunks * micro_batches * kActionKinds * parts_)),
        kept_(of == &ActionEvents::memory ? step_events.kept : step_events.host_kept) {}

  ReplayedMemory run() {
    ReplayedMemory memory;
    try {
      play(step_events_.setup, nullptr);
      step(step_events_);
      if (step_events_.later) step(*step_events_.later);
      if constexpr (std::is_same_v<Memory, CachingAllocator>) settle();
    } catch (const OutOfMemory&) {
      memory.full = std::current_exception();
    }
    memory.peak = arena_.peak();
    memory.reserved = arena_.reserved();
    memory.retries = retries_;
    return memory;
  }

 private:
  // More steps, until one reserves no more than the one before.
  void settle() {
    const RecordedStep& usual = step_events_.later ? *step_events_.later : step_events_;
    for (int i = step_events_.later ? 2 : 1; i < kSteps; ++i) {
      const std::size_t before = arena_.reserved();
      const std::uint64_t retries = arena_.retries();
      step(usual);
      retries_ = arena_.retries() - retries;
      if (arena_.reserved() == before) return;
    }
  }

  void step(const RecordedStep& step_events) {
    if (listener_) listener_->step(steps_++);
    const auto events = [&](std::size_t i) -> const ActionEvents& {
      return step_events.of(schedule_[i], micro_batches_);
    };
    play(step_events.begin, nullptr);
    std::decay_t<decltype(arena_.free())> before;
    std::size_t then = schedule_.size();  // where it was so
    for (std::size_t i = 0; i < schedule_.size(); ++i) {
      // A micro batch that comes and goes alone, and leaves the arena as it found it, stands for those to come that do what it did. The
      // first and the last are other recordings.
      if (alone(i) && schedule_[i].micro > 0) {
        const auto again = [&] {
          return alone(i) && &events(i) == &events(then) && &events(i + 1) == &events(then + 1);
        };
        if (i == then + 2 && arena_.free() == before)
          while (again()) i += 2;
        before = arena_.free();
        then = i;
      }
      const Action& a = schedule_[i];
      play(events(i), &a);
    }
    play(step_events.deferred, nullptr);
    make_states();
    play(step_events.end, nullptr);
  }

  // PyTorch's optimizers make their states in the first step, of each weight tensor its own, where activations have been: blocks that are
  // cut for them are not there for activations of later steps.
  bool made_in_first_step(const MemoryEvent& e) const {
    if (!std::is_same_v<Memory, CachingAllocator> || e.category != Category::optimizer) return false;
    const auto& states = optimizer_.states;
    return std::any_of(states.begin(), states.end(),
                       [&](const OptimizerState& s) { return s.name == step_events_.names[e.name].what; });
  }
  void make_states() {
    const std::size_t elements =
        std::accumulate(step_events_.own_elements.begin(), step_events_.own_elements.end(), std::size_t{0});
    for (MemoryEvent state : std::exchange(states_, {})) {
      const std::size_t all = state.size;
      std::size_t left = all;
      for (const std::size_t own : step_events_.own_elements) {
        const double share = static_cast<double>(own) / static_cast<double>(elements);
        const std::size_t part = std::min(left, static_cast<std::size_t>(share * static_cast<double>(all)));
        left -= part;
        state.size = part;
        if (part > 0) take(state, nullptr);
      }
      state.size = left;
      if (left > 0) take(state, nullptr);
    }
  }

  // Whether the stage, the only one then, goes forward with a micro batch before the last and back at once.
  bool alone(std::size_t i) const {
    if (i + 1 >= schedule_.size() || schedule_[i].micro == micro_batches_ - 1) return false;
    return schedule_[i].kind == Action::Kind::forward && schedule_[i + 1].kind == Action::Kind::backward &&
           schedule_[i].chunk == schedule_[i + 1].chunk && schedule_[i].micro == schedule_[i + 1].micro &&
           (i == 0 || schedule_[i - 1].kind == Action::Kind::backward);
  }

  std::size_t slot(int chunk, int micro) const { return static_cast<std::size_t>(chunk * micro_batches_ + micro); }
  std::vector<Block>& saved(const ActionKey& maker, int micro) {
    const std::size_t at = slot(maker.chunk, micro) * kActionKinds + static_cast<std::size_t>(maker.kind);
    return saved_[at * static_cast<std::size_t>(parts_) + static_cast<std::size_t>(maker.part)];
  }
  static int parts_of(const Schedule& schedule) {
    int most = 0;
    for (const Action& a : schedule) most = std::max(most, a.part);
    return most + 1;
  }

  Block take(const MemoryEvent& e, const Action* a) {
    const TensorName& name = step_events_.names[e.name];
    Block block{0, e.size, e.category};
    if constexpr (std::is_same_v<Memory, CachingAllocator>)
      block.offset = arena_.take(e.size, e.category, name.what, e.graph);
    else
      block.offset = arena_.take(e.size, e.category, name.what);
    if (listener_) listener_->taken(block.offset, e.size, e.category, name, a);
    return block;
  }
  void give(Block& b) {
    if (b.size > 0) {
      arena_.give(b.offset, b.size, b.category);
      if (listener_) listener_->given(b.offset);
    }
    b = {};
  }
  static Block& at(std::vector<Block>& blocks, std::uint32_t i) {
    if (i >= blocks.size()) blocks.resize(i + 1);
    return blocks[i];
  }
  Block& sent(const MemoryEvent& e) { return sent_[(e.maker.kind == Action::Kind::forward ? 0 : 2) + e.neighbour]; }

  void play(const ActionEvents& action_events, const Action* a) {
    std::vector<Block>* making = a ? &saved(key_of(*a), a->micro) : nullptr;
    for (const MemoryEvent& e : action_events.*of_) {
      switch (e.kind) {
        case M::take_scratch:
          at(scratch_, e.block) = take(e, a);
          break;
        case M::free_scratch:
          give(scratch_[e.block]);
          break;
        case M::take_saved:
          at(*making, e.block) = take(e, a);
          break;
        case M::free_saved:
          give(saved(e.maker, a->micro)[e.block]);
          break;
        case M::take_kept:
          if (!made_in_first_step(e))
            kept_[e.block] = take(e, a);
          else
            states_.push_back(e);
          break;
        case M::free_kept:
          give(kept_[e.block]);
          break;
        case M::send:
          give(sent(e));
          std::swap(sent(e), saved(e.maker, a->micro)[e.block]);
          break;
        case M::free_sent:
          give(sent(e));
          break;
      }
    }
  }

  std::vector<MemoryEvent> ActionEvents::*of_;
  const StepEvents& step_events_;
  const Schedule& schedule_;
  const OptimizerPlan& optimizer_;
  int micro_batches_;
  Memory& arena_;
  MemoryListener* listener_;
  int steps_ = 0;
  std::vector<MemoryEvent> states_;        // that the first step makes
  int parts_;                              // of an action, at most
  std::vector<std::vector<Block>> saved_;  // [chunk, micro batch, kind, part] of the maker
  std::vector<Block> scratch_, kept_;
  Block sent_[4];              // activations and gradients, by neighbour
  std::uint64_t retries_ = 0;  // of the last step
};

// Sums of what is handed out, without places.
class Count {
 public:
  Count(const StepEvents& step_events, const Schedule& schedule, int micro_batches)
      : step_events_(step_events),
        schedule_(schedule),
        micro_batches_(micro_batches),
        now_(&step_events),
        kept_(step_events.kept) {}

  MemoryUse run() {
    play(step_events_.setup, nullptr);
    step(step_events_);
    if (step_events_.later) step(*step_events_.later);
    return as_memory_use(peak_);
  }

  // What it changes when a micro batch has gone before it.
  MemoryChange change(Action::Kind kind, int chunk) {
    const auto& both = step_events_.actions.at({kind, chunk});
    const ActionEvents& action_events = RecordedStep::between(kind, both);  // nothing in it is made once and kept
    const Action action{kind, chunk, 1};
    if (kind == Action::Kind::send_activation || kind == Action::Kind::send_gradient)
      for (const MemoryEvent& e : action_events.memory)
        if (e.kind == M::send) sent(e) = saved(e, &action);
    const Change c = of(action_events, &action);
    return {c.all.by_category, c.at_most.by_category};
  }

 private:
  void step(const RecordedStep& step_events) {
    now_ = &step_events;
    play(step_events.begin, nullptr);
    for (const Action& a : schedule_) {
      const ActionEvents& action_events = step_events.of(a, micro_batches_);
      const bool again = !action_events.keeps && step_events.actions.at(key_of(a)).each.empty() &&
                         a.kind != Action::Kind::send_activation && a.kind != Action::Kind::send_gradient;
      if (!again) {
        play(action_events, &a);
        continue;
      }
      auto [found, fresh] = changes_.try_emplace(&action_events);
      Change& change = found->second;
      if (fresh) change = of(action_events, &a);
      if (use_.total + change.most > peak_.total) {
        peak_ = use_;
        add(peak_, change.at_most);
      }
      add(use_, change.all);
    }
    play(step_events.deferred, nullptr);
    play(step_events.end, nullptr);
  }

  // The block that an action on the same micro batch has saved. Where micro batches are alike it has one size in all of them
  // (recorder.cpp: same_memory).
  Block saved(const MemoryEvent& e, const Action* a) {
    const ActionEvents& made_by = now_->of({e.maker.kind, e.maker.chunk, a->micro, e.maker.part}, micro_batches_);
    auto [found, fresh] = saved_.try_emplace(&made_by);
    if (fresh)
      for (const MemoryEvent& made : made_by.memory)
        if (made.kind == M::take_saved) at(found->second, made.block) = {0, made.size, made.category};
    return found->second.at(e.block);
  }

  struct Use {
    std::int64_t total = 0;
    std::array<std::int64_t, kCategories> by_category{};
  };
  // What a recording changes, and where it stands when most is handed out.
  struct Change {
    Use all, at_most;
    std::int64_t most = std::numeric_limits<std::int64_t>::min() / 2;
  };
  static MemoryUse as_memory_use(const Use& use) {
    MemoryUse out;
    out.total = static_cast<std::size_t>(use.total);
    for (std::size_t i = 0; i < out.by_category.size(); ++i)
      out.by_category[i] = static_cast<std::size_t>(use.by_category[i]);
    return out;
  }
  static void add(Use& use, const Use& more) {
    use.total += more.total;
    for (std::size_t i = 0; i < use.by_category.size(); ++i) use.by_category[i] += more.by_category[i];
  }
  static void add(Use& use, const Block& b, std::int64_t times) {
    use.total += times * static_cast<std::int64_t>(b.size);
    use.by_category[static_cast<std::size_t>(b.category)] += times * static_cast<std::int64_t>(b.size);
  }
  static Block& at(std::vector<Block>& blocks, std::uint32_t i) {
    if (i >= blocks.size()) blocks.resize(i + 1);
    return blocks[i];
  }
  Block& sent(const MemoryEvent& e) { return sent_[(e.maker.kind == Action::Kind::forward ? 0 : 2) + e.neighbour]; }

  // Calls taken(block) and given(block) for each event. Null `a`: not an action of the schedule.
  template <class Taken, class Given>
  void each(const ActionEvents& action_events, const Action* a, const Taken& taken, const Given& given) {
    for (const MemoryEvent& e : action_events.memory) {
      const Block block{0, e.size, e.category};
      switch (e.kind) {
        case M::take_scratch:
          at(scratch_, e.block) = block;
          taken(block);
          break;
        case M::free_scratch:
          given(scratch_[e.block]);
          break;
        case M::take_saved:
          taken(block);
          break;
        case M::free_saved:
          given(saved(e, a));
          break;
        case M::take_kept:
          kept_[e.block] = block;
          taken(block);
          break;
        case M::free_kept:
          given(kept_[e.block]);
          break;
        case M::send:
          given(sent(e));
          sent(e) = saved(e, a);
          break;
        case M::free_sent:
          given(sent(e));
          sent(e) = {};
          break;
      }
    }
  }

  void play(const ActionEvents& action_events, const Action* a) {
    each(
        action_events, a,
        [&](const Block& b) {
          add(use_, b, 1);
          if (use_.total > peak_.total) peak_ = use_;
        },
        [&](const Block& b) { add(use_, b, -1); });
  }

  Change of(const ActionEvents& action_events, const Action* a) {
    Change change;
    each(
        action_events, a,
        [&](const Block& b) {
          add(change.all, b, 1);
          if (change.all.total > change.most) change.most = change.all.total, change.at_most = change.all;
        },
        [&](const Block& b) { add(change.all, b, -1); });
    return change;
  }

  const StepEvents& step_events_;
  const Schedule& schedule_;
  int micro_batches_;
  const RecordedStep* now_;                                            // the step that is played
  std::unordered_map<const ActionEvents*, std::vector<Block>> saved_;  // by who made them
  std::vector<Block> scratch_, kept_;
  Block sent_[4];  // activations and gradients, by neighbour
  Use use_, peak_;
  std::unordered_map<const ActionEvents*, Change> changes_;
};

}  // namespace

std::vector<MemoryUse> count_memory(const Plan& plan, const Recording& recording) {
  std::vector<MemoryUse> all;
  std::map<std::pair<int, int>, std::size_t> known;  // of a kind and stage: where it is in `all`
  for (const RankClasses::Class& c : recording.classes.classes) {
    const auto [at, fresh] = known.try_emplace({c.kind, c.stage}, all.size());
    all.push_back(fresh ? Count(recording.step_events.at(c.kind), plan.schedule[static_cast<std::size_t>(c.stage)],
                                static_cast<int>(plan.training.micro_batches))
                              .run()
                        : all[at->second]);
  }
  return all;
}

std::optional<CachingSettings> caching_of(const Plan& plan, const std::map<std::string, std::string>& env) {
  const FrameworkMemory& memory = plan.framework->memory;
  if (!memory.caching) return std::nullopt;
  return changed_by(changed_by({}, memory.caching_settings, "framework " + plan.framework->name), env);
}

template <class Memory>
ReplayedMemory replayed(const Plan& plan, const Recording& recording, const RankClasses::Class& c, Memory& memory,
                        MemoryListener* listener) {
  const auto stage = static_cast<std::size_t>(c.stage);
  return Replay<Memory>(recording.step_events.at(c.kind), plan.schedule[stage],
                        static_cast<int>(plan.chunks[stage].size()), static_cast<int>(plan.training.micro_batches),
                        plan.optimizer, memory, listener)
      .run();
}

ReplayedMemory replay_memory_of(const Plan& plan, const Recording& recording, const RankClasses::Class& c,
                                Arena& memory, MemoryListener* listener) {
  return replayed(plan, recording, c, memory, listener);
}
ReplayedMemory replay_memory_of(const Plan& plan, const Recording& recording, const RankClasses::Class& c,
                                CachingAllocator& memory, MemoryListener* listener) {
  return replayed(plan, recording, c, memory, listener);
}

std::vector<ReplayedMemory> replay_memory(const Plan& plan, const Recording& recording, std::size_t limit,
                                          const std::optional<CachingSettings>& caching) {
  std::vector<ReplayedMemory> all;
  for (const RankClasses::Class& c : recording.classes.classes) {
    if (caching) {
      CachingAllocator memory(*caching, limit);
      all.push_back(replay_memory_of(plan, recording, c, memory, nullptr));
    } else {
      Arena memory(std::make_unique<CountedMemory>(), limit);
      all.push_back(replay_memory_of(plan, recording, c, memory, nullptr));
    }
  }
  return all;
}

std::vector<ReplayedMemory> replay_host_memory(const Plan& plan, const Recording& recording, std::size_t limit) {
  std::vector<ReplayedMemory> all;
  for (const RankClasses::Class& c : recording.classes.classes) {
    const auto stage = static_cast<std::size_t>(c.stage);
    Arena memory(std::make_unique<CountedMemory>(), limit);
    all.push_back(Replay<Arena>(recording.step_events.at(c.kind), plan.schedule[stage],
                                static_cast<int>(plan.chunks[stage].size()),
                                static_cast<int>(plan.training.micro_batches), plan.optimizer, memory, nullptr,
                                &ActionEvents::host)
                      .run());
  }
  return all;
}

MemoryChange change_of(const StepEvents& step_events, Action::Kind kind, int chunk) {
  static const Schedule none;
  return Count(step_events, none, 3).change(kind, chunk);
}

}  // namespace mbench::sim
