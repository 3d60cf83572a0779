// The limits under which a login node starts its programs (ulimit -v, ulimit -d), checked before any library is initialised. OpenBLAS
// takes 128 MiB of addresses for each thread when it is loaded, and retries forever where there are none.
#pragma once

namespace mbench::cli {

// Ends the process with exit code 3 and a message that names the limit, where one leaves no room for the libraries. Runs
// before constructors: only what C has is ready.
void check_resource_limits(int argc, char** argv, char** environment);

}  // namespace mbench::cli
