// The check of a machine before a sweep: starts `mbench check` on the ranks that it will use.
#pragma once
#include <string>
#include <vector>

#include "engine/plan/mesh.h"
#include "health/figures.h"
#include "sweeps/launch/launcher.h"

namespace mbench::process {
class Interrupt;
}
namespace mbench::sweeps {
struct SpecPoint;
}

namespace mbench::cli {

struct CheckRequest {
  std::string device = "cpu";
  int ranks = 1;
  std::vector<Mesh> meshes;  // whose axes are measured
  std::int64_t largest = 0;  // bytes of collectives; 0: the default of the device
  int repeat = 1;
  double timeout_s = 600;
  bool quiet = false;
};
// Throws launch_failed or timed_out, with the reason, where the ranks report nothing.
health::Health check_ranks(const CheckRequest& request, const sweeps::Launcher& launcher,
                           process::Interrupt* interrupt);

// The meshes of points that run on ranks, each once. Impossible points give none.
std::vector<Mesh> meshes_of(const std::vector<Point>& points);
// Asks for the ranks of the largest point and for the axes of all of them.
void cover(CheckRequest& request, const std::vector<sweeps::SpecPoint>& points);

// "10%" or "0.1"; throws bad_input at `where` for what is no share from 0 to 1.
double read_tolerance(const std::string& text, const std::string& where);

}  // namespace mbench::cli
