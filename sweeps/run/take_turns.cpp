#include "sweeps/run/take_turns.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "engine/base/error.h"

namespace mbench::sweeps {

std::string TakeTurns::text() const {
  return fmt::format("{},{},{}", folder, number, steps);
}

TakeTurns read_take_turns(const std::string& text) {
  const std::size_t last = text.rfind(','),
                    first = last == std::string::npos || last == 0 ? last : text.rfind(',', last - 1);
  TakeTurns turns;
  const auto is_number = [&](std::size_t begin, std::size_t end, auto& x) {
    const auto [stopped, error] = std::from_chars(text.data() + begin, text.data() + end, x);
    return error == std::errc{} && stopped == text.data() + end;
  };
  if (first == std::string::npos || first == 0 || first == last || !is_number(first + 1, last, turns.number) ||
      !is_number(last + 1, text.size(), turns.steps) || (turns.number != 1 && turns.number != 2) || turns.steps < 1)
    fail(ErrorKind::bad_input, "--take-turns",
         "not a folder, a side and a number of steps, got \"{}\", need FOLDER,N,K with N 1 or 2, as /tmp/turns,1,5",
         text);
  turns.folder = std::filesystem::absolute(text.substr(0, first)).string();
  return turns;
}

}  // namespace mbench::sweeps
