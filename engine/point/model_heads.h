// Sizes of heads that fit one another. Each form of attention has its own rules.
#pragma once
#include "engine/point/model_spec.h"

namespace mbench {

// bad_input below `where`, the model's place in a file, with the nearest sizes that fit. It refuses heads that do not divide hidden,
// kv_heads that do not divide heads, an odd number of rotary columns, and sizes of another form of attention.
void check_heads(const ModelSpec& model, const std::string& where);

}  // namespace mbench
