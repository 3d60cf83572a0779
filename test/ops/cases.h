// The cases of the ops: everything that any test or benchmark needs to know about an op. Each op has one file, NAME_cases.cpp in this
// folder. It serves
//
//   test/engine/ops/cases_test.cpp            The CPU's op against the plain reference, and finite differences.
//   test/engine/backend/cuda/cases_test.cpp   Our CUDA kernel on the emulator against the CPU's op. Limits of a launch at large shapes.
//   test/gpu/cases_test.cpp                   The GPU's op against the CPU's, on a GPU and on the fake CUDA runtime.
//   bench/ops_bench.cpp, launch_bench.cpp     The rate at which the CPU runs it, and what a launch costs the host.
//
// A file of cases, here of an op that doubles:
//
//   ```
//   void reference(const ops::Twice& op, Doubles& v) {          // in double, from the values as they are stored
//     const Values& x = v[op.x];
//     for (std::size_t i = 0; i < x.size(); ++i) v.out(op.y)[i] = 2 * x[i];
//   }
//   const Cases<ops::Twice> twice(reference, [](CaseList<ops::Twice>& cases) {
//     for (DType type : kFloatTypes)
//       cases.add(fmt::format("{} [33]", name_of(type)), [=](Tensors& t) {
//         const Tensor x = t.in({33}, type);                    // what it reads
//         return ops::Twice{x, t.over({x})};                    // a result, which may be x itself
//       });
//     cases.gradient("[7]", [](Tensors& t) { ... }, [](Tensors& t, const ops::Twice& op) { ... });
//     cases.timed("hidden", [](Tensors& t) { ... });            // for ops_bench
//     cases.huge("hidden", [](Tensors& t) { ... });             // nobody computes it: is the launch possible?
//   });
//   ```
#pragma once
#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/ops/ops.h"
#include "test/ops/tensors.h"

namespace mbench::test {

// What a reference reads and writes.
class Doubles {
 public:
  explicit Doubles(const Tensors& tensors);
  // Before the op.
  const Values& operator[](const Tensor& tensor) const { return before_.at(tensor.data()); }
  // After the op: what it was before, until the reference writes it.
  Values& out(const Tensor& tensor);
  void set_before(const Tensor& tensor, const Values& values) { before_.at(tensor.data()) = values; }
  // How often the reference has been asked for a result of that tensor: 0 where it forgot one.
  bool written(const Tensor& tensor) const { return after_.count(tensor.data()) != 0; }

 private:
  std::map<const std::byte*, Values> before_, after_;
};

// How far results may differ.
struct Within {
  Tolerance cpu{};                  // the CPU's from the reference
  Tolerance kernel{2e-6, 4e-6, 1};  // our kernel's from the CPU's; by default, both compute in f32 and round once
  double gpu = 1;        // the GPU's from the CPU's: times what test/gpu/twin.h allows; 0: GPUs have no such op
  bool anywhere = true;  // the GPU's takes tensors that start at any element, not only where vectors of 16 bytes fit
  int calls = 1;         // on a GPU; 2 where the first chooses how and the second runs what was chosen
};

// An op of any kind with its tensors.
class AnyOp {
 public:
  virtual ~AnyOp() = default;
  virtual void check() const = 0;
  virtual Cost cost() const = 0;
  virtual double exponentials() const = 0;  // among the FLOPs of cost(), where the op counts them
  virtual void run(Device& device) const = 0;
  virtual void reference(Doubles& values) const = 0;
};

struct Case {
  std::string name;
  std::function<std::unique_ptr<AnyOp>(Tensors&)> make;
  Within within{};
  int kernels = 0;  // that a GPU launches for it; 0: not given
};

// dot(y, dy) is differentiated by x, for every pair (x, dx). A dx that is added to may hold something before.
struct Chain {
  Tensor y, dy;
  std::vector<std::pair<Tensor, Tensor>> inputs;
};
// What CaseList::gradient() is given: an op and its gradient on tensors of the same case.
template <class Gradient>
struct Backward {
  Gradient op;
  Chain chain;
};
template <class Gradient>
Backward(Gradient, Chain) -> Backward<Gradient>;  // Clang 16 finds it not by itself
struct BothWays {
  std::unique_ptr<AnyOp> forward, backward;
  Chain chain;
};
struct GradientCase {
  std::string name;
  std::function<BothWays(Tensors&)> make;
  Tolerance tolerance;
};

struct OpCases {
  std::string op;
  std::vector<Case> compared;    // everywhere
  std::vector<Case> unemulated;  // everywhere but on the emulator
  std::vector<GradientCase> gradients;
  std::vector<Case> timed, enqueued, huge;
};

// Of all ops, by name.
const std::vector<OpCases>& all_op_cases();

template <class Op>
using Reference = void (*)(const Op&, Doubles&);

template <class Op>
class CaseList {
 public:
  using Make = std::function<Op(Tensors&)>;

  CaseList(OpCases& list, Reference<Op> reference) : list_(list), reference_(reference) {}

  // Compared everywhere: small, and at the borders of what kernels do differently.
  void add(std::string name, Make make, const Within& within = {}) {
    list_.compared.push_back(wrap(std::move(name), std::move(make), within));
  }
  // Compared only on the CPU and on GPUs: too large for the emulator, or on GPUs the work of a library.
  void unemulated(std::string name, Make make, const Within& within = {}) {
    list_.unemulated.push_back(wrap(std::move(name), std::move(make), within));
  }
  // The CPU's gradient op (in f32) by differences of the reference of this one. `backward(Tensors&, const Op&)` makes
  // a Backward.
  template <class MakeBackward>
  void gradient(std::string name, Make make, MakeBackward backward, const Tolerance& tolerance = {2e-5, 2e-4}) {
    const Reference<Op> reference = reference_;
    list_.gradients.push_back({std::move(name),
                               [=](Tensors& t) {
                                 const Op op = make(t);
                                 auto back = backward(t, op);
                                 return BothWays{std::make_unique<Erased<Op>>(op, reference),
                                                 std::make_unique<Erased<decltype(back.op)>>(back.op, nullptr),
                                                 std::move(back.chain)};
                               },
                               tolerance});
  }
  // A row of ops_bench: the shapes of gpt2-345m.
  void timed(std::string name, Make make) { list_.timed.push_back(wrap(std::move(name), std::move(make), {})); }
  // A row of launch_bench, on small tensors; a GPU launches so many kernels for it.
  void enqueued(int kernels, Make make) {
    list_.enqueued.push_back(wrap(list_.op, std::move(make), {}));
    list_.enqueued.back().kernels = kernels;
  }
  // Larger than anybody runs: only the shape of the launch is looked at.
  void huge(std::string name, Make make) { list_.huge.push_back(wrap(std::move(name), std::move(make), {})); }

 private:
  template <class Any>
  class Erased final : public AnyOp {
   public:
    Erased(const Any& op, Reference<Any> reference) : op_(op), reference_(reference) {}
    void check() const override { op_.check(); }
    Cost cost() const override { return op_.cost(); }
    double exponentials() const override {
      if constexpr (requires { op_.exponentials(); }) return op_.exponentials();
      return 0;
    }
    void run(Device& device) const override { mbench::run(device, op_); }
    void reference(Doubles& values) const override { reference_(op_, values); }

   private:
    Any op_;
    Reference<Any> reference_;
  };
  Case wrap(std::string name, Make make, const Within& within) {
    const Reference<Op> reference = reference_;
    return {std::move(name),
            [make = std::move(make), reference](Tensors& t) -> std::unique_ptr<AnyOp> {
              return std::make_unique<Erased<Op>>(make(t), reference);
            },
            within};
  }

  OpCases& list_;
  Reference<Op> reference_;
};

void add_op_cases(std::string_view op, std::function<void(OpCases&)> fill);

// The cases of one op; a constant of its file.
template <class Op>
struct Cases {
  Cases(Reference<Op> reference, void (*list)(CaseList<Op>&)) {
    add_op_cases(Op::name, [=](OpCases& cases) {
      CaseList<Op> own(cases, reference);
      list(own);
    });
  }
};

}  // namespace mbench::test
