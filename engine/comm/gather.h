// Values that the hosts of a group exchange: Group::host_gather by type. Results are in the order of the ranks.
#pragma once
#include <cstring>
#include <type_traits>

#include "engine/comm/group.h"

namespace mbench::comm {

// Every rank's values, as many as it has.
template <class T>
std::vector<std::vector<T>> gather_all(Group& group, const std::vector<T>& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<std::vector<T>> all;
  for (const Group::Bytes& bytes : group.host_gather(std::as_bytes(std::span(mine)))) {
    std::vector<T>& theirs = all.emplace_back(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(theirs.data(), bytes.data(), bytes.size());
  }
  return all;
}

// Every rank's value.
template <class T>
std::vector<T> gather_all(Group& group, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all;
  for (const Group::Bytes& bytes : group.host_gather(std::as_bytes(std::span(&mine, 1)))) {
    check(bytes.size() == sizeof(T), group.name(), "a value of {} bytes, need {}: not what this rank gathers",
          bytes.size(), sizeof(T));
    std::memcpy(&all.emplace_back(), bytes.data(), sizeof(T));
  }
  return all;
}

// Every rank's text, only on rank `to`; the others get none.
inline std::vector<std::string> gather_text(Group& group, std::string_view mine, int to) {
  std::vector<std::string> all;
  for (const Group::Bytes& bytes : group.host_gather(std::as_bytes(std::span(mine)), to))
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return all;
}

}  // namespace mbench::comm
