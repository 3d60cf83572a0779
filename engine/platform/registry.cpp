#include "engine/platform/registry.h"

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <thread>

#include "engine/backend/cpu/bf16_gemms.h"
#include "engine/backend/cpu/blas_core.h"
#include "engine/backend/cpu/cpu_device.h"
#include "engine/backend/cpu/fp64_gemm.h"
#include "engine/backend/cuda/cuda.h"
#include "engine/comm/gather.h"
#include "engine/comm/mpi/mpi_world.h"
#include "engine/comm/nccl/nccl_world.h"
#include "engine/comm/staged/staged_world.h"
#include "engine/comm/threads/threads_world.h"
#include "engine/platform/cpu_energy.h"
#include "engine/platform/fp64_gemm.h"
#include "engine/platform/nvml/energy.h"
#include "engine/platform/nvml/nvml.h"
#include "engine/platform/nvml/sensors.h"
#include "engine/platform/nvml/signature.h"
#include "engine/point/point.h"

namespace mbench::platform {
namespace {

// Whether whoever started the job has chosen a number of threads. A text that is none counts as not there: GNU's OpenMP takes it so,
// LLVM's would go on with no thread at all, and end there.
bool threads_are_chosen() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  return text != nullptr && std::strtol(text, nullptr, 10) > 0;  // of a list the first
}

// Divides the cores among the ranks of this host, unless the number of threads was chosen.
void share_cores(int ranks_here) {
  if (threads_are_chosen()) return;
  const int cores = static_cast<int>(std::thread::hardware_concurrency()), allowed = omp_get_max_threads();
  omp_set_num_threads(std::max(1, std::min(cores / ranks_here, allowed > 0 ? allowed : cores)));
}

// OpenMP keeps what it starts threads by on the stack, and ends by a signal where that is not large enough. No machine has so many cores.
void need_startable_threads() {
  const int most = std::max(4096, static_cast<int>(std::thread::hardware_concurrency())), got = omp_get_max_threads();
  if (got > most)
    fail(ErrorKind::launch_failed, "OMP_NUM_THREADS", "more threads than a process can start, got {}, need at most {}",
         got, most);
}

// The CPU as what a GPU offloads to.
void add_host(cuda::DeviceOptions& options) {
  options.host_memory = cpu::open_host_memory;
  options.host_device = [](std::unique_ptr<RawMemory> raw) {
    return std::make_unique<cpu::CpuDevice>(std::move(raw), 0);
  };
}

// Groups of GPUs: NCCL where each rank of the job has one of its own, else through host memory.
class CudaWorld final : public comm::World {
 public:
  CudaWorld(comm::MpiWorld& host, Device& host_device, StreamDevice& device, bool shared, double collective_timeout)
      : host_(host), staged_(host, host_device) {
    if (!shared && host.size() > 1) nccl_ = comm::open_nccl_world(host, host, host_device, device, collective_timeout);
  }
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  std::unique_ptr<comm::Group> group(Device& device, const comm::GroupName& name,
                                     const std::vector<int>& members) override {
    return nccl_ ? nccl_->group(device, name, members) : staged_.group(device, name, members);
  }

 private:
  comm::World& host_;
  comm::StagedWorld staged_;
  std::unique_ptr<comm::World> nccl_;
};

class MpiJob final : public Job {
 public:
  explicit MpiJob(double collective_timeout) : collective_timeout_(collective_timeout) {
    share_cores(session_.ranks_here());
    world_.tell(pulse_.get());
  }
  // Until the session has ended, which all ranks do together.
  ~MpiJob() override { ending_.emplace(pulse_.get(), "the end", pulse_->number_of("the job")); }
  comm::World& world() override { return world_; }
  std::unique_ptr<Device> open_device(const std::string& kind, std::size_t memory_limit, Precision precision) override {
    return kind == "cuda" ? open_gpu(memory_limit, precision)
                          : mbench::platform::open_device(kind, memory_limit, precision);
  }
  comm::World& world_of(const Device& device) override {
    return cuda_world_ && &device == gpu_ ? static_cast<comm::World&>(*cuda_world_) : world_;
  }
  std::unique_ptr<EnergyMeter> open_energy() override {
    return gpu_ ? nvml::count_energy(gpu_address_) : open_cpu_energy();
  }
  std::unique_ptr<DeviceWatch> watch_faults() override { return gpu_ ? nvml::watch_faults(gpu_address_) : nullptr; }
  std::shared_ptr<const comm::Pulse> pulse() const override { return pulse_; }
  [[noreturn]] void abort(int exit_code) override { comm::MpiSession::abort(exit_code); }

 private:
  std::unique_ptr<Device> open_gpu(std::size_t memory_limit, Precision precision) {
    const std::vector<Gpu> all = cuda::gpus();
    if (all.empty()) fail(ErrorKind::unsupported, "cuda", "no GPU for rank {}: {}", world_.rank(), cuda::why_none());
    // Where ranks outnumber GPUs, neighbours share one.
    const int n = static_cast<int>(all.size()), here = std::max(n, session_.ranks_here());
    const Gpu& mine = all[static_cast<std::size_t>(session_.rank_here() * n / here)];
    host_device_ = std::make_unique<cpu::CpuDevice>(0);
    std::vector<int> everyone(static_cast<std::size_t>(world_.size()));
    std::iota(everyone.begin(), everyone.end(), 0);
    const auto uuids = comm::gather_all(*world_.group(*host_device_, "hosts", everyone), mine.uuid);
    const auto sharing = std::count(uuids.begin(), uuids.end(), mine.uuid);
    const bool any_shared = std::set(uuids.begin(), uuids.end()).size() < uuids.size();
    cuda::DeviceOptions options;
    options.ordinal = mine.ordinal;
    options.memory_limit = memory_limit;
    options.tf32 = precision == Precision::tf32;
    if (sharing > 1)
      options.note = fmt::format("shared by {} ranks, messages through host memory", sharing);
    else if (any_shared)
      options.note = "messages through host memory, since other ranks share a GPU";
    add_host(options);
    options.gauge = [pci = mine.pci] { return nvml::watch(pci); };
    auto device = cuda::open_device(options);
    cuda_world_ = std::make_unique<CudaWorld>(world_, *host_device_, *device, any_shared, collective_timeout_);
    gpu_ = device.get();
    gpu_address_ = mine.pci;
    return device;
  }

  double collective_timeout_;
  std::shared_ptr<comm::Pulse> pulse_ = std::make_shared<comm::Pulse>();
  std::optional<comm::Pulse::In> ending_;
  comm::MpiSession session_;
  comm::MpiWorld world_;
  std::unique_ptr<Device> host_device_;
  std::unique_ptr<CudaWorld> cuda_world_;
  const Device* gpu_ = nullptr;
  std::string gpu_address_;
};

// What shares a scale in GEMMs of the point's precision.
ops::Fp8Blocks scales_of(const Point& p) {
  if (p.precision == Precision::nvfp4) return ops::Fp8Blocks::nv;
  switch (p.fp8_recipe) {
    case Fp8Recipe::rowwise:
      return ops::Fp8Blocks::whole_rows;
    case Fp8Recipe::blockwise:
      return ops::Fp8Blocks::rows;
    case Fp8Recipe::mxfp8:
      return ops::Fp8Blocks::mx;
    default:
      return ops::Fp8Blocks::tensor;
  }
}

}  // namespace

std::unique_ptr<Job> join_job(double collective_timeout) {
  return std::make_unique<MpiJob>(collective_timeout);
}

std::unique_ptr<TimedDevice> open_timed_device(Device& cpu) {
  return TimedDevice::open(cpu, cpu::open_host_memory());
}

void run_replicas(int ranks, const std::function<void(comm::World&)>& rank) {
  const int cores = omp_get_max_threads();
  comm::run_on_threads(ranks, [&](comm::World& world) {
    omp_set_num_threads(std::max(1, cores / ranks));  // of this thread's loops
    rank(world);
  });
  omp_set_num_threads(cores);
}

std::unique_ptr<Device> open_device(const std::string& kind, std::size_t memory_limit, Precision precision) {
  if (kind == "cpu" && precision == Precision::tf32)
    fail(ErrorKind::unsupported, "device", "the CPU has no tf32, need f32");
  if (kind == "cpu") need_startable_threads();
  if (kind == "cpu") return std::make_unique<cpu::CpuDevice>(memory_limit);
  if (kind == "cuda") {
    cuda::DeviceOptions options;
    options.memory_limit = memory_limit;
    options.tf32 = precision == Precision::tf32;
    add_host(options);
    return cuda::open_device(options);
  }
  fail(ErrorKind::unsupported, "device", "this binary has no device \"{}\", need cpu or cuda", kind);
}

MakeFp64Gemm fp64_gemm_on(const std::string& kind) {
  if (kind == "cpu") return cpu::fp64_gemm;
  if (kind == "cuda" && cuda::built_in()) return cuda::fp64_gemm;
  return nullptr;
}

double measured_peak_flops(Precision precision, double seconds) {
  need_startable_threads();
  return cpu::measure_gemm_peak(precision == Precision::bf16   ? DType::bf16
                                : precision == Precision::fp16 ? DType::f16
                                                               : DType::f32,
                                seconds);
}

std::optional<std::string> why_not_built(const std::string& kind) {
  if (kind == "cuda" && !cuda::built_in()) return cuda::why_none();
  return std::nullopt;
}

namespace {

// Documents, and chunks of them, are sequences of their own there. `what` they come from.
std::optional<std::string> why_no_flash_of(const Point& p, const Documents& documents, const std::string& what) {
  if (p.cp > 1 && p.cp_communication != CpCommunication::all_to_all)
    return fmt::format(
        "attention flash with {} and cp_communication {} is not built into this binary for GPUs, and "
        "the device is cuda, need cp_communication all_to_all or cp 1",
        what, name_of(p.cp_communication));
  constexpr std::int64_t kRows = 4;  // whose statistics begin at a multiple of 16 bytes
  for (std::int64_t d = 0; d < documents.count(); ++d)
    if (documents.first(d) % kRows != 0)
      return fmt::format(
          "attention flash on a GPU with {}: a document begins at token {}, need lengths that are "
          "multiples of {} or attention core",
          what, documents.first(d), kRows);
  return std::nullopt;
}

std::optional<std::string> why_no_flash_on_gpus(const Point& p) {
  if (const auto why = cuda::why_no_flash(p.precision == Precision::f32, p.dropout)) return why;
  const DocumentsOrNone documents = documents_of(p.document_lengths, p.seq, p.seed);
  for (const std::int64_t chunk : p.model.attention_chunks()) {
    const DocumentsOrNone parts = in_chunks(documents, p.seq, chunk);
    const std::string what =
        parts == documents ? "document_lengths " + str(p.document_lengths) : fmt::format("attention_chunk {}", chunk);
    if (!parts) continue;
    if (const auto why = why_no_flash_of(p, *parts, what)) return why;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> why_unsupported_on(const std::string& kind, const Point& p) {
  if (kind.starts_with("sim:")) return std::nullopt;
  // What a framework keeps is kept on any device; another's host costs are charged to simulated ones alone.
  if (!p.framework.host.empty() && p.framework.host != "mbench")
    return fmt::format("framework.host {} is for simulation only, and the device is {}, need mbench", p.framework.host,
                       kind);
  if (p.placement != NodePlacement())
    return fmt::format("placement {} is for simulation only, and the device is {}, need block", name_of(p.placement),
                       kind);
  if (p.background_load > 0)
    return fmt::format("background_load {} is for simulation only, and the device is {}, need 0", p.background_load,
                       kind);
  if (kind == "cpu" && p.precision == Precision::tf32)
    return "precision tf32 is the arithmetic of a GPU's tensor cores, and the device is cpu, need f32";
  if (kind == "cuda" && p.replicas == Replicas::single_process)
    return "replicas single_process is not built into this binary for GPUs, whose ranks are processes, and "
           "the device is "
           "cuda, need replicas ranks or device cpu";
  if (kind == "cuda" && quantises(p.precision))
    for (const Gpu& gpu : gpus())
      if (const auto why = cuda::why_no_fp8(10 * gpu.major + gpu.minor, scales_of(p))) return why;
  if (kind == "cuda" && p.attention == AttentionKind::flash) return why_no_flash_on_gpus(p);
  return std::nullopt;
}

std::vector<Gpu> gpus() {
  return cuda::built_in() ? cuda::gpus() : std::vector<Gpu>();
}

std::string why_no_gpu() {
  return cuda::why_none();
}

std::string why_no_gpu_sensors() {
  return nvml::why_none();
}

std::string describe_gpus() {
  return nvml::describe(nvml::report());
}

nlohmann::ordered_json gpu_environment() {
  const nvml::Report r = nvml::report();
  nlohmann::ordered_json e = nlohmann::ordered_json::object();
  if (!r.driver.empty()) e["driver"] = r.driver;
  const auto add = [&](const char* key, std::optional<double> value) {
    if (value) e[key] = *value;
  };
  if (!r.gpus.empty()) {
    add("device_memory_mib", r.gpus.front().memory_mib);
    add("power_cap_w", r.gpus.front().power_cap_w);
    add("max_clock_mhz", r.gpus.front().max_clock_mhz);
  }
  if (r.gpus.size() > 1) e["gpu_links"] = r.links;
  return e;
}

std::string cuda_libraries() {
  if (!cuda::built_in()) return "";
  const std::string nccl = comm::nccl_library();
  return fmt::format("{}, {}", cuda::libraries(), nccl.empty() ? "no NCCL" : nccl);
}

std::string mpi_library() {
  return comm::MpiSession::library();
}

std::string blas_library() {
#ifdef OPENBLAS_VERSION
  const std::string replaced = cpu::replaced_blas_core(), reported = openblas_get_config();
  return replaced.empty() ? reported
                          : fmt::format("{} (it takes this CPU for {}, whose kernels are older)", reported, replaced);
#else
  return "CBLAS";
#endif
}

std::string bf16_arithmetic() {
  const std::string library = cpu::onednn_library(), instructions = cpu::bf16_instructions();
  if (library.empty()) return "f32: this binary was built without oneDNN (MBENCH_ONEDNN=OFF)";
  if (instructions.empty()) return fmt::format("f32: the CPU has neither AVX512_BF16 nor AMX, as {} finds", library);
  if (!cpu::bf16_instructions_pay())
    return fmt::format("f32: {} is no faster on this CPU, which has no AMX", instructions);
  return fmt::format("{}, by {}", instructions, library);
}

}  // namespace mbench::platform
