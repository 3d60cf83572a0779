// The command that runs one point of a result file again.
#pragma once
#include <string>

#include "engine/point/result_fwd.h"
#include "reports/records/record.h"

namespace mbench::reports {

// "mbench sweep RESULTS --on cpu --filter tp=2 --filter seq=128". The spec is inside the result file. A condition for each of its swept
// fields, or of `swept` where it has no "sweep", leaves only this point. For a file without a spec, a line that writes the point and
// starts mbench run. As a POSIX shell takes it.
std::string reproduce_command(const ResultFile& file, const std::string& path, const Record& record,
                              const std::vector<std::string>& swept = {});

// A word as a shell takes it: in quotes where it needs them.
std::string shell_word(std::string_view word);

}  // namespace mbench::reports
