// On which leaf of a network each node of a job stands: the spec's field `placement`. The words are Slurm's for the order in which it
// deals what a job asks for (--distribution).
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace mbench {

struct NodePlacement {
  enum class Order : std::uint8_t {
    block,  // a leaf is filled before the next one
    cyclic  // as few leaves as have room, and nodes are dealt to them in turn
  };
  Order order = Order::block;
  // The leaves of the job, in the order of its nodes, and how many of its nodes each one has. Empty: as many as it has room for.
  std::vector<std::int64_t> leaves;

  bool operator==(const NodePlacement&) const = default;
};

// Reads "block", "cyclic", a list of counts, or counts joined by "+"; bad_input at `where` for anything else.
NodePlacement read_node_placement(const nlohmann::json& value, const std::string& where);
// What it accepts, as JSON Schema.
nlohmann::ordered_json node_placement_schema();
// The text that it is read from: "block", "cyclic" or "24+8".
std::string name_of(const NodePlacement& placement);

}  // namespace mbench
