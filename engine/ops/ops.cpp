#include "engine/ops/ops.h"

#include <array>

namespace mbench {

template <class Op>
OpSlot<Op>& slot_of(OpTable& table) {
  return static_cast<OpSlot<Op>&>(*table.slot<Op>());
}

namespace {

using Function = void (*)();

template <class... Op>
std::array<Function, sizeof...(Op)> slots_of_all(OpList<Op...>) {
  return {reinterpret_cast<Function>(&slot_of<Op>)...};
}

// Their addresses make the compiler write them out.
[[gnu::used]] const auto kWrittenOut = slots_of_all(AllOps());

}  // namespace
}  // namespace mbench
