#include "engine/comm/sim/sim_world.h"

#include <algorithm>

namespace mbench {
namespace {

class DonePending final : public Pending {
 public:
  void wait() override {}
};

class SimGroup final : public Group {
 public:
  using Group::Group;
  double host_max(double value) override { return value; }
  std::vector<double> host_gather(const std::vector<double>& values) override {
    std::vector<double> all;
    for (int i = 0; i < size(); ++i) all.insert(all.end(), values.begin(), values.end());
    return all;
  }

 protected:
  void do_all_reduce(const Tensor&, ReduceOp) override {}
  std::unique_ptr<Pending> do_start_all_reduce(const Tensor&) override {
    return std::make_unique<DonePending>();
  }
  void do_all_gather(const Tensor&, const Tensor&) override {}
  void do_reduce_scatter(const Tensor&, const Tensor&) override {}
  void do_broadcast(const Tensor&, int) override {}
  std::unique_ptr<Pending> do_start_send(const Tensor&, int, int) override {
    return std::make_unique<DonePending>();
  }
  void do_receive(const Tensor&, int, int) override {}
  void do_barrier() override {}
};

}  // namespace

std::unique_ptr<Group> SimWorld::group(Device& device, const std::string& name,
                                       const std::vector<int>& members) {
  const auto me = std::find(members.begin(), members.end(), rank_);
  check(me != members.end(), "sim", "rank {} is not a member of group {}", rank_, name);
  return std::make_unique<SimGroup>(device, name, static_cast<int>(me - members.begin()),
                                    static_cast<int>(members.size()));
}

}  // namespace mbench
