// A Megatron-LM command's words as flags with values.
#pragma once
#include <string>
#include <vector>

#include "formats/import_options.h"
#include "formats/shell/shell.h"
#include "formats/table/reading.h"

namespace mbench::formats {

// A value that depends on something unknown. It matters only if it is read.
struct Arguments {
  std::vector<Item> items;
  std::vector<std::string> notes;
};

// The command among them that starts Megatron, and its flags: "--num-layers", "script", "ranks". Throws bad_input naming the line
// for none, for several, and for a value that a row reads and that is not known.
Arguments megatron_arguments(std::string_view text, const std::string& file, const Table& table,
                             const ImportOptions& options);

}  // namespace mbench::formats
