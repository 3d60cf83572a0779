#include "test/fake_cuda/capture.h"

#include <algorithm>
#include <set>

#include "test/fake_cuda/handles.h"
#include "test/fake_cuda/settings.h"

struct CUgraph_st {
  std::shared_ptr<fake_cuda::Capture> capture;
};
struct CUgraphExec_st {
  std::shared_ptr<fake_cuda::Capture> capture;
};

namespace fake_cuda {
namespace {

// The capture that this thread began (cudaStreamCaptureModeThreadLocal).
thread_local std::shared_ptr<Capture> mine;

}  // namespace

void record_event(const std::shared_ptr<Queue>& queue, const std::shared_ptr<Recording>& event) {
  Engine::get().enqueue(queue, [event] {
    event->time = now();
    event->passed = true;
    return Step::done;
  });
}

void wait_event(const std::shared_ptr<Queue>& queue, const std::shared_ptr<Recording>& event) {
  Engine::get().enqueue(queue, [event] { return event->passed ? Step::done : Step::blocked; });
}

bool breaks_capture(const char* call) {
  if (!mine) return false;
  complain(call, "called by a thread that captures a stream");
  mine->invalidate();
  return true;
}

void Capture::add(const std::shared_ptr<Queue>& queue, Play play) {
  items_.push_back({Kind::work, queue, std::move(play), nullptr});
}
void Capture::record(const std::shared_ptr<Queue>& queue, const std::shared_ptr<Recording>& event) {
  event->capture = shared_from_this();
  items_.push_back({Kind::record, queue, nullptr, event});
}
void Capture::wait(const std::shared_ptr<Queue>& queue, const std::shared_ptr<Recording>& event) {
  items_.push_back({Kind::wait, queue, nullptr, event});
}
void Capture::join(const std::shared_ptr<Queue>& queue) {
  queue->capture = shared_from_this();
  queues_.push_back(queue);
}

// Whether the end of the first stream comes after all work: backwards from it, along the streams and from a wait to its event.
bool Capture::joined_back() const {
  std::map<const Queue*, std::size_t> reached;  // items before it come before the end
  reached[origin_.get()] = items_.size();
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      if (item.kind != Kind::wait || i >= reached[item.queue.get()]) continue;
      for (std::size_t r = 0; r < i; ++r) {
        if (items_[r].kind != Kind::record || items_[r].event != item.event) continue;
        std::size_t& before = reached[items_[r].queue.get()];
        more |= before <= r;
        before = std::max(before, r + 1);
      }
    }
  }
  for (std::size_t i = 0; i < items_.size(); ++i)
    if (items_[i].kind == Kind::work && i >= reached[items_[i].queue.get()]) return false;
  return true;
}

bool Capture::end() {
  for (const auto& queue : queues_) queue->capture = nullptr;
  mine = nullptr;
  ended_ = true;
  return joined_back();
}

void Capture::launch(const std::shared_ptr<Queue>& queue) {
  const auto begin = std::make_shared<Recording>();
  record_event(queue, begin);
  std::map<const Queue*, std::shared_ptr<Queue>> lanes;
  for (const auto& captured : queues_) {
    const auto& lane = lanes[captured.get()] = Engine::get().new_queue();
    wait_event(lane, begin);
  }
  std::map<const Recording*, std::shared_ptr<Recording>> events;  // of this launch
  for (const Item& item : items_) {
    const auto& lane = lanes.at(item.queue.get());
    if (item.kind == Kind::work) {
      item.play(lane);
      continue;
    }
    auto& event = events[item.event.get()];
    if (!event) event = std::make_shared<Recording>();
    item.kind == Kind::record ? record_event(lane, event) : wait_event(lane, event);
  }
  for (const auto& [captured, lane] : lanes) {
    const auto end = std::make_shared<Recording>();
    record_event(lane, end);
    wait_event(queue, end);
  }
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (!Alive<CUstream_st>::get().has(stream))
    return refused(cudaErrorStreamCaptureUnsupported, "cudaStreamBeginCapture", "no stream of its own");
  if (mode != cudaStreamCaptureModeThreadLocal)
    return refused(cudaErrorInvalidValue, "cudaStreamBeginCapture", "this mode is not emulated");
  if (mine || stream->queue->capture)
    return refused(cudaErrorIllegalState, "cudaStreamBeginCapture", "a capture is under way");
  mine = std::make_shared<Capture>(stream->queue);
  mine->join(stream->queue);
  return returned(cudaSuccess);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const auto queue = queue_of(stream);
  if (!queue) return returned(cudaErrorInvalidResourceHandle);
  *status = !queue->capture           ? cudaStreamCaptureStatusNone
            : queue->capture->valid() ? cudaStreamCaptureStatusActive
                                      : cudaStreamCaptureStatusInvalidated;
  return returned(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const auto queue = queue_of(stream);
  if (!queue) return returned(cudaErrorInvalidResourceHandle);
  const auto capture = queue->capture;
  if (!capture || capture != mine)
    return refused(cudaErrorIllegalState, "cudaStreamEndCapture", "it has not begun here");
  if (!capture->begun_on(queue))
    return refused(cudaErrorStreamCaptureUnmatched, "cudaStreamEndCapture", "it began on another stream");
  const bool joined = capture->end();
  if (!capture->valid())
    return refused(cudaErrorStreamCaptureInvalidated, "cudaStreamEndCapture", "an earlier call has broken it");
  if (!joined)
    return refused(cudaErrorStreamCaptureUnjoined, "cudaStreamEndCapture", "work of another stream is not waited for");
  *graph = Alive<CUgraph_st>::get().add(new CUgraph_st{capture});
  return returned(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return returned(Alive<CUgraph_st>::get().end(graph) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  *executable = nullptr;
  if (!Alive<CUgraph_st>::get().has(graph)) return returned(cudaErrorInvalidValue);
  if (flags != 0) return refused(cudaErrorInvalidValue, "cudaGraphInstantiateWithFlags", "flags are not emulated");
  *executable = Alive<CUgraphExec_st>::get().add(new CUgraphExec_st{graph->capture});
  return returned(cudaSuccess);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return returned(Alive<CUgraphExec_st>::get().end(executable) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const auto queue = queue_of(stream);
  if (!queue) return returned(cudaErrorInvalidResourceHandle);
  if (!Alive<CUgraphExec_st>::get().has(executable)) return returned(cudaErrorInvalidValue);
  if (queue->capture) return refused(cudaErrorInvalidValue, "cudaGraphLaunch", "into a capture: not emulated");
  executable->capture->launch(queue);
  return returned(cudaSuccess);
}

}  // extern "C"
