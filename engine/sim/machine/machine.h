// A machine to simulate: what its devices, links and host can do. It is only data, read from a JSON file in which each figure names its
// source (machines/README.md explains every key). All rates are per second and in plain units (FLOP/s, bytes/s), all times in seconds.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/link_matrix.h"
#include "engine/framework/framework.h"
#include "engine/point/choices.h"
#include "engine/point/power_curve.h"
#include "engine/sim/cost/attention_rates.h"
#include "engine/sim/machine/measured.h"

namespace mbench::sim {

inline constexpr int kPrecisionCount = 6;

struct GemmTile {
  double m = 0, n = 0;
  double efficiency = 1;  // relative to the best tile
};

// The link of a group of at most `ranks` devices in one node.
struct Link {
  std::string name;
  int ranks = 0;
  double bandwidth = 0;  // bus bandwidth of large collectives, as nccl-tests counts it
  double latency = 0;    // of one step of a ring
  // Bus bandwidth of all-reduces where switches do the sum (NVLink SHARP), and of all-to-all; 0: as the others.
  double all_reduce_bandwidth = 0, all_to_all_bandwidth = 0;
  double forwarding_bandwidth = 0;  // of kernels that send a token to each rank once; 0: as all-to-all
};

// How fast fused attention runs.
struct AttentionSpeed {
  double forward = 0, backward = 0;  // share of the peak that it reaches at the shape AttentionSize()
  AttentionRates by_shape;           // what other shapes reach, relative to that
};

// The parts of a machine's file, each with the keys that it has there (machines/README.md).
struct MachineDevice {
  std::array<double, kPrecisionCount> peak_flops{};  // dense, by Precision; 0: the device has none
  std::array<std::string, kPrecisionCount> peak_sources;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_outside_allocator = 0;  // driver, libraries and communication buffers
  double memory_bandwidth = 0;                 // peak
  double memory_efficiency = 0;                // share of it that a large kernel reaches
  double kernel_latency = 0;                   // the least time of a kernel on the device
  double multiprocessors = 0;
  double communication_multiprocessors = 0;  // how many of these a collective takes from kernels that overlap it
  double power_share = 1;       // what the cap on a device's power leaves of the rates of GEMMs and attention
  double rate_spread = 0;       // relative standard deviation of those rates among devices (straggler.h)
  bool mxfp8 = false;           // FP8 GEMMs take MX's scales, one for 32 elements
  bool fp8_any_layout = false;  // FP8 GEMMs with one scale for an operand take it as it lies, turned too
  std::optional<PowerCurve> watts;
};

struct MachineGemm {
  std::array<double, kPrecisionCount> sustained{};  // share of the peak that the largest GEMMs keep up
  std::vector<GemmTile> tiles;
  double k_overhead = 0;    // of starting and ending a tile, as additional length of k
  double accumulating = 1;  // rate of GEMMs that add to an f32 result, relative to others
};

// The best kernels for the device, and older ones where they differ. Without figures of its own FlashAttention-2 has those of
// the best kernels, so does FlashAttention-3, and FlashAttention-1 has none.
struct MachineAttention : AttentionSpeed {
  std::optional<AttentionSpeed> flash_attention_1, flash_attention_2, flash_attention_3;
};

struct MachineHost {
  double launch = 0, synchronize = 0;
  double graph_launch = 0,
         graph_node = 0;  // to give a recorded step to the device at once: one launch, and more for each op
  double speed = 1;       // of one thread, relative to the reference host of the frameworks
  // A node's host memory: its bytes, its peak bandwidth, and the share of that bandwidth that Adam on the host's processors reaches.
  // Then the bandwidth of copies between it and a device, in one direction. 0: not known, and nothing can be offloaded to it.
  std::uint64_t memory_bytes = 0;
  double memory_bandwidth = 0, adam_efficiency = 0, copy_bandwidth = 0;
};

struct MachineNode {
  int devices = 1;
  double collective_base = 0;
  std::vector<Link> links;  // by ranks, ascending
  Link pcie;                // between devices whose direct path is switched off
  double p2p_bandwidth = 0;
  LinkMatrix topology;  // of the devices of a node, to be shown; empty where they are no separate devices
};

// The tiers of the network between nodes: leaves, each with all bandwidth to the nodes below it, and a spine above them.
struct MachineTiers {
  int nodes = 0;    // below a leaf; 0: the network is not known to have tiers
  int rails = 1;    // leaves that share the devices of these nodes: device i of each is below leaf i % rails
  int devices = 0;  // of a node, also where a job has fewer
  double oversubscription = 1;  // bandwidth of the devices below a leaf over the bandwidth of the leaf's uplinks
  double latency = 0;           // of the spine, added to the network's
};

// A device's share, except `adapters`, which counts a node's.
struct MachineNetwork {
  double bandwidth = 0, latency = 0;
  double all_to_all = 0;  // bandwidth of all-to-all; 0: as the others
  double forwarding = 0;  // of kernels that send a token to each node once; 0: as all-to-all
  double adapters = 1;
  MachineTiers tiers;
};

struct Machine {
  std::string name, description;
  std::vector<std::string> known_as;  // short names for this machine, where they could mean others too
  bool immediate = false;             // the device is the host: no streams, and the ranks of a node share it
  MachineDevice device;
  MachineGemm gemm;
  MachineAttention attention;
  MachineHost host;
  MachineNode node;
  MachineNetwork network;
  std::shared_ptr<const Measured> measured;  // tables of this machine itself, or none

  std::string peak_source(Precision precision) const;
  // Null where the file does not have those kernels.
  const AttentionSpeed* attention_on(AttentionKernels kernels) const;
  // The link of a group of so many devices of one node.
  const Link& link(int ranks) const;
  // Whether the file has the figures for state in host memory, or the device is the host.
  bool knows_host_memory() const { return immediate || host.copy_bandwidth > 0; }
  // Bytes that the allocator of one device can have.
  std::uint64_t usable_memory() const { return device.memory_bytes - device.memory_outside_allocator; }
};

// Throws bad_input for a missing, unknown or impossible key, by JSON path. `where`: the file, for messages.
Machine machine_from_json(const nlohmann::ordered_json& json, const std::string& where);

// By the name of a built-in machine, or the path of a file (with a "/" or ending in ".json"). Throws bad_input at `where` with the
// nearest name otherwise.
Machine find_machine(const std::string& name_or_path, const std::string& where);
// The JSON of a machine that find_machine() would find, and the file's name for messages.
std::pair<nlohmann::ordered_json, std::string> load_machine(const std::string& name_or_path, const std::string& where);
std::vector<std::string> machine_names();
// The full name of a built-in machine from a short form such as "h100-sxm"; a path as it is. Where several machines match, the one
// whose file has the name in `known_as` is taken, and `others` lists the rest. Throws bad_input at `where` if none matches, or several
// and none by `known_as`.
std::string full_machine_name(const std::string& name, const std::string& where,
                              std::vector<std::string>* others = nullptr);
// The same for a device: "sim:8xh100-sxm" is "sim:8xH100-SXM5-80GB", "cpu" is "cpu". Throws bad_input for a machine without "sim:", such
// as "8xH100", and says what it would be.
std::string full_device_name(const std::string& device, const std::string& where,
                             std::vector<std::string>* others = nullptr);

// "sim:8xV100-SXM2-16GB": so many devices of that machine.
struct SimulatedDevices {
  int count = 1;
  std::string machine;
};
SimulatedDevices parse_simulated(const std::string& device, const std::string& where,
                                 std::vector<std::string>* others = nullptr);

}  // namespace mbench::sim
