#include "engine/backend/cuda/device/cuda_device.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "engine/backend/cuda/device/cuda_memory.h"
#include "engine/backend/cuda/device/launch.h"
#include "engine/backend/cuda/matmul/matmul_plans.h"
#include "engine/base/half.h"
#include "engine/device/fp8_layouts.h"

namespace mbench::cuda {
namespace {

// How long the host spins on an idle core before it sleeps between looks at the stream.
constexpr double kSpinSeconds = 0.05;
constexpr std::chrono::microseconds kNap{200};

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What CUDA and its libraries take beside what is charged to them: kernels, which they load when they are first called.
constexpr std::size_t kUncounted = std::size_t{1} << 30;

struct Room {
  std::size_t free = 0, total = 0;
};

// Of the GPU that is the current one from now on, once its context is made.
Room room_of(int ordinal) {
  cuda_check("cuda", cudaSetDevice(ordinal));
  cuda_check("cuda", cudaFree(nullptr));
  Room room;
  cuda_check("cuda", cudaMemGetInfo(&room.free, &room.total));
  return room;
}

std::unique_ptr<RawMemory> open_memory(int ordinal) {
  return std::make_unique<CudaMemory>(ordinal, room_of(ordinal).total);
}

// Without a limit of the caller's: what is free, but for what nobody counts (of a small GPU an eighth). A library that finds no memory
// may fail in any call; the arena, which does first then, says what did not fit.
std::size_t limit_of(const DeviceOptions& options) {
  if (options.memory_limit != 0) return options.memory_limit;
  const std::size_t free = room_of(options.ordinal).free;
  return free - std::min(kUncounted, free / 8);
}

std::string name_of_device(const DeviceOptions& options) {
  cudaDeviceProp p{};
  cuda_check("cuda", cudaGetDeviceProperties(&p, options.ordinal));
  return options.note.empty() ? std::string(p.name) : fmt::format("{} ({})", p.name, options.note);
}

int capability_of(int ordinal) {
  cudaDeviceProp p{};
  cuda_check("cuda", cudaGetDeviceProperties(&p, ordinal));
  return 10 * p.major + p.minor;
}

}  // namespace

CudaDevice::CudaDevice(const DeviceOptions& options)
    : StreamDevice(open_memory(options.ordinal), limit_of(options)),
      options_(options),
      turned_fp8_(mbench::multiplies_turned_fp8(capability_of(options.ordinal))),
      name_(name_of_device(options)),
      staging_(stream_.get(), memory(), [this](cudaEvent_t e) { wait_until_ready([e] { return cudaEventQuery(e); }); }),
      timer_(stream_.get()),
      ops_(stream_.get(), memory(), options.tf32, [this] { wait(); }),
      table_(*this) {}

CudaDevice::~CudaDevice() {
  cudaStreamSynchronize(stream_.get());  // nothing may run on memory that is being unmapped
}

template <class Ask>
void CudaDevice::wait_until_ready(const Ask& ask) {
  const double begin = wall_clock();
  for (std::uint64_t looks = 0;; ++looks) {
    const cudaError_t state = ask();
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady)
      fail(ErrorKind::internal, "cuda", "a kernel failed, got {} ({}); the op enqueued last is {}",
           cudaGetErrorName(state), cudaGetErrorString(state), last_op_);
    if (looks % 256 != 255) continue;
    const double waited = wall_clock() - begin;
    if (check_) check_(waited);
    if (waited > kSpinSeconds) std::this_thread::sleep_for(kNap);
  }
}

void CudaDevice::wait() {
  wait_until_ready([this] { return cudaStreamQuery(stream_.get()); });
}

std::vector<GemmChoice> CudaDevice::gemm_choices() const {
  return ops_.matmuls->choices();
}

void CudaDevice::need_no_capture(std::string_view call) const {
  if (capturing_)
    fail(ErrorKind::unsupported, "capture",
         "a {} of values within a step that is recorded, as messages through host memory do, need capture false, or a "
         "GPU for each rank",
         call);
}

void CudaDevice::write(const Tensor& to, std::span<const std::byte> source) {
  need_no_capture("write");
  check(source.size() == to.bytes(), "cuda", "write of {} bytes into a tensor of {}", source.size(), to.bytes());
  staging_.upload(to.data(), source);
}

void CudaDevice::read(const Tensor& from, std::span<std::byte> to) {
  need_no_capture("read");
  check(to.size() == from.bytes(), "cuda", "read of {} bytes from a tensor of {}", to.size(), from.bytes());
  wait();
  staging_.download(from.data(), to);
}

void CudaDevice::do_copy(const Tensor& from, const Tensor& to) {
  last_op_ = "copy";
  const int interval = timeline() ? begin_interval() : -1;
  cuda_check("copy", cudaMemcpyAsync(to.data(), from.data(), from.bytes(), cudaMemcpyDeviceToDevice, stream_.get()));
  end_interval(interval, Track::compute, "copy", TimePart::copies, nullptr);
}

std::unique_ptr<Device> CudaDevice::open_host() {
  if (!options_.host_memory || !options_.host_device) return Device::open_host();
  auto memory = std::make_unique<PinnedMemory>(options_.host_memory());
  host_copies_ = std::make_unique<HostCopies>(
      *this, stream_.get(), *memory, [this](cudaEvent_t e) { wait_until_ready([e] { return cudaEventQuery(e); }); });
  return options_.host_device(std::move(memory));
}

std::unique_ptr<HostCopy> CudaDevice::do_start_copy(CopyWay way, const Tensor& from, const Tensor& to) {
  last_op_ = "copy";
  return host_copies_->start(way, from, to);
}

float CudaDevice::read(const Tensor& scalar, float) {
  check(scalar.numel() == 1, "cuda", "read of a scalar from a tensor of shape {}", scalar.shape().str());
  const auto get = [&](auto value) {
    read(scalar, std::as_writable_bytes(std::span(&value, 1)));
    return to_float(value);
  };
  switch (scalar.dtype()) {
    case DType::f32:
      return get(float{});
    case DType::bf16:
      return get(bf16{});
    case DType::f16:
      return get(f16{});
    default:
      fail(ErrorKind::internal, "cuda", "read of a scalar of type {}", mbench::name_of(scalar.dtype()));
  }
}

// A graph and what of its step the meter counts.
class CudaDevice::Captured final : public RecordedStep {
 public:
  Captured(CudaDevice& device, cudaGraph_t graph, const Meter& step) : device_(device), step_(step) {
    const cudaError_t code = cudaGraphInstantiateWithFlags(&executable_, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    cuda_check("capture", code);
  }
  ~Captured() override { static_cast<void>(cudaGraphExecDestroy(executable_)); }
  // The meter has the step already where it has just been recorded.
  void launch() {
    device_.last_op_ = "replayed step";
    const int interval = device_.timeline() ? device_.timer_.begin() : -1;
    cuda_check("replay", cudaGraphLaunch(executable_, device_.stream_.get()));
    if (interval >= 0) device_.timer_.end(interval, Track::compute, "replayed step", {});
    if (device_.after_replay_) device_.after_replay_();
  }
  void replay() override {
    launch();
    device_.meter().add(step_);
  }

 private:
  CudaDevice& device_;
  Meter step_;
  cudaGraphExec_t executable_ = nullptr;
};

std::unique_ptr<RecordedStep> CudaDevice::record(const std::function<void()>& step) {
  need_no_capture("recording");
  wait();
  const Meter before = meter();
  cuda_check("capture", cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal));
  capturing_ = true;
  cudaGraph_t graph = nullptr;
  try {
    step();
  } catch (...) {
    capturing_ = false;
    if (cudaStreamEndCapture(stream_.get(), &graph) == cudaSuccess && graph) cudaGraphDestroy(graph);
    throw;
  }
  capturing_ = false;
  cuda_check("capture", cudaStreamEndCapture(stream_.get(), &graph));
  auto captured = std::make_unique<Captured>(*this, graph, meter().since(before));
  captured->launch();
  return captured;
}

double CudaDevice::synchronize() {
  timer_.anchor();
  wait();
  timer_.settle(wall_clock(), timeline());
  return timer_.clock();
}

double CudaDevice::now() const {
  return wall_clock();
}

}  // namespace mbench::cuda
