#include "test/mpi/trained.h"

#include <fmt/format.h>
#include <mpi.h>

#include "engine/base/error.h"
#include "engine/comm/gather.h"
#include "engine/train/data.h"
#include "engine/train/trainer.h"
#include "test/mpi/layout_run.h"

namespace mbench::test {
namespace {

bool same_use(const MemoryUse& a, const MemoryUse& b) {
  return a.total == b.total && a.by_category == b.by_category;
}

struct OfRank {
  RankMemory memory;
  bool grew = false;
  ByAxis sent{};
};

Trained train(const Point& point, comm::World& world) {
  const Plan plan = strategies::make_plan(point);
  const auto data = train::open_data(point.data, point.model.vocab, point.seq, point.seed);
  const auto device = platform::open_device("cpu", 0);
  train::Trainer trainer(plan, *device, world, data.get());
  const Device* host = device->opened_host();
  const auto raw = [&] { return device->memory().raw_allocations() + (host ? host->memory().raw_allocations() : 0); };
  Trained trained;
  trained.steps = static_cast<std::size_t>(point.iterations);
  check(trained.steps >= 3 && trained.steps <= kMostSteps, "test", "{} steps, need 3 to {}", trained.steps, kMostSteps);
  std::uint64_t raw_after_second = 0;
  OfRank mine;
  for (std::size_t i = 0; i < trained.steps; ++i) {
    if (i == 2) raw_after_second = raw();
    const Meter before = device->total_meter();
    const train::StepResult step = trainer.step();
    if (i == 2) mine.sent = device->total_meter().since(before).communication_bytes;
    trained.losses[i] = trainer.mean_loss();
    trained.norms[i] = step.gradient_norm;
    trained.skipped += step.skipped;
  }
  mine.memory = {device->memory().peak(), {}, device->memory().reserved(), 0};
  mine.grew = raw() != raw_after_second;
  if (host) mine.memory.host = host->memory().peak(), mine.memory.host_reserved = host->memory().reserved();
  std::size_t rank = 0;
  for (const OfRank& of : comm::gather_all(trainer.all_ranks(), mine)) {
    trained.memory[rank] = of.memory, trained.sent[rank++] = of.sent;
    trained.grew = trained.grew || of.grew;
  }
  return trained;
}

}  // namespace

bool same(const RankMemory& a, const RankMemory& b) {
  return same_use(a.peak, b.peak) && same_use(a.host, b.host) && a.reserved == b.reserved &&
         a.host_reserved == b.host_reserved;
}

std::string str(const RankMemory& m) {
  std::string text = fmt::format("{} of {} reserved", m.peak.total, m.reserved);
  for (int c = 0; c < kCategories; ++c)
    if (const std::size_t bytes = m.peak.by_category[static_cast<std::size_t>(c)])
      text += fmt::format(", {} {}", name_of(static_cast<Category>(c)), bytes);
  return m.host.total == 0 ? text : text + fmt::format(", host {} of {}", m.host.total, m.host_reserved);
}

Trained train_alone(const Point& point) {
  Trained trained;
  platform::run_replicas(1, [&](comm::World& world) { trained = train(point, world); });
  return trained;
}

Trained train_together(const Point& point) {
  Trained trained;
  meet_asleep();
  {
    comm::MpiWorld processes(static_cast<int>(processes_of(point)));
    if (processes.member()) {
      if (point.replicas == Replicas::single_process)
        platform::run_replicas(static_cast<int>(point.world()), [&](comm::World& threads) {
          const Trained mine = train(point, threads);
          if (threads.rank() == 0) trained = mine;
        });
      else
        trained = train(point, processes);
    }
  }
  meet_asleep();
  MPI_Bcast(&trained, sizeof trained, MPI_BYTE, 0, MPI_COMM_WORLD);
  return trained;
}

}  // namespace mbench::test
