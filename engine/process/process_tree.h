// The processes below this one, as /proc tells them, and how they are ended.
#pragma once
#include <sys/types.h>

#include <set>
#include <string>

namespace mbench {

// Orphans below this process become its children from now on.
void adopt_orphans();

// Every process below this one; zombies that are children of this one are reaped on the way, but for `keep`.
std::set<pid_t> live_descendants(pid_t keep);

// Ends every descendant that is not in `spare`: TERM, and KILL after `grace_s`. Returns how many would not
// end. The child `keep` is not reaped.
std::size_t end_descendants(const std::set<pid_t>& spare, pid_t keep, double grace_s);

}  // namespace mbench
