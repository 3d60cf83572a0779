// The JSON Schema (2020-12) of a spec, made from the table of a point's fields: for editors that complete, and programs that write
// specs. What the reader of specs takes is valid by it; what is valid may still be refused for what it means.
#pragma once
#include <nlohmann/json_fwd.hpp>

namespace mbench::sweeps {

nlohmann::ordered_json spec_schema();

}  // namespace mbench::sweeps
