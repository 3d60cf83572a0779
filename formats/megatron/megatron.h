// Megatron-LM: a shell script that starts it, or a list of its arguments, and back.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "formats/formats.h"
#include "formats/table/row.h"

namespace mbench::formats {

const Table& megatron_table();

// Whether the text is a script or a list of arguments.
bool is_megatron(std::string_view text);
// `options.also`: further arguments, as if they came after the script's own.
Imported read_megatron(std::string_view text, const std::string& file, const ImportOptions& options);
// The same from arguments that are already parsed.
struct Arguments;
Imported read_megatron_arguments(Arguments arguments, const std::string& file, const ImportOptions& options);
// A script that starts the point's run, on data that Megatron makes up.
std::string write_megatron(const Point& point);

}  // namespace mbench::formats
