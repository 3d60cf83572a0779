// What a single key cannot express: several keys that mean one thing together. A rule has both directions side by side, and tables name
// it.
#pragma once
#include <string_view>

#include "formats/table/reading.h"
#include "formats/table/writing.h"

namespace mbench::formats {

struct Rule {
  std::string_view name;
  void (*read)(Reading&);
  void (*write)(Writing&);
};

// For a rule whose fields others write.
inline void write_nothing(Writing&) {}

// The rule of that name; internal error if there is none.
const Rule& rule_named(std::string_view name);

// The rules of each trainer.
const std::vector<Rule>& hugging_face_rules();
const std::vector<Rule>& megatron_model_rules();
const std::vector<Rule>& megatron_run_rules();
const std::vector<Rule>& deepspeed_rules();
const std::vector<Rule>& torchtitan_rules();
const std::vector<Rule>& training_arguments_rules();

}  // namespace mbench::formats
