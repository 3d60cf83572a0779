// What the fake GPUs are and what goes wrong with them: FAKE_CUDA_* of the environment, read once. A value
// that is no number ends the program.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fake_cuda {

struct Settings {
  int count = 1;                              // COUNT: GPUs of this machine
  std::size_t memory = std::size_t{2} << 30;  // MEMORY_MIB: bytes that each says it has
  std::size_t full_at = 0;                    // FULL_AT_MIB: bytes at which it is full all the same; 0: memory
  std::uint64_t seed = 1;                     // SEED: of the order in which streams run
  int capability = 90;                        // CAPABILITY: that each has, 90 for 9.0
  int algorithms = 8;                         // ALGORITHMS: that the heuristic of GEMMs returns at most
  std::uint64_t kernel_fault = 0;             // KERNEL_FAULT: this launch (from 1) fails while it runs; 0: none
  int absent_rank = -1;                       // ABSENT_RANK: of a communicator, that never comes ...
  std::uint64_t absent_from = 0;              // ABSENT_FROM: ... to its collectives from this one (from 1)
  std::uint64_t failing_collective = 0;       // FAILING_COLLECTIVE: of a communicator, that the network loses
  bool init_hangs = false;                    // INIT_HANGS: rank 0 of a communicator never comes to its making
  bool connect_hangs = false;    // CONNECT_HANGS: ... or to its first collective: calls of the others do not return
  std::size_t communicator = 0;  // COMMUNICATOR_MIB: bytes that each communicator of several ranks takes
  std::uint64_t xid = 0;         // XID: that GPU 0 reports by NVML the second time it is asked for its events; 0: none
  int connections = 8;           // CUDA_DEVICE_MAX_CONNECTIONS, CUDA's own: hardware queues that streams share
  int graph_register = 1;  // NCCL_GRAPH_REGISTER, NCCL's own: whether it registers the buffers of captured operations
};

const Settings& settings();
// For a test of several GPUs.
Settings& changeable_settings();

// Prints on stderr why a call is refused, which the error code does not show.
void complain(std::string_view call, std::string_view why);

}  // namespace fake_cuda
