// simdjson in front of nlohmann: a result file of many points is mostly numbers, which it reads several times as fast.
// Of a text that it does not take it says neither where nor what is wrong. So what it refuses is left to parse_json
// (json_reader.h), which says that, or reads it after all (a whole number that no integer holds).
#pragma once
// simdjson's parser has another layout with it, and flags such as -fopenmp set it: the same in every source.
#ifndef SIMDJSON_THREADS_ENABLED
#define SIMDJSON_THREADS_ENABLED 1
#endif
#include <simdjson.h>

#include <nlohmann/json.hpp>

namespace mbench {

// The same value as nlohmann would read, whole numbers whole. False for an object in which a key stands twice,
// of which simdjson keeps both, or has more than kMostKeys, and for a U+0000 in a text: parse_json says where.
bool from_simdjson(simdjson::dom::element value, nlohmann::json& out);
bool from_simdjson(simdjson::dom::element value, nlohmann::ordered_json& out);

}  // namespace mbench
