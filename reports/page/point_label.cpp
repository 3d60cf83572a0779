#include "reports/page/point_label.h"

namespace mbench::reports {

std::string point_label(const Record& record, const std::vector<std::string>& swept) {
  std::string label;
  for (const std::string& field : swept) {
    const std::string text = record.text(field);
    const bool speaks = field == "strategy" || field == "model";  // for itself, without its field's name
    label += (label.empty() ? "" : ", ") + (speaks ? text : field + " " + text);
  }
  return label.empty() ? record.text("model") : label;
}

}  // namespace mbench::reports
