// The faults that the devices of a run report while it is measured: NVIDIA's Xids, and counters of errors that grow.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/group.h"
#include "engine/device/signature.h"

namespace mbench {

class FaultLog {
 public:
  // Null `watch`: this rank's device reports none.
  explicit FaultLog(std::unique_ptr<DeviceWatch> watch);
  // Reads the device; `seconds`: since the first measured step began, by which a fault's time is known.
  void look(double seconds);
  // "Xid 79 on rank 3 after 1 h 20 min", over all ranks; empty where there was none. All ranks of `all` call it.
  std::string of_all(comm::Group& all) const;

 private:
  struct Fault {
    std::string what;
    double seconds;  // at which it was seen first
  };
  std::unique_ptr<DeviceWatch> watch_;
  DeviceSignature last_;
  std::vector<Fault> faults_;
};

}  // namespace mbench
