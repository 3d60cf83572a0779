#include "engine/point/trainer_log.h"

#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::pair<const char*, std::vector<double> TrainerLog::*> kAside[] = {
    {"warmup_ms", &TrainerLog::warmup_ms},
    {"evaluation_ms", &TrainerLog::evaluation_ms},
    {"checkpoint_ms", &TrainerLog::checkpoint_ms}};

const json& element(const json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) fail(ErrorKind::bad_input, where, "\"{}\" is missing", key);
  return *found;
}

}  // namespace

ordered_json trainer_log_to_json(const TrainerLog& log) {
  ordered_json out = {{"first_step", log.first_step}, {"steps_per_sample", log.steps_per_sample}};
  for (const auto& [key, member] : kAside) out[key] = log.*member;
  out["memory"] = ordered_json::array();
  for (const LoggedMemory& each : log.memory)
    out["memory"].push_back({{"kind", each.kind}, {"rank", each.rank}, {"mib", each.mib}});
  return out;
}

TrainerLog trainer_log_from_json(const json& value, const std::string& where) {
  if (!value.is_object()) fail(ErrorKind::bad_input, where, "wrong type, got {}, need an object", short_json(value));
  TrainerLog log;
  log.first_step = read_int(element(value, "first_step", where), where + ".first_step", 0, INT64_MAX);
  log.steps_per_sample = read_int(element(value, "steps_per_sample", where), where + ".steps_per_sample", 1, INT64_MAX);
  for (const auto& [key, member] : kAside) {
    const json& steps = element(value, key, where);
    if (!steps.is_array())
      fail(ErrorKind::bad_input, where + "." + key, "wrong type, got {}, need an array of numbers", short_json(steps));
    for (const json& ms : steps) (log.*member).push_back(read_number(ms, where + "." + key));
  }
  const json& memory = element(value, "memory", where);
  if (!memory.is_array())
    fail(ErrorKind::bad_input, where + ".memory", "wrong type, got {}, need an array", short_json(memory));
  for (const json& each : memory) {
    const std::string at = where + ".memory";
    if (!each.is_object()) fail(ErrorKind::bad_input, at, "wrong type, got {}, need an object", short_json(each));
    log.memory.push_back({read_string(element(each, "kind", at), at + ".kind"),
                          read_int(element(each, "rank", at), at + ".rank", 0, INT64_MAX),
                          read_number(element(each, "mib", at), at + ".mib")});
  }
  return log;
}

}  // namespace mbench
