// Files that are never half written: a reader sees the old text or the new one, and so does the next start after a crash.
#pragma once
#include <string>
#include <string_view>

namespace mbench {

// Writes a temporary next to `path`, flushes it to disk and renames it. On failure (full disk) the old file stays, and the error names the
// file, the space needed and the space free.
void write_file_atomically(const std::string& path, std::string_view text);

// The same without waiting for the disk, for files that are written again within seconds. After a crash the file may hold the old text, the
// new one, or neither.
void replace_file(const std::string& path, std::string_view text);

// Throws as a write there would, as far as this can be known beforehand. For a path that is written after long work. Leaves nothing behind.
void check_writable(const std::string& path);

}  // namespace mbench
