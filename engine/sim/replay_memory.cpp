#include "engine/sim/replay_memory.h"

#include "engine/sim/device.h"

namespace mbench::sim {
namespace {

using M = MemoryEvent::Kind;

struct Block {
  std::size_t offset = 0, size = 0;
  Category category{};
};

constexpr int kMakers = 6;  // kinds of actions

class Replay {
 public:
  Replay(const StepTapes& tapes, const Schedule& schedule, int chunks, int micro_batches, std::size_t limit)
      : tapes_(tapes),
        schedule_(schedule),
        micro_batches_(micro_batches),
        arena_(std::make_unique<CountedMemory>(), limit),
        saved_(static_cast<std::size_t>(chunks * micro_batches * kMakers)),
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
    FreeBlocks before;
    std::size_t then = schedule_.size();  // where it was so
    for (std::size_t i = 0; i < schedule_.size(); ++i) {
      // A micro batch that comes and goes alone, and leaves the arena as it found it, stands for those to come up to the
      // last, which is another tape, as the first is.
      if (alone(i) && schedule_[i].micro > 0) {
        if (i == then + 2 && arena_.free() == before)
          while (alone(i)) i += 2;
        before = arena_.free();
        then = i;
      }
      const Action& a = schedule_[i];
      play(tapes_.of(a, micro_batches_), &a);
      waited_ =
          waited_ || a.kind == Action::Kind::receive_activation || a.kind == Action::Kind::receive_gradient;
    }
    waited_ = true;
    play(tapes_.end, nullptr);
  }

  // Whether the stage, the only one then, goes forward with a micro batch before the last and back at once.
  bool alone(std::size_t i) const {
    if (i + 1 >= schedule_.size() || schedule_[i].micro == micro_batches_ - 1) return false;
    return schedule_[i].kind == Action::Kind::forward && schedule_[i + 1].kind == Action::Kind::backward &&
           schedule_[i].chunk == schedule_[i + 1].chunk && schedule_[i].micro == schedule_[i + 1].micro &&
           (i == 0 || schedule_[i - 1].kind == Action::Kind::backward);
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
  }

  const StepTapes& tapes_;
  const Schedule& schedule_;
  int micro_batches_;
  Arena arena_;
  std::vector<std::vector<Block>> saved_;  // [chunk, micro batch, maker]
  std::vector<Block> scratch_, kept_;
  Block sent_[2];
  bool waited_ = false;
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
