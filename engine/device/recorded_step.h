// What a device was given in a step, to be given again: the same ops, copies and collectives, in their order, on the same
// memory. What they read of the host's was written to the device before; nothing of it is decided again.
#pragma once
#include <functional>
#include <vector>

#include "engine/device/tensor.h"

namespace mbench {

class RecordedStep {
 public:
  virtual ~RecordedStep() = default;
  // Enqueues all of it. The memory that it works on is what it was when it was recorded: whoever allocated there since
  // loses what he has.
  virtual void replay() = 0;
};

// Of a device that has no recording of its own: the calls themselves.
class CallList final : public RecordedStep {
 public:
  // What `call` holds of tensors is borrowed.
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
