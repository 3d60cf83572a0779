// What the NVIDIA driver's management library tells of the GPUs and the links between them. It is loaded when
// asked for, so neither the build nor the start of the program needs it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace mbench::nvml {

struct Report {
  std::string why_none;           // where the library is not there or refuses; the rest is empty then
  std::string driver;             // its version
  std::vector<std::string> gpus;  // name and PCI address
  // How GPU i reaches GPU j, in the words of `nvidia-smi topo -m`: "NV18", "PIX", "PXB", "PHB", "NODE",
  // "SYS"; "X" for itself, "?" where it is not told.
  std::vector<std::vector<std::string>> links;
};

Report report();

}  // namespace mbench::nvml
