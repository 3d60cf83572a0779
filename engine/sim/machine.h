// A machine to simulate: what its devices, its links and its host can do. Data only, read from a JSON file
// (machines/README.md explains every key) in which each figure names its source. All rates are per second and
// in plain units (FLOP/s, bytes/s), all times in seconds.
#pragma once
#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/link_matrix.h"
#include "engine/sim/abilities.h"
#include "engine/sim/attention_rates.h"
#include "engine/sim/measured.h"
#include "engine/spec/choices.h"

namespace mbench {

inline constexpr int kPrecisionCount = 5;

struct GemmTile {
  double m = 0, n = 0;
  double efficiency = 1;  // of the best tile
};

// How a group of devices in one node talks: `ranks` of them or fewer.
struct Link {
  std::string name;
  int ranks = 0;
  double bandwidth = 0;  // bus bandwidth of large collectives, as nccl-tests counts it
  double latency = 0;    // of one step of a ring
  // Bus bandwidth of all-reduces where switches add up on the way (NVLink SHARP), and of all-to-all; 0: as the others.
  double all_reduce_bandwidth = 0, all_to_all_bandwidth = 0;
  double forwarding_bandwidth = 0;  // of kernels that send a token to each rank once; 0: as all-to-all
};

struct Machine {
  std::string name, description;

  std::array<double, kPrecisionCount> peak_flops{};  // dense, by Precision; 0: the device has none
  std::string peak_source(Precision precision) const;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_outside_allocator = 0;  // driver, libraries and communication buffers
  double memory_bandwidth = 0;                 // peak
  double memory_efficiency = 0;                // share of it that a large kernel reaches
  double kernel_latency = 0;                   // the least time of a kernel on the device
  double multiprocessors = 0;
  double communication_multiprocessors = 0;  // of these, those that a collective takes from kernels beside it

  std::array<double, kPrecisionCount> sustained{};  // share of the peak that the largest products keep up
  std::vector<GemmTile> tiles;
  double k_overhead = 0;  // of starting and ending a tile, as additional length of k
  double accumulating = 1;  // rate of products that add to an f32 result, relative to others
  double power_share = 1;   // what the cap on a device's power leaves of the rates of products and attention
  // Share of the peak that fused attention reaches, at the shape of which sim::AttentionSize() is, and what other shapes reach of that.
  double attention_forward = 0, attention_backward = 0;
  sim::AttentionRates attention_rates;
  double attention2_forward = 0, attention2_backward = 0;  // the same of FlashAttention-2's kernels
  double attention1_forward = 0, attention1_backward = 0;  // and of the first FlashAttention's, whatever the shape; 0: not known
  sim::AttentionRates attention2_rates;

  double launch = 0, synchronize = 0;
  double graph_launch = 0, graph_node = 0;  // a recorded step is given to the device at once: that, and for each op
  double host_speed = 1;   // of one thread, relative to the reference host of the frameworks
  // Of a node's host memory: bytes, peak bandwidth, and the share of it that Adam on the host's processors reaches; and of
  // copies between it and a device, one way. 0: not known, and nothing can be offloaded to it.
  std::uint64_t host_memory_bytes = 0;
  double host_memory_bandwidth = 0, host_adam_efficiency = 0, host_copy_bandwidth = 0;
  bool immediate = false;  // the device is the host: no streams, and the ranks of a node share it

  int devices_per_node = 1;
  double collective_base = 0;
  std::vector<Link> links;  // by ranks, ascending
  Link host_path;           // between devices whose direct path is switched off
  double p2p_bandwidth = 0;
  LinkMatrix topology;  // of the devices of a node, to be shown; empty where they are no devices apart
  double network_bandwidth = 0, network_latency = 0;  // a device's share
  double network_all_to_all = 0;                      // the same of all-to-all; 0: as the others
  double network_forwarding = 0;                      // of kernels that send a token to each node once; 0: as all-to-all
  double network_adapters = 1;                        // of a node

  std::array<std::string, kPrecisionCount> peak_sources;
  std::shared_ptr<const sim::Measured> measured;  // tables of this machine itself, or none

  // The link of a group of so many devices of one node.
  const Link& link(int ranks) const;
  // Whether the file says what keeping state in host memory takes, or the device is the host.
  bool knows_host_memory() const { return immediate || host_copy_bandwidth > 0; }
  // Bytes that the allocator of one device can have.
  std::uint64_t usable_memory() const { return memory_bytes - memory_outside_allocator; }
};

// Whether the host waits for the device at every message between stages; unless_interleaved: with virtual stages it does not.
enum class MessagesBlock { never, always, unless_interleaved };

// What a framework's calls cost its host, on the reference host (Xeon E5-2686 v4, one thread), and how good
// its kernels are.
struct Framework {
  std::string name, description;
  double kernel = 0, collective = 0, message = 0;  // seconds, besides the driver's launch
  double micro_batch = 0, recompute = 0, step = 0;
  int broadcasts = 0;      // over tp, of what a micro batch has: where one stage has all of it
  double call = 0;         // one of the framework's small ops that stand where the engine has one; without it as a kernel
  double call_fill = 0;    // what that costs more where its tensor is filled first
  double fill = 0;         // what an op more costs where every tensor that it makes is filled first
  double product = 0;      // of a weight that is no table of words by a module of Transformer Engine's, besides the kernel
  double mixture = 0;      // of experts to which rows or tokens are sent, its forward or its backward, besides what the engine has ops for
  double parameter = 0;    // a weight tensor in an optimizer step
  double masked_token = 0;      // a loader's work for a token of masked language modelling, beside the host's
  MessagesBlock messages_block = MessagesBlock::never;  // whether the host waits for the device at every message
  bool loss_blocks = false;       // the host waits for the loss of each micro batch
  bool interpreter_lock = false;  // of the threads of a process one at a time runs host code, but in backward
  bool tensor_collectives_block = false;  // kernels wait for every collective over tp: none runs beside them
  double traffic_efficiency = 1;  // of its memory-bound kernels, relative to the machine's
  int flash_attention = 0;  // attention runs on the kernels of that FlashAttention, 1 or 2; 0: on the best that the device has
  // Bytes that libraries take from its allocator for good: PyTorch's; Transformer Engine's, its streams' for products of
  // experts in groups, and those beside which its tensor parallelism overlaps.
  std::uint64_t library_memory = 0, layer_library_memory = 0, grouped_products_memory = 0, tp_overlap_memory = 0;
  Abilities can;  // what it is able to run: a search proposes nothing else
};

// `where` is the file for messages. bad_input for a missing, unknown or impossible key, by JSON path.
Machine machine_from_json(const nlohmann::ordered_json& json, const std::string& where);
Framework framework_from_json(const nlohmann::ordered_json& json, const std::string& where);

// By the name of one that is built in, or the path of a file (it has a "/" or ends in ".json"). bad_input at
// `where` with the nearest name otherwise.
Machine find_machine(const std::string& name_or_path, const std::string& where);
Framework find_framework(const std::string& name_or_path, const std::string& where);
// The JSON of a machine, as find_machine() finds it, and the file's name for messages.
std::pair<nlohmann::ordered_json, std::string> load_machine(const std::string& name_or_path,
                                                            const std::string& where);
std::vector<std::string> machine_names();
std::vector<std::string> framework_names();

// "sim:8xV100-SXM2-16GB": so many devices of that machine.
struct SimulatedDevices {
  int count = 1;
  std::string machine;
};
SimulatedDevices parse_simulated(const std::string& device, const std::string& where);

}  // namespace mbench
