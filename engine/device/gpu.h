// What is known of a GPU before it is opened.
#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace mbench {

struct Gpu {
  int ordinal = 0;  // as CUDA counts those that this process may see
  std::string name;
  std::array<unsigned char, 16> uuid{};
  std::string pci;  // "0000:1b:00.0"
  int major = 0, minor = 0;
  int multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
};

}  // namespace mbench
