// Sizes of heads that fit one another. Each form of attention has its own rules.
#pragma once
#include "engine/point/model_spec.h"

namespace mbench {

// bad_input below `where`, the model's place in a file, with the nearest sizes that fit. Heads must divide hidden, kv_heads must divide
// heads, and the number of rotary columns must be even. Sizes of another form of attention are refused too.
void check_heads(const ModelSpec& model, const std::string& where);

}  // namespace mbench
