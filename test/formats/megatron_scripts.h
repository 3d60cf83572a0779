// Scripts of Megatron-LM as text, and what is read of them.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/json_reader.h"
#include "engine/point/point.h"
#include "formats/megatron/megatron.h"

namespace mbench::test {

inline Point point_of(const std::string& text, const formats::ImportOptions& options = {}) {
  return point_from_json(nlohmann::json(formats::read_megatron(text, "a.sh", options).spec), "spec");
}

inline Error error_of(const std::string& text, const formats::ImportOptions& options = {}) {
  try {
    formats::read_megatron(text, "a.sh", options);
  } catch (const Error& e) {
    return e;
  }
  return {ErrorKind::internal, "", "none"};
}

// A small GPT. Scripts add to it.
inline const std::string kArguments =
    "--num-layers 4\n--hidden-size 64 --num-attention-heads 4\n--seq-length 128 --max-position-embeddings "
    "128\n--micro-batch-size 2 --vocab-size 1000\n";

}  // namespace mbench::test
