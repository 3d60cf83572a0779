// A table's rows for the options of its framework. engine/framework/NAME.json has the framework's own flags, so no table repeats them.
#pragma once
#include <string>
#include <vector>

#include "formats/table/row.h"

namespace mbench::formats {

// Adds what is fixed for such a trainer, and a row for each option that one flag turns on or off. Any other option must have a row of
// the table's own or be in `by_rule`; else it is an internal error.
void add_framework(Table& table, const std::string& framework, const std::vector<std::string>& by_rule);

}  // namespace mbench::formats
