#include "engine/device/tensor.h"

#include <utility>

namespace mbench {

constinit thread_local int Borrowing::depth_ = 0;

Tensor::Tensor(Allocator& memory, Shape shape, DType dtype, Category category, std::string_view what)
    : storage_(
          std::make_shared<Storage>(memory, static_cast<std::size_t>(shape.numel()) * size_of(dtype), category, what)),
      dtype_(dtype),
      shape_(shape) {
  memory.describe(storage_->data, shape, dtype);
}

std::shared_ptr<Tensor::Storage> Tensor::borrowed(const std::shared_ptr<Storage>& of) {
  return of ? std::make_shared<Storage>(of) : nullptr;
}

Tensor Tensor::view(const Shape& shape) const {
  check(shape.numel() == numel(), "tensor", "view of {} as {}", shape_, shape);
  Tensor t = *this;
  t.shape_ = shape;
  return t;
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t count) const {
  Shape shape = shape_;
  check(shape.rank() > 0 && begin >= 0 && count >= 0 && begin + count <= shape[0], "tensor", "slice [{}, {}) of {}",
        begin, begin + count, shape_);
  const std::int64_t row = shape[0] == 0 ? 0 : numel() / shape[0];
  shape[0] = count;
  return part(begin * row, shape);
}

Tensor Tensor::part(std::int64_t begin, const Shape& shape) const {
  check(begin >= 0 && begin + shape.numel() <= numel(), "tensor", "part {} + {} of {}", begin, shape, shape_);
  Tensor t = *this;
  t.offset_ += static_cast<std::size_t>(begin) * size_of(dtype_);
  t.shape_ = shape;
  return t;
}

Tensor Tensor::bytes_as(DType dtype) const {
  const auto bytes = [&](std::int64_t n, DType type) { return n * static_cast<std::int64_t>(size_of(type)); };
  const std::int64_t last = shape_.rank() > 0 ? bytes(shape_.cols(), dtype_) : 0, size = bytes(1, dtype);
  check(last > 0 && last % size == 0, "tensor", "{} of {} as {}", shape_, name_of(dtype_), name_of(dtype));
  Tensor t = *this;
  t.shape_[-1] = last / size;
  t.dtype_ = dtype;
  return t;
}

Tensor TensorMemory::all() const {
  Tensor t;
  t.storage_ = storage_;
  t.dtype_ = DType::u8;
  t.shape_ = {static_cast<std::int64_t>(storage_->bytes)};
  return t;
}

void TensorMemory::give_back() {
  check(storage_->data != nullptr && storage_->owned, "tensor", "memory of {} is given back, need memory that is there",
        shape_);
  storage_->memory.release(std::exchange(storage_->data, nullptr));
}

void TensorMemory::take_again(Category category, std::string_view what) {
  check(storage_->data == nullptr, "tensor", "memory of {} is taken again, need memory that was given back", shape_);
  storage_->data = storage_->memory.allocate(storage_->bytes, category, what);
  storage_->memory.describe(storage_->data, shape_, dtype_);
}

std::vector<TensorMemory> TensorList::living() const {
  std::vector<TensorMemory> all;
  for (const Made& made : made_)
    if (auto storage = made.storage.lock()) all.push_back(TensorMemory(std::move(storage), made.shape, made.dtype));
  return all;
}

}  // namespace mbench
