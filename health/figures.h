// What a check of a machine has measured, and which of it stands out. Data, and JSON in and out.
//
// A figure is one measure, taken on many. Some are of every rank ("f32 GEMM", "memory", "launch"). The others are of every group of
// ranks that does a collective at the same time as the others of its scope.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/device/signature.h"
#include "engine/point/hosts.h"

namespace mbench::health {

struct RankFigure {
  std::vector<int> ranks;               // one, or the members of a group, ascending
  double value = 0;                     // in the figure's unit
  double seconds = 0;                   // of a call; of a collective on the slowest of its ranks
  std::int64_t wrong = 0;               // elements of the result that are not what they must be, on all of its ranks
  std::optional<double> expected = {};  // by a machine file
  std::vector<double> repeats = {};     // of a check that was repeated: each value; `value` is their median
  bool estimated = false;               // `expected` follows from an estimate: it is shown, and judges nothing
};

struct Figure {
  std::string what;        // "bf16 GEMM", "memory", "launch", "all_reduce"
  std::string scope;       // "rank"; of collectives "all", "pairs", or the axes whose groups these are: "tp"
  std::string unit;        // "TFLOP/s", "GB/s", "us"
  std::int64_t bytes = 0;  // of a collective, as nccl-tests counts its size
  bool rate = true;        // more is better; else it is a time, and less is better
  bool judged = true;      // against peers and what is expected: not collectives of fewer bytes than the largest
  std::vector<RankFigure> of;
};

struct Health {
  std::string device;  // "cpu", "cuda"
  std::vector<Host> hosts;
  std::vector<std::string> devices;  // of each rank, as its host calls it: "NVIDIA H200 at 0000:1b:00.0"
  std::vector<Figure> figures;
  std::string machine;                      // that `expected` is of; empty: none
  std::vector<DeviceSignature> signatures;  // of each rank's device; empty: not reported
  std::string date;                         // when it was measured, "2026-11-27"; empty: not said
};

// One check of several of the same job: medians, their values as repeats, and wrong elements of all. Throws bad_input for other
// figures.
Health merge_repeats(const std::vector<Health>& checks);
// In how many of so many repeats a figure must stand out to be an outlier: two of three.
constexpr std::size_t needed_of(std::size_t repeats) {
  return (2 * repeats + 2) / 3;
}
// By what share it does less in a time than `reference` does; negative if it does more.
double shortfall(const Figure& figure, double value, double reference);
// "all_reduce of 1.00 KiB over tp", "memory".
std::string label_of(const Figure& figure);

// How a figure prints: rates of CPUs are fractions of a TFLOP/s, and print as GFLOP/s.
struct Printed {
  std::string unit;
  double factor = 1;
};
Printed printed_as(const std::string& unit, double value);

// Names a rank with its host and device: "rank 3 on h2 (NVIDIA H200 at 0000:1b:00.0)". Names several ranks by their numbers with their
// hosts: "ranks 2 3 on h2".
std::string ranks_text(const Health& health, const std::vector<int>& ranks);
// How many hosts they are on; 1 where that is not known.
int hosts_of(const Health& health, const std::vector<int>& ranks);

struct Finding {
  std::size_t figure = 0, of = 0;  // Health::figures[figure].of[of]
  enum class Kind {
    wrong,
    slow,
    below
  } kind = Kind::slow;  // wrong data; slower than peers; than the machine file says
  std::string text;
};
std::string_view name_of(Finding::Kind kind);  // "wrong", "slow", "below"

// What the peers of each measurement of a figure reach: the median of the others. For a group only those over as many hosts count.
// Nothing without any. In the order of `of`.
std::vector<std::optional<double>> peers_of(const Health& health, const Figure& figure);

// Whatever computed or brought wrong data, and whatever is worse than its peers or than a machine file says by more than `tolerance`.
// With 0.1 that is a rate below 90 % of theirs, or a time above 1 / 90 %. In a repeated check, a finding must be in two of three
// repeats.
std::vector<Finding> judge(const Health& health, double tolerance);

// {"schema": "mbench.check/1", "device", "hosts", "devices", "machine", "figures": [{"what", "scope", "unit", "bytes", "rate",
// "judged", "of": [{"ranks", "value", "seconds", "wrong", "expected", "repeats"}]}], "tolerance", "findings": [text]}.
// Where known also "date" and "signatures" (signature.h), and "estimated" behind "expected".
nlohmann::ordered_json to_json(const Health& health, double tolerance);
// Throws bad_input naming the JSON path for what is not as above; tolerance and findings are not read.
Health health_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace mbench::health
