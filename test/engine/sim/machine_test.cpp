// Machine and framework files: what is built in reads, and what is broken is refused where it is broken.
#include "engine/sim/machine/machine.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "engine/base/json_reader.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::sim;
using Catch::Contains;
using Catch::EndsWith;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

const fs::path kRoot = fs::path(MBENCH_SOURCE_DIR) / "engine/sim";

// Stems of the .json files of a folder.
std::set<std::string> stems(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json") names.insert(entry.path().stem().string());
  return names;
}

ordered_json file_of(const std::string& path) {
  return parse_json(read_text_file((kRoot / path).string()), path);
}

// The message of the bad_input that `call` throws; a failed check if it throws none.
std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  FAIL_CHECK("nothing was refused");
  return "";
}

// The V100 with a change, read as broken.json.
std::string refused(const std::function<void(ordered_json&)>& change) {
  ordered_json json = file_of("machines/V100-SXM2-16GB.json");
  change(json);
  return refusal([&] { machine_from_json(json, "broken.json"); });
}

}  // namespace

TEST_CASE("every built-in machine reads and is named as its file") {
  const auto names = machine_names();
  CHECK(std::set<std::string>(names.begin(), names.end()) == stems(kRoot / "machines"));
  for (const std::string& name : names) {
    INFO(name);
    const Machine m = find_machine(name, "test");
    CHECK(m.name == name);
    CHECK_FALSE(m.description.empty());
    CHECK(m.usable_memory() > 0);
    CHECK(m.usable_memory() < m.device.memory_bytes);
    CHECK(m.device.peak_flops[static_cast<std::size_t>(Precision::f32)] > 0);
    CHECK(m.node.links.back().ranks >= m.node.devices);
    CHECK(m.knows_host_memory());
    for (int i = 0; i < kPrecisionCount; ++i)
      CHECK((m.gemm.sustained[static_cast<std::size_t>(i)] > 0) ==
            (m.device.peak_flops[static_cast<std::size_t>(i)] > 0));
  }
}

TEST_CASE("every built-in machine has rates in the order that hardware has them") {
  for (const std::string& name : machine_names()) {
    const Machine m = find_machine(name, "test");
    if (m.immediate) continue;  // measured, whatever it came to
    INFO(name);
    const auto peak = [&](Precision p) { return m.device.peak_flops[static_cast<std::size_t>(p)]; };
    const auto rate = [&](Precision p) { return peak(p) * m.gemm.sustained[static_cast<std::size_t>(p)]; };
    const Precision half = peak(Precision::bf16) > 0 ? Precision::bf16 : Precision::fp16;
    CHECK(peak(half) == Approx(peak(Precision::fp16)));
    CHECK(peak(half) > peak(Precision::f32));
    if (peak(Precision::tf32) > 0)
      CHECK((peak(Precision::tf32) >= peak(Precision::f32) &&
             peak(Precision::tf32) * 2 <= peak(half) * 1.02));  // datasheets round
    if (peak(Precision::fp8) > 0)
      CHECK((peak(Precision::fp8) >= 1.99 * peak(half) && rate(Precision::fp8) > rate(half)));
    CHECK(rate(half) > rate(Precision::f32));
    for (const double share : {m.attention.forward, m.attention.backward}) {
      CHECK(share <= m.gemm.sustained[static_cast<std::size_t>(half)]);  // exponentials stand between its products
      CHECK(share > 0.1);
    }
    CHECK(m.attention.backward <= m.attention.forward * 1.05);
    // A datasheet's DRAM: 300 GB/s of an L4 to 8 TB/s, of 16 GB to 288.
    CHECK((m.device.memory_bandwidth >= 300e9 && m.device.memory_bandwidth <= 8000e9));
    CHECK((m.device.memory_bytes >= 15e9 && m.device.memory_bytes <= 310e9));
  }
}

TEST_CASE("no link of a built-in machine is faster than what its matrix of links has") {
  for (const std::string& name : machine_names()) {
    const Machine m = find_machine(name, "test");
    if (m.immediate) continue;
    INFO(name);
    // NVLinks of a device: through a switch all of them reach each other device, without one a part of them.
    int switched = 0, direct = 0;
    for (const std::string& word : m.node.topology[0])
      if (word.starts_with("NV"))
        switched = std::max(switched, std::stoi(word.substr(2))), direct += std::stoi(word.substr(2));
    // One way: 25 GB/s a link of NVLink 2 to 4, 50 of NVLink 5, which came with Blackwell; 76.5 of xGMI, 64 of PCIe 5 x16.
    const double blackwell = m.device.peak_flops[static_cast<std::size_t>(Precision::fp8)] > 4e15 ? 2 : 1;
    const double nvlink = (switched >= 8 ? switched : direct) * 25e9 * blackwell;
    const bool mesh = m.node.topology[0].back() == "XGMI";
    for (const Link& link : m.node.links) {
      INFO("ranks " << link.ranks);
      const double most = mesh ? 76.5e9 * (link.ranks - 1) : std::max(nvlink, 64e9);
      CHECK(link.bandwidth <= most);
      CHECK(link.all_to_all_bandwidth <= most);
      CHECK(link.latency < 20e-6);
    }
    CHECK(m.node.p2p_bandwidth <= std::max(nvlink, 76.5e9));
    CHECK(m.network.bandwidth <= 100e9);  // 800 Gb/s
  }
}

TEST_CASE("in a mesh without a switch a group has as many links as it has other devices") {
  for (const char* name : {"MI300X", "MI325X", "MI350X", "MI355X"}) {
    INFO(name);
    const Machine m = find_machine(name, "test");
    CHECK(m.node.devices == 8);
    const double pair = m.link(2).bandwidth;
    for (int k = 3; k <= 8; ++k) {
      INFO(k);
      CHECK(m.link(k).ranks == k);
      CHECK(m.link(k).bandwidth <= pair * (k - 1));
      CHECK(m.link(k).bandwidth >= pair * (k - 1) * 0.9);
    }
  }
}

TEST_CASE("figures come in plain units: FLOP/s, bytes and seconds") {
  const Machine m = find_machine("V100-SXM2-16GB", "test");
  CHECK(m.device.peak_flops[static_cast<std::size_t>(Precision::fp16)] == Approx(125e12));
  CHECK(m.device.peak_flops[static_cast<std::size_t>(Precision::bf16)] == 0);
  CHECK(m.device.memory_bandwidth == Approx(900e9));
  CHECK(m.device.memory_bytes == std::uint64_t{16152} << 20);
  CHECK(m.device.kernel_latency > 1e-7);
  CHECK(m.device.kernel_latency < 1e-5);
  CHECK_THAT(m.peak_source(Precision::fp16), Contains("V100-SXM2-16GB, dense fp16: NVIDIA"));
  CHECK(m.link(1).ranks == m.node.links.front().ranks);
  CHECK(m.link(m.node.links.front().ranks + 1).ranks == m.node.links[1].ranks);
  CHECK(m.link(8).ranks == 8);
}

TEST_CASE("host memory has all its figures or none") {
  ordered_json json = file_of("machines/V100-SXM2-16GB.json");
  CHECK(machine_from_json(json, "x").host.copy_bandwidth == Approx(12e9));
  json["host"].erase("adam_efficiency");
  CHECK_THAT(refusal([&] { machine_from_json(json, "x"); }), Contains("[x: $.host] \"adam_efficiency\" is missing"));
  for (const char* key : {"memory_mib", "memory_gbps", "copy_gbps"}) json["host"].erase(key);
  CHECK_FALSE(machine_from_json(json, "x").knows_host_memory());
}

TEST_CASE("a device without an f32 peak is refused") {
  CHECK_THAT(refused([](auto& j) { j["device"]["peak_tflops"].erase("f32"); }),
             Contains("[broken.json: $.device.peak_tflops.f32] missing"));
}

TEST_CASE("a figure that is zero, negative or above its range is refused at its value") {
  CHECK_THAT(refused([](auto& j) { j["device"]["memory_gbps"]["value"] = 0; }),
             Contains("[broken.json: $.device.memory_gbps.value] got 0, need a number above 0"));
  CHECK_THAT(refused([](auto& j) { j["network"]["latency_us"]["value"] = -1; }),
             Contains("[broken.json: $.network.latency_us.value]") && Contains("-1"));
  CHECK_THAT(refused([](auto& j) { j["device"]["memory_efficiency"]["value"] = 1.2; }),
             Contains("[broken.json: $.device.memory_efficiency.value]") && Contains("1.2"));
  CHECK_THAT(refused([](auto& j) { j["device"]["communication_multiprocessors"]["value"] = 81; }),
             Contains("[broken.json: $.device.communication_multiprocessors.value]") && Contains("80"));
}

TEST_CASE("what is counted is refused where it is no whole number, and memory that no machine has") {
  CHECK_THAT(refused([](auto& j) { j["node"]["devices"]["value"] = 0.5; }),
             Contains("[broken.json: $.node.devices.value] got 0.5, need a whole number"));
  CHECK_THAT(refused([](auto& j) { j["device"]["multiprocessors"]["value"] = 80.5; }),
             Contains("[broken.json: $.device.multiprocessors.value] got 80.5, need a whole number"));
  CHECK_THAT(refused([](auto& j) { j["device"]["memory_mib"]["value"] = 1e200; }),
             Contains("[broken.json: $.device.memory_mib.value]") && Contains("1e+200"));
}

TEST_CASE("an unknown precision is refused with the nearest one") {
  CHECK_THAT(refused([](auto& j) { j["device"]["peak_tflops"]["fp61"] = j["device"]["peak_tflops"]["fp16"]; }),
             Contains("[broken.json: $.device.peak_tflops.fp61] unknown precision, got \"fp61\"") &&
                 Contains("did you mean \"fp16\"?"));
  CHECK_THAT(refused([](auto& j) { j["gemm"]["sustained"].erase("fp16"); }),
             Contains("[broken.json: $.gemm.sustained] missing fp16"));
}

TEST_CASE("a figure without its source is refused") {
  CHECK_THAT(refused([](auto& j) { j["host"]["launch_us"].erase("source"); }),
             Contains("[broken.json: $.host.launch_us") && Contains("\"source\""));
  CHECK_THAT(refused([](auto& j) { j["host"]["launch_us"]["source"] = ""; }),
             Contains("[broken.json: $.host.launch_us.source] got nothing"));
  CHECK_THAT(refused([](auto& j) { j["node"]["links"][1]["bus_gbps"].erase("source"); }),
             Contains("[broken.json: $.node.links[1].bus_gbps"));
}

TEST_CASE("an unknown key is refused with the nearest one, at every level") {
  CHECK_THAT(refused([](auto& j) { j["devise"] = 1; }),
             Contains("[broken.json: $") && Contains("devise") && Contains("did you mean \"device\"?"));
  CHECK_THAT(refused([](auto& j) { j["device"]["memory_gbp"] = j["device"]["memory_gbps"]; }),
             Contains("[broken.json: $.device") && Contains("did you mean \"memory_gbps\"?"));
  CHECK_THAT(refused([](auto& j) { j["gemm"]["tiles"][2]["o"] = 1; }),
             Contains("[broken.json: $.gemm.tiles[2]") && Contains("\"o\""));
  CHECK_THAT(refused([](auto& j) { j["node"]["links"][0]["rank"] = 2; }),
             Contains("[broken.json: $.node.links[0]") && Contains("did you mean \"ranks\"?"));
}

TEST_CASE("a missing key is refused by its name") {
  for (const char* part : {"device", "gemm", "attention", "host", "node", "network", "description"}) {
    INFO(part);
    CHECK_THAT(refused([&](auto& j) { j.erase(part); }),
               Contains("[broken.json: $") && Contains(std::string("\"") + part + "\""));
  }
  CHECK_THAT(refused([](auto& j) { j["node"].erase("p2p_gbps"); }),
             Contains("[broken.json: $.node") && Contains("\"p2p_gbps\""));
}

TEST_CASE("links that do not ascend, or do not reach all devices, are refused") {
  CHECK_THAT(refused([](auto& j) { j["node"]["links"][2]["ranks"] = 4; }),
             Contains("[broken.json: $.node.links[2].ranks] got 4 after 4, need them ascending"));
  CHECK_THAT(refused([](auto& j) { j["node"]["links"].erase(2); }),
             Contains("[broken.json: $.node.links] the last is for 4 ranks, need one for all 8 devices"));
  CHECK_THAT(refused([](auto& j) { j["node"]["links"] = ordered_json::array(); }),
             Contains("[broken.json: $.node.links] got []"));
}

TEST_CASE("tiers of a network are leaves and a spine") {
  const auto tiers = [](ordered_json& j, double nodes, double oversubscription) {
    const auto figure = [](double value) { return ordered_json{{"value", value}, {"source", "test"}}; };
    j["network"]["leaf"] = {{"nodes", figure(nodes)}};
    j["network"]["spine"] = {{"oversubscription", figure(oversubscription)}, {"latency_us", figure(2)}};
  };
  ordered_json json = file_of("machines/V100-SXM2-16GB.json");
  CHECK(machine_from_json(json, "test").network.tiers.nodes == 0);
  tiers(json, 16, 3);
  const MachineTiers read = machine_from_json(json, "test").network.tiers;
  CHECK(read.nodes == 16);
  CHECK(read.rails == 1);
  CHECK(read.oversubscription == 3);
  CHECK(read.latency == Approx(2e-6));
  const MachineTiers superpod = find_machine("H100-SXM5-80GB", "test").network.tiers;
  CHECK(superpod.rails == 8);
  CHECK(superpod.oversubscription == 1);
  CHECK_THAT(refused([&](auto& j) { tiers(j, 16, 0.5); }),
             Contains("[broken.json: $.network.spine.oversubscription.value] got 0.5, need 1 at least"));
  CHECK_THAT(refused([&](auto& j) { tiers(j, 1.5, 2); }), Contains("network.leaf.nodes") && Contains("whole number"));
  CHECK_THAT(refused([&](auto& j) { tiers(j, 16, 2), j["network"].erase("spine"); }),
             Contains("[broken.json: $.network.spine] missing, need both"));
  CHECK_THAT(refused([&](auto& j) { tiers(j, 16, 2), j["network"]["leaf"]["ports"] = 64; }), Contains("ports"));
}

TEST_CASE("a node's matrix of links is one word for all, or rows that agree with each other") {
  for (const std::string& name : machine_names()) {
    INFO(name);
    const Machine m = find_machine(name, "test");
    CHECK(m.node.topology.empty() == m.immediate);  // every machine of GPUs has one
    if (m.immediate) continue;
    REQUIRE(m.node.topology.size() == static_cast<std::size_t>(m.node.devices));
    for (std::size_t i = 0; i < m.node.topology.size(); ++i)
      for (std::size_t j = 0; j < m.node.topology.size(); ++j)
        CHECK((i == j ? m.node.topology[i][j] == "X" : names_a_link(m.node.topology[i][j])));
  }
  // Six links a V100, whichever it is.
  for (const auto& row : find_machine("V100-SXM2-16GB", "test").node.topology) {
    int links = 0;
    for (const std::string& word : row)
      if (word.starts_with("NV")) links += word[2] - '0';
    CHECK(links == 6);
  }
  const auto with = [](const ordered_json& value) {
    return refused([&](auto& j) { j["node"]["topology"]["value"] = value; });
  };
  CHECK_THAT(with("NV"), Contains("[broken.json: $.node.topology.value] no way between two devices, got \"NV\"") &&
                             Contains("need NV and a number of NVLinks, XGMI, PIX"));
  CHECK_THAT(with(ordered_json::array({"X NV1"})), Contains("need a word or 8 rows"));
  const ordered_json rows = file_of("machines/V100-SXM2-16GB.json")["node"]["topology"]["value"];
  const auto with_row = [&](std::size_t i, const std::string& row) {
    ordered_json changed = rows;
    changed[i] = row;
    return with(changed);
  };
  CHECK_THAT(with_row(0, "X NV1"), Contains("topology.value[0]] got 2 words, need 8"));
  CHECK_THAT(with_row(0, "NV1 NV1 NV1 NV2 NV2 SYS SYS SYS"), Contains("got NV1 for itself, need X"));
  CHECK_THAT(with_row(1, "NV2 X NV2 NV1 SYS NV2 SYS SYS"), Contains("got NV2 to device 0, need NV1"));
}

TEST_CASE("memory outside the allocator that leaves nothing is refused") {
  CHECK_THAT(refused([](auto& j) { j["device"]["memory_outside_allocator_mib"]["value"] = 16152; }),
             Contains("[broken.json: $.device.memory_outside_allocator_mib] leaves nothing of the 16152 MiB"));
}

TEST_CASE("a machine is found by name or by path, and a name that is none by the nearest") {
  const std::string unknown = refusal([] { find_machine("V100-SXM9-16GB", "--on"); });
  CHECK_THAT(unknown,
             Contains("[--on] no such machine, got \"V100-SXM9-16GB\"") && Contains("did you mean \"V100-SXM2-16GB\""));
  CHECK(find_machine((kRoot / "machines/TITAN-RTX.json").string(), "--on").name == "TITAN-RTX");
  CHECK_THAT(refusal([] { find_machine("nowhere/at-all.json", "--on"); }),
             Contains("[nowhere/at-all.json] cannot be read"));
}

TEST_CASE("a machine without sim: is no device, and the refusal says how it is simulated") {
  for (const char* device : {"cpu", "cuda", "tpu", ""}) CHECK(full_device_name(device, "--on") == device);
  const auto refused = [](const char* device) { return refusal([device] { full_device_name(device, "--on"); }); };
  CHECK_THAT(refused("A100-80GB"),
             Contains("[--on] no such device, got \"A100-80GB\"") && EndsWith("sim:8xA100-SXM4-80GB"));
  CHECK_THAT(refused("16xh100"), EndsWith("sim:16xH100-SXM5-80GB"));
}

TEST_CASE("a short name that several machines share is the one that is known by it, and no two are known alike") {
  std::vector<std::string> others;
  CHECK(full_device_name("sim:8xH100", "--on", &others) == "sim:8xH100-SXM5-80GB");
  CHECK(std::count(others.begin(), others.end(), "H100-PCIe-80GB") == 1);
  CHECK(std::count(others.begin(), others.end(), "H100-SXM5-80GB") == 0);
  CHECK(full_machine_name("NVIDIA A100 80GB", "--on") == "A100-SXM4-80GB");
  CHECK(full_machine_name("h100-pcie", "--on") == "H100-PCIe-80GB");
  CHECK_THAT(refusal([] { full_machine_name("V100", "--on"); }), Contains("several machines are meant"));
  std::set<std::string> known;
  for (const std::string& machine : machine_names())
    for (const std::string& name : find_machine(machine, "test").known_as) {
      INFO(machine << " as " << name);
      CHECK(known.insert(name).second);
      CHECK(full_machine_name(name, "test") == machine);
    }
}

TEST_CASE("what people call the machines of their reports is found, or the choices are named") {
  const std::pair<const char*, const char*> names[] = {{"A100-80GB", "A100-SXM4-80GB"},
                                                       {"A100", "A100-SXM4-80GB"},
                                                       {"H100", "H100-SXM5-80GB"},
                                                       {"A800", "A800-SXM4-80GB"},
                                                       {"H20", "H20-SXM5-96GB"},
                                                       {"H100-NVL", "H100-NVL-94GB"},
                                                       {"3090", "RTX-3090"},
                                                       {"RTX 4090", "RTX-4090"},
                                                       {"5090", "RTX-5090"},
                                                       {"A6000", "RTX-A6000"},
                                                       {"L20", "L20"},
                                                       {"L4", "L4"},
                                                       {"A10G", "A10G"},
                                                       {"H200", "H200-SXM5-141GB"},
                                                       {"MI300X", "MI300X"}};
  for (const auto& [said, meant] : names) {
    INFO(said);
    CHECK(full_machine_name(said, "--on") == meant);
    CHECK(full_device_name(std::string("sim:8x") + said, "--on") == std::string("sim:8x") + meant);
  }
  CHECK_THAT(refusal([] { full_machine_name("GH200", "--on"); }), Contains("GH200-144GB, GH200-96GB"));
}

TEST_CASE("a simulated device is a count and a machine") {
  const SimulatedDevices eight = parse_simulated("sim:8xV100-SXM2-16GB", "--on");
  CHECK(eight.count == 8);
  CHECK(eight.machine == "V100-SXM2-16GB");
  CHECK(parse_simulated("sim:1024x./box/mine.json", "--on").machine == "./box/mine.json");
  for (const char* bad : {"", "sim:", "cpu", "sim:8", "sim:x", "sim:8x", "sim:0xcpu", "sim:-1xcpu", "sim:1e3xcpu",
                          "sim:99999999xcpu", "sim:4 xcpu", "8xcpu"}) {
    INFO(bad);
    CHECK_THAT(refusal([&] { parse_simulated(bad, "--on"); }),
               Contains(std::string("[--on] no simulated machine, got \"") + bad + "\"") &&
                   Contains("need sim:<N>x<MACHINE>"));
  }
}

TEST_CASE("a cap on power lowers the rates of products as the machine's file says") {
  const auto with_cap = [](double watts) {
    ordered_json json = file_of("machines/V100-SXM2-16GB.json");
    const auto figure = [](double value) { return ordered_json{{"value", value}, {"source", "a test"}}; };
    json["device"]["power"] = {
        {"cap_w", figure(watts)},
        {"rates", {{{"cap_w", 200}, {"share", figure(0.6)}}, {{"cap_w", 300}, {"share", figure(1)}}}}};
    return json;
  };
  CHECK(find_machine("V100-SXM2-16GB", "test").device.power_share == 1);
  CHECK(machine_from_json(with_cap(300), "m").device.power_share == Approx(1));
  CHECK(machine_from_json(with_cap(400), "m").device.power_share == Approx(1));
  CHECK(machine_from_json(with_cap(250), "m").device.power_share == Approx(0.8));
  CHECK(machine_from_json(with_cap(200), "m").device.power_share == Approx(0.6));
  CHECK_THAT(refusal([&] { machine_from_json(with_cap(150), "m"); }),
             Contains("device.power.cap_w] got 150, need the lowest cap with a known rate, 200, at least"));
}

TEST_CASE("the power of a device is read with its sources, and one that idles takes least") {
  const Machine m = find_machine("H100-SXM5-80GB", "test");
  REQUIRE(m.device.watts);
  CHECK(m.device.watts->gemm > m.device.watts->memory);
  CHECK(m.device.watts->memory > m.device.watts->communication);
  CHECK(m.device.watts->communication > m.device.watts->idle);
  CHECK_FALSE(find_machine("cpu", "test").device.watts);
  auto j = load_machine("H100-SXM5-80GB", "test").first;
  j["device"]["watts"]["idle"]["value"] = 500;
  CHECK_THROWS_WITH(machine_from_json(j, "x.json"), Catch::Contains("more than a device at work takes"));
  j["device"]["watts"].erase("idle");
  CHECK_THROWS_WITH(machine_from_json(j, "x.json"), Catch::Contains("device.watts"));
}
