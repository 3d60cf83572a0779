// A table's rows for the options of its framework (engine/framework/NAME.json), whose files have the framework's own flags: no table repeats them.
#pragma once
#include <string>
#include <vector>

#include "formats/table/row.h"

namespace mbench::formats {

// Adds what is fixed of such a trainer, and a row for each option that one flag turns on or off. Internal error for any other option that has neither a row of
// the table's own nor is `by_rule`.
void add_framework(Table& table, const std::string& framework, const std::vector<std::string>& by_rule);

}  // namespace mbench::formats
