// Catch2 under MPI: every rank runs the same test cases in the same order. Collective code runs on all ranks;
// what is checked, rank 0 checks. --layouts TEXT: of the table of layouts those alone whose names hold the text. --drawn COUNT and
// --seed SEED: of drawn layouts so many, of that seed. --record FILE: see "the rows of all layouts".
#include <cstdio>

#include "engine/comm/mpi/mpi_world.h"
#include "test/mpi/layouts.h"
#include "test/mpi/random_layouts.h"
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

namespace {

#if __has_include(<catch2/catch_session.hpp>)
using Listener = Catch::EventListenerBase;
using Taken = void;
#else
using Listener = Catch::TestEventListenerBase;
using Taken = bool;
#endif

// A rank that leaves a case before its end leaves the others in a collective for ever: it ends them all, and says why.
struct EndOfAll : Listener {
  using Listener::Listener;
  Taken assertionEnded(const Catch::AssertionStats& stats) override {
    const Catch::AssertionResult& result = stats.assertionResult;
    const bool leaves = result.getResultType() == Catch::ResultWas::ThrewException ||
                        !Catch::shouldContinueOnFailure(result.m_info.resultDisposition);
    if (!result.isOk() && leaves && result.getResultType() != Catch::ResultWas::FatalErrorCondition)
      why_ = static_cast<std::string>(result.getMessage()) + " " + result.getExpression();
    return Taken();
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    if (why_.empty()) return;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::fflush(stdout);
    std::fprintf(stderr, "[test_mpi] rank %d left \"%s\": %s\n", rank, std::string(stats.testInfo.name).c_str(),
                 why_.c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

 private:
  std::string why_;
};
CATCH_REGISTER_LISTENER(EndOfAll)

}  // namespace

int main(int argc, char** argv) {
  mbench::comm::MpiSession session;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0 && std::freopen("/dev/null", "w", stdout) == nullptr) return 1;
  Catch::Session tests;
#if __has_include(<catch2/catch_session.hpp>)
  namespace options = Catch::Clara;
#else
  namespace options = Catch::clara;
#endif
  std::string named, record;
  mbench::test::Drawn& drawn = mbench::test::drawn();
  tests.cli(tests.cli() | options::Opt(named, "text")["--layouts"]("layouts whose names hold this, alone") |
            options::Opt(record, "file")["--record"]("where \"the rows of all layouts\" writes them") |
            options::Opt(drawn.count, "count")["--drawn"]("so many drawn layouts") |
            options::Opt(drawn.seed, "seed")["--seed"]("the seed that layouts are drawn from"));
  int result = tests.applyCommandLine(argc, argv);
  mbench::test::choose_layouts(named);
  mbench::test::record_file() = record;
  if (result == 0) result = tests.run();
  int worst = 0;
  MPI_Allreduce(&result, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return worst;
}
