// The folder of baselines as a whole (the files: baseline.h). Adds results to it, chooses from it what a result is compared with, and
// removes entries.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "reports/baselines/baseline.h"

namespace mbench::reports {

struct StoredBaseline {
  std::string path;
  std::string machine;  // the name of its folder
  BaselineFile file;
};

// Every file, sorted by machine and id. Throws bad_input if there is no such folder or a file in it cannot be read.
std::vector<StoredBaseline> read_baselines(const std::string& folder);
// Selects a machine by a part of its name, a point by the beginning of its id; empty: all.
std::vector<StoredBaseline> select_baselines(std::vector<StoredBaseline> all, const std::string& machine,
                                             const std::string& point);

struct AddOptions {
  bool memory_only = false;    // for any machine with the same kind of device
  bool with_losses = false;    // and the losses, where `memory_only`
  bool force = false;          // whatever disturbed the measurement
  std::string revision, date;  // instead of the result's own
  std::size_t keep = 0;        // keep only so many newest entries of a point, and the pinned one as well; 0: all
};
struct Added {
  std::vector<std::string> written;  // paths
  std::size_t unchanged = 0;         // entries that stood there already
  std::vector<std::string> refused;  // points that are no baseline: they crashed, hung or were wrong
};
// The measured points whose times come from a disturbed machine (flags.h: starved, throttled), with the disturbance. They are no level
// to compare later ones with.
std::vector<std::string> disturbed_points(const ResultFile& results);
// All files are read before the first is written, each is written atomically, and adding the same result twice changes nothing. The
// folder is made, and locked meanwhile, so concurrent writers wait for each other.
Added add_baselines(const std::string& folder, const ResultFile& results, const AddOptions& options);

// Which entry of a point: the newest, the oldest, the pinned one, or the best. The best has the least mean step
// (reports/records/slow_steps.h: paid_mean) or, where no time is stored, the least memory. `revision`: only entries whose revision
// begins with it.
enum class Stand { newest, oldest, pinned, best, pinned_or_oldest };
Stand stand_named(const std::string& name, const std::string& where);  // throws bad_input if there is none
struct Choice {
  Stand stand = Stand::newest;
  std::string revision;
  std::vector<std::string> allow_different =
      {};  // a point that differs only in these fields will do where there is no other
};

// What `now` is compared with. For each of its points it is the chosen entry of its machine; further points are those of the same sweep
// that `now` does not have. Where time is not compared, another machine with the same device will do. Throws bad_input if the folder
// has nothing for this machine, naming what it has.
struct Chosen {
  ResultFile results;
  std::map<std::string, std::string> origins;  // of a point, by its id: "abc1234 (2026-01-02)"
};
Chosen choose_baseline(const std::string& folder, const ResultFile& now, bool memory_only, const Choice& choice);

// The newest, or the newest of a revision if that is given.
ResultFile baseline_for(const std::string& folder, const ResultFile& now, bool memory_only,
                        const std::string& revision);

// Pins the newest entry of each selected file whose revision begins with `revision`, and no other of the file. Files without such an
// entry stay as they are. Returns the paths of those with one. unpin_entries() leaves none pinned.
std::vector<std::string> pin_entries(const std::vector<StoredBaseline>& selected, const std::string& revision);
std::vector<std::string> unpin_entries(const std::vector<StoredBaseline>& selected);

// Removes the entries that `takes` selects from the selected files, as they are now, in the locked folder. A file without entries is
// deleted. Returns the number of entries removed.
std::size_t remove_entries(const std::vector<StoredBaseline>& selected,
                           const std::function<bool(const BaselineEntry&)>& takes);

}  // namespace mbench::reports
