#include "formats/table/rules.h"

#include "engine/base/error.h"

namespace mbench::formats {

const Rule& rule_named(std::string_view name) {
  for (const auto* room : {&hugging_face_rules(), &megatron_model_rules(), &megatron_run_rules(), &deepspeed_rules(),
                           &torchtitan_rules(), &training_arguments_rules()})
    for (const Rule& rule : *room)
      if (rule.name == name) return rule;
  fail(ErrorKind::internal, "formats", "no rule {}", name);
}

}  // namespace mbench::formats
