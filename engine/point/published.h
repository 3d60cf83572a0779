// Figures that others have published for the points of a spec: its key `published`.
//
//   "published": {
//     "source": "who, and where",
//     "machine": "sim:8xV100-SXM2-16GB",              // --on for a comparison.
//     "about": "the assumptions that reproduce it",    // optional.
//     "flags": ["--use-distributed-optimizer"],        // optional: of the published command, those that matter.
//     "rows": [{"where": {"seq": 512, "strategy": "full"}, "iteration_ms": 448, "peak_memory_mib": 1801}]
//   }
//
// `where` names fields of a point, as many as it takes to pick one. A figure has the name of a number of the result file. It is a number,
// {"mean", "stddev"}, or {"runs": [...]} for several published runs of the same, whose median is compared. "outcome": "oom" says that the
// point did not fit. "doubt" says why a row cannot be right, or, as {"mfu": "why"}, why one of its figures cannot.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/point/where.h"

namespace mbench {

struct PublishedFigure {
  std::string metric;
  double mean = 0;  // of several runs: their median
  std::optional<double> stddev;
  std::vector<double> runs;  // two or more, ascending; empty: one figure
  std::string doubt;         // empty: none
};

struct PublishedRow {
  std::string place;  // its JSON path, for messages
  Where where;
  std::vector<PublishedFigure> figures;
  bool oom = false;
  std::string doubt;  // of the outcome, and of every figure too

  // `fields`: a point as point_in_words() has it, or a record of it.
  bool picks(const nlohmann::ordered_json& fields, const std::string& model_name) const;
};

struct Published {
  std::string source, machine, about;
  std::vector<std::string> flags;
  std::vector<PublishedRow> rows;
  std::vector<std::string> metrics;  // those that some row has, in the order of published_metrics()
};

// The names a figure may have.
const std::vector<std::string>& published_metrics();

// `where` names the place of `json`, such as "spec.json: $.published"; bad_input for what is not as above.
Published read_published(const nlohmann::ordered_json& json, const std::string& where);

}  // namespace mbench
