// A machine's file, and what can be set in it; a framework's file.
#include "engine/sim/machine/machine.h"

#include "engine/base/json_reader.h"
#include "engine/sim/machine/what_if.h"
#include "test/fuzz/target.h"

void mbench::fuzz::read(const std::string& text) {
  const auto json = parse_json(text, "m.json");
  if (json.is_object() && json.contains("host_us")) {
    framework_from_json(json, "m.json");
    return;
  }
  const sim::Machine m = sim::machine_from_json(json, "m.json");
  require(m.usable_memory() > 0 && m.node.devices > 0, "a machine that reads has memory and devices");
  for (int ranks = 1; ranks <= m.node.devices; ++ranks) require(m.link(ranks).bandwidth > 0, "links of all devices");
}
