#include "reports/tables/provenance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/text.h"
#include "engine/point/fields.h"
#include "engine/point/point_builder.h"
#include "engine/point/result_file.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

std::string field(const Json& environment, const char* key) {
  if (!environment.is_object()) return "";
  const auto it = environment.find(key);
  if (it == environment.end() || it->is_null()) return "";
  if (it->is_string()) return it->get<std::string>();
  if (it->is_object()) return text_of(*it);
  return it->dump();
}

void add(std::string& line, const std::string& text) {
  if (!text.empty()) line += (line.empty() ? "" : ", ") + text;
}

// "8 x NVIDIA H200": the GPUs of the host, each kind once.
std::string gpus_of(const Json& environment) {
  if (!environment.is_object() || !environment.contains("gpus") || !environment["gpus"].is_array()) return "";
  std::vector<std::pair<std::string, int>> kinds;
  for (const Json& gpu : environment["gpus"]) {
    const std::string name = text_of(gpu);
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == name; });
    if (known == kinds.end())
      kinds.emplace_back(name, 1);
    else
      ++known->second;
  }
  std::string line;
  for (const auto& [name, count] : kinds) add(line, fmt::format("{} x {}", count, name));
  return line;
}

// Those that the points ran on, each kind of a host that changed between points by itself.
std::vector<Host> hosts_of(const ResultFile& file) {
  std::vector<Host> hosts;
  for (const PointResult& point : file.points)
    for (const Host& host : point.hosts) {
      Host bare = host;  // ranks and variables differ from point to point
      bare.ranks.clear();
      bare.variables.clear();
      if (std::find(hosts.begin(), hosts.end(), bare) == hosts.end()) hosts.push_back(std::move(bare));
    }
  return hosts;
}

bool several(const std::vector<Host>& hosts) {
  return std::any_of(hosts.begin(), hosts.end(), [&](const Host& host) { return host.name != hosts.front().name; });
}

// "3 hosts: h1, h2, h3"; of many "12 hosts: h1, h2 ... and 4 more".
std::string names_of(const std::vector<Host>& hosts) {
  constexpr std::size_t kMost = 8;
  std::string text;
  std::set<std::string> reported;
  for (const Host& host : hosts)
    if (reported.insert(host.name).second && reported.size() <= kMost) add(text, host.name);
  if (reported.size() > kMost) text += fmt::format(" and {} more", reported.size() - kMost);
  return fmt::format("{} hosts ({})", reported.size(), text);
}

// Of rows that another program's log is: whose, and what of it is no sample.
std::string line_of_trainers(const ResultFile& file) {
  std::map<std::string, std::size_t> programs;
  std::set<std::string> kinds;
  std::size_t left = 0;
  for (const PointResult& p : file.points) {
    if (p.measured_by.empty()) continue;
    ++programs[p.measured_by];
    if (!p.log) continue;
    left += p.log->warmup_ms.size() + p.log->evaluation_ms.size() + p.log->checkpoint_ms.size();
    for (const LoggedMemory& each : p.log->memory) kinds.insert(each.kind);
  }
  std::string line;
  for (const auto& [program, count] : programs)
    add(line, fmt::format("{} of {} points were measured by {}, by its log", count, file.points.size(), program));
  if (line.empty()) return line;
  if (left > 0) line += fmt::format("; {} times of warm-up, evaluation and checkpoint are no samples", left);
  if (!kinds.empty()) line += fmt::format("; memory is what PyTorch's allocator says: {}", fmt::join(kinds, ", "));
  return line + ".";
}

std::string line_or(const char* title, const std::string& line) {
  return fmt::format("{}: {}", title, line.empty() ? "not recorded" : line);
}

}  // namespace

std::vector<std::string> measured_on(const ResultFile& file) {
  const Json& e = file.environment;
  std::string machine, software, others, simulated_devices;
  const std::vector<Host> hosts = hosts_of(file);
  add(machine, several(hosts) ? names_of(hosts) : field(e, "host"));
  add(machine, field(e, "cpu"));
  if (const std::string cores = field(e, "cores"); !cores.empty()) add(machine, cores + " cores");
  if (e.is_object() && e.contains("memory_bytes") && e["memory_bytes"].is_number())
    add(machine, format_bytes(e["memory_bytes"].get<std::uint64_t>()) + " memory");
  if (const std::string device = field(e, "device"); !device.empty()) add(machine, "device " + device);
  add(machine, gpus_of(e));

  std::set<std::string> devices;
  std::size_t simulated = 0;
  for (const PointResult& p : file.points)
    if (p.simulated) ++simulated, devices.insert(p.point.device);
  for (const std::string& device : devices) add(simulated_devices, device);
  const bool all = simulated > 0 && simulated == file.points.size();

  std::set<std::string> said = {
      "host",         "cpu",      "cores", "memory_bytes", "device",          "mbench_version",
      "git_revision", "compiler", "mpi",   "blas",         "bf16_arithmetic", "flop_formula_version",
      "flop_formula", "gpus",     "cuda",  "driver",
      "gpu_links",  // a matrix, for the file and `mbench devices`
      "search"};    // what it found, for its page
  if (all) {
    // What computed it does not matter; the machine that was modelled does.
    machine = simulated_devices;
    add(machine, field(e, "machine"));
    if (const std::string framework = field(e, "framework"); !framework.empty()) add(machine, "framework " + framework);
    said.insert({"machine", "framework"});
  }
  if (const std::string version = field(e, "mbench_version"); !version.empty()) add(software, "mbench " + version);
  if (const std::string git = field(e, "git_revision"); !git.empty()) add(software, "git " + git);
  for (const char* key : {"compiler", "mpi", "blas"})
    if (!all || std::string_view(key) == "compiler") add(software, field(e, key));
  if (const std::string bf16 = field(e, "bf16_arithmetic"); !all && !bf16.empty())
    add(software, "bf16 GEMMs in " + bf16);
  add(software, field(e, "cuda"));
  if (const std::string driver = field(e, "driver"); !driver.empty()) add(software, "driver " + driver);
  if (e.is_object())
    for (const auto& [key, value] : e.items())
      if (!said.count(key) && !value.is_null()) add(others, key + " " + text_of(value));

  std::vector<std::string> lines = {line_or(all ? "Simulated on" : "Measured on", machine),
                                    line_or("Software", software)};
  const std::vector<std::string> differences = differences_of(hosts);
  if (!differences.empty()) {
    std::string line;
    for (const std::string& difference : differences) line += (line.empty() ? "" : "; ") + difference;
    lines.push_back(fmt::format("**The hosts are not alike**: {}. The line above is the first host's.", line));
  }
  if (!others.empty()) lines.push_back("Also: " + others);
  if (const std::string line = line_of_trainers(file); !line.empty()) lines.push_back(line);
  if (simulated > 0)
    lines.push_back(
        fmt::format("{} of {} points are simulated ({}): computed by a model of that machine, not measured.", simulated,
                    file.points.size(), simulated_devices));
  return lines;
}

std::string common_to_all(const std::vector<const Record*>& records) {
  const Point unset;
  const Json defaults = point_in_words(unset);
  if (records.empty()) return "";
  std::vector<std::pair<std::string, Json>> common;
  for (const PointField& field : point_fields())
    if (Json value = records.front()->value(field.key); field.reported || value != defaults.at(field.key))
      common.emplace_back(field.key, std::move(value));
  // Record by record, not field by field: there may be thousands of records.
  for (const Record* record : records)
    common.erase(std::remove_if(common.begin(), common.end(),
                                [&](const auto& field) { return record->value(field.first) != field.second; }),
                 common.end());
  std::string line;
  for (const auto& [key, value] : common) add(line, key + " " + text_of(value));
  return line;
}

// Of each kind of simulated step, how far published runs of it are from their simulation.
static std::vector<std::string> expected_intervals(const ResultFile& file) {
  std::map<std::string, std::string> kinds;
  for (const PointResult& p : file.points) {
    if (!p.iteration_ms_interval || !p.iteration_ms) continue;
    const TimeInterval& i = *p.iteration_ms_interval;
    kinds.try_emplace(i.about, fmt::format("{:.2f} to {:.2f} times the simulated time ({} rows)",
                                           i.low / p.iteration_ms->mean, i.high / p.iteration_ms->mean, i.rows));
  }
  std::vector<std::string> lines;
  for (const auto& [about, range] : kinds) lines.push_back(fmt::format("Published steps of {} took {}.", about, range));
  return lines;
}

std::vector<std::string> how_counted(const ResultFile& file) {
  const std::string version = field(file.environment, "flop_formula_version");
  std::string formula = field(file.environment, "flop_formula");
  if (formula.empty())
    formula =
        "6 per weight of every matmul and token (logits in, embedding look-up out) + "
        "12*layers*heads*head_dim*seq per "
        "token";
  std::vector<std::string> lines = {
      fmt::format("Model FLOPs (formula version {}): {}; attention counts the full square, mfu_causal half "
                  "of it. MFU = model FLOPs "
                  "/ (time x world x peak). HFU counts what was executed, recompute in.",
                  version.empty() ? "not recorded" : version, formula)};
  // A peak that is measured differs a little from point to point: one range for each source.
  std::map<std::string, std::pair<double, double>> peaks;
  for (const PointResult& p : file.points) {
    if (!p.peak_tflops) continue;
    const std::string source = fmt::format("{}, {}", p.peak_source.empty() ? "source not recorded" : p.peak_source,
                                           name_of(p.point.precision));
    auto& [low, high] = peaks.try_emplace(source, *p.peak_tflops, *p.peak_tflops).first->second;
    low = std::min(low, *p.peak_tflops);
    high = std::max(high, *p.peak_tflops);
  }
  std::string line;
  for (const auto& [source, range] : peaks)
    line += fmt::format("{}{:.4g}{} TFLOP/s per device ({})", line.empty() ? "" : "; ", range.first,
                        range.first == range.second ? "" : fmt::format(" to {:.4g}", range.second), source);
  lines.push_back("Peak: " + (line.empty() ? "n/a, so MFU and HFU are n/a" : line) + ".");
  for (const std::string& line : expected_intervals(file)) lines.push_back(line);
  lines.push_back(
      "Time is one optimizer step on the slowest rank, warm-up excluded. Peak memory is what the engine's "
      "allocator "
      "handed out, on the rank with the most. n/a: unknown. -: nothing to say.");
  return lines;
}

}  // namespace mbench::reports
