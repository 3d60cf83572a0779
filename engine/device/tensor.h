// A typed view of device memory. Copies share the memory; it returns to the allocator with the last of them.
// data() is an address of the device, not of the host: only backends follow it.
//
// Copies made while a Borrowing lives on their thread share nothing: they name the memory, and do not keep it. For what
// outlives the tensors that it was given, such as a recorded step.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/shape.h"
#include "engine/device/allocator.h"

namespace mbench {

class Borrowing {
 public:
  Borrowing() { ++depth_; }
  ~Borrowing() { --depth_; }
  Borrowing(const Borrowing&) = delete;
  Borrowing& operator=(const Borrowing&) = delete;
  static bool now() { return depth_ > 0; }

 private:
  static constinit thread_local int depth_;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(Allocator& memory, Shape shape, DType dtype, Category category, std::string_view what);
  Tensor(const Tensor& other)
      : storage_(Borrowing::now() ? borrowed(other.storage_) : other.storage_),
        offset_(other.offset_),
        dtype_(other.dtype_),
        shape_(other.shape_) {}
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(const Tensor& other) { return *this = Tensor(other); }
  Tensor& operator=(Tensor&&) noexcept = default;
  ~Tensor() = default;

  explicit operator bool() const { return storage_ != nullptr; }
  std::byte* data() const { return storage_->data + offset_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data());
  }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t numel() const { return shape_.numel(); }
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype_); }

  // The same elements in another shape.
  Tensor view(const Shape& shape) const;
  // Entries [begin, begin + count) of dim 0.
  Tensor slice(std::int64_t begin, std::int64_t count) const;
  // `shape` elements starting at element `begin` of the flattened tensor.
  Tensor part(std::int64_t begin, const Shape& shape) const;
  // The same bytes as elements of another type, as many along the last dim as they make.
  Tensor bytes_as(DType dtype) const;
  void reset() { *this = Tensor(); }

 private:
  friend class TensorMemory;
  friend class TensorList;
  struct Storage {
    Storage(Allocator& m, std::size_t n, Category c, std::string_view what)
        : memory(m), data(m.allocate(n, c, what)), bytes(n) {}
    // The same memory, which another one holds.
    explicit Storage(const std::shared_ptr<Storage>& of)
        : memory(of->memory), data(of->data), bytes(of->bytes), owned(false) {}
    ~Storage() {
      if (owned && data != nullptr) memory.release(data);
    }
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;
    Allocator& memory;
    std::byte* data;  // null while it is given back (TensorMemory)
    std::size_t bytes;
    bool owned = true;
  };
  static std::shared_ptr<Storage> borrowed(const std::shared_ptr<Storage>& of);
  std::shared_ptr<Storage> storage_;
  std::size_t offset_ = 0;  // bytes
  DType dtype_ = DType::f32;
  Shape shape_;
};

// The memory that a tensor shares with its copies, held like one of them. It can be given back for a while. Nobody may use these tensors
// meanwhile: they have no address.
class TensorMemory {
 public:
  TensorMemory() = default;
  explicit TensorMemory(const Tensor& of) : TensorMemory(of.storage_, of.shape_, of.dtype_) {}
  explicit operator bool() const { return storage_ != nullptr; }
  bool operator==(const TensorMemory& other) const { return storage_ == other.storage_; }
  std::size_t bytes() const { return storage_->bytes; }
  std::int64_t numel() const { return shape_.numel(); }  // of the tensor that it was made of
  // All of it, as u8 elements.
  Tensor all() const;
  void give_back();
  // Memory for it again, elsewhere or not, for whatever `what` says. Its tensors have an address again, and no values.
  void take_again(Category category, std::string_view what);

 private:
  friend class TensorList;
  TensorMemory(std::shared_ptr<Tensor::Storage> storage, const Shape& shape, DType dtype)
      : storage_(std::move(storage)), shape_(shape), dtype_(dtype) {}
  std::shared_ptr<Tensor::Storage> storage_;
  Shape shape_;
  DType dtype_ = DType::u8;
};

// Tensors that were made, in order, without holding them.
class TensorList {
 public:
  void add(const Tensor& t) { made_.push_back({t.storage_, t.shape_, t.dtype_}); }
  void clear() { made_.clear(); }
  // The memory of those that something still holds.
  std::vector<TensorMemory> living() const;

 private:
  struct Made {
    std::weak_ptr<Tensor::Storage> storage;
    Shape shape;
    DType dtype;
  };
  std::vector<Made> made_;
};

// Whether two tensors have memory in common.
inline bool overlap(const Tensor& a, const Tensor& b) {
  return a.data() < b.data() + b.bytes() && b.data() < a.data() + a.bytes();
}

}  // namespace mbench
