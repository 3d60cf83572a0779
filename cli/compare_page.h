// Two results side by side as one page: verdicts, and of each point the parts of its step and of its memory.
#pragma once
#include <string>

#include "engine/point/result_file.h"
#include "reports/gate/compare.h"

namespace mbench::cli {

// `comparison`: of `now` with `baseline`.
// `files`: which they are, as "out/new against out/old".
std::string compare_page(const reports::Comparison& comparison, const ResultFile& now, const ResultFile& baseline,
                         const std::string& files);

}  // namespace mbench::cli
