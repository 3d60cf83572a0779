#include "api/prepare_search.h"

#include <set>

#include "engine/point/result_file.h"
#include "reports/tables/report.h"

namespace mbench::api {

PreparedSearch prepare_search(const search::SpaceOptions& options, const std::string& margin, PointSimulator& simulator,
                              sim::Recordings& recordings) {
  search::Space space = search::read_space(options);
  simulator.check(space.base);
  space.can = framework_of(space.base.framework)->can;
  reports::check_tables(space.file);
  const sim::Machine& machine = simulator.machine_of(space.base);
  const MemoryMargin free = memory_margin(margin, space.base, machine);
  const search::SearchTarget place{machine, sim::parse_simulated(space.base.device, "device").count, &recordings,
                                   free.mib};
  return {std::move(space), free, place};
}

ResultFile result_file_of(const search::Space& space, const search::SearchEnd& end, const sim::Machine& machine) {
  ResultFile file;
  file.spec = space.file;
  if (!file.spec.contains("tables")) file.spec["tables"] = {"layouts", "layout-time", "memory"};
  std::set<std::string> seen;
  for (const auto* layouts : {&end.best, &end.front})
    for (const search::Tried& t : *layouts)
      if (seen.insert(t.result.id).second) file.points.push_back(t.result);
  for (PointResult& p : file.points) add_interval(p, machine);
  return file;
}

}  // namespace mbench::api
