// The processes below this one, as /proc lists them, and how to end them.
#pragma once
#include <sys/types.h>

#include <set>
#include <string>

namespace mbench::process {

// From now on, orphans below this process become its children.
void adopt_orphans();

// Every process below this one. Reaps zombies that are children of this one, except `keep`.
std::set<pid_t> live_descendants(pid_t keep);

// Ends every descendant that is not in `spare`: TERM, then KILL after `grace_s`. Returns how many did not end. Does not reap the child
// `keep`.
std::size_t end_descendants(const std::set<pid_t>& spare, pid_t keep, double grace_s);

}  // namespace mbench::process
