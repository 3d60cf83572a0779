// Tables as GitHub markdown that also reads well raw, in a terminal: columns are padded to line up. Characters with a meaning in
// markdown or HTML are escaped.
#pragma once
#include <string>
#include <string_view>

#include "reports/tables/table.h"

namespace mbench::reports {

// `level`: of the table's own heading; its sections' headings follow below it.
std::string to_markdown(const Table& table, int level = 2);
// Only the grid of one section, and its footnotes.
std::string grid_to_markdown(const Section& section);

// One line of text that markdown prints as it is. Escaped is what would end a cell, or start a tag, an entity, a link or emphasis.
std::string escape_markdown(std::string_view text);

}  // namespace mbench::reports
