#include "explain/peers.h"

#include <algorithm>
#include <vector>

#include "engine/base/embedded.h"
#include "engine/base/error.h"
#include "engine/base/json_reader.h"

namespace mbench::explain_files {
const EmbeddedFiles& files();
}

namespace mbench::explain {
namespace {

constexpr std::size_t kEnough = 5;         // rows of one kind that make an interval
constexpr std::int64_t kSmallWidth = 512;  // as in scripts/published_errors.py
constexpr double kTails = 0.1;             // of the rows at either end that lie outside, where there are ten and more

struct Row {
  Kind kind;
  double ratio = 1;
};

std::vector<Row> read_rows() {
  const nlohmann::ordered_json file =
      parse_json(explain_files::files().at("published_errors"), "published_errors.json");
  std::vector<Row> rows;
  for (const auto& row : file.at("rows"))
    rows.push_back({{row.at("framework"), row.at("experts"), row.at("nodes").get<int>() > 1, row.at("small")},
                    1 / (1 + row.at("error").get<double>())});
  return rows;
}

// Which of the four have to be the same.
struct Alike {
  bool framework, experts, nodes;
};

std::string about(const Kind& kind, const Alike& alike) {
  std::string text = kind.small       ? "models of width 512 and less"
                     : !alike.experts ? "models"
                     : kind.experts   ? "MoE models"
                                      : "dense models";
  if (alike.framework) text += fmt::format(" with {}", kind.framework);
  if (alike.nodes) text += kind.many_nodes ? " on several nodes" : " on one node";
  return text;
}

RatioInterval interval_of(std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  const std::size_t n = ratios.size(), out = static_cast<std::size_t>(kTails * static_cast<double>(n));
  RatioInterval found{ratios[out], ratios[n - 1 - out], n, static_cast<double>(n - 2 * out) / static_cast<double>(n),
                      ""};
  return found;
}

}  // namespace

Kind kind_of(const Point& point, int devices_of_node) {
  return {point.framework.host.empty() ? point.framework.preset : point.framework.host, point.model.experts > 0,
          point.world() > devices_of_node, point.model.hidden <= kSmallWidth};
}

RatioInterval interval_of(const Kind& kind) {
  static const std::vector<Row> rows = read_rows();
  for (const Alike alike :
       {Alike{true, true, true}, Alike{false, true, true}, Alike{false, true, false}, Alike{false, false, false}}) {
    std::vector<double> ratios;
    for (const Row& row : rows)
      if (row.kind.small == kind.small && (!alike.framework || row.kind.framework == kind.framework) &&
          (!alike.experts || row.kind.experts == kind.experts) &&
          (!alike.nodes || row.kind.many_nodes == kind.many_nodes))
        ratios.push_back(row.ratio);
    if (ratios.size() < kEnough) continue;
    RatioInterval found = interval_of(std::move(ratios));
    found.about = about(kind, alike);
    return found;
  }
  fail(ErrorKind::internal, "published_errors.json", "has too few rows");
}

}  // namespace mbench::explain
