#include "engine/sim/replay_memory.h"

#include <algorithm>
#include <unordered_map>

#include "engine/sim/device.h"

namespace mbench::sim {
namespace {

using M = MemoryEvent::Kind;

struct Block {
  std::size_t offset = 0, size = 0;
  Category category{};
};

constexpr int kMakers = 6;  // kinds of actions

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

class Replay {
 public:
  Replay(const StepTapes& tapes, const Schedule& schedule, int chunks, int micro_batches, std::size_t limit)
      : tapes_(tapes),
        schedule_(schedule),
        micro_batches_(micro_batches),
        arena_(std::make_unique<CountedMemory>(), limit),
        saved_(static_cast<std::size_t>(chunks * micro_batches * kMakers)),
        hash_(static_cast<std::size_t>(chunks * micro_batches), 0),
        kept_(tapes.kept) {}

  ReplayedMemory run() {
    ReplayedMemory memory;
    try {
      step();
    } catch (const OutOfMemory&) {
      memory.full = std::current_exception();
      memory.full_before_waits = !waited_;
    }
    memory.peak = arena_.peak();
    memory.reserved = arena_.reserved();
    return memory;
  }

 private:
  void step() {
    play(tapes_.setup, nullptr);
    play(tapes_.begin, nullptr);
    for (std::size_t i = 0; i < schedule_.size(); ++i) {
      i += skipped(i);
      if (i == schedule_.size()) break;
      const Action& a = schedule_[i];
      play(tapes_.of(a, micro_batches_), &a);
      waited_ =
          waited_ || a.kind == Action::Kind::receive_activation || a.kind == Action::Kind::receive_gradient;
      if (a.kind == Action::Kind::backward)
        close(a);
      else
        open(a);
    }
    waited_ = true;
    play(tapes_.end, nullptr);
  }

  std::size_t slot(int chunk, int micro) const {
    return static_cast<std::size_t>(chunk * micro_batches_ + micro);
  }
  std::vector<Block>& saved(const Action& a, Action::Kind maker) {
    return saved_[slot(a.chunk, a.micro) * kMakers + static_cast<std::size_t>(maker)];
  }

  Block take(const MemoryEvent& e) {
    return {arena_.take(e.size, e.category, tapes_.names[e.name]), e.size, e.category};
  }
  void give(Block& b) {
    if (b.size > 0) arena_.give(b.offset, b.size, b.category);
    b = {};
  }
  static Block& at(std::vector<Block>& blocks, std::uint32_t i) {
    if (i >= blocks.size()) blocks.resize(i + 1);
    return blocks[i];
  }
  Block& sent(Action::Kind maker) { return sent_[maker == Action::Kind::forward ? 0 : 1]; }

  void play(const Tape& tape, const Action* a) {
    std::vector<Block>* making = a ? &saved(*a, a->kind) : nullptr;
    for (const MemoryEvent& e : tape.memory) {
      switch (e.kind) {
        case M::take_scratch:
          at(scratch_, e.block) = take(e);
          break;
        case M::free_scratch:
          give(scratch_[e.block]);
          break;
        case M::take_saved:
          at(*making, e.block) = take(e);
          break;
        case M::free_saved:
          give(saved(*a, e.maker)[e.block]);
          break;
        case M::take_kept:
          kept_[e.block] = take(e);
          break;
        case M::free_kept:
          give(kept_[e.block]);
          break;
        case M::send:
          give(sent(e.maker));
          std::swap(sent(e.maker), saved(*a, e.maker)[e.block]);
          break;
        case M::free_sent:
          give(sent(e.maker));
          break;
      }
    }
    if (tape.keeps) states_.clear();
  }

  // The micro batch has blocks now; its part of the state is hashed when it is looked at.
  void open(const Action& a) {
    hash_[slot(a.chunk, a.micro)] = 0;
    if (a.kind == Action::Kind::forward || a.kind == Action::Kind::receive_activation) {
      if (std::find(open_.begin(), open_.end(), std::pair{a.chunk, a.micro}) == open_.end())
        open_.emplace_back(a.chunk, a.micro);
    }
  }
  void close(const Action& a) {
    hash_[slot(a.chunk, a.micro)] = 0;
    // What backward made is sent by an action to come: it is in the state with the sent blocks, or not yet.
    std::erase(open_, std::pair{a.chunk, a.micro});
  }

  std::uint64_t hash_of(int chunk, int micro) {
    std::uint64_t& hash = hash_[slot(chunk, micro)];
    if (hash != 0) return hash;
    hash = 1;
    for (int k = 0; k < kMakers; ++k)
      for (const Block& b : saved_[slot(chunk, micro) * kMakers + static_cast<std::size_t>(k)])
        hash = mixed(hash, b.offset + b.size);
    return hash;
  }

  // All live blocks, by what they are for, counted from micro batch `now`. What is free follows from them.
  std::uint64_t state(int now) {
    std::uint64_t hash = mixed(arena_.reserved(), arena_.in_use().total);
    for (const Block& b : sent_) hash = mixed(hash, b.offset + b.size);
    for (const auto& [chunk, micro] : open_) {
      hash = mixed(hash, static_cast<std::uint64_t>(chunk * 65536 + micro - now + 32768));
      hash = mixed(hash, hash_of(chunk, micro));
    }
    return hash;
  }

  // How many actions from i on can be left out.
  std::size_t skipped(std::size_t i) {
    const Action& a = schedule_[i];
    // Where everything that was under way has been sent: before a forward that follows a backward.
    const bool boundary = i > 0 && a.chunk == 0 && a.micro > 0 &&
                          (a.kind == Action::Kind::receive_activation || a.kind == Action::Kind::forward) &&
                          backward_before(i);
    if (!boundary) return 0;
    const auto [it, fresh] = states_.try_emplace(state(a.micro), i);
    if (fresh) return 0;
    const std::size_t before = it->second, period = i - before;
    const int shift = a.micro - schedule_[before].micro;
    it->second = i;
    if (shift <= 0) return 0;
    // As long as each action is that of one period ago, on later micro batches, none of which is the last.
    std::size_t same = 0;
    while (i + same < schedule_.size()) {
      const Action &next = schedule_[i + same], &then = schedule_[i + same - period];
      if (next.kind != then.kind || next.chunk != then.chunk || next.micro != then.micro + shift ||
          next.micro == micro_batches_ - 1 || then.micro == 0)
        break;
      ++same;
    }
    const std::size_t periods = same / period;
    if (periods == 0) return 0;
    const int forward = shift * static_cast<int>(periods);
    // The blocks are those of later micro batches now.
    for (auto o = open_.rbegin(); o != open_.rend(); ++o) {
      for (int k = 0; k < kMakers; ++k)
        std::swap(saved_[slot(o->first, o->second + forward) * kMakers + static_cast<std::size_t>(k)],
                  saved_[slot(o->first, o->second) * kMakers + static_cast<std::size_t>(k)]);
      hash_[slot(o->first, o->second)] = hash_[slot(o->first, o->second + forward)] = 0;
      o->second += forward;
    }
    states_.clear();
    return periods * period;
  }

  // Whether a backward, with what was sent after it, is what was done last.
  bool backward_before(std::size_t i) const {
    const Action::Kind last = schedule_[i - 1].kind;
    return last == Action::Kind::backward || last == Action::Kind::send_gradient;
  }

  const StepTapes& tapes_;
  const Schedule& schedule_;
  int micro_batches_;
  Arena arena_;
  std::vector<std::vector<Block>> saved_;  // [chunk, micro batch, maker]
  std::vector<std::uint64_t> hash_;        // [chunk, micro batch]; 0: not known
  std::vector<Block> scratch_, kept_;
  Block sent_[2];
  bool waited_ = false;
  std::vector<std::pair<int, int>>
      open_;  // chunk and micro batch of those under way, in the order they began
  std::unordered_map<std::uint64_t, std::size_t> states_;  // where the schedule was
};

}  // namespace

std::vector<ReplayedMemory> replay_memory(const Plan& plan, const Recording& recording, std::size_t limit) {
  std::vector<ReplayedMemory> all;
  for (const RankClasses::Class& c : recording.classes.classes) {
    const auto stage = static_cast<std::size_t>(c.stage);
    all.push_back(Replay(recording.tapes.at(c.kind), plan.schedule[stage],
                         static_cast<int>(plan.chunks[stage].size()),
                         static_cast<int>(plan.training.micro_batches), limit)
                      .run());
  }
  return all;
}

}  // namespace mbench::sim
