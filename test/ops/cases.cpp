#include "test/ops/cases.h"

#include <algorithm>

namespace mbench::test {
namespace {

using Fill = std::function<void(OpCases&)>;

std::vector<std::pair<std::string, Fill>>& fills() {
  static std::vector<std::pair<std::string, Fill>> all;
  return all;
}

}  // namespace

Doubles::Doubles(const Tensors& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) before_[tensors[i].data()] = tensors.before(i);
}

Values& Doubles::out(const Tensor& tensor) {
  return after_.try_emplace(tensor.data(), (*this)[tensor]).first->second;
}

void add_op_cases(std::string_view op, std::function<void(OpCases&)> fill) {
  fills().emplace_back(op, std::move(fill));
}

const std::vector<OpCases>& all_op_cases() {
  static const std::vector<OpCases> all = [] {
    std::sort(fills().begin(), fills().end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<OpCases> made;
    for (const auto& [op, fill] : fills()) {
      made.push_back({op, {}, {}, {}, {}, {}, {}});
      fill(made.back());
    }
    return made;
  }();
  return all;
}

}  // namespace mbench::test
