// What a search found, as people read it and as a result file.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "api/memory_margin.h"
#include "engine/point/result_fwd.h"
#include "reports/plots/plot.h"
#include "search/search.h"

namespace mbench::cli {

// The whole answer in markdown: the best layouts with time and memory, what the next best would need, and the front. It also says how
// many layouts were left out for which reason. `file` is api::result_file_of() with its environment.
std::string describe_search(const search::Space& space, const search::SearchTarget& place,
                            const search::SearchOptions& options, const search::SearchEnd& end, const ResultFile& file,
                            const api::MemoryMargin& margin);

// What a search found, for its result file (environment.search), from which its page shows it. It has the answer in a sentence, the
// front, and the layouts that were left out, with the reason.
nlohmann::ordered_json search_record(const search::Space& space, const search::SearchOptions& options,
                                     const search::SearchEnd& end, const api::MemoryMargin& margin);

// The front of time and memory, drawn; nothing where it is a single layout.
std::optional<reports::Plot> front_plot(const search::Space& space, const search::SearchEnd& end);

// Throws bad_input for what cannot be asked of explain_layout(), as far as that is known without a search.
void check_layout(const search::Space& space, const std::string& layout);

// Why the layout "tp=8,pp=2" is not the best. Where it leaves fields open, the best of those that are left is meant. Throws
// bad_input for what is no layout of the space.
std::string explain_layout(const search::Space& space, const search::SearchTarget& place,
                           const search::SearchOptions& options, const search::SearchEnd& end,
                           const std::string& layout);

}  // namespace mbench::cli
