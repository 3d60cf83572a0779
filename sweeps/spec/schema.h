// The JSON Schemas (2020-12) of a spec, made from the table of a point's fields, for editors that complete and programs that write
// specs. What the reader of specs accepts is valid by it. What is valid may still be refused for its meaning. schemas/ holds both, as
// `mbench schema` prints them; the specs of configs/ name them.
#pragma once
#include <nlohmann/json_fwd.hpp>

namespace mbench::sweeps {

nlohmann::ordered_json spec_schema();    // of mbench sweep
nlohmann::ordered_json search_schema();  // of mbench search, in which fields may be free (search/space.h)

}  // namespace mbench::sweeps
