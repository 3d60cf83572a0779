// What a framework's host does other than enqueue the engine's ops and collectives.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace mbench {

// Host work that no op or collective stands for. A simulated device charges time for it.
enum class HostWork : std::uint8_t {
  micro_batch,    // a micro batch is fetched and unpacked
  recompute,      // a region of saved activations is computed again
  replicas,       // what follows is done by all replicas of a process at once, a thread each
  alone,          // what follows is by one replica again
  step,           // an optimizer step begins
  next_step,      // a step has ended, and the inputs of the next are waited for
  loss,           // the loss of a micro batch has been computed
  moe,            // an MoE to which rows are sent begins its forward or its backward
  all_to_all,     // rows are about to be sent all-to-all: the small ops that DeepEP has no like of
  gemm,           // of a layer's weight, by the framework's own module
  graph,          // a captured part begins: the host launches its graph, which holds what follows
  graph_goes_on,  // what follows is of the graph that was launched last
  graph_end,      // the captured part ends
  call,           // a small op that the framework enqueues and the engine does not have
  parameter       // a weight tensor that is about to be updated
};
inline constexpr std::size_t kHostWorks = static_cast<std::size_t>(HostWork::parameter) + 1;

// Host work that takes time of its own: its key in `host_us` of a framework's file, and whether a file must have it.
struct HostCost {
  HostWork work;
  std::string_view key;
  bool required;
};
inline constexpr HostCost kHostCosts[] = {
    {HostWork::micro_batch, "micro_batch", true},
    {HostWork::recompute, "recompute_region", true},
    {HostWork::step, "step", true},
    {HostWork::moe, "mixture", false},
    {HostWork::all_to_all, "all_to_all", false},
    {HostWork::gemm, "product", false},
    {HostWork::parameter, "parameter", false},
    {HostWork::graph, "graph", false},
};

// Seconds of each kind of host work.
class ByHostWork {
 public:
  double& operator[](HostWork work) { return seconds_[static_cast<std::size_t>(work)]; }
  double operator[](HostWork work) const { return seconds_[static_cast<std::size_t>(work)]; }
  auto begin() { return seconds_.begin(); }
  auto end() { return seconds_.end(); }

 private:
  std::array<double, kHostWorks> seconds_{};
};

}  // namespace mbench
