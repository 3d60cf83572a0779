// The folder of baselines as a whole (the files: baseline.h): adding results to it, choosing from it what a
// result is compared with, and taking things out.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "reports/baselines/baseline.h"

namespace mbench::reports {

struct StoredBaseline {
  std::string path;
  std::string machine;  // the name of its folder
  BaselineFile file;
};

// Every file, sorted by machine and id. bad_input if there is no such folder or a file in it cannot be read.
std::vector<StoredBaseline> read_baselines(const std::string& folder);
// A machine by a part of its name, a point by the beginning of its id; empty: all.
std::vector<StoredBaseline> select_baselines(std::vector<StoredBaseline> all, const std::string& machine,
                                             const std::string& point);

struct AddOptions {
  bool memory_only = false;    // for any machine with the same kind of device
  bool with_losses = false;    // and the losses, where `memory_only`
  std::string revision, date;  // instead of the result's own
  std::size_t keep = 0;        // at most so many entries of a point, the newest; 0: all
};
struct Added {
  std::vector<std::string> written;  // paths
  std::size_t unchanged = 0;         // entries that stood there already
  std::vector<std::string> refused;  // points that are no baseline: they crashed, hung or were wrong
};
// All files are read before the first is written, each is written atomically, and adding the same result
// twice changes nothing. The folder is made and locked meanwhile: of several who add at once, one waits for the other.
Added add_baselines(const std::string& folder, const ResultFile& results, const AddOptions& options);

// What `now` is compared with: for each of its points the newest entry of its machine (of `revision` if that
// is given), and the points of the same sweep that `now` does not have. Where time is not compared,
// another machine's with the same device will do. bad_input if the folder has nothing for this machine,
// naming what it has.
ResultFile baseline_for(const std::string& folder, const ResultFile& now, bool memory_only,
                        const std::string& revision);

// Removes the entries that `takes` of the selected files, as they stand now, in the locked folder; a file without entries
// goes. The number of entries removed.
std::size_t remove_entries(const std::vector<StoredBaseline>& selected,
                           const std::function<bool(const BaselineEntry&)>& takes);

}  // namespace mbench::reports
