#include "engine/sim/machine/machine.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "engine/base/embedded.h"
#include "engine/base/figures.h"
#include "engine/base/json_reader.h"
#include "engine/base/names.h"

// Written by the build from machines/*.json (cmake/embed.cmake).
namespace mbench::machine_files {
const EmbeddedFiles& files();
}

namespace mbench::sim {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr double kMicro = 1e-6, kGiga = 1e9, kTera = 1e12, kMiB = 1048576;
constexpr double kMostMiB = 1ull << 40;  // bytes then fit in 64 bits

// {"f32": figure, "fp16": figure, ...}
void read_by_precision(const json& value, const std::string& where, double unit, double high,
                       std::array<double, kPrecisionCount>& values, std::array<std::string, kPrecisionCount>* sources) {
  if (!value.is_object())
    fail(ErrorKind::bad_input, where, "got {}, need a figure for each precision", short_json(value));
  std::vector<std::string> names;
  for (int i = 0; i < kPrecisionCount; ++i) names.emplace_back(name_of(static_cast<Precision>(i)));
  for (const auto& [key, figure] : value.items()) {
    const auto it = std::find(names.begin(), names.end(), key);
    if (it == names.end())
      fail(ErrorKind::bad_input, where + "." + key, "unknown precision, got \"{}\", {}", key,
           nearest_choice(key, names));
    const Figure f = read_figure(figure, where + "." + key, high);
    values[static_cast<std::size_t>(it - names.begin())] = f.value * unit;
    if (sources) (*sources)[static_cast<std::size_t>(it - names.begin())] = f.source;
  }
  if (values[static_cast<std::size_t>(Precision::f32)] == 0)
    fail(ErrorKind::bad_input, where + ".f32", "missing, need the figure of f32, which every device has");
}

// "power": the cap, and the rates that devices were seen to sustain under some caps, between which lies a straight line.
double read_power(const json& value, const std::string& where) {
  Figures f(value, where);
  const double cap = f.get("cap_w");
  const json& rates = f.object().require("rates", "an array of {\"cap_w\", \"share\"}");
  if (!rates.is_array() || rates.size() < 2)
    fail(ErrorKind::bad_input, f.path("rates"), "got {}, need an array of two rates at least", short_json(rates));
  double share = 1, w0 = 0, s0 = 0;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", f.path("rates"), i);
    ObjectReader rate(rates[i], path);
    const double w = read_number(rate.require("cap_w", "watts"), rate.path("cap_w"), 1, 1e5);
    const double s = read_figure(rate.require("share", "a figure with its source"), rate.path("share"), 1).value;
    rate.refuse_unknown();
    if (w <= w0) fail(ErrorKind::bad_input, path + ".cap_w", "got {} after {}, need them ascending", w, w0);
    if (i == 0 && cap < w)
      fail(ErrorKind::bad_input, f.path("cap_w"), "got {}, need the lowest cap with a known rate, {}, at least", cap,
           w);
    if (cap >= w)
      share = s;
    else if (cap > w0)
      share = s0 + (s - s0) * (cap - w0) / (w - w0);
    w0 = w, s0 = s;
  }
  f.end();
  return share;
}

// "watts": what a device draws, by what it is doing.
PowerCurve read_watts(const json& value, const std::string& where) {
  Figures f(value, where);
  PowerCurve watts;
  watts.idle = f.get("idle");
  watts.gemm = f.get("gemm");
  watts.memory = f.get("memory");
  watts.communication = f.get("communication");
  f.end();
  const double least = std::min({watts.gemm, watts.memory, watts.communication});
  if (watts.idle > least)
    fail(ErrorKind::bad_input, f.path("idle"), "more than a device at work takes, got {}, need {} at most", watts.idle,
         least);
  return watts;
}

void read_device(const json& value, const std::string& where, Machine& m) {
  Figures f(value, where);
  read_by_precision(f.object().require("peak_tflops", "the dense peaks by precision"), f.path("peak_tflops"), kTera,
                    std::numeric_limits<double>::max(), m.device.peak_flops, &m.device.peak_sources);
  m.device.memory_bytes = static_cast<std::uint64_t>(f.get("memory_mib", kMiB, kMostMiB));
  m.device.memory_outside_allocator = static_cast<std::uint64_t>(f.get("memory_outside_allocator_mib", kMiB, kMostMiB));
  if (m.device.memory_outside_allocator >= m.device.memory_bytes)
    fail(ErrorKind::bad_input, f.path("memory_outside_allocator_mib"), "leaves nothing of the {} MiB, need less",
         m.device.memory_bytes >> 20);
  m.device.memory_bandwidth = f.get("memory_gbps", kGiga);
  m.device.memory_efficiency = f.share("memory_efficiency");
  m.device.kernel_latency = f.get("kernel_latency_us", kMicro);
  m.device.multiprocessors = f.whole("multiprocessors", 1 << 20);
  m.device.mxfp8 = f.get_or("mxfp8", 0, 1, 1) == 1;
  m.device.fp8_any_layout = f.get_or("fp8_any_layout", 0, 1, 1) == 1;
  m.device.rate_spread = f.get_or("rate_spread", 0, 1, 0.5);
  m.device.communication_multiprocessors = f.get("communication_multiprocessors", 1, m.device.multiprocessors);
  if (const json* power = f.object().find("power")) m.device.power_share = read_power(*power, f.path("power"));
  if (const json* watts = f.object().find("watts")) m.device.watts = read_watts(*watts, f.path("watts"));
  f.end();
}

void read_gemm(const json& value, const std::string& where, Machine& m) {
  Figures f(value, where);
  read_by_precision(f.object().require("sustained", "the share of each peak that the largest GEMMs keep up"),
                    f.path("sustained"), 1, 1, m.gemm.sustained, nullptr);
  for (int i = 0; i < kPrecisionCount; ++i)
    if (m.device.peak_flops[i] > 0 && m.gemm.sustained[i] == 0)
      fail(ErrorKind::bad_input, f.path("sustained"), "missing {}, need one for each precision of peak_tflops",
           name_of(static_cast<Precision>(i)));
  const json& tiles = f.object().require("tiles", "an array of {\"m\", \"n\", \"efficiency\"}");
  if (!tiles.is_array() || tiles.empty())
    fail(ErrorKind::bad_input, f.path("tiles"), "got {}, need an array of at least one tile", short_json(tiles));
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", f.path("tiles"), i);
    ObjectReader tile(tiles[i], path);
    GemmTile t;
    t.m = static_cast<double>(read_int(tile.require("m", "rows of the tile"), tile.path("m"), 1, 4096));
    t.n = static_cast<double>(read_int(tile.require("n", "columns of the tile"), tile.path("n"), 1, 4096));
    t.efficiency =
        read_figure(tile.require("efficiency", "a figure with its source"), tile.path("efficiency"), 1).value;
    tile.refuse_unknown();
    m.gemm.tiles.push_back(t);
  }
  m.gemm.k_overhead = f.get("k_overhead");
  m.gemm.accumulating = f.get_or("accumulating", 1, 1, 1);
  f.end();
}

Link read_link(const json& value, const std::string& where, bool counted) {
  Figures f(value, where);
  Link link;
  if (counted) {
    link.ranks =
        static_cast<int>(read_int(f.object().require("ranks", "how many devices at most"), f.path("ranks"), 1, 1024));
    link.name = read_string(f.object().require("name", "what the link is"), f.path("name"));
  }
  link.bandwidth = f.get("bus_gbps", kGiga);
  if (counted) {
    link.all_reduce_bandwidth = f.get_or("all_reduce_bus_gbps", 0, kGiga);
    link.all_to_all_bandwidth = f.get_or("all_to_all_bus_gbps", 0, kGiga);
    link.forwarding_bandwidth = f.get_or("forwarding_bus_gbps", 0, kGiga);
  }
  link.latency = f.get("latency_us", kMicro);
  f.end();
  return link;
}

// "node.topology": one word for the way between any two devices, or a row of words for each.
LinkMatrix read_topology(const json& json, const std::string& where, int devices) {
  ObjectReader object(json, where);
  const nlohmann::json& value = object.require("value", "a word, or a row of words for each device");
  const std::string path = object.path("value");
  const auto word = [](const std::string& text, const std::string& at) {
    if (!names_a_link(text))
      fail(ErrorKind::bad_input, at, "no way between two devices, got \"{}\", need {}", text, link_words());
    return text;
  };
  const auto n = static_cast<std::size_t>(devices);
  LinkMatrix all;
  if (value.is_string()) {
    all.assign(n, std::vector<std::string>(n, word(value.get<std::string>(), path)));
    for (std::size_t i = 0; i < n; ++i) all[i][i] = "X";
  } else {
    if (!value.is_array() || value.size() != n)
      fail(ErrorKind::bad_input, path, "got {}, need a word or {} rows of words, one for each device",
           short_json(value), n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::string row = fmt::format("{}[{}]", path, i);
      std::istringstream words(read_string(value[i], row));
      std::vector<std::string>& ways = all.emplace_back();
      for (std::string w; words >> w;) ways.push_back(ways.size() == i && w == "X" ? w : word(w, row));
      if (ways.size() != n) fail(ErrorKind::bad_input, row, "got {} words, need {}", ways.size(), n);
      if (ways[i] != "X") fail(ErrorKind::bad_input, row, "got {} for itself, need X", ways[i]);
      for (std::size_t j = 0; j < i; ++j)
        if (ways[j] != all[j][i])
          fail(ErrorKind::bad_input, row, "got {} to device {}, need {}, as from there", ways[j], j, all[j][i]);
    }
  }
  read_string(object.require("source", "where the matrix comes from"), object.path("source"));
  object.refuse_unknown();
  return all;
}

void read_node(const json& value, const std::string& where, Machine& m) {
  Figures f(value, where);
  m.node.devices = f.whole("devices", 1024);
  m.node.collective_base = f.get("collective_base_us", kMicro);
  const json& links = f.object().require("links", "an array of links");
  if (!links.is_array() || links.empty())
    fail(ErrorKind::bad_input, f.path("links"), "got {}, need an array of at least one link", short_json(links));
  for (std::size_t i = 0; i < links.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", f.path("links"), i);
    m.node.links.push_back(read_link(links[i], path, true));
    if (i > 0 && m.node.links[i].ranks <= m.node.links[i - 1].ranks)
      fail(ErrorKind::bad_input, path + ".ranks", "got {} after {}, need them ascending", m.node.links[i].ranks,
           m.node.links[i - 1].ranks);
  }
  if (m.node.links.back().ranks < m.node.devices)
    fail(ErrorKind::bad_input, f.path("links"), "the last is for {} ranks, need one for all {} devices",
         m.node.links.back().ranks, m.node.devices);
  m.node.p2p_bandwidth = f.get("p2p_gbps", kGiga);
  if (const json* topology = f.object().find("topology"))
    m.node.topology = read_topology(*topology, f.path("topology"), m.node.devices);
  m.node.pcie = read_link(f.object().require("pcie", "the path through the host"), f.path("pcie"), false);
  f.end();
}

// "leaf" and "spine": both or neither.
MachineTiers read_tiers(Figures& network, int devices) {
  MachineTiers tiers;
  tiers.devices = devices;
  const json* leaf = network.object().find("leaf");
  const json* spine = network.object().find("spine");
  if (!leaf && !spine) return tiers;
  if (!leaf || !spine)
    fail(ErrorKind::bad_input, network.path(leaf ? "spine" : "leaf"),
         "missing, need both: nodes stand below leaves, and a spine joins the leaves");
  {
    Figures f(*leaf, network.path("leaf"));
    tiers.nodes = f.whole("nodes", 1 << 20);
    if (f.object().find("rails")) tiers.rails = f.whole("rails", devices);
    f.end();
  }
  Figures f(*spine, network.path("spine"));
  tiers.oversubscription = f.get("oversubscription");
  if (tiers.oversubscription < 1)
    fail(ErrorKind::bad_input, f.path("oversubscription") + ".value",
         "got {}, need 1 at least: a leaf's uplinks have no more bandwidth than its devices", tiers.oversubscription);
  tiers.latency = f.get_or("latency_us", 0, kMicro);
  f.end();
  return tiers;
}

// All four or none.
void read_host_memory(Figures& f, Machine& m) {
  constexpr const char* kKeys[] = {"memory_mib", "memory_gbps", "adam_efficiency", "copy_gbps"};
  if (std::none_of(std::begin(kKeys), std::end(kKeys), [&](const char* key) { return f.object().find(key); })) return;
  m.host.memory_bytes = static_cast<std::uint64_t>(f.get("memory_mib", kMiB, kMostMiB));
  m.host.memory_bandwidth = f.get("memory_gbps", kGiga);
  m.host.adam_efficiency = f.share("adam_efficiency");
  m.host.copy_bandwidth = f.get("copy_gbps", kGiga);
}

}  // namespace

const AttentionSpeed* Machine::attention_on(AttentionKernels kernels) const {
  const auto &first = attention.flash_attention_1, &second = attention.flash_attention_2,
             &third = attention.flash_attention_3;
  if (kernels == AttentionKernels::flash_attention_1) return first ? &*first : nullptr;
  if (kernels == AttentionKernels::flash_attention_3 && third) return &*third;
  return kernels == AttentionKernels::flash_attention_2 && second ? &*second : &attention;
}

const Link& Machine::link(int ranks) const {
  for (const Link& l : node.links)
    if (l.ranks >= ranks) return l;
  return node.links.back();
}

std::string Machine::peak_source(Precision precision) const {
  return fmt::format("{}, dense {}: {}", name, name_of(precision),
                     device.peak_sources[static_cast<std::size_t>(precision)]);
}

Machine machine_from_json(const ordered_json& root, const std::string& file) {
  const json copy = root;
  ObjectReader top(copy, file + ": $");
  Machine m;
  m.name = read_string(top.require("name", "the machine's name"), top.path("name"));
  m.description = read_string(top.require("description", "one line on the machine"), top.path("description"));
  if (const json* known = top.find("known_as")) {
    if (!known->is_array())
      fail(ErrorKind::bad_input, top.path("known_as"), "got {}, need an array of names", short_json(*known));
    for (const json& name : *known) m.known_as.push_back(read_string(name, top.path("known_as[]")));
  }
  if (const json* immediate = top.find("immediate")) m.immediate = read_bool(*immediate, top.path("immediate"));
  read_device(top.require("device", "the device's figures"), top.path("device"), m);
  read_gemm(top.require("gemm", "how GEMMs run"), top.path("gemm"), m);
  {
    Figures f(top.require("attention", "how fused attention runs"), top.path("attention"));
    const auto curves = [&](const char* key) {
      const json* by_shape = f.object().find(key);
      return by_shape ? AttentionRates::from_json(*by_shape, f.path(key)) : AttentionRates();
    };
    static_cast<AttentionSpeed&>(m.attention) = {f.share("forward"), f.share("backward"), curves("by_shape")};
    const auto generation = [&](const char* which) -> std::optional<AttentionSpeed> {
      const auto key = [&](const char* of) { return fmt::format("{}_flash_attention_{}", of, which); };
      const auto has = [&](const char* of) { return f.object().find(key(of)) != nullptr; };
      if (!has("forward") && !has("backward") && !has("by_shape")) return std::nullopt;
      return AttentionSpeed{f.share(key("forward").c_str()), f.share(key("backward").c_str()),
                            curves(key("by_shape").c_str())};
    };
    m.attention.flash_attention_2 = generation("2");
    m.attention.flash_attention_3 = generation("3");
    if (f.object().find("forward_flash_attention_1") || f.object().find("backward_flash_attention_1"))
      m.attention.flash_attention_1 =
          AttentionSpeed{f.share("forward_flash_attention_1"), f.share("backward_flash_attention_1"), {}};
    f.end();
  }
  {
    Figures f(top.require("host", "the host's figures"), top.path("host"));
    m.host.launch = f.get("launch_us", kMicro);
    m.host.synchronize = f.get("synchronize_us", kMicro);
    m.host.graph_launch = f.get_or("graph_launch_us", m.host.launch, kMicro);
    m.host.graph_node = f.get_or("graph_node_us", 0, kMicro);
    m.host.speed = f.get("speed");
    read_host_memory(f, m);
    f.end();
  }
  read_node(top.require("node", "the node's figures"), top.path("node"), m);
  {
    const std::string path = top.path("network");
    Figures f(top.require("network", "the network between nodes"), path);
    read_string(f.object().require("name", "what the network is"), f.path("name"));
    m.network.bandwidth = f.get("gbps_per_device", kGiga);
    m.network.all_to_all = f.get_or("all_to_all_gbps_per_device", 0, kGiga);
    m.network.forwarding = f.get_or("forwarding_gbps_per_device", 0, kGiga);
    m.network.latency = f.get("latency_us", kMicro);
    m.network.adapters = f.get_or("adapters", m.node.devices);
    m.network.tiers = read_tiers(f, m.node.devices);
    f.end();
  }
  if (const json* measured = top.find("measured"))
    m.measured = std::make_shared<const Measured>(measured_from_json(*measured, top.path("measured")));
  top.refuse_unknown();
  return m;
}

namespace {

// Of several machines the one whose file has this name among those that it is commonly known by (`known_as`).
std::optional<std::string> commonly_known(const std::string& name, const std::vector<std::string>& machines) {
  const auto same = [&](const std::string& known) {  // each has all words of the other
    return !names_with(name, {known}).empty() && !names_with(known, {name}).empty();
  };
  for (const std::string& machine : machines) {
    const std::vector<std::string> known = find_machine(machine, "machine").known_as;
    if (std::any_of(known.begin(), known.end(), same)) return machine;
  }
  return std::nullopt;
}

std::string simulated_example(const std::string& machine) {
  return fmt::format("sim:8x{}", machine);
}

}  // namespace

std::string full_machine_name(const std::string& name, const std::string& where, std::vector<std::string>* others) {
  if (name.empty() || is_path(name) || machine_files::files().contains(name)) return name;
  std::vector<std::string> found = names_with(name, machine_names());
  if (found.empty())
    fail(ErrorKind::bad_input, where, "no such machine, got \"{}\", {} (or the path of a JSON file)", name,
         nearest_name(name, machine_names()));
  if (found.size() == 1) return found.front();
  const std::optional<std::string> known = commonly_known(name, found);
  if (!known)
    fail(ErrorKind::bad_input, where, "several machines are meant, got \"{}\", need one of {}", name,
         fmt::join(found, ", "));
  std::erase(found, *known);
  if (others) *others = found;
  return *known;
}

namespace {

// What a name of a machine without "sim:" means, such as "A100-80GB" or "8xH100": empty if it names none.
std::string simulated_meant_by(const std::string& device) {
  const std::size_t digits = std::min(device.find_first_not_of("0123456789"), device.size());
  const bool counted = digits > 0 && device.substr(digits, 1) == "x";
  const std::string name = counted ? device.substr(digits + 1) : device;
  const std::vector<std::string> found = name.empty() ? std::vector<std::string>() : names_with(name, machine_names());
  if (found.empty()) return {};
  const std::string machine = commonly_known(name, found).value_or(found.front());
  return counted ? fmt::format("sim:{}x{}", device.substr(0, digits), machine) : simulated_example(machine);
}

}  // namespace

std::string full_device_name(const std::string& device, const std::string& where, std::vector<std::string>* others) {
  if (device == "cpu" || device == "cuda") return device;
  if (!device.starts_with("sim:")) {
    const std::string meant = simulated_meant_by(device);
    if (!meant.empty())
      fail(ErrorKind::bad_input, where, "no such device, got \"{}\", need cpu, cuda or, for that machine simulated, {}",
           device, meant);
    return device;
  }
  const SimulatedDevices devices = parse_simulated(device, where, others);
  return fmt::format("sim:{}x{}", devices.count, devices.machine);
}

SimulatedDevices parse_simulated(const std::string& device, const std::string& where,
                                 std::vector<std::string>* others) {
  const std::string prefix = "sim:";
  if (!device.starts_with(prefix))
    fail(ErrorKind::bad_input, where, "no simulated machine, got \"{}\", need sim:<N>x<MACHINE>, such as {}", device,
         simulated_example("H100"));
  const std::size_t x = device.find('x', prefix.size());
  SimulatedDevices d;
  if (x != std::string::npos) {
    const std::string digits = device.substr(prefix.size(), x - prefix.size());
    const bool number =
        !digits.empty() && digits.size() < 8 && digits.find_first_not_of("0123456789") == std::string::npos;
    d.count = number ? std::stoi(digits) : 0;
    d.machine = full_machine_name(device.substr(x + 1), where, others);
  }
  if (d.count < 1 || d.machine.empty()) {
    const std::string machine = device.substr(prefix.size());  // "sim:H100" lacks the number alone
    const bool known = d.machine.empty() && !machine.empty() && !names_with(machine, machine_names()).empty();
    fail(ErrorKind::bad_input, where, "no simulated machine, got \"{}\", need sim:<N>x<MACHINE>, such as {}", device,
         simulated_example(known ? machine : "H100"));
  }
  return d;
}

std::pair<ordered_json, std::string> load_machine(const std::string& name, const std::string& where) {
  return load_file(machine_files::files(), "machine", full_machine_name(name, where), where);
}

Machine find_machine(const std::string& name, const std::string& where) {
  const auto [json, file] = load_machine(name, where);
  return machine_from_json(json, file);
}

std::vector<std::string> machine_names() {
  return names_of(machine_files::files());
}

}  // namespace mbench::sim
