// Every op of the CPU on the cases of test/ops: against a plain reference in double, over its own operands too, and its
// gradient by differences.
#include "test/ops/cases.h"

#include <algorithm>
#include <set>

#include "engine/backend/cpu/cpu_device.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::test;

namespace {

template <class... Op>
std::set<std::string> names_of(OpList<Op...>) {
  return {std::string(Op::name)...};
}

// All the results of a run, bit by bit.
std::vector<std::vector<std::byte>> bits_of_results(const Tensors& tensors) {
  std::vector<std::vector<std::byte>> all;
  for (const std::size_t i : tensors.results()) all.push_back(tensors.bits(i));
  return all;
}

// With tensors that start where vectors fit, and so many elements further on.
void check_case(Device& device, const Case& c, std::initializer_list<std::int64_t> shifts) {
  for (const std::int64_t shift : shifts) {
    std::vector<std::vector<std::byte>> first;
    int variants = 1;
    for (int variant = 0; variant < variants; ++variant) {
      Tensors tensors(device, {shift, variant});
      const auto op = c.make(tensors);
      INFO(c.name << ", " << shift << " elements in, result " << variant);
      Doubles values(tensors);
      op->reference(values);
      op->run(device);
      CHECK(tensors.trespass() == "");
      REQUIRE(!tensors.results().empty());
      for (const std::size_t i : tensors.results()) {
        INFO("tensor " << i);
        CHECK(values.written(tensors[i]));
        CHECK(difference(tensors.now(i), values.out(tensors[i]), c.within.cpu.relative(tensors[i].dtype()),
                         is_float(tensors[i].dtype()) ? c.within.cpu.absolute : 0) == "");
      }
      variants = tensors.variants();
      if (variant == 0)
        first = bits_of_results(tensors);
      else
        CHECK(std::is_permutation(first.begin(), first.end(), bits_of_results(tensors).begin()));
    }
  }
}

void check_gradient(Device& device, const GradientCase& c) {
  INFO(c.name);
  Tensors tensors(device);
  const BothWays op = c.make(tensors);
  const Doubles before(tensors);
  op.forward->run(device);
  op.backward->run(device);
  const auto index_of = [&](const Tensor& t) {
    std::size_t i = 0;
    while (tensors[i].data() != t.data()) ++i;
    return i;
  };
  REQUIRE(!op.chain.inputs.empty());
  for (const std::pair<Tensor, Tensor>& input : op.chain.inputs) {
    const Tensor &x = input.first, &dx = input.second;  // names that Clang 16 captures where OpenMP is on
    INFO("tensor " << index_of(x));
    const Values slopes = differences(
        [&](const Values& v) {
          Doubles moved = before;
          moved.set_before(x, v);
          op.forward->reference(moved);
          return dot(moved.out(op.chain.y), before[op.chain.dy]);
        },
        before[x]);
    Values want = before[dx];
    for (std::size_t i = 0; i < want.size(); ++i) want[i] = slopes[i] + (std::isnan(want[i]) ? 0 : want[i]);
    CHECK(difference(tensors.now(index_of(dx)), want, c.tolerance.f32, c.tolerance.absolute) == "");
  }
}

}  // namespace

TEST_CASE("every op has cases, rows of the benchmark and large shapes") {
  std::set<std::string> with;
  for (const OpCases& op : all_op_cases()) {
    CAPTURE(op.op);
    CHECK(with.insert(op.op).second);
    CHECK(op.compared.size() + op.unemulated.size() > 0);
    CHECK(!op.timed.empty());
    CHECK((!op.huge.empty() || op.compared.empty()));  // what a library does launches nothing of ours
    std::set<std::string> names;
    for (const auto* list : {&op.compared, &op.unemulated})
      for (const Case& c : *list) CHECK(names.insert(c.name).second);
  }
  for (const std::string& op : names_of(AllOps())) {
    CAPTURE(op);
    CHECK(with.count(op) == 1);
  }
}

TEST_CASE("every op with a gradient of its own is differenced") {
  const std::set<std::string> names = names_of(AllOps());
  for (const OpCases& op : all_op_cases()) {
    CAPTURE(op.op);
    CHECK((!op.gradients.empty() || names.count(op.op + "_grad") == 0));
  }
}

void check_cases(Device& device, const OpCases& op) {
  for (const Case& c : op.compared) check_case(device, c, {0, 1});
  for (const Case& c : op.unemulated) check_case(device, c, {0});
}

TEST_CASE("the CPU's ops agree with their references") {
  cpu::CpuDevice device;
  for (const OpCases& op : all_op_cases()) DYNAMIC_SECTION(op.op) {
      check_cases(device, op);
    }
}

// What a CPU without bf16 instructions computes. On such a one it is the same again.
TEST_CASE("the CPU's products agree with their references where bf16 is widened") {
  cpu::CpuDevice device(0, cpu::Bf16::widened);
  int widened = 0;
  for (const OpCases& op : all_op_cases())
    if (op.op.find("matmul") != std::string::npos || op.op.find("attention") != std::string::npos) {
      INFO(op.op);
      check_cases(device, op);
      ++widened;
    }
  CHECK(widened >= 4);
}

TEST_CASE("gradients agree with finite differences") {
  cpu::CpuDevice device;
  for (const OpCases& op : all_op_cases())
    if (!op.gradients.empty()) DYNAMIC_SECTION(op.op) {
        for (const GradientCase& c : op.gradients) check_gradient(device, c);
      }
}
