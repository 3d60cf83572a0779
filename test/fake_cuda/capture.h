// Work that is captured from streams into a graph, as in the programming guide's section on stream capture. A stream that waits for an
// event of the capture joins it. All that joined must be joined back to the first stream before the capture ends. Meanwhile the thread
// makes no call that could wait for work which has not begun.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "test/fake_cuda/engine.h"

namespace fake_cuda {

class Capture : public std::enable_shared_from_this<Capture> {
 public:
  explicit Capture(const std::shared_ptr<Queue>& origin) : origin_(origin) {}
  // Enqueues work anew, on the lane that stands for its stream in one launch.
  using Play = std::function<void(const std::shared_ptr<Queue>& lane)>;
  void add(const std::shared_ptr<Queue>& queue, Play play);
  void record(const std::shared_ptr<Queue>& queue, const std::shared_ptr<Recording>& event);
  void wait(const std::shared_ptr<Queue>& queue, const std::shared_ptr<Recording>& event);
  // From now on the stream of that queue is captured too.
  void join(const std::shared_ptr<Queue>& queue);

  bool begun_on(const std::shared_ptr<Queue>& queue) const { return origin_ == queue; }
  void invalidate() { valid_ = false; }
  bool valid() const { return valid_; }
  bool ended() const { return ended_; }
  // Frees the streams; whether all that joined was joined back.
  bool end();
  // All of it after what the queue has so far, and before what it gets later.
  void launch(const std::shared_ptr<Queue>& queue);

 private:
  enum class Kind { work, record, wait };
  struct Item {
    Kind kind;
    std::shared_ptr<Queue> queue;
    Play play;
    std::shared_ptr<Recording> event;
  };
  bool joined_back() const;
  std::shared_ptr<Queue> origin_;
  std::vector<std::shared_ptr<Queue>> queues_;
  std::vector<Item> items_;  // in the order of the calls
  bool valid_ = true, ended_ = false;
};

// Whether this thread captures: then the call that asks is not allowed, and the capture is no good any more.
bool breaks_capture(const char* call);
// Plain work on a stream, or an event on it.
void record_event(const std::shared_ptr<Queue>& queue, const std::shared_ptr<Recording>& event);
void wait_event(const std::shared_ptr<Queue>& queue, const std::shared_ptr<Recording>& event);

}  // namespace fake_cuda
