// One block of threads of an emulated GPU. Every thread is a fiber of its own, run in turn until it waits at a barrier or at an
// operation of its warp. One block runs at a time, so blocks share only memory.
//
// The emulator finds threads that wait at different places, or that have left while others wait for them (Error names both places). It
// also finds exceptions thrown by a thread. The threads of a block can be run in ascending or descending order: a kernel whose result
// depends on it has a race.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <source_location>
#include <string_view>
#include <vector>

namespace simt {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// A place to go on from. The first time by ucontext; after that by longjmp, which unlike swapcontext asks the
// kernel for nothing. AddressSanitizer takes a longjmp for the end of the frames between: there, swapcontext.
struct Place {
  ucontext_t first;
  jmp_buf again;
};

// As many fibers as a block can have threads: their stacks and where each of them stopped. A fiber that has
// run its threads waits for those of the next block.
class Fibers {
 public:
  Fibers();
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;
  std::byte* stack(unsigned fiber) const { return stacks_ + fiber * kBytes; }
  Place& place(unsigned fiber) { return places_[fiber]; }
  bool& begun(unsigned fiber) { return begun_[fiber].yes; }
  // All begin anew: after a failure they stop anywhere.
  void forget() { begun_.assign(begun_.size(), Flag()); }
  // No power of two: the tops of the stacks would all fall into one set of the cache.
  static constexpr std::size_t kBytes = (std::size_t{64} << 10) + 9 * 64;

 private:
  std::byte* stacks_;
  std::vector<Place> places_;
  struct Flag {
    bool yes = false;
  };
  std::vector<Flag> begun_;
};

class Block {
 public:
  // `dynamic_bytes` of dynamic shared memory, filled with NaN.
  Block(std::string_view kernel, Fibers& fibers, Index threads, std::size_t dynamic_bytes, bool descending);

  // Runs `body` in every thread, to the end.
  void run(const std::function<void()>& body);

  // Called by the threads.
  static Block& current();
  void wait_block(const std::source_location& at) { wait(State::at_block, at); }
  // Every lane of the warp hands in `value` and gets those of all; all 32 lanes must take part.
  const std::uint64_t* exchange(std::uint64_t value, unsigned mask, const std::source_location& at);
  unsigned lane() const { return running_ % 32; }
  std::byte* dynamic_shared() { return dynamic_.data(); }
  std::size_t dynamic_bytes() const { return dynamic_bytes_; }
  // Static shared memory announces itself when it is first used; the number distinguishes one block from the next.
  std::uint64_t number() const { return number_; }
  void add_static(std::size_t bytes) { static_bytes_ += bytes; }
  std::size_t static_bytes() const { return static_bytes_; }

 private:
  enum class State { ready, at_warp, at_block, done };
  struct Thread {
    State state = State::ready;
    bool started = false;
    unsigned fiber = 0;  // that runs it: one fiber runs threads one after the other until one of them waits
    std::source_location at;
    Index index;
    unsigned warp_steps = 0;  // operations of its warp so far
  };
  struct Warp {
    std::uint64_t values[2][32] = {};  // of two operations: the next may begin before all have read the last
  };

  static void entry();
  void begin(unsigned thread, unsigned fiber);
  bool next_of_warp(unsigned& thread) const;
  void resume(unsigned thread);
  void wait(State state, const std::source_location& at);
  bool run_warp(unsigned warp);  // until all its threads wait for the block or are done
  void release(unsigned first, unsigned count, State from);
  [[noreturn]] void disagree(unsigned a, unsigned b) const;

  std::string_view kernel_;
  Fibers& fibers_;
  Index shape_;
  bool descending_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<std::byte> dynamic_;
  std::size_t dynamic_bytes_, static_bytes_ = 0;
  std::uint64_t number_;
  const std::function<void()>* body_ = nullptr;
  Place scheduler_;
  unsigned running_ = 0;
  std::exception_ptr failure_;
};

}  // namespace simt

// The words of CUDA that hold where a thread is; the block sets them whenever it switches threads.
inline simt::Index threadIdx, blockIdx, blockDim, gridDim;
