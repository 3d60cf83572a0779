#include "test/fake_cuda/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace fake_cuda {
namespace {

template <class T>
void read_variable(const std::string& name, T& value, std::uint64_t unit = 1) {
  const char* text = std::getenv(name.c_str());
  if (!text || !*text) return;
  char* end = nullptr;
  const unsigned long long number = std::strtoull(text, &end, 10);
  if (*end) {
    std::fprintf(stderr, "fake GPU: %s, got \"%s\", need a number\n", name.c_str(), text);
    std::abort();
  }
  value = static_cast<T>(number * unit);
}

template <class T>
void read(const char* name, T& value, std::uint64_t unit = 1) {
  read_variable(std::string("FAKE_CUDA_") + name, value, unit);
}

Settings load() {
  Settings s;
  read("COUNT", s.count);
  read("MEMORY_MIB", s.memory, 1 << 20);
  read("FULL_AT_MIB", s.full_at, 1 << 20);
  read("SEED", s.seed);
  read("CAPABILITY", s.capability);
  read("ALGORITHMS", s.algorithms);
  read("KERNEL_FAULT", s.kernel_fault);
  read("ABSENT_RANK", s.absent_rank);
  read("ABSENT_FROM", s.absent_from);
  read("FAILING_COLLECTIVE", s.failing_collective);
  read("INIT_HANGS", s.init_hangs);
  read("CONNECT_HANGS", s.connect_hangs);
  read("XID", s.xid);
  read("COMMUNICATOR_MIB", s.communicator, 1 << 20);
  read_variable("CUDA_DEVICE_MAX_CONNECTIONS", s.connections);
  read_variable("NCCL_GRAPH_REGISTER", s.graph_register);
  s.connections = std::clamp(s.connections, 1, 32);
  return s;
}

}  // namespace

Settings& changeable_settings() {
  static Settings s = load();
  return s;
}

const Settings& settings() {
  return changeable_settings();
}

void complain(std::string_view call, std::string_view why) {
  std::fprintf(stderr, "fake GPU (process %d): %.*s: %.*s\n", static_cast<int>(::getpid()),
               static_cast<int>(call.size()), call.data(), static_cast<int>(why.size()), why.data());
}

}  // namespace fake_cuda
