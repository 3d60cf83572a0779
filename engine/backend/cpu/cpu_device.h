// The CPU as a device: huge-page memory that only grows, synchronous ops. Its host is another device of the same kind with memory of its
// own, and transfers between them are copies.
#pragma once
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/device/device.h"

namespace mbench::cpu {

// Anonymous memory in one reserved range of addresses, committed from the bottom in huge pages.
class HostMemory final : public RawMemory {
 public:
  // `capacity`: bytes of address space. It is less where the process may not have as many (ulimit -v). What does not fit is then
  // launch_failed, since the machine has the memory.
  explicit HostMemory(std::size_t capacity);
  ~HostMemory() override;
  std::byte* base() const override { return base_; }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  bool commit(std::size_t bytes) override;  // prefaults; returns false instead of making the machine run out of memory
  std::size_t granule() const override { return std::size_t{2} << 20; }
  std::string bound() const override;  // the machine's memory, or the job's share of it

 private:
  std::byte* mapping_ = nullptr;  // what mmap gave; base_ is its first huge-page boundary
  std::byte* base_ = nullptr;
  std::size_t reserved_ = 0, capacity_ = 0, committed_ = 0;
  bool limited_ = false;  // by the process's address space
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(std::size_t memory_limit = 0, Bf16 bf16 = Bf16::fastest);
  // On memory that someone else provides, such as page-locked memory for a GPU.
  CpuDevice(std::unique_ptr<RawMemory> raw, std::size_t memory_limit, Bf16 bf16 = Bf16::fastest);
  ~CpuDevice();
  OpTable& ops() override;
  std::string name() const override;
  bool real() const override { return true; }
  void write(const Tensor& to, std::span<const std::byte> source) override;
  float read(const Tensor& scalar, float declared) override;
  void read(const Tensor& from, std::span<std::byte> to) override;
  double synchronize() override { return now(); }
  double now() const override;
  bool immediate() const override { return true; }

 protected:
  void do_copy(const Tensor& from, const Tensor& to) override;
  std::unique_ptr<Device> open_host() override;
  std::unique_ptr<HostCopy> do_start_copy(CopyWay way, const Tensor& from, const Tensor& to) override;

 private:
  Bf16 bf16_;
  CpuOps ops_;
  class Table;  // of cpu_device.cpp, the only file that knows all ops
  std::unique_ptr<Table> table_;
};

// Memory with as many addresses as the machine has bytes.
std::unique_ptr<RawMemory> open_host_memory();

// FLOP/s that this process's threads reach on a large square GEMM of that type, computed as a device does. It is the denominator of MFU for
// CPU rows of that precision.
double measure_gemm_peak(DType type, double seconds);
// Powers of two per second that all threads compute of floats in their first-level caches: the sum of each one's best in `seconds`.
double measure_exponential_peak(double seconds);

}  // namespace mbench::cpu
