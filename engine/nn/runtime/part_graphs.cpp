#include "engine/nn/runtime/part_graphs.h"

#include "engine/base/error.h"

namespace mbench::nn {
namespace {

// What libraries make at their first calls is not made while a stream is captured, and memory repeats from the second step on.
constexpr std::int64_t kFirstRecordedStep = 1;

}  // namespace

void PartGraphs::begin_step(Device& device, std::int64_t step) {
  step_ = step;
  device.memory().begin_history();
  const std::size_t reserved = device.memory().reserved();
  if (step < kFirstRecordedStep || (recorded_step_ >= 0 && reserved == reserved_)) return;
  runs_.clear();
  recorded_step_ = step, reserved_ = reserved;
}

PartGraphs::Graph PartGraphs::record(Device& device, const std::function<void()>& part) const {
  Graph graph;
  graph.before = device.memory().history();
  graph.recorded = device.record(part);
  graph.after = device.memory().history();
  return graph;
}

// The graph's memory is its own only while the part runs: in between others have it, as in the step that was recorded.
void PartGraphs::replay(Device& device, const Graph& graph, const std::function<void()>& part) {
  const Allocator& memory = device.memory();
  check(memory.history() == graph.before, "capture", "other memory before a captured part than when it was recorded");
  device.unenqueued(part);
  check(memory.history() == graph.after, "capture", "other memory in a captured part than when it was recorded");
  graph.recorded->replay();
  ++replays_;
}

void PartGraphs::run(Device& device, const Place& place, bool launched, const std::function<void()>& part) {
  if (!device.real()) {
    device.host_work(launched ? HostWork::graph : HostWork::graph_goes_on);
    part();
    device.host_work(HostWork::graph_end);
    return;
  }
  if (step_ < kFirstRecordedStep) return part();
  Runs& runs = runs_[place];
  if (runs.step != step_) runs.step = step_, runs.next = 0;
  const std::size_t at = runs.next++;
  if (at < runs.graphs.size()) return replay(device, runs.graphs[at], part);
  check(step_ == recorded_step_, "capture", "a captured part that no earlier step had");
  runs.graphs.push_back(record(device, part));
}

}  // namespace mbench::nn
