// The launchers themselves: stand-ins that say what they were started with, in a folder that comes first in PATH.
#include <cstdlib>

#include "engine/point/outcome.h"
#include "sweeps/launch/probe.h"
#include "sweeps/run/failure.h"
#include "test/sweeps/fixture.h"

using namespace mbench;
using namespace mbench::process;
using namespace mbench::sweeps;
using namespace sweeps_test;
using Catch::Contains;

namespace {

// The environment of this process for as long as it lives.
class Variables {
 public:
  explicit Variables(std::map<std::string, std::string> values) {
    for (const auto& [name, value] : values) {
      const char* before = std::getenv(name.c_str());
      before_.emplace(name, before ? std::optional<std::string>(before) : std::nullopt);
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~Variables() {
    for (const auto& [name, value] : before_)
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

struct Cluster {
  Folder folder;
  void program(const std::string& name, const std::string& script) const {
    put(folder / name, "#!/bin/sh\n" + script);
    fs::permissions(folder / name, fs::perms::owner_all);
  }
  // srun of a Slurm that lists these types.
  void srun(const std::string& types, const std::string& otherwise = "exit 1") const {
    program("srun", "case \"$1\" in\n--version) echo 'slurm 22.05.8';;\n--mpi=list) printf '" + types + "' >&2;;\n*) " +
                        otherwise + ";;\nesac\n");
  }
  std::map<std::string, std::string> job(std::map<std::string, std::string> more = {}) const {
    more["PATH"] = folder.path.string() + ":" + std::getenv("PATH");
    more["SLURM_JOB_ID"] = "11";
    more["SLURM_JOB_NUM_NODES"] = "2";
    more["SLURM_TASKS_PER_NODE"] = "4(x2)";
    return more;
  }
};

LauncherOptions of_open_mpi(const std::string& name = "") {
  LauncherOptions o;
  o.name = name;
  o.mpi = "Open MPI v4.1.4";
  return o;
}

bool needs(const Launcher& l, const std::string& option) {
  return std::find(l.needed.begin(), l.needed.end(), option) != l.needed.end();
}

const char* kReported = R"({"hosts":[{"name":"h1","cpu":"A","cores":8,"memory_bytes":1024,"ranks":[0]},)"
                        R"({"name":"h2","cpu":"A","cores":4,"memory_bytes":512,"ranks":[1]}],)"
                        R"("variables":{"NCCL_DEBUG":"INFO"},"environment":{"host":"h1","cpu":"A","cores":8}})";

}  // namespace

TEST_CASE("inside a job of a stock Slurm srun is asked for what the MPI needs") {
  const Cluster cluster;
  cluster.srun("MPI plugin types are...\\n\\tnone\\n\\tpmi2\\n\\tpmix\\n");
  {
    const Variables job(cluster.job({{"SLURM_STEP_ID", ""}, {"SLURM_MPI_TYPE", ""}}));
    const Launcher l = find_launcher(of_open_mpi());
    CHECK(l.kind == LauncherKind::srun);
    CHECK(l.version == "slurm 22.05.8");
    CHECK(l.nodes == 2);
    CHECK(l.ranks_per_node == 4);
    CHECK(needs(l, "--mpi=pmix"));
    CHECK_FALSE(needs(l, "--overlap"));
    LauncherOptions mpich = of_open_mpi();
    mpich.mpi = "MPICH Version: 4.0.2";
    CHECK(needs(find_launcher(mpich), "--mpi=pmi2"));
  }
  // In a step of its own (srun --pty bash) the steps of points share its node.
  const Variables step(cluster.job({{"SLURM_STEP_ID", "0"}, {"SLURM_MPI_TYPE", "pmix_v4"}}));
  const Launcher l = find_launcher(of_open_mpi());
  CHECK(needs(l, "--overlap"));
  CHECK_FALSE(needs(l, "--mpi=pmix"));  // the user has chosen
}

TEST_CASE("where Slurm has no PMI for the MPI, mpirun starts the ranks, and srun is refused") {
  const Cluster cluster;
  cluster.srun("MPI plugin types are...\\n\\tnone\\n\\tpmi2\\n");
  const Variables job(cluster.job({{"SLURM_STEP_ID", ""}, {"SLURM_MPI_TYPE", ""}}));
  cluster.program("mpirun", "echo 'mpirun (Open MPI) 4.1.4'\n");
  const Launcher l = find_launcher(of_open_mpi());
  CHECK(l.kind == LauncherKind::mpirun);
  CHECK(l.allocated);
  CHECK(l.nodes == 2);
  CHECK(l.needed.empty());
  CHECK_THAT(message_of([] { find_launcher(of_open_mpi("srun")); }),
             Contains("[--launcher srun] Slurm has no PMI for Open MPI v4.1.4") && Contains("need --launcher mpirun"));
}

TEST_CASE("a PMI that Slurm lists and cannot load is none") {
  const Cluster cluster;
  cluster.srun("MPI plugin types are...\\n\\tnone\\n\\tpmix\\n",
               "case \"$*\" in *--test-only*) echo 'srun: error:  mpi/pmix_v4: init: can not load PMIx library';"
               "echo \"srun: error: Invalid MPI type 'pmix'\"; exit 1;; esac; exit 0");
  const Variables job(cluster.job({{"SLURM_STEP_ID", ""}, {"SLURM_MPI_TYPE", ""}}));
  cluster.program("mpirun", "echo 'mpirun (Open MPI) 4.1.4'\n");
  const Launcher l = find_launcher(of_open_mpi());
  CHECK(l.kind == LauncherKind::mpirun);
  CHECK(l.needed.empty());
  {
    const Variables step(cluster.job(
        {{"SLURM_STEP_ID", "0"}, {"SLURM_MPI_TYPE", ""}}));  // whose tasks are one, whatever the allocation has
    CHECK(needs(find_launcher(of_open_mpi()), "--oversubscribe"));
  }
  CHECK_THAT(
      message_of([] { find_launcher(of_open_mpi("srun")); }),
      Contains("Slurm's pmix for Open MPI v4.1.4 does not load, got \"srun: error:  mpi/pmix_v4: init: can not load") &&
          Contains("need --launcher mpirun"));
}

TEST_CASE("mpirun of another MPI is refused at the start, with what to use") {
  const Cluster cluster;
  cluster.program("mpirun", "echo 'mpirun (Open MPI) 4.1.4'\n");
  cluster.program("mpirun.mpich",
                  "printf 'HYDRA build details:\\n    Version:                                 4.0.2\\n'\n");
  const Variables path({{"PATH", cluster.folder.path.string() + ":" + std::getenv("PATH")}});
  LauncherOptions options;
  options.name = "mpirun";
  options.mpi = "MPICH Version:      4.0.2";
  options.mpiexec = "/usr/bin/mpiexec.hydra";
  CHECK_THAT(
      message_of([&] { find_launcher(options); }),
      Contains("starts programs of another MPI, got mpirun of Open MPI 4.1.4, this program is built with MPICH") &&
          Contains("need --launcher /usr/bin/mpiexec.hydra"));
  options.name = "mpirun.mpich";
  const Launcher l = find_launcher(options);
  CHECK(l.describe() == "mpirun.mpich (MPICH 4.0.2)");
  CHECK(l.flavour == MpiFlavour::mpich);
  options.mpi = "Open MPI v5.0.7";
  CHECK_THAT(message_of([&] { find_launcher(options); }),
             Contains("[--launcher mpirun.mpich] starts programs of another MPI"));
}

TEST_CASE("Open MPI is known by each name of its mpirun") {
  const Cluster cluster;
  cluster.program("mpiexec", "echo 'mpiexec (OpenRTE) 4.1.4'\n");  // as Open MPI 4 says where it is not called mpirun
  cluster.program("mpirun.openmpi", "echo 'mpirun.openmpi (OpenRTE) 4.1.4'\n");
  const Variables path({{"PATH", cluster.folder.path.string() + ":" + std::getenv("PATH")}});
  for (const char* name : {"mpiexec", "mpirun.openmpi"}) {
    const Launcher l = find_launcher(of_open_mpi(name));
    CHECK(l.flavour == MpiFlavour::open_mpi);
    CHECK(l.version == "Open MPI 4.1.4");
  }
  LauncherOptions mpich;
  mpich.name = "mpiexec";
  mpich.mpi = "MPICH Version:      4.0.2";
  CHECK_THAT(message_of([&] { find_launcher(mpich); }), Contains("starts programs of another MPI"));
}

TEST_CASE("the hosts are asked before a sweep, one rank on each") {
  const Cluster cluster;
  cluster.srun("\\tnone\\n\\tpmix\\n",
               "printf '%s\\n' \"$*\" > \"" + (cluster.folder / "argv") + "\"; echo '" + kReported + "'");
  const Variables job(cluster.job({{"SLURM_STEP_ID", ""}, {"SLURM_MPI_TYPE", ""}}));
  const Launcher l = find_launcher(of_open_mpi());
  const ReportedHosts reported = probe_hosts(l, "/opt/mbench", "cpu");
  REQUIRE(reported.hosts.size() == 2);
  CHECK(reported.variables.at("NCCL_DEBUG") == "INFO");
  CHECK(reported.environment.at("host") == "h1");
  CHECK(read_text_file(cluster.folder / "argv") ==
        "-n 2 -N 2 --ntasks-per-node=1 --kill-on-bad-exit=1 --export=ALL --cpu-bind=none --mpi=pmix /opt/mbench hosts "
        "--json --on cpu\n");
  const Launcher known = on_hosts(l, reported.hosts);
  CHECK(known.cores == 4);  // of the smaller one
  CHECK(known.memory_bytes == 512);
}

TEST_CASE("a launcher that cannot start ranks is said at once, with its own reason") {
  const Cluster cluster;
  cluster.srun(
      "\\tnone\\n\\tpmix\\n",
      "echo 'srun: error: Task launch for StepId=11.0 failed on node h1: Unable to layout tasks' >&2; exit 193");
  const Variables job(cluster.job({{"SLURM_STEP_ID", ""}, {"SLURM_MPI_TYPE", ""}}));
  const Launcher l = find_launcher(of_open_mpi());
  CHECK_THAT(message_of([&] { probe_hosts(l, "/opt/mbench", "cpu"); }),
             Contains("[srun] cannot start one rank on each of 2 nodes") &&
                 Contains("failed on node h1: Unable to layout tasks") && Contains("srun -n 2"));
  // mpirun of another MPI starts two jobs of one rank.
  cluster.srun("\\tnone\\n\\tpmix\\n",
               R"(echo '{"hosts":[{"name":"h1","ranks":[0]}],"variables":{},"environment":{}}')");
  CHECK_THAT(message_of([&] { probe_hosts(l, "/opt/mbench", "cpu"); }),
             Contains("starts jobs of 1 rank, need one of 2"));
}

TEST_CASE("what launchers say of a lost host is the reason, with the host") {
  Launcher l;
  l.kind = LauncherKind::mpirun;
  l.program = "mpirun";
  const auto reason = [&](int code, std::vector<std::string> tail, const std::string& progress,
                          const std::vector<Host>& hosts = {}) {
    ProcessEnd end;
    end.code = code;
    end.tail = std::move(tail);
    return explain_failure(end, l, progress, 60, hosts);
  };
  Host h1, h2;
  h1.name = "h1", h1.ranks = {0, 1};
  h2.name = "h2", h2.ranks = {2, 3};
  const Failure ssh = reason(
      1,
      {"ssh: connect to host h2 port 22: No route to host", "ORTE was unable to reliably start one or more daemons."},
      "");
  CHECK(ssh.outcome == Outcome::launch_failed);
  CHECK(ssh.reason == "ssh: connect to host h2 port 22: No route to host");
  const Failure node = reason(
      1, {"srun: error: Node failure on h2", "srun: Job step aborted: Waiting up to 32 seconds"}, "iteration 3 of 10");
  CHECK(node.outcome == Outcome::crashed);
  CHECK_THAT(node.reason, Contains("a host was lost: srun: error: Node failure on h2, after iteration 3 of 10"));
  CHECK_THAT(reason(1, {"srun: error: Application launch failed: Invalid node name specified"}, "").reason,
             Contains("Application launch failed: Invalid node name specified"));
  const Failure pmi = reason(1,
                             {"The application appears to have been direct launched using \"srun\",",
                              "but OMPI was not built with SLURM's PMI support and therefore cannot execute."},
                             "");
  CHECK(pmi.outcome == Outcome::launch_failed);
  CHECK_THAT(pmi.reason, Contains("OMPI was not built with SLURM's PMI support") && Contains("--launcher mpirun"));
  // Open MPI 5 breaks its sentence; the rank comes with its host.
  CHECK_THAT(
      reason(137, {"prterun noticed that process rank 3 with PID 4711 on node h2 exited on", "signal 9 (Killed)."},
             "iteration 3 of 10", {h1, h2})
          .reason,
      Contains("rank 3 on h2 killed by signal 9"));
}
