// A check as text for people, and as JUnit XML for what runs it.
#pragma once
#include <string>

#include "health/figures.h"

namespace mbench::health {

// Markdown: what was found, the figures of ranks and the collectives.
std::string to_markdown(const Health& health, double tolerance);
// A test case for each figure; a failure names what stands out.
std::string to_junit(const Health& health, double tolerance);

}  // namespace mbench::health
