// What the engine runs on: one memory, one table of ops, one clock. Backends implement it; everything above sees only
// this. Ops are enqueued in host order on the device's compute stream. Host code reads device values only through
// read(), for which a simulated device has a declared answer.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "engine/base/host_work.h"
#include "engine/device/gauge.h"
#include "engine/device/host_copy.h"
#include "engine/device/meter.h"
#include "engine/device/recorded_step.h"
#include "engine/device/tensor.h"
#include "engine/device/timeline.h"

namespace mbench {

class OpTable;  // engine/ops/ops.h

class Device {
 public:
  Device(std::unique_ptr<RawMemory> raw, std::size_t memory_limit) : memory_(std::move(raw), memory_limit) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Allocator& memory() { return memory_; }
  const Allocator& memory() const { return memory_; }
  // The most that libraries and scratch of kernels held outside the arena (library_memory.h), since that was last reset.
  std::size_t library_bytes() const { return memory_.library_peak(); }
  Meter& meter() { return meter_; }
  Tensor empty(const Shape& shape, DType dtype, Category category, std::string_view what) {
    Tensor made(memory_, shape, dtype, category, what);
    taken(made);
    if (activations_ != nullptr && category == Category::activations) activations_->add(made);
    return made;
  }
  // Where activations that are made from now on are listed; nowhere if null.
  void list_activations(TensorList* list) { activations_ = list; }
  bool lists_activations() const { return activations_ != nullptr; }

  virtual OpTable& ops() = 0;
  virtual std::string name() const = 0;
  // Whether values exist at all; false on a simulated device.
  virtual bool real() const = 0;
  // Host to device. `source` holds exactly the tensor's bytes.
  virtual void write(const Tensor& to, std::span<const std::byte> source) = 0;
  // Device to host, after everything enqueued before it; where nothing is real, `declared` is the answer.
  virtual float read(const Tensor& scalar, float declared) = 0;
  virtual void read(const Tensor& from, std::span<std::byte> to) = 0;
  // Device to device, in stream order: the same elements at another place, counted and traced as an op is.
  // Nothing is done where both are the same memory already; ranges that overlap otherwise are refused.
  void copy(const Tensor& from, const Tensor& to);
  // What lives in the memory of its host: an arena of its own, with ops that the host's processor computes. They have ended
  // when their call returns. Opened at the first call; it ends with the device.
  Device& host();
  // Null until it is opened.
  Device* opened_host() const { return host_.get(); }
  // Copies the bytes of one tensor to another; one of the two is the host's. It begins when all that was enqueued
  // before it is done, and overlaps with what is enqueued on the device after.
  [[nodiscard]] std::unique_ptr<HostCopy> start_copy(CopyWay way, const Tensor& from, const Tensor& to);
  // What was spent on the device and on its host.
  Meter total_meter() const;
  void reset_meters();
  // Waits for everything enqueued; returns the device's time in seconds since an arbitrary start.
  virtual double synchronize() = 0;
  // When everything enqueued so far will have been done, on the clock of synchronize().
  virtual double now() const = 0;
  // Whether an op has ended when its call returns, so that the wall clock around the call is its time.
  virtual bool immediate() const = 0;
  virtual void host_work(HostWork, int /*times*/ = 1) {}
  // A phase of the step that is not an action of its schedule begins, or ends: a literal.
  virtual void phase(const char* /*name*/, bool /*begins*/) {}
  // Whether what is enqueued now is part of one call of the framework's (OneCall).
  bool in_one_call() const { return calls_ > 0; }
  // Of how many like kernels, on streams of their own, one that is enqueued now is; 1 outside such a call.
  std::int64_t parts_of_call() const { return parts_; }
  // How much the rows of each GEMM that is enqueued now differ from those it has (VaryingRows): the standard deviation.
  double rows_deviation() const { return rows_deviation_; }
  // How many times as long what is enqueued now takes on the rank that the others wait for (FullestRank).
  double rows_of_fullest() const { return rows_of_fullest_; }
  // Whether its FP8 GEMMs take an operand whose codes lie along the outer dim (ops::Fp8Operand), so that none is transposed.
  virtual bool multiplies_turned_fp8() const { return false; }
  // Starts to read the device's sensors; null where it has none that can be read.
  virtual std::unique_ptr<Gauge> gauge() { return nullptr; }
  // Runs `step` and remembers what it gives the device, to be replayed; it may neither read nor write values. The step
  // has been performed once when the stream gets there, as if it had not been recorded.
  virtual std::unique_ptr<RecordedStep> record(const std::function<void()>& step);
  // Runs `work` for what it does on the host, its tensors above all: nothing that it asks of the device is enqueued. A recording of the
  // same work is replayed in its place.
  void unenqueued(const std::function<void()>& work);
  bool enqueues() const { return enqueues_; }
  // The list to which calls are added; null where nothing is recorded, or the device records by itself.
  CallList* recording() const { return recording_; }

  // Null unless a trace is being taken.
  Timeline* timeline() const { return timeline_; }
  void trace(Timeline* timeline) {
    timeline_ = timeline;
    if (host_) host_->trace(timeline);
  }

 protected:
  // Whether a kernel that is enqueued now is charged to the host.
  bool charges_kernel() { return calls_ == 0 || !std::exchange(charged_, true); }
  // A tensor has been given to whoever asked for it; there is nothing in it yet.
  virtual void taken(const Tensor&) {}
  // Unsupported, unless a device says otherwise.
  virtual std::unique_ptr<Device> open_host();
  // What start_copy() has checked and counted. Where ops have ended when their calls return, so has this.
  virtual std::unique_ptr<HostCopy> do_start_copy(CopyWay way, const Tensor& from, const Tensor& to);
  // What copy() has checked, counted and found to be work; `from` and `to` do not overlap.
  virtual void do_copy(const Tensor& from, const Tensor& to) = 0;
  // For read() and write(): host values cannot be part of a recorded step.
  void need_no_recording(std::string_view call) const {
    check(!recording_, "record", "a {} of values within a step that is recorded, need it before or after", call);
  }

 private:
  friend class OneCall;
  friend class VaryingRows;
  friend class FullestRank;
  void perform_copy(const Tensor& from, const Tensor& to);

  Allocator memory_;
  Meter meter_;
  Timeline* timeline_ = nullptr;
  std::unique_ptr<Device> host_;
  TensorList* activations_ = nullptr;
  CallList* recording_ = nullptr;
  bool enqueues_ = true;
  int calls_ = 0;  // OneCalls that live
  std::int64_t parts_ = 1;
  double rows_deviation_ = 0, rows_of_fullest_ = 1;
  bool charged_ = false;  // the kernel that stands for them has been enqueued
};

// While it lives, kernels and collectives handle rows that ranks have more or fewer of, and all wait for the rank with the most. In a run
// that is simulated they take that rank's rows over the mean as many times as long. Memory has the mean.
class FullestRank {
 public:
  FullestRank(Device& device, double rows) : device_(device), before_(std::exchange(device.rows_of_fullest_, rows)) {}
  ~FullestRank() { device_.rows_of_fullest_ = before_; }
  FullestRank(const FullestRank&) = delete;
  FullestRank& operator=(const FullestRank&) = delete;

 private:
  Device& device_;
  double before_;
};

// While it lives, GEMMs have more or fewer rows than their mean in a run that is simulated: a machine's tiles are filled as those rows fill them
// on average.
class VaryingRows {
 public:
  VaryingRows(Device& device, double deviation)
      : device_(device), before_(std::exchange(device.rows_deviation_, deviation)) {}
  ~VaryingRows() { device_.rows_deviation_ = before_; }
  VaryingRows(const VaryingRows&) = delete;
  VaryingRows& operator=(const VaryingRows&) = delete;

 private:
  Device& device_;
  double before_;
};

// While it lives, what is enqueued stands for one call of a framework, without a dispatcher or a library of collectives
// in between. A simulated host is charged only for the first kernel, and not for collectives. The call's work is cut into `parts` that run
// on streams of their own, as Transformer Engine's Userbuffers do.
class OneCall {
 public:
  OneCall(Device& device, std::int64_t parts) : device_(device), parts_(std::exchange(device.parts_, parts)) {
    if (device_.calls_++ == 0) device_.charged_ = false;
  }
  ~OneCall() {
    --device_.calls_;
    device_.parts_ = parts_;
  }
  OneCall(const OneCall&) = delete;
  OneCall& operator=(const OneCall&) = delete;

 private:
  Device& device_;
  std::int64_t parts_;  // of the call around it
};

// Records what is enqueued between its construction and its end as one span, if a trace is being taken.
class Span {
 public:
  template <class Name>
  Span(Device& device, Track::Kind track, const Name& make_name) : device_(device), track_(track) {
    if (!device.timeline()) return;
    name_ = std::string(make_name());
    begin_ = device.now();
  }
  // A phase of that name, a literal.
  Span(Device& device, const char* phase) : Span(device, Track::phase, [&] { return phase; }) {
    phase_ = phase;
    device.phase(phase, true);
  }
  ~Span() {
    if (phase_) device_.phase(phase_, false);
    if (Timeline* t = device_.timeline(); t && !name_.empty()) t->add(track_, name_, begin_, device_.now());
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Device& device_;
  Track::Kind track_;
  std::string name_;
  double begin_ = 0;
  const char* phase_ = nullptr;
};

}  // namespace mbench
