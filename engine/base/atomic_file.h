// Files that are never half written: a reader, and the next start after a crash, see the old text or the new
// one.
#pragma once
#include <string>
#include <string_view>

namespace mbench {

// Writes a temporary beside `path`, flushes it to disk and renames it. On failure (full disk) the old file stands and
// the error names the file, what was needed and what is free.
void write_file_atomically(const std::string& path, std::string_view text);

// The same without waiting for the disk, for what is written again within seconds: after a crash the old text or the new one may stand,
// or neither.
void replace_file(const std::string& path, std::string_view text);

// Throws as a write there would, as far as can be known beforehand: for a path that is written after long work. Leaves
// nothing behind.
void check_writable(const std::string& path);

}  // namespace mbench
