// Groups over MPI. Tensors must be host memory.
#pragma once
#include <mpi.h>

#include <deque>

#include "engine/comm/group.h"
#include "engine/comm/mail.h"
#include "engine/comm/mpi/mpi_session.h"
#include "engine/comm/pulse.h"

namespace mbench::comm {

class MpiWorld final : public World, public Mail {
 public:
  // All ranks of the job.
  MpiWorld();
  // The first `size` ranks of the job; the others get a world they are not part of (member() is false).
  // Collective.
  explicit MpiWorld(int size);
  ~MpiWorld() override;
  bool member() const { return comm_ != MPI_COMM_NULL; }
  // Groups that are made from now on report to it what communication they are in. It outlives them.
  void tell(Pulse* pulse) { pulse_ = pulse; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Group> group(Device& device, const GroupName& name, const std::vector<int>& members) override;
  void post(int to, int kind, std::span<const std::byte> letter) override;
  std::optional<std::vector<std::byte>> collect(int from, int kind) override;

 private:
  struct Letter {
    std::vector<std::byte> bytes;
    MPI_Request sending;
  };
  void forget_arrived();

  std::deque<Letter> posted_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  Pulse* pulse_ = nullptr;
  int rank_ = 0, size_ = 0;
};

}  // namespace mbench::comm
