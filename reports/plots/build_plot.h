// From results to plots, by the declarations. A plot is drawn only where the data supports it: lines need two
// values of x, samples four steps, and neither more lines nor more bars than can be told apart. What is left
// out for another reason than having no data is said in a note.
#pragma once
#include <string>
#include <vector>

#include "reports/plots/plot.h"
#include "reports/plots/plot_declaration.h"
#include "reports/records/record.h"

namespace mbench::reports {

struct BuiltPlots {
  std::vector<Plot> plots;
  std::vector<std::string> notes;
};

// Every declaration's plots; timelines are not made of results and not among them.
BuiltPlots build_plots(const std::vector<PlotDeclaration>& declarations, const std::vector<const Record*>& records,
                       const std::vector<std::string>& swept);

}  // namespace mbench::reports
