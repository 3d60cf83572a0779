// Why a program left no result, derived from how it ended and from what its launcher and its ranks printed.
#pragma once
#include <string>
#include <utility>

#include "engine/point/hosts.h"
#include "engine/point/outcome.h"
#include "engine/process/process.h"
#include "sweeps/launch/launcher.h"

namespace mbench::sweeps {

struct Failure {
  Outcome outcome = Outcome::crashed;  // crashed, launch_failed or timeout
  std::string reason;                  // one line
};

// `progress`: what the ranks last reported ("iteration 3 of 10"); empty if they never did. `hosts`: the ranks' hosts, if they reported
// them. A rank that is named then comes with its host.
Failure explain_failure(const process::ProcessEnd& end, const Launcher& launcher, const std::string& progress,
                        double timeout_s, const std::vector<Host>& hosts = {});

// Whether the line, of ssh or a launcher, says that a host cannot be reached or was lost.
bool names_lost_host(const std::string& line);

}  // namespace mbench::sweeps
