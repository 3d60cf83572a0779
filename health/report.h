// A check as text for people, and as JUnit XML for what runs it.
#pragma once
#include <string>
#include <vector>

#include "health/figures.h"
#include "reports/tables/table.h"

namespace mbench::health {

// What was found, a line each; empty: nothing.
std::vector<std::string> found_in(const Health& health, double tolerance);
// That nothing was, in a sentence.
std::string nothing_found(const Health& health, double tolerance);
// The figures of ranks, the collectives, the devices with what they reported; those that there are.
std::vector<reports::Section> grids_of(const Health& health);
// How figures are to be read.
std::string how_to_read_check();

// Markdown: what was found, the figures of ranks and the collectives.
std::string to_markdown(const Health& health, double tolerance);
// A test case for each figure; a failure names what stands out.
std::string to_junit(const Health& health, double tolerance);

}  // namespace mbench::health
