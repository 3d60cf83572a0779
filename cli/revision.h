// The git revision that this program was built from, "v0.1.0-12-g257a379-dirty", or "unknown"; written at each build by
// cmake/revision.cmake.
#pragma once

namespace mbench::cli {

const char* git_revision();

}  // namespace mbench::cli
