// What a search found, on the page of its results: the answer in a sentence, the front of time and memory, and the layouts left out.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace mbench::reports {

// `environment`: of the result file; empty where that is not a search's. `level`: of the headings.
std::string html_search(const nlohmann::ordered_json& environment, int level);

}  // namespace mbench::reports
