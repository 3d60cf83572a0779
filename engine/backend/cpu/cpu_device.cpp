#include "engine/backend/cpu/cpu_device.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>

#include "engine/backend/cpu/bf16_gemms.h"
#include "engine/backend/cpu/blas_core.h"
#include "engine/backend/cpu/float_vector.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/base/half.h"
#include "engine/ops/ops.h"

namespace mbench::cpu {
namespace {

// Addresses to reserve: all the memory the machine has, or what the device may hold if that is less.
std::size_t capacity_for(std::size_t memory_limit) {
  const std::size_t physical =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return memory_limit == 0 ? physical : std::min(memory_limit, physical);
}

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A piece of the heap: beside a device that may have reserved all the addresses that the process is allowed.
class HeapMemory final : public RawMemory {
 public:
  explicit HeapMemory(std::size_t bytes) : size_((bytes + granule() - 1) / granule() * granule()) {
    base_.reset(static_cast<std::byte*>(std::aligned_alloc(granule(), size_)));
    if (!base_) throw std::bad_alloc();
  }
  std::byte* base() const override { return base_.get(); }
  bool commit(std::size_t bytes) override { return bytes <= size_; }
  std::size_t granule() const override { return std::size_t{2} << 20; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> base_;
};

// What a thread copies at once between the two memories.
constexpr std::int64_t kCopyPiece = std::int64_t{1} << 16;

class CopyDone final : public HostCopy {
 public:
  void wait() override {}
  void wait_on_host() override {}
};

}  // namespace

class CpuDevice::Table final : public TableOf<CpuOps> {
 public:
  using TableOf<CpuOps>::TableOf;
};

CpuOps::CpuOps(Allocator& memory, Bf16 bf16) : scratch(memory) {
  if (bf16 == Bf16::native || (bf16 == Bf16::fastest && bf16_instructions_pay())) bf16_gemms = open_bf16_gemms();
}

CpuOps::~CpuOps() = default;

CpuDevice::CpuDevice(std::size_t memory_limit, Bf16 bf16)
    : CpuDevice(std::make_unique<HostMemory>(capacity_for(memory_limit)), memory_limit, bf16) {}

CpuDevice::CpuDevice(std::unique_ptr<RawMemory> raw, std::size_t memory_limit, Bf16 bf16)
    : Device(std::move(raw), memory_limit), bf16_(bf16), ops_(memory(), bf16), table_(std::make_unique<Table>(ops_)) {
  fit_blas_to_cpu();
}

CpuDevice::~CpuDevice() = default;

OpTable& CpuDevice::ops() {
  return *table_;
}

std::string CpuDevice::name() const {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (line.compare(0, 10, "model name") == 0 && colon != std::string::npos && colon + 2 < line.size())
      return line.substr(colon + 2);
  }
  return "CPU";
}

void CpuDevice::write(const Tensor& to, std::span<const std::byte> source) {
  need_no_recording("write");
  check(source.size() == to.bytes(), "cpu", "write of {} bytes into a tensor of {}", source.size(), to.bytes());
  if (!source.empty()) std::memcpy(to.data(), source.data(), source.size());
}

float CpuDevice::read(const Tensor& scalar, float) {
  need_no_recording("read");
  check(scalar.numel() == 1, "cpu", "read of a scalar from a tensor of shape {}", scalar.shape().str());
  switch (scalar.dtype()) {
    case DType::f32:
      return *scalar.as<float>();
    case DType::bf16:
      return to_float(*scalar.as<bf16>());
    case DType::f16:
      return to_float(*scalar.as<f16>());
    default:
      fail(ErrorKind::internal, "cpu", "read of a scalar of type {}", name_of(scalar.dtype()));
  }
}

void CpuDevice::read(const Tensor& from, std::span<std::byte> to) {
  need_no_recording("read");
  check(to.size() == from.bytes(), "cpu", "read of {} bytes from a tensor of {}", to.size(), from.bytes());
  if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
}

void CpuDevice::do_copy(const Tensor& from, const Tensor& to) {
  parallel_tiles(static_cast<std::int64_t>(from.bytes()), [&](std::int64_t begin, std::int64_t n) {
    std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(n));
  });
}

std::unique_ptr<RawMemory> open_host_memory() {
  return std::make_unique<HostMemory>(capacity_for(0));
}

std::unique_ptr<Device> CpuDevice::open_host() {
  return std::make_unique<CpuDevice>(open_host_memory(), 0, bf16_);
}

std::unique_ptr<HostCopy> CpuDevice::do_start_copy(CopyWay, const Tensor& from, const Tensor& to) {
  const auto bytes = static_cast<std::int64_t>(from.bytes());
#pragma omp parallel for schedule(static) if (bytes > kCopyPiece)
  for (std::int64_t at = 0; at < bytes; at += kCopyPiece)
    std::memcpy(to.data() + at, from.data() + at, static_cast<std::size_t>(std::min(kCopyPiece, bytes - at)));
  return std::make_unique<CopyDone>();
}

double CpuDevice::now() const {
  return wall_clock();
}

double measure_gemm_peak(DType type, double seconds) {
  fit_blas_to_cpu();
  // Large enough that packing and threads cost nothing: on one thread 1024 reaches what 2048 does, in an eighth of the time.
  const std::int64_t n = omp_get_max_threads() <= 4 ? 1024 : 2048;
  Allocator memory(std::make_unique<HeapMemory>(std::size_t{3} * n * n * size_of(type) + (std::size_t{1} << 20)), 0);
  CpuOps cpu(memory, Bf16::fastest);
  const auto matrix = [&](float value) {
    const Tensor t(memory, {n, n}, type, Category::workspace, "peak");
    compute(cpu, ops::Fill{t, value});
    return ops::Matrix(t);
  };
  const ops::Matmul gemm{matrix(0.5f), matrix(0.25f), matrix(0)};
  compute(cpu, gemm);  // pays for the pages of scratch, and for code that is made at the first call
  double best = 0;
  const double start = wall_clock();
  do {
    const double begin = wall_clock();
    compute(cpu, gemm);
    best = std::max(best, gemm.cost().flops / (wall_clock() - begin));
  } while (wall_clock() - start < seconds);
  return best;
}

double measure_exponential_peak(double seconds) {
  constexpr std::int64_t kFloats = 2048, kRounds = 64;
  double rate = 0;
  float sum = 0;  // what nobody reads would not be computed
  // Each thread's own best: on a busy machine the threads are seldom all at work, which they would have to be for a common one.
#pragma omp parallel reduction(+ : rate, sum)
  {
    float x[kFloats] = {};
    double best = 0;
    const double start = wall_clock();
    do {
      const double begin = wall_clock();
      for (std::int64_t round = 0; round < kRounds; ++round)
        for (std::int64_t i = 0; i < kFloats; i += kVector) store_vector(exp2_of(load_vector(x + i) - 2.0f), x + i);
      best = std::max(best, static_cast<double>(kFloats * kRounds) / (wall_clock() - begin));
    } while (wall_clock() - start < seconds);
    rate += best, sum += x[0];
  }
  return sum > 0 ? rate : 0;
}

}  // namespace mbench::cpu
