// From results to plots, by the declarations. A plot is drawn only where the data support it: lines need two values of x, samples four
// steps. More lines or bars than a reader can distinguish are not drawn either. A note reports what is left out for another reason than
// having no data.
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

// The plots of every declaration. Timelines are not made of results, so they are not among them.
BuiltPlots build_plots(const std::vector<PlotDeclaration>& declarations, const std::vector<const Record*>& records,
                       const std::vector<std::string>& swept);

}  // namespace mbench::reports
