// Classes of transformers that label samples, as `architectures` names them: LlamaForSequenceClassification. A config says their number of
// classes by names, id2label, or by num_labels.
#include "engine/base/json_reader.h"
#include "formats/hugging_face/rules.h"

namespace mbench::formats {
namespace {

constexpr std::string_view kEnd = "ForSequenceClassification";
constexpr int kUsualLabels = 2;  // PretrainedConfig's

// The class that labels samples; empty where the config names another.
std::string class_of(Reading& r) {
  const Item* given = r.find("architectures");
  if (!given || !given->value.is_array()) return "";
  for (const json& name : given->value)
    if (name.is_string() && name.get<std::string>().ends_with(kEnd)) return name.get<std::string>();
  return "";
}

json labels_of(Reading& r) {
  const json names = r.value("id2label"), count = r.value("num_labels");
  r.ignore("label2id");
  if (names.is_object() || names.is_array()) return names.size();
  return count.is_null() ? json(kUsualLabels) : count;
}

void read_labels(Reading& r) {
  const std::string name = class_of(r);
  if (name.empty()) return r.ignore("architectures");
  if (name != r.table().classifier)
    return r.lack("architectures", r.table().classifier.empty()
                                       ? "labels of samples, which transformers' classes of this type do not predict"
                                       : "another class than " + r.table().classifier);
  const json labels = labels_of(r), problem = r.value("problem_type");
  if (labels == 1 || problem == "regression") return r.lack("num_labels", "regression, of a number for each sample");
  if (problem == "multi_label_classification") return r.lack("problem_type", "several labels of a sample");
  r.set("model.labels", labels);
  if (const auto depths = r.get("model.mtp_layers"); depths && *depths != 0) {
    r.set("model.mtp_layers", 0);
    r.note(fmt::format("{} has no multi-token prediction", name));
  }
  const json dropout = r.value("classifier_dropout");
  if (const auto all = r.get("dropout"); dropout.is_number() && all && dropout != *all)
    r.lack("classifier_dropout", "dropout of only the classifier");
}

void write_labels(Writing& w) {
  const auto labels = static_cast<std::int64_t>(w.number("model.labels"));
  if (labels == 0) return;
  if (w.table().classifier.empty()) return w.cannot("model.labels", "no class of this type labels samples");
  w.put("architectures", json::array({w.table().classifier}));
  json names = json::object(), numbers = json::object();
  for (std::int64_t i = 0; i < labels; ++i) {
    const std::string number = std::to_string(i), label = "LABEL_" + number;
    names[number] = label, numbers[label] = i;
  }
  w.put("id2label", names);
  w.put("label2id", numbers);
}

}  // namespace

const std::vector<Rule>& label_rules() {
  static const std::vector<Rule> rules = {{"labels", read_labels, write_labels}};
  return rules;
}

}  // namespace mbench::formats
