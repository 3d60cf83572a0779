#include "engine/sim/play/replay_memory.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <ranges>
#include <type_traits>
#include <utility>

#include "engine/base/parallel.h"
#include "engine/sim/cost/device.h"
#include "engine/sim/play/memory_rounds.h"

namespace mbench::sim {
namespace {

using M = MemoryEvent::Kind;

struct Block {
  std::size_t offset = 0, size = 0;
  Category category{};
  MemoryStream stream{};                // whose memory it has
  TensorParts parts{};                  // where it is several: how large each is
  std::array<std::size_t, 2> others{};  // the offsets of all but the first

  int count() const { return parts[2] > 0 ? 3 : parts[1] > 0 ? 2 : 1; }
  std::size_t at(int i) const { return i == 0 ? offset : others[static_cast<std::size_t>(i) - 1]; }
  std::size_t& at(int i) { return i == 0 ? offset : others[static_cast<std::size_t>(i) - 1]; }
  // The bytes of one of them. The first has what does not divide.
  std::size_t size_of(int i) const {
    if (count() == 1) return size;
    const std::size_t one = size / static_cast<std::size_t>(parts[0] + parts[1] + parts[2]);
    const auto own = [&](int part) { return one * parts[static_cast<std::size_t>(part)]; };
    return i > 0 ? own(i) : size - own(1) - own(2);
  }
};

// The steps that a caching allocator is watched for at most. What it reserves grows in the first ones: blocks that were cut for one step
// are not where the next would cut them.
constexpr int kSteps = 6;

// Memory: Arena or CachingAllocator, the policy by which blocks are found.
template <class Memory>
class Replay {
 public:
  // `of`: whose memory, the device's or the host's.
  Replay(const StepEvents& step_events, const Schedule& schedule, int chunks, int micro_batches, const Plan& plan,
         Memory& memory, MemoryListener* listener, std::vector<MemoryEvent> ActionEvents::*of = &ActionEvents::memory)
      : of_(of),
        step_events_(step_events),
        schedule_(schedule),
        optimizer_(plan.optimizer),
        own_streams_(plan.framework->memory.own_streams),
        recorded_(plan.framework->memory.recorded),
        micro_batches_(micro_batches),
        arena_(memory),
        listener_(listener),
        parts_(parts_of(schedule)),
        makers_(static_cast<std::size_t>(chunks * kActionKinds * parts_)),
        saved_(makers_ * static_cast<std::size_t>(micro_batches)),
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
    if (retries_ > 0) memory.calls = std::move(calls_);
    memory.played = played_;
    return memory;
  }

 private:
  // More steps, until one reserves no more than the one before. One that begins as the one before did does what that did.
  void settle() {
    const RecordedStep& usual = step_events_.later ? *step_events_.later : step_events_;
    for (int i = step_events_.later ? 2 : 1; i < kSteps; ++i) {
      const std::size_t before = arena_.reserved();
      if (began_ != &usual || begin_ != standing()) step(usual);
      retries_ = arena_.retries() - retries_before_;
      if (arena_.reserved() == before) return;
    }
  }

  void step(const RecordedStep& step_events) {
    if (listener_) listener_->step(steps_++);
    begin_ = standing(), began_ = &step_events, retries_before_ = retries_now();
    const auto events = [&](std::size_t i) -> const ActionEvents& {
      return step_events.of(schedule_[i], micro_batches_);
    };
    calls_.clear();
    play_counted(step_events.begin, nullptr, schedule_.size());
    std::decay_t<decltype(arena_.free())> before;
    std::size_t then = schedule_.size();  // where it was so
    Rounds rounds;
    oldest_ = newest_ = 0;
    for (std::size_t i = 0; i < schedule_.size(); ++i) {
      if (const std::size_t known = listener_ ? 0 : known_actions(step_events, i, rounds)) {
        i += known;
        then = schedule_.size();
      }
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
      oldest_ = std::min(oldest_, a.micro), newest_ = std::max(newest_, a.micro);
      play_counted(events(i), &a, i);
      if (a.kind != Action::Kind::forward) drop_freed(a.micro);
      ++played_;
    }
    play_counted(step_events.deferred, nullptr, schedule_.size());
    make_states();
    play_counted(step_events.end, nullptr, schedule_.size());
  }

  using Free = std::decay_t<decltype(std::declval<Memory>().free())>;
  using Rounds = MemoryRounds<Free>;

  // How many actions from `at` on need not be played, since they leave all as it is but for later micro batches: memory stands as it stood
  // before an earlier forward, and the schedule does from here what it did from there.
  std::size_t known_actions(const RecordedStep& step_events, std::size_t at, Rounds& rounds) {
    const Action& a = schedule_[at];
    if (a.kind != Action::Kind::forward || a.chunk != 0 || a.part != 0 || !rounds.seen(allocated())) return 0;
    forget_freed(a.micro);
    if (newest_ - oldest_ >= Rounds::kMost) return 0;
    const auto found = rounds.find(moment(at));
    if (!found) return 0;
    const std::size_t period = at - found->action;
    const int micros = a.micro - found->micro;
    std::size_t alike = 0;
    for (; at + alike < schedule_.size(); ++alike) {
      const Action &then = schedule_[found->action + alike], &now = schedule_[at + alike];
      const ActionEvents& events = step_events.of(now, micro_batches_);
      if (key_of(now) != key_of(then) || now.micro != then.micro + micros || events.keeps ||
          &events != &step_events.of(then, micro_batches_))
        break;
    }
    const auto times = static_cast<int>(alike / period);
    if (times == 0) return 0;
    move_saved(times * micros);
    rounds = {};
    return static_cast<std::size_t>(times) * period;
  }

  bool has_some(std::size_t maker, int micro) const {
    return std::ranges::any_of(saved_[at_of(maker, micro)], [](const Block& b) { return b.size > 0; });
  }
  // Keeps no list of what a micro batch has saved once all of it is freed: there may be millions of micro batches.
  void drop_freed(int micro) {
    for (const std::size_t maker : makers())
      if (auto& blocks = saved_[at_of(maker, micro)]; !blocks.empty() && !has_some(maker, micro))
        std::vector<Block>().swap(blocks);
  }
  // Leaves out the oldest micro batches that have nothing saved any more, before `now`.
  void forget_freed(int now) {
    const auto some = [&](std::size_t maker) { return has_some(maker, oldest_); };
    while (oldest_ < now && std::ranges::none_of(makers(), some)) ++oldest_;
  }

  typename Rounds::Moment moment(std::size_t at) {
    const int now = schedule_[at].micro;
    typename Rounds::Moment m{at, now, allocated(), retries_now(), arena_.free(), {}};
    const auto add = [&](std::size_t owner, int micro, const std::vector<Block>& blocks) {
      for (std::size_t i = 0; i < blocks.size(); ++i)
        for (int part = 0; blocks[i].size > 0 && part < blocks[i].count(); ++part)
          m.used.push_back({owner, micro - now, i, place_of(blocks[i].at(part)), blocks[i].size_of(part)});
    };
    for (const std::size_t maker : makers())
      for (int micro = oldest_; micro <= newest_; ++micro) add(maker, micro, saved_[at_of(maker, micro)]);
    add(saved_.size(), now, std::vector<Block>(std::begin(sent_), std::end(sent_)));
    return m;
  }

  // What the micro batches in flight have saved, later ones have.
  void move_saved(int micros) {
    check(newest_ + micros < micro_batches_, "sim", "{} micro batches after number {}, need less than {}", micros,
          newest_, micro_batches_);
    for (const std::size_t maker : makers())
      for (int micro = newest_; micro >= oldest_; --micro)
        std::swap(saved_[at_of(maker, micro + micros)], saved_[at_of(maker, micro)]);
    oldest_ += micros, newest_ += micros;
  }

  // Free blocks, and where those are that outlast steps.
  struct Standing {
    Free free{};
    std::vector<std::pair<std::size_t, std::size_t>> kept{};
    bool operator==(const Standing&) const = default;
  };
  Standing standing() const {
    Standing now{arena_.free(), {}};
    for (const Block& b : kept_)
      for (int part = 0; part < b.count(); ++part)
        now.kept.emplace_back(b.size > 0 ? place_of(b.at(part)) : 0, b.size_of(part));
    return now;
  }

  std::size_t place_of(std::size_t block) const {
    if constexpr (std::is_same_v<Memory, CachingAllocator>)
      return arena_.address(block);
    else
      return block;
  }
  std::size_t allocated() const {
    if constexpr (std::is_same_v<Memory, CachingAllocator>)
      return arena_.allocated();
    else
      return arena_.in_use().total;
  }
  std::uint64_t retries_now() const {
    if constexpr (std::is_same_v<Memory, CachingAllocator>)
      return arena_.retries();
    else
      return 0;
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

  // Makers of saved blocks: kinds of actions by chunk and part. Where in `saved_` the blocks of a micro batch are.
  auto makers() const { return std::views::iota(std::size_t{0}, makers_); }
  std::size_t at_of(std::size_t maker, int micro) const { return static_cast<std::size_t>(micro) * makers_ + maker; }
  std::vector<Block>& saved(const ActionKey& maker, int micro) {
    const std::size_t kind =
        static_cast<std::size_t>(maker.chunk) * kActionKinds + static_cast<std::size_t>(maker.kind);
    return saved_[at_of(kind * static_cast<std::size_t>(parts_) + static_cast<std::size_t>(maker.part), micro)];
  }
  static int parts_of(const Schedule& schedule) {
    int most = 0;
    for (const Action& a : schedule) most = std::max(most, a.part);
    return most + 1;
  }

  Block take(const MemoryEvent& e, const Action* a) {
    const TensorName& name = step_events_.names[e.name];
    Block block{0, e.size, e.category, stream_of(e), {}, {}};
    if constexpr (std::is_same_v<Memory, CachingAllocator>) {
      block.parts = e.parts;
      for (int i = 0; i < block.count(); ++i)
        block.at(i) = arena_.take(block.size_of(i), e.category, name.what, {.graph = e.graph, .stream = block.stream});
    } else {
      block.offset = arena_.take(e.size, e.category, name.what);
    }
    for (int i = 0; listener_ && i < block.count(); ++i)
      listener_->taken(block.at(i), block.size_of(i), e.category, name, a);
    return block;
  }
  // The stream whose memory it gets.
  MemoryStream stream_of(const MemoryEvent& e) const {
    return own_streams_[static_cast<std::size_t>(e.stream)] ? e.stream : MemoryStream::compute;
  }
  void give(Block& b) {
    for (int i = 0; b.size > 0 && i < b.count(); ++i) {
      give_part(b, i);
      if (listener_) listener_->given(b.at(i));
    }
    b = {};
  }
  void give_part(const Block& b, int i) {
    if constexpr (std::is_same_v<Memory, CachingAllocator>)
      if (recorded_[static_cast<std::size_t>(b.stream)]) return arena_.give_recorded(b.at(i), b.size_of(i), b.category);
    arena_.give(b.at(i), b.size_of(i), b.category);
  }
  static Block& at(std::vector<Block>& blocks, std::uint32_t i) {
    if (i >= blocks.size()) blocks.resize(i + 1);
    return blocks[i];
  }
  Block& sent(const MemoryEvent& e) { return sent_[(e.maker.kind == Action::Kind::forward ? 0 : 2) + e.neighbour]; }

  // Plays them, and notes what they ask the device for under that place of the schedule.
  void play_counted(const ActionEvents& action_events, const Action* a, std::size_t place) {
    if constexpr (std::is_same_v<Memory, CachingAllocator>) {
      const CachingAllocator::DeviceCalls before = arena_.device_calls();
      play(action_events, a);
      const CachingAllocator::DeviceCalls& now = arena_.device_calls();
      if (now == before) return;
      CachingAllocator::DeviceCalls& all = calls_[place];
      all.requested += now.requested - before.requested;
      all.returned += now.returned - before.returned;
    } else {
      play(action_events, a);
    }
  }

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
  const OwnStreams &own_streams_, &recorded_;
  int micro_batches_;
  Memory& arena_;
  MemoryListener* listener_;
  int steps_ = 0;
  std::vector<MemoryEvent> states_;        // that the first step makes
  int parts_;                              // of an action, at most
  std::size_t makers_;                     // [chunk, kind, part]
  std::vector<std::vector<Block>> saved_;  // [micro batch, maker]
  int oldest_ = 0, newest_ = 0;            // micro batches of this step: no older one has saved anything
  std::vector<Block> scratch_, kept_;
  Block sent_[4];              // activations and gradients, by neighbour
  std::uint64_t retries_ = 0;  // of the last step
  DeviceCallsOf calls_;        // likewise
  Standing begin_;             // when the last step began
  const RecordedStep* began_ = nullptr;
  std::uint64_t retries_before_ = 0;  // likewise
  std::size_t played_ = 0;            // actions
};

}  // namespace

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
                        plan, memory, listener)
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

namespace {

// Of each class what of(class) gives: classes of one stage that have one recording give the same.
template <class Of>
std::vector<ReplayedMemory> of_classes(const Recording& recording, int threads, const Of& of) {
  const auto& classes = recording.classes.classes;
  std::map<std::pair<int, int>, std::size_t> known;  // of a kind and stage: which class has it first
  std::vector<std::size_t> first;
  for (std::size_t i = 0; i < classes.size(); ++i)
    if (known.try_emplace({classes[i].kind, classes[i].stage}, i).second) first.push_back(i);
  std::vector<ReplayedMemory> all(classes.size());
  each_in_parallel(first.size(), threads, [&](std::size_t i) { all[first[i]] = of(classes[first[i]]); });
  for (std::size_t i = 0; i < classes.size(); ++i)
    if (const std::size_t at = known.at({classes[i].kind, classes[i].stage}); at != i) all[i] = all[at];
  return all;
}

}  // namespace

ReplayedMemory replay_memory_of(const Plan& plan, const Recording& recording, const RankClasses::Class& c,
                                std::size_t limit, const std::optional<CachingSettings>& caching) {
  if (caching) {
    CachingAllocator memory(*caching, limit);
    return replay_memory_of(plan, recording, c, memory, nullptr);
  }
  Arena memory(std::make_unique<CountedMemory>(), limit);
  return replay_memory_of(plan, recording, c, memory, nullptr);
}

std::vector<ReplayedMemory> replay_memory(const Plan& plan, const Recording& recording, std::size_t limit,
                                          const std::optional<CachingSettings>& caching, int threads) {
  return of_classes(recording, threads,
                    [&](const RankClasses::Class& c) { return replay_memory_of(plan, recording, c, limit, caching); });
}

std::vector<ReplayedMemory> replay_host_memory(const Plan& plan, const Recording& recording, std::size_t limit) {
  return of_classes(recording, 1, [&](const RankClasses::Class& c) {
    const auto stage = static_cast<std::size_t>(c.stage);
    Arena memory(std::make_unique<CountedMemory>(), limit);
    return Replay<Arena>(recording.step_events.at(c.kind), plan.schedule[stage],
                         static_cast<int>(plan.chunks[stage].size()), static_cast<int>(plan.training.micro_batches),
                         plan, memory, nullptr, &ActionEvents::host)
        .run();
  });
}

}  // namespace mbench::sim
