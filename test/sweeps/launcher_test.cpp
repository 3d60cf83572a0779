#include "sweeps/launch/launcher.h"

#include "engine/point/outcome.h"
#include "sweeps/run/failure.h"
#include "test/sweeps/fixture.h"

using namespace mbench;
using namespace mbench::process;
using namespace mbench::sweeps;
using namespace sweeps_test;
using Catch::Contains;

namespace {

Point point_of_world(std::int64_t tp, std::int64_t dp = 1) {
  Point p;
  p.model = find_preset("gpt-bytes-tiny", "test");
  p.tp = tp, p.dp = dp;
  return p;
}

Launcher open_mpi() {
  Launcher l;
  l.kind = LauncherKind::mpirun;
  l.program = "mpirun";
  l.cores = 4;
  return l;
}

ProcessEnd ended(int code, std::vector<std::string> tail) {
  ProcessEnd end;
  end.code = code;
  end.tail = std::move(tail);
  return end;
}

}  // namespace

TEST_CASE(
    "ranks share the cores; they sleep as they wait where there are more of them, and look before where others may be "
    "there") {
  const Command two = command_for(open_mpi(), point_of_world(2), {"mbench", "run"});
  CHECK(two.env.at("OMP_NUM_THREADS") == "2");
  CHECK(two.env.at("OPENBLAS_NUM_THREADS") == "2");
  CHECK(two.env.at("OMP_PROC_BIND") == "false");
  CHECK(two.env.at("GOMP_SPINCOUNT") == "1000");
  CHECK_FALSE(two.env.contains("OMP_WAIT_POLICY"));
  Point active = point_of_world(2);
  active.env["OMP_WAIT_POLICY"] = "active";
  const Command asked = command_for(open_mpi(), active, {"mbench", "run"});
  CHECK(asked.env.at("OMP_WAIT_POLICY") == "active");
  CHECK_FALSE(asked.env.contains("GOMP_SPINCOUNT"));  // it would win over the policy
  Launcher own = open_mpi();
  own.allocated = true;  // by a batch system: nobody else is there
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"})
    CHECK_FALSE(command_for(own, point_of_world(2), {"mbench", "run"}).env.contains(name));
  CHECK(command_for(own, point_of_world(8), {"mbench", "run"}).env.at("OMP_WAIT_POLICY") == "passive");
  CHECK(shell_text(two).find("mpi_yield_when_idle") == std::string::npos);
  const Command eight = command_for(open_mpi(), point_of_world(4, 2), {"mbench", "run"});
  CHECK(eight.env.at("OMP_NUM_THREADS") == "1");
  CHECK(eight.env.at("OMP_WAIT_POLICY") == "passive");
  CHECK_THAT(shell_text(eight), Contains("mpirun -np 8 --bind-to none --oversubscribe --mca mpi_yield_when_idle 1") &&
                                    Contains("-x OMP_NUM_THREADS") && Contains(" mbench run"));
  CHECK(eight.argv.back() == "run");
}

TEST_CASE("the point's env wins and reaches the ranks") {
  Point p = point_of_world(1);
  p.env = {{"OMP_NUM_THREADS", "7"}, {"NCCL_P2P_DISABLE", "1"}, {"QUOTED", "it's"}};
  const Command command = command_for(open_mpi(), p, {"mbench"});
  CHECK(command.env.at("OMP_NUM_THREADS") == "7");
  CHECK_THAT(shell_text(command), Contains("-x NCCL_P2P_DISABLE") && Contains("QUOTED='it'\\''s'"));
}

TEST_CASE("each launcher has its own options") {
  Launcher l = open_mpi();
  l.root = true;
  CHECK_THAT(shell_text(command_for(l, point_of_world(1), {"m"})), Contains("--allow-run-as-root"));
  l.allocated = true;
  CHECK(shell_text(command_for(l, point_of_world(1), {"m"})).find("--oversubscribe") == std::string::npos);
  l.flavour = MpiFlavour::mpich;
  CHECK_THAT(shell_text(command_for(l, point_of_world(2), {"m"})),
             Contains("mpirun -n 2 -genv OMP_NUM_THREADS 2") && Contains("-genv OPENBLAS_NUM_THREADS 2 m"));
  l.kind = LauncherKind::srun;
  l.program = "srun";
  l.nodes = 2;
  const Command slurm = command_for(l, point_of_world(4), {"m"});
  CHECK_THAT(shell_text(slurm), Contains("srun -n 4 -N 1 --ntasks-per-node=4 --kill-on-bad-exit=1 --export=ALL m"));
  CHECK(slurm.env.at("OMP_NUM_THREADS") == "1");  // nodes of 4 cores: one is enough
  CHECK(command_for(local_launcher(), point_of_world(1), {"m", "x"}).argv == std::vector<std::string>{"m", "x"});
  CHECK_THAT(message_of([] { command_for(local_launcher(), point_of_world(2), {"m"}); }),
             Contains("[local] starts one rank, got 2, need --launcher mpirun or srun"));
  CHECK_THAT(message_of([] { command_for(open_mpi(), point_of_world(129), {"m"}); }),
             Contains("[mpirun] 129 ranks on 4 cores, need at most 32 a core"));
  CHECK_THAT(message_of([] { read_launcher("mpiru", "--launcher"); }), Contains("did you mean \"mpirun\"?"));
}

TEST_CASE("this machine's mpirun tells its version") {
  LauncherOptions options;
  options.name = "mpirun";
  const Launcher l = find_launcher(options);
  CHECK(l.cores >= 1);
  CHECK_THAT(l.describe(), Contains("mpirun (Open MPI ") || Contains("mpirun (MPICH "));
}

TEST_CASE("what launchers print about a lost rank becomes one line") {
  const std::vector<std::string> killed = {
      "loss was fine until here",
      "--------------------------------------------------------------------------",
      "Primary job  terminated normally, but 1 process returned",
      "a non-zero exit code. Per user-direction, the job has been aborted.",
      "--------------------------------------------------------------------------",
      "mpirun noticed that process rank 1 with PID 0 on node host exited on signal 9 (Killed)."};
  const Failure f = explain_failure(ended(137, killed), open_mpi(), "iteration 3 of 10", 60);
  CHECK(f.outcome == Outcome::crashed);
  CHECK(f.reason ==
        "rank 1 killed by signal 9 (Killed), which is also how the kernel ends what fills the memory, after "
        "iteration 3 "
        "of 10; last output: loss was fine until here");
  CHECK_THAT(
      explain_failure(ended(7, {"boom", "  Process name: [[42,1],1]", "  Exit code:    7"}), open_mpi(), "", 60).reason,
      Contains("rank 1 exited with code 7, before its first sign of life; last output: boom"));
  CHECK_THAT(explain_failure(ended(3, {"mbench: [rank 1] NaN", "MPI_ABORT was invoked on rank 1 in communicator X",
                                       "with errorcode 3."}),
                             open_mpi(), "init", 60)
                 .reason,
             Contains("rank 1 called MPI_Abort, after init; last output: [rank 1] NaN"));
  CHECK_THAT(explain_failure(
                 ended(9, {"=   EXIT CODE: 9", "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)"}),
                 open_mpi(), "init", 60)
                 .reason,
             Contains("a rank was killed by signal 9"));
  CHECK_THAT(
      explain_failure(ended(139, {"srun: error: node3: task 1: Segmentation fault"}), open_mpi(), "init", 60).reason,
      Contains("rank 1: Segmentation fault"));
  // Of ranks that never spoke, what their launcher has said.
  ProcessEnd given_up = ended(0, {"*** An error occurred in MPI_Init_thread",
                                  "[h1:7] Local abort before MPI_INIT completed completed successfully"});
  given_up.how = ProcessEnd::How::given_up;
  given_up.why = "no rank came up within 6 min 00 s of the launch";
  CHECK_THAT(
      explain_failure(given_up, open_mpi(), "", 600).reason,
      Contains("no rank came up within 6 min 00 s of the launch, before its first sign of life; last output: ") &&
          Contains("Local abort before MPI_INIT"));
  CHECK_THAT(explain_failure(given_up, open_mpi(), "iteration 3 of 10", 600).reason, !Contains("last output"));
  CHECK_THAT(explain_failure(ended(139, {}), open_mpi(), "init", 60).reason,
             Contains("killed by signal 11 (Segmentation fault)"));
  CHECK_THAT(explain_failure(ended(0, {}), open_mpi(), "", 60).reason, Contains("ended without a result"));
}

TEST_CASE("what cannot be launched is told apart from what crashed") {
  const std::vector<std::string> slots = {"--------------------------------------------------------------------------",
                                          "There are not enough slots available in the system to satisfy the 20",
                                          "slots that were requested by the application:",
                                          "",
                                          "  true",
                                          "",
                                          "Either request fewer slots for your application, or make more slots"};
  const Failure f = explain_failure(ended(1, slots), open_mpi(), "", 60);
  CHECK(f.outcome == Outcome::launch_failed);
  CHECK(f.reason ==
        "There are not enough slots available in the system to satisfy the 20 slots that were requested by "
        "the application: true");
  CHECK(explain_failure(
            ended(1, {"srun: error: Unable to create step for job 5: More processors requested than permitted"}),
            open_mpi(), "", 60)
            .outcome == Outcome::launch_failed);
  // Once a rank has spoken, it was launched.
  CHECK(explain_failure(ended(1, slots), open_mpi(), "init", 60).outcome == Outcome::crashed);
  ProcessEnd end;
  end.how = ProcessEnd::How::not_started;
  end.code = ENOENT;
  CHECK(explain_failure(end, open_mpi(), "", 60).outcome == Outcome::launch_failed);
  CHECK(explain_failure(end, open_mpi(), "", 60).reason == "mpirun could not be started: No such file or directory");
  end.how = ProcessEnd::How::timed_out;
  CHECK(explain_failure(end, open_mpi(), "warmup 1 of 2", 90).outcome == Outcome::timeout);
  CHECK(explain_failure(end, open_mpi(), "warmup 1 of 2", 90).reason ==
        "killed by the time-out of 1 min 30 s, after warmup 1 of 2");
}
