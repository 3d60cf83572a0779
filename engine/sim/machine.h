// A machine to simulate: what its devices, its links and its host can do. Data only, read from a JSON file
// (machines/README.md explains every key) in which each figure names its source. All rates are per second and
// in plain units (FLOP/s, bytes/s), all times in seconds.
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
#include "engine/sim/attention_rates.h"
#include "engine/sim/measured.h"

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

// How fast fused attention runs.
struct AttentionSpeed {
  double forward = 0, backward = 0;  // share of the peak that it reaches at the shape of which sim::AttentionSize() is
  sim::AttentionRates by_shape;      // what other shapes reach of that
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
  double communication_multiprocessors = 0;  // of these, those that a collective takes from kernels that run with it
  double power_share = 1;  // what the cap on a device's power leaves of the rates of GEMMs and attention
  std::optional<PowerCurve> watts;
};

struct MachineGemm {
  std::array<double, kPrecisionCount> sustained{};  // share of the peak that the largest GEMMs keep up
  std::vector<GemmTile> tiles;
  double k_overhead = 0;    // of starting and ending a tile, as additional length of k
  double accumulating = 1;  // rate of GEMMs that add to an f32 result, relative to others
};

// Of the best kernels for the device, and of older ones where they differ. FlashAttention-2 without figures of its own is the best; the
// first one then has none.
struct MachineAttention : AttentionSpeed {
  std::optional<AttentionSpeed> flash_attention_1, flash_attention_2;
};

struct MachineHost {
  double launch = 0, synchronize = 0;
  double graph_launch = 0, graph_node = 0;  // a recorded step is given to the device at once: that, and for each op
  double speed = 1;                         // of one thread, relative to the reference host of the frameworks
  // Of a node's host memory: bytes, peak bandwidth, and the share of it that Adam on the host's processors reaches; and of
  // copies between it and a device, one way. 0: not known, and nothing can be offloaded to it.
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

// A device's share, but for the adapters, which are a node's.
struct MachineNetwork {
  double bandwidth = 0, latency = 0;
  double all_to_all = 0;  // bandwidth of all-to-all; 0: as the others
  double forwarding = 0;  // of kernels that send a token to each node once; 0: as all-to-all
  double adapters = 1;
};

struct Machine {
  std::string name, description;
  std::vector<std::string> known_as;  // short names that mean this machine, where others have their words too
  bool immediate = false;             // the device is the host: no streams, and the ranks of a node share it
  MachineDevice device;
  MachineGemm gemm;
  MachineAttention attention;
  MachineHost host;
  MachineNode node;
  MachineNetwork network;
  std::shared_ptr<const sim::Measured> measured;  // tables of this machine itself, or none

  std::string peak_source(Precision precision) const;
  // Null where the file does not know those kernels.
  const AttentionSpeed* attention_on(AttentionKernels kernels) const;
  // The link of a group of so many devices of one node.
  const Link& link(int ranks) const;
  // Whether the file says what keeping state in host memory takes, or the device is the host.
  bool knows_host_memory() const { return immediate || host.copy_bandwidth > 0; }
  // Bytes that the allocator of one device can have.
  std::uint64_t usable_memory() const { return device.memory_bytes - device.memory_outside_allocator; }
};

// `where` is the file for messages. bad_input for a missing, unknown or impossible key, by JSON path.
Machine machine_from_json(const nlohmann::ordered_json& json, const std::string& where);

// By the name of one that is built in, or the path of a file (it has a "/" or ends in ".json"). bad_input at
// `where` with the nearest name otherwise.
Machine find_machine(const std::string& name_or_path, const std::string& where);
// The JSON of a machine, as find_machine() finds it, and the file's name for messages.
std::pair<nlohmann::ordered_json, std::string> load_machine(const std::string& name_or_path, const std::string& where);
std::vector<std::string> machine_names();
// A built-in machine's name as people write it, "h100-sxm", in full; a path as it is. Of several machines it is the one whose file has
// the name in `known_as`; `others` are then the rest. bad_input at `where` for none, and for several of which none is known so.
std::string full_machine_name(const std::string& name, const std::string& where,
                              std::vector<std::string>* others = nullptr);
// The same of a device: "sim:8xh100-sxm" is "sim:8xH100-SXM5-80GB", "cpu" is "cpu".
std::string full_device_name(const std::string& device, const std::string& where,
                             std::vector<std::string>* others = nullptr);

// "sim:8xV100-SXM2-16GB": so many devices of that machine.
struct SimulatedDevices {
  int count = 1;
  std::string machine;
};
SimulatedDevices parse_simulated(const std::string& device, const std::string& where,
                                 std::vector<std::string>* others = nullptr);

}  // namespace mbench
