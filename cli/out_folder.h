// Where results go if --out says nothing: out/NAME-DATE-TIME, with -2, -3, ... where that is taken.
#pragma once
#include <string>

namespace mbench::cli {

// The first such folder that is not there. Makes nothing.
std::string free_folder(const std::string& name);

// Makes the folder, or the next free one if someone else was first, and returns the one that was made. Throws bad_input if none can be
// made.
std::string take_free_folder(const std::string& name);

}  // namespace mbench::cli
