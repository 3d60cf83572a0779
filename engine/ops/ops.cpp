#include "engine/ops/ops.h"

#include <tuple>

namespace mbench {

template <class Op>
OpSlot<Op>& slot_of(OpTable& table) {
  return *static_cast<SlotFor<Op>&>(table).slot;
}

namespace {

template <class... Op>
constexpr auto slots_of_all(OpList<Op...>) {
  return std::tuple(&slot_of<Op>...);
}

// Their addresses make the compiler write them out.
[[gnu::used]] constexpr auto kWrittenOut = slots_of_all(AllOps());

}  // namespace
}  // namespace mbench
