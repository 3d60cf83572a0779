// Draws plots by running gnuplot, which is searched for only when needed. Without it there are no plots, and the notes say what to
// install. No shell is involved, and gnuplot's own start-up files are not read.
#pragma once
#include <string>
#include <vector>

#include "reports/plots/plot.h"

namespace mbench::process {
class Interrupt;
}

namespace mbench::reports {

struct Drawing {
  std::vector<std::string> svg;    // of each plot, in order; empty if none could be drawn
  std::vector<std::string> notes;  // one line each: what went wrong, and what to do
};

// For a page: without colours of its own for text and grid (see plot_script.h).
Drawing draw_inline(const std::vector<Plot>& plots, const std::string& program = "gnuplot");

struct PlotFiles {
  std::vector<std::string> names;  // in the folder: of each plot an .svg and a .png
  std::vector<std::string> notes;
};

// Makes the folder if it is not there. Throws bad_input if it cannot be written. An interrupt ends the drawing.
PlotFiles write_plots(const std::vector<Plot>& plots, const std::string& folder, const std::string& program = "gnuplot",
                      process::Interrupt* interrupt = nullptr);

// Draws one plot into a file whose ending names the kind: svg, png or pdf. Throws bad_input at `where` for another ending and if it
// could not be drawn.
void draw_file(const Plot& plot, const std::string& file, const std::string& where,
               const std::string& program = "gnuplot");

}  // namespace mbench::reports
