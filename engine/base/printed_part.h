// The parts of a step's time as people read them. Results and users' files have them by name_of().
#pragma once
#include <string>

#include "engine/base/time_part.h"

namespace mbench {

// "GEMMs", "attention", "tp communication".
std::string printed_name(TimePart part);

}  // namespace mbench
