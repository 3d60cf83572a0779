// A point's result under names: every field of the spec and every value of the result file, through their
// JSON form. A name is a path of keys joined by dots: "tp", "iteration_ms.p95", "model.layers",
// "env.NCCL_P2P_DISABLE". An object that has a mean stands for its mean ("iteration_ms" is
// "iteration_ms.mean"); an array has "first", "last" and "size". Where the spec has published figures
// (engine/point/published.h) there are "published.<metric>" and "error.<metric>" too: (ours - published) /
// published.
//
// Names for what follows from these, of the whole point:
//
//   environment.KEY    The result file's environment ("environment.power_cap_w"), the same for every point.
//   hosts              The names of the hosts that it ran on.
//   nodes              How many they are. In a simulation, nodes of environment.devices_per_node devices that hold its ranks.
//   devices_per_node   The most ranks on one of them.
//
//   micro_batches      Of a step, on one data-parallel rank.
//   runtime_s          Time of all its iterations at their mean.
//   energy_w_per_device  The mean power of a step on each device, from its energy.
//   memory_margin_mib  What the allocator could have on top of what it holds, where environment.usable_memory_mib gives that.
//   bound_by           What bounds the step and what would help, a sentence.
//
//   tokens_per_s_per_device
//   compute_share, communication_share, bubble_share, host_share    of the step, from its time anatomy (bound.h)
//
// Of one rank, in the records that by_rank() gives (stragglers.h):
//
//   rank.index, rank.host, rank.stage, rank.step_ms, rank.compute_ms, rank.against_peers, rank.cpu_share, rank.peak_memory_mib,
//   rank.straggler
//
// Of one window of a soak, in the records that by_window() gives (soak_findings.h):
//
//   window.index, window.end_s, window.steps, window.median_ms, window.worst_ms, window.samples_per_s, window.clock_mhz,
//   window.least_clock_mhz, window.power_w, window.hottest_c, window.throttle, window.against, window.dip
//
// Of points that differ only in their seed (seeds.h), in the table of that name:
//
//   seeds.METRIC.mean, .stddev, .least, .most, seeds.counted
#pragma once
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/point/model_spec.h"
#include "engine/point/outcome.h"
#include "engine/point/published.h"
#include "engine/point/result_fwd.h"
#include "reports/records/bound.h"

namespace mbench::reports {

class Record {
 public:
  // What all records of a file have in common.
  struct File {
    nlohmann::ordered_json environment;
    std::unordered_map<std::string, std::size_t> positions;  // of names in json(), to find them at once
  };
  explicit Record(const PointResult& result, std::shared_ptr<const File> file = nullptr);
  // Null where the value is unknown or there is none of that name.
  nlohmann::ordered_json value(std::string_view name) const;
  // The same without a copy where the record holds it; a value that is computed is put into `made`.
  const nlohmann::ordered_json& value(std::string_view name, nlohmann::ordered_json& made) const;
  std::string text(std::string_view name) const;  // "n/a" for null

  const nlohmann::ordered_json& json() const { return json_; }
  // json()'s value of a name without a dot; null if there is none.
  const nlohmann::ordered_json* find(const std::string& key) const;
  nlohmann::ordered_json model() const;  // its name and sizes, where json() may have only a preset's name
  const std::string& model_name() const { return model_.name; }
  Outcome outcome() const { return outcome_; }
  bool simulated() const { return simulated_; }
  const std::string& reason() const { return reason_; }
  // Of every measured step, in milliseconds; json() has only the first and last.
  const std::vector<double>& samples_ms() const { return samples_ms_; }
  const std::string& id() const { return json_.at("id").get_ref<const std::string&>(); }

  // A record for each rank, with the names rank.*; only this one where ranks reported no times.
  std::vector<Record> by_rank() const;
  // The same for each window of a soak, with the names window.*.
  std::vector<Record> by_window() const;

  // This record with one more value.
  Record with(const std::string& name, nlohmann::ordered_json value) const;
  Record with_all(const nlohmann::ordered_json& values) const;  // the same for each member of an object

  // Gives it the names published.* and error.*, with the values of `published.rows[row]` if there is one.
  void publish(const Published& published, std::optional<std::size_t> row);
  std::optional<std::size_t> published_row() const { return published_row_; }
  // A remark on the value of that name: why a published figure cannot be right. Usually empty.
  std::string remark(std::string_view name) const;

 private:
  const nlohmann::ordered_json* walk(std::string_view name) const;
  nlohmann::ordered_json derived(std::string_view name) const;

  nlohmann::ordered_json json_;
  std::shared_ptr<const File> file_;
  ModelSpec model_;
  Outcome outcome_;
  bool simulated_;
  std::vector<double> samples_ms_;
  std::string reason_;
  std::optional<TimeShares> shares_;
  std::int64_t hosts_ = 0, ranks_per_node_ = 0;  // where it ran; 0: not known
  std::string bound_by_;
  std::shared_ptr<const nlohmann::ordered_json> ranks_,
      windows_;  // what rank.* and window.* are of each; null where unknown
  std::optional<std::size_t> published_row_;
  std::map<std::string, std::string, std::less<>> remarks_;
};

// The published figures of a result file's spec; nothing if it has none.
std::optional<Published> published_of(const nlohmann::ordered_json& spec);

// With their published figures, if the spec has any.
std::vector<Record> records_of(const ResultFile& file);

// A field's value in a table: "n/a" for null, a model by its name, an object as "key=value, ...".
std::string text_of(const nlohmann::ordered_json& value);

// "OOM", "launch failed": an outcome as a table says it.
std::string outcome_text(Outcome outcome);

// Throws bad_input with the nearest choice unless some record could have a value of that name.
void require_name(const std::vector<Record>& records, std::string_view name, std::string_view where);

// Every metric that some record has, parts of one ("iteration_ms.p95") by themselves, in the order of the
// file.
std::vector<std::string> metric_names(const std::vector<const Record*>& records);

// The fields in which the points differ. First come those of the spec's "sweep" in its order. Then comes any other whose value does not
// follow from the ones before (a strategy decides recompute and sequence_parallel).
std::vector<std::string> swept_fields(const nlohmann::ordered_json& spec, const std::vector<const Record*>& records);

// A condition "field=value" on records: fields that are named twice may have either value.
class Condition {
 public:
  void add(std::string field, std::string value) { terms_.push_back({std::move(field), std::move(value)}); }
  bool matches(const Record& record) const;
  bool empty() const { return terms_.empty(); }
  struct Term {
    std::string field, value;
  };
  const std::vector<Term>& terms() const { return terms_; }

 private:
  std::vector<Term> terms_;
};

}  // namespace mbench::reports
