// A function that stops in its midst and goes on later, on a stack of its own. All of it runs in the threads that resume it.
#pragma once
#include <exception>
#include <functional>
#include <memory>

namespace mbench {

class Fiber {
 public:
  explicit Fiber(std::function<void(Fiber&)> body);
  // One that has begun and not ended is unwound: its pause() throws.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs until the body pauses or ends. True: it has ended. Throws what the body threw.
  bool resume();
  // Within the body: goes back to who resumed it.
  void pause();

 private:
  struct Stack;
  static void enter(unsigned low, unsigned high);
  void run();
  void switch_in();
  void switch_out(bool for_good);

  std::function<void(Fiber&)> body_;
  std::unique_ptr<Stack> stack_;
  std::exception_ptr thrown_;
  bool ended_ = false, unwinds_ = false;
};

}  // namespace mbench
