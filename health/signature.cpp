#include "health/signature.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/json_reader.h"
#include "engine/comm/gather.h"
#include "reports/tables/markdown.h"

namespace mbench::health {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using S = DeviceSignature;

struct Text {
  const char* key;
  std::string S::*member;
};
constexpr Text kTexts[] = {
    {"name", &S::name}, {"pci", &S::pci}, {"serial", &S::serial}, {"vbios", &S::vbios}, {"driver", &S::driver}};
struct Count {
  const char* key;
  std::optional<std::int64_t> S::*member;
};
constexpr Count kCounts[] = {{"ecc_corrected", &S::ecc_corrected},
                             {"ecc_uncorrected", &S::ecc_uncorrected},
                             {"remapped_rows", &S::remapped_rows},
                             {"pcie_width", &S::pcie_width},
                             {"pcie_most_width", &S::pcie_most_width},
                             {"pcie_generation", &S::pcie_generation},
                             {"pcie_most_generation", &S::pcie_most_generation},
                             {"pcie_replays", &S::pcie_replays},
                             {"nvlinks", &S::nvlinks},
                             {"nvlink_errors", &S::nvlink_errors}};
struct Truth {
  const char* key;
  std::optional<bool> S::*member;
};
constexpr Truth kTruths[] = {{"remap_pending", &S::remap_pending}, {"remap_failed", &S::remap_failed}};

std::string said(const std::optional<std::int64_t>& n) {
  return n ? std::to_string(*n) : "n/a";
}

// Of the devices that tell, what most have; nothing where none does.
std::optional<std::int64_t> usual(const Health& health, std::optional<std::int64_t> S::*member) {
  std::vector<std::int64_t> all;
  for (const S& s : health.signatures)
    if (s.*member) all.push_back(*(s.*member));
  if (all.empty()) return std::nullopt;
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

// The first rank of each device: ranks may share one.
std::vector<std::size_t> devices_of(const Health& health) {
  std::vector<std::size_t> ranks;
  std::set<std::string> seen;
  for (std::size_t rank = 0; rank < health.signatures.size(); ++rank) {
    const S& s = health.signatures[rank];
    if (s == S()) continue;  // not told
    std::string host;
    for (const Host& h : health.hosts)
      if (std::find(h.ranks.begin(), h.ranks.end(), static_cast<std::int64_t>(rank)) != h.ranks.end()) host = h.name;
    if (seen.insert(host + " " + s.pci).second) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

ordered_json signature_to_json(const S& s) {
  ordered_json out = ordered_json::object();
  for (const Text& t : kTexts)
    if (!(s.*t.member).empty()) out[t.key] = s.*t.member;
  for (const Count& c : kCounts)
    if (s.*c.member) out[c.key] = *(s.*c.member);
  for (const Truth& t : kTruths)
    if (s.*t.member) out[t.key] = *(s.*t.member);
  if (!s.xids.empty()) out["xids"] = s.xids;
  return out;
}

S signature_from_json(const json& value, const std::string& where) {
  ObjectReader reader(value, where);
  S s;
  for (const Text& t : kTexts)
    if (const json* x = reader.find(t.key)) s.*t.member = read_string(*x, reader.path(t.key));
  for (const Count& c : kCounts)
    if (const json* x = reader.find(c.key)) s.*c.member = read_int(*x, reader.path(c.key), 0, INT64_MAX);
  for (const Truth& t : kTruths)
    if (const json* x = reader.find(t.key)) s.*t.member = read_bool(*x, reader.path(t.key));
  if (const json* xids = reader.find("xids"); xids && xids->is_array())
    for (std::size_t i = 0; i < xids->size(); ++i)
      s.xids.push_back(read_int((*xids)[i], fmt::format("{}[{}]", reader.path("xids"), i), 0, INT64_MAX));
  return s;
}

std::vector<S> gather_signatures(comm::Group& all, const S& mine) {
  const std::string text = signature_to_json(mine).dump(-1, ' ', false, json::error_handler_t::replace);
  std::vector<S> ranks;
  for (const std::vector<char>& theirs : comm::gather_all(all, std::vector<char>(text.begin(), text.end())))
    ranks.push_back(signature_from_json(json::parse(theirs.begin(), theirs.end()), "signature: $"));
  return ranks;
}

std::vector<std::string> faults_of(const Health& health) {
  std::vector<std::string> faults;
  const auto links = usual(health, &S::nvlinks);
  for (const std::size_t rank : devices_of(health)) {
    const S& s = health.signatures[rank];
    const auto add = [&](const std::string& what) {
      faults.push_back(fmt::format("{}: {}", ranks_text(health, {static_cast<int>(rank)}), what));
    };
    if (s.ecc_uncorrected.value_or(0) > 0) add(fmt::format("{} uncorrected ECC errors", *s.ecc_uncorrected));
    if (s.remap_failed.value_or(false)) add("a row of its memory could not be remapped");
    if (s.remap_pending.value_or(false)) add("rows of its memory wait for a reset to be remapped");
    if (s.pcie_width && s.pcie_most_width && *s.pcie_width < *s.pcie_most_width)
      add(fmt::format("PCIe x{}, need x{}", *s.pcie_width, *s.pcie_most_width));
    if (s.nvlinks && links && *s.nvlinks < *links)
      add(fmt::format("{} NVLinks up, and most devices have {}", *s.nvlinks, *links));
    if (s.nvlink_errors.value_or(0) > 0) add(fmt::format("{} errors of NVLink", *s.nvlink_errors));
    if (!s.xids.empty()) add(fmt::format("Xid {} while it was measured", fmt::join(s.xids, ", ")));
  }
  return faults;
}

reports::Section signatures_grid(const Health& health) {
  reports::Section table;
  for (const char* header : {"Device", "Serial", "VBIOS", "ECC", "Uncorrected", "Remapped rows", "PCIe", "Replays",
                             "NVLinks", "Errors", "Xids"})
    table.columns.push_back({header, header, false});
  const auto cell = [](const std::string& text) { return reports::Cell{text.empty() ? "n/a" : text, {}}; };
  for (const std::size_t rank : devices_of(health)) {
    const S& s = health.signatures[rank];
    table.rows.push_back({cell(ranks_text(health, {static_cast<int>(rank)})), cell(s.serial), cell(s.vbios),
                          cell(said(s.ecc_corrected)), cell(said(s.ecc_uncorrected)), cell(said(s.remapped_rows)),
                          cell(fmt::format("gen {} x{}", said(s.pcie_generation), said(s.pcie_width))),
                          cell(said(s.pcie_replays)), cell(said(s.nvlinks)), cell(said(s.nvlink_errors)),
                          cell(s.xids.empty() ? "none" : fmt::format("{}", fmt::join(s.xids, ", ")))});
  }
  return table;
}

}  // namespace mbench::health
