// Catch2 under MPI: every rank runs the same test cases in the same order. Collective code runs on all ranks;
// what is checked, rank 0 checks. --layouts TEXT: of the table of layouts those alone whose names hold the text.
#include <cstdio>

#include "engine/comm/mpi/mpi_world.h"
#include "test/mpi/layouts.h"
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

int main(int argc, char** argv) {
  mbench::MpiSession session;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0 && std::freopen("/dev/null", "w", stdout) == nullptr) return 1;
  Catch::Session tests;
#if __has_include(<catch2/catch_session.hpp>)
  namespace options = Catch::Clara;
#else
  namespace options = Catch::clara;
#endif
  std::string named;
  tests.cli(tests.cli() | options::Opt(named, "text")["--layouts"]("layouts whose names hold this, alone"));
  int result = tests.applyCommandLine(argc, argv);
  mbench::test::choose_layouts(named);
  if (result == 0) result = tests.run();
  int worst = 0;
  MPI_Allreduce(&result, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return worst;
}
