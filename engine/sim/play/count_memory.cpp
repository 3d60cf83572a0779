#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "engine/sim/play/replay_memory.h"

namespace mbench::sim {
namespace {

using M = MemoryEvent::Kind;

struct CountedBlock {
  std::size_t size = 0;
  Category category{};
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
  CountedBlock saved(const MemoryEvent& e, const Action* a) {
    const ActionEvents& made_by = now_->of({e.maker.kind, e.maker.chunk, a->micro, e.maker.part}, micro_batches_);
    auto [found, fresh] = saved_.try_emplace(&made_by);
    if (fresh)
      for (const MemoryEvent& made : made_by.memory)
        if (made.kind == M::take_saved) at(found->second, made.block) = {made.size, made.category};
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
  static void add(Use& use, const CountedBlock& b, std::int64_t times) {
    use.total += times * static_cast<std::int64_t>(b.size);
    use.by_category[static_cast<std::size_t>(b.category)] += times * static_cast<std::int64_t>(b.size);
  }
  static CountedBlock& at(std::vector<CountedBlock>& blocks, std::uint32_t i) {
    if (i >= blocks.size()) blocks.resize(i + 1);
    return blocks[i];
  }
  CountedBlock& sent(const MemoryEvent& e) {
    return sent_[(e.maker.kind == Action::Kind::forward ? 0 : 2) + e.neighbour];
  }

  // Calls taken(block) and given(block) for each event. Null `a`: not an action of the schedule.
  template <class Taken, class Given>
  void each(const ActionEvents& action_events, const Action* a, const Taken& taken, const Given& given) {
    for (const MemoryEvent& e : action_events.memory) {
      const CountedBlock block{e.size, e.category};
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
        [&](const CountedBlock& b) {
          add(use_, b, 1);
          if (use_.total > peak_.total) peak_ = use_;
        },
        [&](const CountedBlock& b) { add(use_, b, -1); });
  }

  Change of(const ActionEvents& action_events, const Action* a) {
    Change change;
    each(
        action_events, a,
        [&](const CountedBlock& b) {
          add(change.all, b, 1);
          if (change.all.total > change.most) change.most = change.all.total, change.at_most = change.all;
        },
        [&](const CountedBlock& b) { add(change.all, b, -1); });
    return change;
  }

  const StepEvents& step_events_;
  const Schedule& schedule_;
  int micro_batches_;
  const RecordedStep* now_;                                                   // the step that is played
  std::unordered_map<const ActionEvents*, std::vector<CountedBlock>> saved_;  // by who made them
  std::vector<CountedBlock> scratch_, kept_;
  CountedBlock sent_[4];  // activations and gradients, by neighbour
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

MemoryChange change_of(const StepEvents& step_events, Action::Kind kind, int chunk) {
  static const Schedule none;
  return Count(step_events, none, 3).change(kind, chunk);
}

}  // namespace mbench::sim
