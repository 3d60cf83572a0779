// The tensors of one case of an op: drawn, placed on a device, and watched.
#pragma once
#include <initializer_list>
#include <vector>

#include "engine/device/device.h"
#include "test/ops/values.h"

namespace mbench::test {

// Draws the tensors of a case, the same values on every device. Around every tensor lie guards that nothing may
// touch. What a case does not declare as a result, its op must leave as it is.
class Tensors {
 public:
  struct Placing {
    std::int64_t shift = 0;  // elements from where vectors fit
    int variant = 0;         // which operand the op writes over, see over()
    bool watched = true;     // false: no copies on the host, for large tensors
  };
  explicit Tensors(Device& device) : Tensors(device, Placing()) {}
  Tensors(Device& device, const Placing& placing) : device_(device), placing_(placing) {}

  // What the op reads: uniform draws, given values, ids of [0, below) with some repeats, or masks with about that share of ones.
  Tensor in(const Shape& shape, DType type, double low = -1, double high = 1);
  Tensor values(const Shape& shape, DType type, const Values& values);
  Tensor ids(const Shape& shape, std::int64_t below);
  Tensor mask(const Shape& shape, double ones);

  // Results. What the op overwrites is NaN before; what it adds to is drawn.
  Tensor out(const Shape& shape, DType type = DType::f32);
  Tensor inout(const Shape& shape, DType type, double low = -1, double high = 1);
  // A result that may also be one of these operands. The case runs once into a tensor like the first, and once over each operand. All
  // must give the same bits.
  Tensor over(std::initializer_list<Tensor> operands);
  // An operand that the op changes in place.
  Tensor changed(const Tensor& operand);

  bool is_real() const { return device_.real(); }  // whether values exist
  int variants() const { return variants_; }       // that over() knows of
  std::size_t size() const { return all_.size(); }
  const Tensor& operator[](std::size_t i) const { return all_[i].tensor; }
  bool is_result(std::size_t i) const { return all_[i].result; }
  std::vector<std::size_t> results() const;

  // As they were drawn, and as they are now on the device.
  Values before(std::size_t i) const;
  Values now(std::size_t i) const;
  std::vector<std::byte> bits(std::size_t i) const;
  // What has been written to outside the results; empty: nothing.
  std::string trespass() const;

 private:
  static constexpr std::int64_t kGuard = 64;  // elements before and after a tensor
  static constexpr std::byte kGuardByte{0xA5};
  struct Watched {
    Tensor around, tensor;  // with and without its guards
    bool result = false;
    std::vector<std::byte> before{};  // of `around`
  };

  // A tensor whose elements are `block` again and again.
  Tensor place(const Shape& shape, DType type, const Values& block);
  std::vector<std::byte> read(const Tensor& tensor) const;

  Device& device_;
  Placing placing_;
  unsigned seed_ = 0;
  int variants_ = 1;
  std::vector<Watched> all_;
};

}  // namespace mbench::test
