// Points simulated on machines of the tests' own making: what the tests of simulation share.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "engine/sim/run/simulate.h"
#include "strategies/strategies.h"

namespace mbench::test {

inline nlohmann::ordered_json machine_file(const std::string& path) {
  return parse_json(read_text_file(MBENCH_SOURCE_DIR "/engine/sim/" + path), path);
}
inline nlohmann::ordered_json framework_file(const std::string& name) {
  return parse_json(read_text_file(MBENCH_SOURCE_DIR "/engine/framework/" + name), name);
}

// Only fp16 GEMMs take time, and they run at the peak: memory, links and host are next to free.
inline sim::Machine ideal_machine() {
  nlohmann::ordered_json j = machine_file("machines/V100-SXM2-16GB.json");
  const double free = 1e-6, infinite = 1e9;  // us, GB/s
  j["name"] = "ideal";
  j["device"]["memory_mib"]["value"] = 1 << 20;
  j["device"]["memory_gbps"]["value"] = infinite;
  j["device"]["kernel_latency_us"]["value"] = free;
  j["device"]["multiprocessors"]["value"] = 1;
  j["device"]["communication_multiprocessors"]["value"] = free;
  j["device"]["peak_tflops"]["fp16"]["value"] = 100;
  j["device"]["peak_tflops"]["f32"]["value"] = infinite;  // of all that is no GEMM
  for (const char* precision : {"f32", "fp16"}) j["gemm"]["sustained"][precision]["value"] = 1;
  for (const char* direction : {"forward", "backward"}) j["attention"][direction]["value"] = 1;
  nlohmann::ordered_json tile = j["gemm"]["tiles"][0];
  tile["m"] = tile["n"] = 1;
  tile["efficiency"]["value"] = 1;
  j["gemm"]["tiles"] = nlohmann::ordered_json::array({tile});
  j["gemm"]["k_overhead"]["value"] = free;
  j["host"]["launch_us"]["value"] = j["host"]["synchronize_us"]["value"] = free;
  j["node"]["collective_base_us"]["value"] = free;
  for (auto& link : j["node"]["links"]) {
    link["bus_gbps"]["value"] = infinite;
    link["latency_us"]["value"] = free;
  }
  j["node"]["p2p_gbps"]["value"] = infinite;
  j["network"]["gbps_per_device"]["value"] = infinite;
  j["network"]["latency_us"]["value"] = free;
  return sim::machine_from_json(j, "ideal.json");
}

// A host whose calls are next to free.
inline Framework ideal_framework() {
  nlohmann::ordered_json j = framework_file("mbench.json");
  j["name"] = "ideal";
  for (auto& figure : j["host_us"]) figure["value"] = 1e-6;
  return framework_from_json(j, "ideal.json");
}

// A point's step on that framework's host: it keeps what the point's own framework keeps.
inline Plan plan_on(const Framework& host, const Point& point) {
  Plan plan = strategies::make_plan(point);
  auto framework = std::make_shared<Framework>(host);
  framework->keeps = plan.keeps();
  framework->buckets = plan.framework->buckets, framework->autocast = plan.framework->autocast;
  framework->holds_logits = plan.framework->holds_logits;
  plan.framework = framework;
  return plan;
}

inline sim::Simulation simulated(const Point& point, const sim::Machine& machine, const Framework& framework,
                                 int devices = 4096, bool trace = false) {
  return sim::simulate_point(point, plan_on(framework, point), machine, devices, {.trace = trace});
}

inline sim::Simulation simulated(const Point& point, const std::string& machine,
                                 const std::string& framework = "mbench") {
  return simulated(point, sim::find_machine(machine, "test"), find_framework(framework, "test"));
}

inline double step_ms(const sim::Simulation& simulation) {
  return simulation.result.iteration_ms.value().mean;
}

}  // namespace mbench::test
