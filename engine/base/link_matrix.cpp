#include "engine/base/link_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace mbench {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kKinds{
    {{"NV#", "so many NVLinks, directly or through a switch"},
     {"XGMI", "a link of Infinity Fabric, in the word of rocm-smi --showtopo"},
     {"PIX", "at most one PCIe bridge between them"},
     {"PXB", "several PCIe bridges, but not the CPU's"},
     {"PHB", "through the CPU's PCIe host bridge"},
     {"NODE", "between host bridges of one NUMA node"},
     {"SYS", "between NUMA nodes, over the link between CPUs"},
     {"?", "not reported by the driver"}}};

// The kind of path, without the number of links: "NV18" is of kind "NV#".
std::string_view kind_of(std::string_view link) {
  const bool counted = link.size() > 2 && link.starts_with("NV") && link[2] != '0' &&
                       std::all_of(link.begin() + 2, link.end(), [](char c) { return c >= '0' && c <= '9'; });
  return counted ? "NV#" : link;
}

}  // namespace

bool names_a_link(std::string_view word) {
  if (word == "?" || word == "NV#") return false;
  return std::any_of(kKinds.begin(), kKinds.end(), [kind = kind_of(word)](const auto& k) { return k.first == kind; });
}

std::string link_words() {
  return "NV and a number of NVLinks, XGMI, PIX, PXB, PHB, NODE or SYS";
}

std::string describe(const LinkMatrix& links) {
  std::string text = "links   ";
  std::set<std::string_view> used;
  for (std::size_t i = 0; i < links.size(); ++i) text += fmt::format("{:>6}", i);
  for (std::size_t i = 0; i < links.size(); ++i) {
    text += fmt::format("\nGPU {:<4}", i);
    for (const std::string& link : links[i]) {
      text += fmt::format("{:>6}", link);
      used.insert(kind_of(link));
    }
  }
  text += "\n";
  for (const auto& [kind, meaning] : kKinds)
    if (used.contains(kind)) text += fmt::format("  {:<6}{}\n", kind, meaning);
  return text;
}

}  // namespace mbench
