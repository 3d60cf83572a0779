// The result file of a search as a spec: its layouts, which can then be run, planned and compared like those of a sweep.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace mbench::sweeps {

// Whether a spec leaves fields free. A search's spec does (search/space.h); a sweep's spec may not.
bool leaves_fields_free(const nlohmann::ordered_json& spec);

// A sweep over the points of the file, in its order: the fields in which they differ zipped, those that they share written once.
// `results` is the whole file, `where` its path for messages.
nlohmann::ordered_json spec_of_layouts(const nlohmann::ordered_json& results, const std::string& where);

}  // namespace mbench::sweeps
