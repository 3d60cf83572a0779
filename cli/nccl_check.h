// A log of nccl-tests as a check file, so that what mbench check and --expect say of it holds for it as well.
#pragma once
#include <string>

#include "health/figures.h"

namespace mbench::cli {

// Whether the file, by its beginning, is a log of nccl-tests.
bool is_nccl_log(const std::string& path);

// `machine`: what its figures are expected to be; empty: none. `collective`: what a log measures that does not say so.
health::Health health_of_nccl_log(const std::string& path, const std::string& collective, const std::string& machine);

}  // namespace mbench::cli
