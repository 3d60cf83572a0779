// A list of layouts, each trained on the ranks that it asks for, and compared with its serial run and with the memory that was forecast.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "test/mpi/layouts.h"
#include "test/mpi/trained.h"

namespace mbench::test {

struct Comparison {
  // What is wrong with a layout's training, empty if nothing. Called on one rank for each layout, in order.
  std::function<std::string(const Layout&, const Trained& serial, const Trained& mine)> training;
  // On whose host it is simulated.
  std::function<std::string(std::size_t number, const Point&)> framework;
  bool sent = false;  // what is sent is compared too
  // Layouts that are trained twice, and must give the same bits.
  std::function<bool(const Layout&)> again = [](const Layout&) { return false; };
};

// Collective over the job. All that is wrong with the layouts, on the first rank; empty on the others.
std::string wrong_layouts(const std::vector<Layout>& layouts, const Comparison& comparison);

// Collective over the job: all ranks' texts on the first, one after the other.
std::string joined(const std::string& mine);

}  // namespace mbench::test
