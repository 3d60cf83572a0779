// What a device was given in a step, to be given again: the same ops, copies and collectives, in their order, on the
// same memory. The host's values that they read were written to the device before; nothing is decided again.
#pragma once
#include <functional>
#include <vector>

#include "engine/device/tensor.h"

namespace mbench {

class RecordedStep {
 public:
  virtual ~RecordedStep() = default;
  // Enqueues all of it, on the memory that it was recorded on. It overwrites what was allocated there since.
  virtual void replay() = 0;
};

// For a device that has no recording of its own: the calls themselves.
class CallList final : public RecordedStep {
 public:
  // The tensors that `call` holds are borrowed.
  template <class Call>
  void add(const Call& call) {
    const Borrowing borrowing;
    calls_.emplace_back(call);
  }
  void replay() override {
    for (const std::function<void()>& call : calls_) call();
  }
  std::size_t size() const { return calls_.size(); }

 private:
  std::vector<std::function<void()>> calls_;
};

}  // namespace mbench
