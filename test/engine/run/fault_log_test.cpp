// The faults of a run's devices: which rank's, and when they were seen.
#include "engine/run/fault_log.h"

#include "engine/platform/registry.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::comm;
using namespace mbench::platform;

namespace {

// A device that counts three uncorrected errors, and reports an Xid with each reading but the first.
class Failing final : public DeviceWatch {
 public:
  DeviceSignature read() override {
    if (reads_++ > 0) mine_.xids.push_back(78 + reads_);
    mine_.ecc_uncorrected = 3;
    return mine_;
  }

 private:
  int reads_ = 0;
  DeviceSignature mine_;
};

}  // namespace

TEST_CASE("faults: each has its rank and time, and what was there before the run is none") {
  run_replicas(3, [](World& world) {
    const auto device = open_device("cpu", 0);
    const auto all = world.group(*device, "all", {0, 1, 2});
    FaultLog log(world.rank() == 1 ? std::make_unique<Failing>() : nullptr);
    CHECK(log.of_all(*all).empty());
    log.look(90);
    log.look(4800);
    CHECK(log.of_all(*all) == "Xid 80 on rank 1 after 1 min 30 s; Xid 81 on rank 1 after 1 h 20 min");
    for (int i = 0; i < 8; ++i) log.look(4800);
    CHECK(log.of_all(*all).ends_with("; 2 more"));
  });
}
