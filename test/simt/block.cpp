#include "test/simt/block.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

#include "engine/base/error.h"
#include "test/support/sanitizer.h"

#ifdef MBENCH_UNDER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace simt {
namespace {

using mbench::ErrorKind;
using mbench::fail;

constexpr unsigned kMostThreads = 1024, kWarp = 32;

Block* running_block = nullptr;
std::uint64_t blocks_so_far = 0;

// AddressSanitizer must know which stack it is on; elsewhere these do nothing.
struct StackSwitch {
#ifdef MBENCH_UNDER_ASAN
  void begin(const void* stack, std::size_t bytes) {
    __sanitizer_start_switch_fiber(&saved, stack, bytes);
  }
  void end(const void** from, std::size_t* bytes) {
    __sanitizer_finish_switch_fiber(saved, from, bytes);
  }
  void* saved = nullptr;
#else
  void begin(const void*, std::size_t) {}
  void end(const void**, std::size_t*) {}
#endif
};

// Leaves `from`, which goes on when it is switched to, for `to`, which has been left before.
void switch_places(Place& from, Place& to) {
#ifdef MBENCH_UNDER_ASAN
  swapcontext(&from.first, &to.first);
#else
  if (_setjmp(from.again) == 0) _longjmp(to.again, 1);
#endif
}
// As above, but `to` begins.
void begin_place(Place& from, Place& to) {
#ifdef MBENCH_UNDER_ASAN
  swapcontext(&from.first, &to.first);
#else
  if (_setjmp(from.again) == 0) setcontext(&to.first);
#endif
}

// The stack of the scheduler, known once the first fiber has run.
const void* scheduler_stack = nullptr;
std::size_t scheduler_bytes = 0;

}  // namespace

Fibers::Fibers() : places_(kMostThreads), begun_(kMostThreads) {
  void* memory =
      mmap(nullptr, kMostThreads * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  stacks_ = static_cast<std::byte*>(memory);
}

Fibers::~Fibers() {
  munmap(stacks_, kMostThreads * kBytes);
}

Block::Block(std::string_view kernel, Fibers& fibers, Index threads, std::size_t dynamic_bytes, bool descending)
    : kernel_(kernel),
      fibers_(fibers),
      shape_(threads),
      descending_(descending),
      threads_(threads.x * threads.y),
      warps_((threads_.size() + kWarp - 1) / kWarp),
      dynamic_(dynamic_bytes + 16, std::byte{0xFF}),
      dynamic_bytes_(dynamic_bytes),
      number_(++blocks_so_far) {
  for (unsigned t = 0; t < threads_.size(); ++t) threads_[t].index = {t % threads.x, t / threads.x, 0};
}

Block& Block::current() {
  if (running_block == nullptr) fail(ErrorKind::internal, "simt", "a kernel's word was used outside of a kernel");
  return *running_block;
}

void Block::begin(unsigned thread, unsigned fiber) {
  threads_[thread].started = true;
  threads_[thread].fiber = fiber;
  running_ = thread;
  threadIdx = threads_[thread].index;
}

// The thread of the same warp that run_warp() would start next, if it is the next to run at all.
bool Block::next_of_warp(unsigned& thread) const {
  const unsigned first = running_ / kWarp * kWarp;
  const unsigned end = std::min<unsigned>(first + kWarp, static_cast<unsigned>(threads_.size()));
  thread = descending_ ? running_ - 1 : running_ + 1;  // below 0 it wraps around
  return thread >= first && thread < end && threads_[thread].state == State::ready && !threads_[thread].started;
}

void Block::entry() {
  StackSwitch().end(&scheduler_stack, &scheduler_bytes);
  for (;;) {
    Block& block = *running_block;
    const unsigned fiber = block.threads_[block.running_].fiber;
    try {
      for (unsigned next = block.running_;;) {
        (*block.body_)();
        block.threads_[block.running_].state = State::done;
        if (!block.next_of_warp(next)) break;
        block.begin(next, fiber);
      }
    } catch (...) {
      block.failure_ = std::current_exception();
    }
    StackSwitch to;
    to.begin(scheduler_stack, scheduler_bytes);
    switch_places(block.fibers_.place(fiber), block.scheduler_);
    to.end(&scheduler_stack, &scheduler_bytes);
  }
}

void Block::resume(unsigned thread) {
  if (threads_[thread].started)
    begin(thread, threads_[thread].fiber);
  else
    begin(thread, thread);
  const unsigned fiber = threads_[thread].fiber;
  Place& place = fibers_.place(fiber);
  StackSwitch to;
  to.begin(fibers_.stack(fiber), Fibers::kBytes);
  if (fibers_.begun(fiber)) {
    switch_places(scheduler_, place);
  } else {
    fibers_.begun(fiber) = true;
    getcontext(&place.first);
    place.first.uc_stack.ss_sp = fibers_.stack(fiber);
    place.first.uc_stack.ss_size = Fibers::kBytes;
    place.first.uc_link = nullptr;
    makecontext(&place.first, &Block::entry, 0);
    begin_place(scheduler_, place);
  }
  const void* from = nullptr;
  std::size_t bytes = 0;
  to.end(&from, &bytes);
  if (failure_) std::rethrow_exception(failure_);
}

void Block::wait(State state, const std::source_location& at) {
  Thread& own = threads_[running_];
  own.state = state;
  own.at = at;
  StackSwitch to;
  to.begin(scheduler_stack, scheduler_bytes);
  switch_places(fibers_.place(own.fiber), scheduler_);
  to.end(&scheduler_stack, &scheduler_bytes);
}

const std::uint64_t* Block::exchange(std::uint64_t value, unsigned mask, const std::source_location& at) {
  if (mask != 0xFFFFFFFFu)
    fail(ErrorKind::internal, kernel_, "lanes of an operation of the warp, got mask {:#x}, need all", mask);
  Thread& own = threads_[running_];
  std::uint64_t* values = warps_[running_ / kWarp].values[own.warp_steps++ % 2];
  values[running_ % kWarp] = value;
  wait(State::at_warp, at);
  return values;
}

void Block::disagree(unsigned a, unsigned b) const {
  const auto place = [&](unsigned t) -> std::string {
    const Thread& x = threads_[t];
    const char* what = x.state == State::done      ? "has ended"
                       : x.state == State::at_warp ? "is at its warp's"
                                                   : "is at a barrier in";
    const bool ended = x.state == State::done;
    return ended ? fmt::format("thread {} {}", t, what)
                 : fmt::format("thread {} {} {}:{}", t, what, x.at.file_name(), x.at.line());
  };
  fail(ErrorKind::internal, kernel_, "threads must wait at one place, got: {}; {}", place(a), place(b));
}

void Block::release(unsigned first, unsigned count, State from) {
  for (unsigned t = first; t < first + count; ++t) {
    const Thread &x = threads_[t], &y = threads_[first];
    if (x.state != from || x.at.line() != y.at.line() || std::strcmp(x.at.file_name(), y.at.file_name()) != 0)
      disagree(first, t);
  }
  for (unsigned t = first; t < first + count; ++t) threads_[t].state = State::ready;
}

bool Block::run_warp(unsigned warp) {
  const unsigned first = warp * kWarp;
  const unsigned count = std::min<unsigned>(kWarp, static_cast<unsigned>(threads_.size()) - first);
  bool moved = false;
  for (;;) {
    for (unsigned i = 0; i < count; ++i) {
      const unsigned t = first + (descending_ ? count - 1 - i : i);
      if (threads_[t].state != State::ready) continue;
      resume(t);
      moved = true;
    }
    unsigned waiting = first;
    while (waiting < first + count && threads_[waiting].state != State::at_warp) ++waiting;
    if (waiting == first + count) return moved;
    if (count < kWarp)
      fail(ErrorKind::internal, kernel_, "operation of a warp, got {} threads, need whole warps of {}", count, kWarp);
    if (threads_[first].state != State::at_warp) disagree(first, waiting);
    release(first, count, State::at_warp);
  }
}

void Block::run(const std::function<void()>& body) {
  body_ = &body;
  running_block = this;
  struct Leave {
    ~Leave() {
      running_block = nullptr;
      if (!ended) fibers.forget();
    }
    Fibers& fibers;
    bool ended = false;
  } leave{fibers_};
  const unsigned warps = static_cast<unsigned>(warps_.size()), count = static_cast<unsigned>(threads_.size());
  for (;;) {
    bool moved = false;
    for (unsigned w = 0; w < warps; ++w) moved |= run_warp(descending_ ? warps - 1 - w : w);
    leave.ended = !moved;  // all are done
    if (!moved) return;
    unsigned waiting = 0;
    while (waiting < count && threads_[waiting].state != State::at_block) ++waiting;
    leave.ended = waiting == count;
    if (waiting == count) return;
    if (threads_[0].state != State::at_block) disagree(0, waiting);
    release(0, count, State::at_block);
  }
}

}  // namespace simt
