// A fuzz target is a reader of one kind of file, given any bytes. It may accept them, or refuse them with an Error about its input.
// Anything else is a finding: another exception, an internal error, a sanitizer's report, more than a few seconds. libFuzzer's main
// drives it; scripts/fuzz builds and runs all.
#pragma once
#include <string>

namespace mbench::fuzz {

// Of the target that is linked in.
void read(const std::string& text);

// A file of the process's own with this text, for readers that take a path; the same path each time.
std::string file_with(const std::string& text);

// Reports what should hold and does not.
void require(bool holds, const char* what);

}  // namespace mbench::fuzz
