// simdjson in front of nlohmann: a result file of many points is mostly numbers, which simdjson reads several times as fast. But it does
// not say where or why a text is refused. So a refused text is left to parse_json (json_reader.h). That reports the reason, or accepts the
// text after all (a whole number that no integer holds).
#pragma once
// simdjson's parser has another layout with this macro, which flags such as -fopenmp set. So it is set the same in every source.
#ifndef SIMDJSON_THREADS_ENABLED
#define SIMDJSON_THREADS_ENABLED 1
#endif
#include <simdjson.h>

#include <nlohmann/json_fwd.hpp>

namespace mbench {

// The same value as nlohmann would read, whole numbers whole. False for an object with a duplicate key (simdjson keeps both) or more than
// kMostKeys, and for a U+0000 in a string. parse_json then says where.
bool from_simdjson(simdjson::dom::element value, nlohmann::json& out);
bool from_simdjson(simdjson::dom::element value, nlohmann::ordered_json& out);

}  // namespace mbench
