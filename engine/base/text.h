// Text for people: sizes, durations, and the nearest valid choice to a misspelt word.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mbench {

// "need one of a, b, c", with "; did you mean b?" if one is close to what was typed and that has a word's length.
std::string nearest_choice(std::string_view got, const std::vector<std::string>& choices);
// The same where choices are too many to print: only the `most` nearest, the nearest first, and the number of the others.
std::string nearest_choices(std::string_view got, std::vector<std::string> choices, std::size_t most);

// "1.50 GiB", "512 B": powers of 1024.
std::string format_bytes(std::uint64_t bytes);
// Parses "2GiB", "512 MiB", "1e9", "4096"; bad_input naming `where` otherwise.
std::uint64_t parse_bytes(std::string_view text, std::string_view where);

// "1.2 s", "3 min 20 s", "2 h 05 min", "12 days".
std::string format_duration(double seconds);

// The text made safe for a terminal and one message. Control characters are written out ("\\x1b"), except line ends and tabs: an escape
// moves the cursor, and a U+0000 ends a C string. A text longer than `most` bytes loses its middle.
std::string printable(std::string_view text, std::size_t most = 8192);

// FNV-1a, 64 bit: a stable hash for ids and random-generator sites.
std::uint64_t fnv1a(std::string_view text);

// Divisors: "2 or 4", those of n on either side of `got`. Multiples: those of `unit` on either side of it.
std::string nearest_divisors(std::int64_t got, std::int64_t n);
std::string nearest_multiples(std::int64_t got, std::int64_t unit);

}  // namespace mbench
