// A few bytes from one rank's host to another's, and neither waits: for agreements between two ranks that are
// made while both go on.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace mbench::comm {

class Mail {
 public:
  virtual ~Mail() = default;
  // To and from ranks of the job's world. Letters of a kind (from 0; some thousands) come in the order posted.
  virtual void post(int to, int kind, std::span<const std::byte> letter) = 0;
  // The next one, or null while none has come.
  virtual std::optional<std::vector<std::byte>> collect(int from, int kind) = 0;
};

}  // namespace mbench::comm
