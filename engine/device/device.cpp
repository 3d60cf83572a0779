#include "engine/device/device.h"

namespace mbench {

void Device::copy(const Tensor& from, const Tensor& to) {
  check(from.numel() == to.numel() && from.dtype() == to.dtype(), "copy", "{} of {}, got {} of {}",
        from.shape(), name_of(from.dtype()), to.shape(), name_of(to.dtype()));
  if (from.bytes() == 0 || from.data() == to.data()) return;
  check(!overlap(from, to), "copy", "{} into memory that it overlaps, need it apart or the same",
        from.shape());
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

}  // namespace mbench
