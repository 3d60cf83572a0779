// Tables as GitHub markdown that also reads well raw, in a terminal: columns are padded to line up, what
// markdown or HTML would take for its own is escaped.
#pragma once
#include <string>
#include <string_view>

#include "reports/tables/table.h"

namespace mbench::reports {

// `level`: of the table's own heading; its sections' headings follow below it.
std::string to_markdown(const Table& table, int level = 2);
// Only the grid of one section, and its footnotes.
std::string grid_to_markdown(const Section& section);

// One line of text that markdown prints as it is: what would end a cell, start a tag, an entity, a link or
// emphasis is escaped.
std::string escape_markdown(std::string_view text);

}  // namespace mbench::reports
