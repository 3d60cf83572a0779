// Stands in for oneDNN where the build has none.
#include "engine/backend/cpu/bf16_gemms.h"

namespace mbench::cpu {

std::unique_ptr<Bf16Gemms> open_bf16_gemms() {
  return nullptr;
}

std::string bf16_instructions() {
  return "";
}

bool bf16_instructions_pay() {
  return false;
}

std::string onednn_library() {
  return "";
}

}  // namespace mbench::cpu
