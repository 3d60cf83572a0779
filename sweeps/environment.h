// What a result file says of the machine and the program that measured it.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "sweeps/launcher.h"

namespace mbench::sweeps {

// Host, processor, cores, memory, kernel, compiler, launcher, time of the start. Null where it cannot be
// told.
nlohmann::ordered_json host_environment(const Launcher& launcher, const std::string& version);

}  // namespace mbench::sweeps
