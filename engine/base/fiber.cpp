#include "engine/base/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/error.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MBENCH_FIBER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define MBENCH_FIBER_ASAN 1
#endif
#ifdef MBENCH_FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace mbench {
namespace {

struct Unwound {};  // what pause() throws where nobody resumes

// Pages are taken as they are touched. BLAS libraries put panels on the stack.
constexpr std::size_t kStackBytes = std::size_t{8} << 20;

// Stacks that are free, of the thread that gave them back: a step runs thousands of fibers.
std::vector<void*>& free_stacks() {
  struct Owner {
    std::vector<void*> all;
    ~Owner() {
      for (void* stack : all) munmap(stack, kStackBytes);
    }
  };
  thread_local Owner owner;
  return owner.all;
}

void* take_stack() {
  std::vector<void*>& free = free_stacks();
  if (!free.empty()) {
    void* const stack = free.back();
    free.pop_back();
    return stack;
  }
  void* const stack =
      mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) fail(ErrorKind::out_of_memory, "fiber", "no memory for a stack, need {} bytes", kStackBytes);
  // Below the lowest address nothing may be written: a stack that is too small ends the program there.
  mprotect(stack, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), PROT_NONE);
  return stack;
}

}  // namespace

struct Fiber::Stack {
  void* memory = take_stack();
  ucontext_t own{}, resumer{};
#ifdef MBENCH_FIBER_ASAN
  void *own_fake = nullptr, *resumer_fake = nullptr;
  const void* resumer_bottom = nullptr;
  std::size_t resumer_size = 0;
#endif
  Stack() = default;
  ~Stack() {
    free_stacks().push_back(memory);
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
};

Fiber::Fiber(std::function<void(Fiber&)> body) : body_(std::move(body)) {}

Fiber::~Fiber() {
  if (!stack_ || ended_) return;
  unwinds_ = true;
  switch_in();
}

void Fiber::enter(unsigned low, unsigned high) {
  reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(high) << 32 | low)->run();
}

void Fiber::run() {
#ifdef MBENCH_FIBER_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &stack_->resumer_bottom, &stack_->resumer_size);
#endif
  try {
    body_(*this);
  } catch (const Unwound&) {
  } catch (...) {
    thrown_ = std::current_exception();
  }
  ended_ = true;
  switch_out(true);
}

void Fiber::switch_in() {
  Stack& s = *stack_;
#ifdef MBENCH_FIBER_ASAN
  __sanitizer_start_switch_fiber(&s.resumer_fake, s.memory, kStackBytes);
#endif
  swapcontext(&s.resumer, &s.own);
#ifdef MBENCH_FIBER_ASAN
  __sanitizer_finish_switch_fiber(s.resumer_fake, nullptr, nullptr);
#endif
}

void Fiber::switch_out([[maybe_unused]] bool for_good) {
  Stack& s = *stack_;
#ifdef MBENCH_FIBER_ASAN
  __sanitizer_start_switch_fiber(for_good ? nullptr : &s.own_fake, s.resumer_bottom, s.resumer_size);
#endif
  swapcontext(&s.own, &s.resumer);
#ifdef MBENCH_FIBER_ASAN
  __sanitizer_finish_switch_fiber(s.own_fake, &s.resumer_bottom, &s.resumer_size);
#endif
}

bool Fiber::resume() {
  check(!ended_, "fiber", "one that has ended");
  if (!stack_) {
    stack_ = std::make_unique<Stack>();
    getcontext(&stack_->own);
    stack_->own.uc_stack.ss_sp = stack_->memory;
    stack_->own.uc_stack.ss_size = kStackBytes;
    stack_->own.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    // makecontext passes ints.
    makecontext(&stack_->own, reinterpret_cast<void (*)()>(&Fiber::enter), 2, static_cast<unsigned>(self),
                static_cast<unsigned>(self >> 32));
  }
  switch_in();
  if (ended_) stack_.reset();
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  return ended_;
}

void Fiber::pause() {
  switch_out(false);
  if (unwinds_) throw Unwound{};
}

}  // namespace mbench
