// Ranks that wait sleep. Open MPI looks for messages in a loop and yields the processor between looks. With eight ranks on two cores most
// that wait yield all the time, and on Linux 6.18 a process that yields falls behind whatever else runs. So a program of tests has a
// sched_yield() of its own, which sleeps.
#pragma once

namespace mbench::test {

// How often this process slept in place of a yield.
long times_slept();

}  // namespace mbench::test
