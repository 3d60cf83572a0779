// Every kernel of ours on the cases of test/ops. Each case runs three times on equal tensors: by the CPU's op, and on the
// emulator with the threads in ascending and in descending order. The emulator's two results must agree bit for bit (a
// race, or a sum whose order is left to chance, would show), and with the CPU's to a tolerance.
#include "test/ops/cases.h"

#include "engine/backend/cpu/cpu_device.h"
#include "test/catch.h"
#include "test/simt/kernel_devices.h"

using namespace mbench;
using namespace mbench::test;

namespace {

struct Devices {
  cpu::CpuDevice cpu;
  std::unique_ptr<EmulatedDevice> ascending = open_emulated_device(simt::Order::ascending),
                                  descending = open_emulated_device(simt::Order::descending);
};

void check_case(Devices& on, const Case& c) {
  for (const std::int64_t shift : {0, 1}) {
    int variants = 1;
    for (int variant = 0; variant < variants; ++variant) {
      INFO(c.name << ", " << shift << " elements in, result " << variant);
      const Tensors::Placing placing{shift, variant};
      Tensors want(on.cpu, placing), got(*on.ascending, placing), again(*on.descending, placing);
      c.make(want)->run(on.cpu);
      c.make(got)->run(*on.ascending);
      c.make(again)->run(*on.descending);
      CHECK(got.trespass() == "");
      CHECK(again.trespass() == "");
      for (const std::size_t i : want.results()) {
        INFO("tensor " << i);
        const DType type = want[i].dtype();
        CHECK(difference(got.now(i), want.now(i), c.within.kernel.relative(type),
                         is_float(type) ? c.within.kernel.absolute : 0) == "");
        const bool same_in_both_orders = got.bits(i) == again.bits(i);
        CHECK(same_in_both_orders);
      }
      variants = want.variants();
    }
  }
}

}  // namespace

TEST_CASE("kernels agree with the CPU's ops") {
  Devices on;
  for (const OpCases& op : all_op_cases())
    if (!op.compared.empty()) DYNAMIC_SECTION(op.op) {
        for (const Case& c : op.compared) check_case(on, c);
      }
}

TEST_CASE("an op launches as many kernels as its case says") {
  const auto device = open_emulated_device(simt::Order::ascending);
  for (const OpCases& op : all_op_cases())
    for (const Case& c : op.enqueued) {
      CAPTURE(c.name);
      Tensors tensors(*device);
      const std::size_t before = device->launches().size();
      c.make(tensors)->run(*device);
      CHECK(static_cast<int>(device->launches().size() - before) == (op.op == ops::Matmul::name ? 0 : c.kernels));
    }
}

TEST_CASE("large shapes are launched within the limits of every GPU") {
  const auto device = open_limits_device();
  for (const OpCases& op : all_op_cases()) DYNAMIC_SECTION(op.op) {
      for (const auto* list : {&op.timed, &op.huge})
        for (const Case& c : *list) {
          INFO(c.name);
          Tensors tensors(*device, {0, 0, false});
          const std::int64_t before = device->launches();
          CHECK_NOTHROW(c.make(tensors)->run(*device));
          if (!op.compared.empty() && op.op != ops::Matmul::name) CHECK(device->launches() > before);
          // Partial sums: little beside the tensors.
          CHECK(device->most_scratch() < std::size_t{1} << 30);
        }
    }
}
