// Which part of a model an allocation belongs to: the part that runs while it is made. For people who ask which layer holds memory.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace mbench {

struct ModelPart {
  enum class Kind : std::uint8_t { none, embedding, layer, head, prediction } kind = Kind::none;
  std::int32_t index = 0;  // of the model's layers, or of its depths of multi-token prediction

  bool operator==(const ModelPart&) const = default;
};

inline std::string name_of(const ModelPart& part) {
  switch (part.kind) {
    case ModelPart::Kind::none:
      return "";
    case ModelPart::Kind::embedding:
      return "embedding";
    case ModelPart::Kind::layer:
      return fmt::format("layer {}", part.index);
    case ModelPart::Kind::head:
      return "head";
    case ModelPart::Kind::prediction:
      return fmt::format("multi-token prediction {}", part.index);
  }
  return "";
}

}  // namespace mbench
