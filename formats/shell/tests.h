// Conditions of a shell script: "[ ... ]", "[[ ... ]]", "test ...", true and false, joined by && and ||.
#pragma once
#include <optional>
#include <vector>

#include "formats/shell/expand.h"

namespace mbench::formats {

// Whether the tokens from `begin` to `end` hold; nothing where that depends on what is not known, a file or a program. A variable that
// was never set counts as empty.
std::optional<bool> shell_test(ShellVariables& variables, const std::vector<ShellToken>& tokens, std::size_t begin,
                               std::size_t end);

}  // namespace mbench::formats
