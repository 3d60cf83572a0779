// What --take-turns says (engine/process/turns.h): "FOLDER,N,K".
#pragma once
#include <cstdint>
#include <string>

namespace mbench::sweeps {

struct TakeTurns {
  std::string folder;
  int number = 1;          // of the two sides: 1 or 2
  std::int64_t steps = 1;  // of a turn
  std::string text() const;
};

// Throws bad_input for what is no such text. The folder is made absolute: ranks run in the folder of the results.
TakeTurns read_take_turns(const std::string& text);

}  // namespace mbench::sweeps
