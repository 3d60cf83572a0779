#include "engine/device/device.h"

namespace mbench {

void Device::copy(const Tensor& from, const Tensor& to) {
  check(from.numel() == to.numel() && from.dtype() == to.dtype(), "copy", "{} of {}, got {} of {}", from.shape(),
        name_of(from.dtype()), to.shape(), name_of(to.dtype()));
  if (from.bytes() == 0 || from.data() == to.data()) return;
  check(!overlap(from, to), "copy", "{} into memory that it overlaps, need separate memory or the same", from.shape());
  if (!enqueues_) return;
  if (recording_) recording_->add([this, from, to] { perform_copy(from, to); });
  perform_copy(from, to);
}

void Device::perform_copy(const Tensor& from, const Tensor& to) {
  meter_.charge({0, 2 * static_cast<double>(from.bytes())});
  if (immediate()) {
    const double begin = now();
    do_copy(from, to);
    const double end = now();
    at(meter_.seconds, TimePart::copies) += end - begin;
    if (timeline_) timeline_->add(Track::compute, "copy", begin, end);
    return;
  }
  do_copy(from, to);
}

Device& Device::host() {
  if (!host_) {
    host_ = open_host();
    host_->trace(timeline_);
  }
  return *host_;
}

std::unique_ptr<Device> Device::open_host() {
  fail(ErrorKind::unsupported, "device", "{} keeps nothing in host memory, need offload none", name());
}

std::unique_ptr<HostCopy> Device::do_start_copy(CopyWay, const Tensor&, const Tensor&) {
  fail(ErrorKind::internal, "device", "{} has no copies to a host", name());
}

std::unique_ptr<HostCopy> Device::start_copy(CopyWay way, const Tensor& from, const Tensor& to) {
  check(from.numel() == to.numel() && from.dtype() == to.dtype(), "copy", "{} of {}, got {} of {}", from.shape(),
        name_of(from.dtype()), to.shape(), name_of(to.dtype()));
  meter_.host_copy_bytes += static_cast<double>(from.bytes());
  if (!immediate()) return do_start_copy(way, from, to);
  const double begin = now();
  auto copy = do_start_copy(way, from, to);
  const double end = now();
  at(meter_.seconds, TimePart::copies) += end - begin;
  if (timeline_) timeline_->add({Track::copies, name_of(way)}, "copy", begin, end);
  return copy;
}

Meter Device::total_meter() const {
  Meter all = meter_;
  if (host_) all.add(host_->total_meter());
  return all;
}

void Device::reset_meters() {
  meter_.reset();
  if (host_) host_->reset_meters();
}

void Device::unenqueued(const std::function<void()>& work) {
  check(enqueues_ && !recording_, "record", "work that is not enqueued within other such work, or within a recording");
  struct Flag {
    bool& enqueues;
    ~Flag() { enqueues = true; }
  } const flag{enqueues_};
  enqueues_ = false;
  work();
}

std::unique_ptr<RecordedStep> Device::record(const std::function<void()>& step) {
  check(!recording_, "record", "a step within one that is recorded");
  auto list = std::make_unique<CallList>();
  struct Flag {
    CallList*& list;
    ~Flag() { list = nullptr; }
  } const flag{recording_};
  recording_ = list.get();
  step();
  return list;
}

}  // namespace mbench
