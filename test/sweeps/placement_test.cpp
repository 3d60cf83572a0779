// Where ranks go: what batch systems and host files say, and what launchers are told.
#include <filesystem>

#include "sweeps/launch/allocation.h"
#include "sweeps/launch/host_lines.h"
#include "sweeps/launch/launcher.h"
#include "test/sweeps/fixture.h"

using namespace mbench;
using namespace mbench::sweeps;
using namespace sweeps_test;
using Catch::Contains;

namespace {

Point point_of(std::int64_t ranks, std::int64_t per_node = 0) {
  Point p;
  p.model = find_preset("gpt-bytes-tiny", "test");
  p.dp = ranks;
  p.global_batch = ranks;
  p.ranks_per_node = per_node;
  return p;
}

// Two nodes of 8 cores, 4 ranks each by the batch system.
Launcher two_nodes(LauncherKind kind, MpiFlavour flavour = MpiFlavour::open_mpi) {
  Launcher l;
  l.kind = kind;
  l.flavour = flavour;
  l.program = name_of(kind);
  l.cores = 8;
  l.nodes = 2;
  l.ranks_per_node = 4;
  l.allocated = true;
  return l;
}

std::string text_of(const Launcher& l, const Point& p) {
  return shell_text(command_for(l, p, {"m"}));
}

Allocation allocation_of(std::map<std::string, std::string> env, const std::string& hostfile = "") {
  return find_allocation(hostfile, [&](const char* name) -> const char* {
    const auto at = env.find(name);
    return at == env.end() ? nullptr : at->second.c_str();
  });
}

}  // namespace

TEST_CASE("host files of Open MPI, MPICH, PBS and Grid Engine are read") {
  using Nodes = std::vector<NodeSlots>;
  CHECK(read_hostfile("# a comment\nh1 slots=2\nh2 slots=4 # two sockets\n\n", "f") == Nodes{{"h1", 2}, {"h2", 4}});
  CHECK(read_hostfile("h1:2\nh2:2", "f") == Nodes{{"h1", 2}, {"h2", 2}});
  CHECK(read_hostfile("h1\nh1\nh2\nh2\n", "f") == Nodes{{"h1", 2}, {"h2", 2}});
  CHECK(read_hostfile("h1 4 all.q@h1 UNDEFINED\nh2 4 all.q@h2 UNDEFINED\n", "f") == Nodes{{"h1", 4}, {"h2", 4}});
  CHECK(read_hostfile("h1\nh2\n", "f") == Nodes{{"h1", 0}, {"h2", 0}});  // as many as there is room for
  CHECK_THAT(message_of([] { read_hostfile("h1\nslots=2\n", "hosts.txt"); }),
             Contains("[hosts.txt] line 2 names no host, got \"slots=2\""));
  CHECK_THAT(message_of([] { read_hostfile("h1:two\n", "f"); }), Contains("line 1 names no host"));
  CHECK(read_hostfile("fd00::12\n10.0.0.1:4\n", "f") == Nodes{{"fd00::12", 0}, {"10.0.0.1", 4}});
  CHECK(read_hostfile("h1 slots=2 max_slots=4\n", "f") == Nodes{{"h1", 2}});
  CHECK(read_hostfile("h1 slots = 2 max_slots= 4\r\nh2 slots =3\n", "f") == Nodes{{"h1", 2}, {"h2", 3}});
}

TEST_CASE("a file that is no host file is refused by its line") {
  const auto refused = [](const char* text) { return message_of([=] { read_hostfile(text, "inventory"); }); };
  CHECK_THAT(refused("[gpus]\nh1\n"), Contains("[inventory] line 1 names no host, got \"[gpus]\""));
  CHECK_THAT(refused("h1\nh2 ansible_host=10.0.0.2\n"),
             Contains("line 2 names no host, got \"h2 ansible_host=10.0.0.2\""));
  CHECK_THAT(refused("all:\n  hosts:\n"), Contains("line 1 names no host"));
  CHECK_THAT(refused("{\"hosts\": [\"h1\"]}"), Contains("line 1 names no host"));
  CHECK_THAT(refused("h1 and h2\n"), Contains("line 1 names no host"));
  CHECK_THAT(refused("h1 slots\n"), Contains("line 1 names no host"));
  CHECK_THAT(refused("h1\nh2 slots = 0\n"), Contains("line 2 leaves no room for a rank, got \"h2 slots = 0\""));
  CHECK_THAT(refused("h1:0\n"), Contains("line 1 leaves no room for a rank"));
}

TEST_CASE("a launcher is given the host file in its own words") {
  CHECK(reads_host_lines("# all\nh1 slots=2\nh2\n\n", MpiFlavour::open_mpi));
  CHECK_FALSE(reads_host_lines("h1\nh2:2\n", MpiFlavour::open_mpi));
  CHECK_FALSE(reads_host_lines("h1 4 all.q@h1 UNDEFINED\n", MpiFlavour::open_mpi));
  CHECK(reads_host_lines("h1:2\nh2", MpiFlavour::mpich));
  CHECK_FALSE(reads_host_lines("h1 slots=2\n", MpiFlavour::mpich));
  CHECK(host_lines({{"h1", 2}, {"h2", 0}}, MpiFlavour::open_mpi) == "h1 slots=2\nh2\n");
  CHECK(host_lines({{"h1", 2}, {"h2", 0}}, MpiFlavour::mpich) == "h1:2\nh2\n");
  const Folder folder;
  put(folder / "hosts", "h1:2\nh2:2\n");
  std::string own;
  {
    Launcher launcher;
    launcher.hostfile = folder / "hosts";
    put_hosts_in_own_words(launcher);
    own = launcher.hostfile;
    CHECK(own != folder / "hosts");
    CHECK(read_text_file(own) == "h1 slots=2\nh2 slots=2\n");
  }
  CHECK_FALSE(std::filesystem::exists(own));
  Launcher hydra;
  hydra.flavour = MpiFlavour::mpich, hydra.hostfile = folder / "hosts";
  put_hosts_in_own_words(hydra);
  CHECK(hydra.hostfile == folder / "hosts");
}

TEST_CASE("Slurm's tasks of each node are read") {
  CHECK(read_tasks_per_node("2(x3),1") == std::vector<int>{2, 2, 2, 1});
  CHECK(read_tasks_per_node("8") == std::vector<int>{8});
  CHECK(read_tasks_per_node("2(x") == std::vector<int>{});
  CHECK(read_tasks_per_node("-1") == std::vector<int>{});
}

TEST_CASE("a batch system or a host file says how many nodes there are") {
  const Folder folder;
  put(folder / "nodes", "h1\nh1\nh2\nh2\n");
  put(folder / "one-each", "h1\nh2\n");
  CHECK(allocation_of({}).source.empty());
  const Allocation slurm =
      allocation_of({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_TASKS_PER_NODE", "4(x2)"}});
  CHECK(slurm.nodes == 2);
  CHECK(slurm.ranks_per_node == 4);
  CHECK(slurm.hostfile.empty());  // every launcher knows Slurm
  const Allocation pbs = allocation_of({{"PBS_NODEFILE", folder / "nodes"}});
  CHECK(pbs.source == "PBS");
  CHECK(pbs.nodes == 2);
  CHECK(pbs.ranks_per_node == 2);
  CHECK(pbs.hostfile == folder / "nodes");
  CHECK(allocation_of({{"PBS_NODEFILE", folder / "one-each"}}).ranks_per_node == 1);
  CHECK(allocation_of({{"LSB_DJOB_HOSTFILE", folder / "nodes"}}).source == "LSF");
  CHECK(allocation_of({{"LSB_HOSTS", "h1 h1 h2"}}).nodes == 2);
  CHECK(allocation_of({{"PRTE_MCA_prte_default_hostfile", folder / "nodes"}}).nodes == 2);
  // --hostfile comes before a batch system.
  CHECK(allocation_of({{"PBS_NODEFILE", folder / "nodes"}}, folder / "one-each").ranks_per_node == 0);
  put(folder / "none", "# nothing\n");
  CHECK_THAT(message_of([&] { allocation_of({}, folder / "none"); }), Contains("names no host"));
}

TEST_CASE("each launcher is told how many ranks a node gets") {
  // 4 ranks fit one node, whatever the launcher would do by itself.
  CHECK_THAT(text_of(two_nodes(LauncherKind::srun), point_of(4)), Contains("srun -n 4 -N 1 --ntasks-per-node=4 "));
  CHECK_THAT(text_of(two_nodes(LauncherKind::mpirun), point_of(4)),
             Contains("-np 4 --bind-to none --map-by ppr:4:node "));
  CHECK_THAT(text_of(two_nodes(LauncherKind::mpiexec, MpiFlavour::mpich), point_of(4)),
             Contains("mpiexec -n 4 -ppn 4 "));
  CHECK_THAT(text_of(two_nodes(LauncherKind::flux), point_of(4)), Contains("flux run -n 4 -N 1 "));
  // 8 take both, 6 as evenly as it goes.
  CHECK_THAT(text_of(two_nodes(LauncherKind::srun), point_of(8)), Contains("srun -n 8 -N 2 --ntasks-per-node=4 "));
  CHECK_THAT(text_of(two_nodes(LauncherKind::srun), point_of(6)), Contains("srun -n 6 -N 2 --ntasks-per-node=3 "));
  // On one node there is nothing to say.
  Launcher one = two_nodes(LauncherKind::mpirun);
  one.nodes = 1;
  CHECK(text_of(one, point_of(4)).find("--map-by") == std::string::npos);
}

TEST_CASE("ranks_per_node is passed on, or refused where it cannot be") {
  const Launcher l = two_nodes(LauncherKind::srun);
  CHECK_THAT(text_of(l, point_of(4, 2)), Contains("srun -n 4 -N 2 --ntasks-per-node=2 "));
  CHECK(command_for(l, point_of(4, 2), {"m"}).env.at("OMP_NUM_THREADS") == "4");  // 2 ranks on 8 cores
  CHECK(command_for(l, point_of(4, 4), {"m"}).env.at("OMP_NUM_THREADS") == "2");
  CHECK_THAT(text_of(two_nodes(LauncherKind::mpirun), point_of(4, 2)), Contains("--map-by ppr:2:node "));
  CHECK_THAT(message_of([&] { text_of(l, point_of(4, 3)); }),
             Contains("[ranks_per_node] 4 ranks cannot be 3 on each node, need 2 or 4"));
  CHECK_THAT(message_of([&] { text_of(l, point_of(4, 1)); }),
             Contains("[ranks_per_node] 4 ranks, 1 on each node, got 2 nodes, need 4"));
  CHECK_THAT(message_of([&] { text_of(local_launcher(), point_of(4, 2)); }), Contains("local"));
  // The default changes no id of a stored baseline.
  CHECK(point_id(point_of(4)) != point_id(point_of(4, 2)));
  CHECK(point_to_json(point_of(4, 2)).at("ranks_per_node") == 2);
}

TEST_CASE("GPUs of a node decide how many ranks it gets") {
  Launcher l = two_nodes(LauncherKind::srun);
  l.gpus = 8;
  Point p = point_of(8);
  p.device = "cuda";
  CHECK(spread_of(l, p).nodes == 1);
  CHECK(spread_of(l, point_of(8)).nodes == 2);
}

TEST_CASE("ranks wait without spinning where their node has fewer cores than ranks, not where the job has") {
  const Launcher l = two_nodes(LauncherKind::mpirun);
  CHECK(text_of(l, point_of(16)).find("mpi_yield_when_idle") == std::string::npos);  // 8 ranks on 8 cores, twice
  CHECK_THAT(text_of(l, point_of(32)), Contains("mpi_yield_when_idle 1"));
}

TEST_CASE("a host file and further arguments reach the launcher, before the program") {
  Launcher l = two_nodes(LauncherKind::mpirun);
  l.hostfile = "h.txt";
  l.more = {"--mca", "btl", "tcp,self"};
  CHECK_THAT(text_of(l, point_of(8)), Contains("--hostfile h.txt ") && Contains(" --mca btl tcp,self m"));
  l.flavour = MpiFlavour::mpich;
  CHECK_THAT(text_of(l, point_of(8)), Contains("-f h.txt -ppn 4 "));
  CHECK(split_words(R"(--mca btl "tcp,self" -x 'A B' a\ b)", "o") ==
        std::vector<std::string>{"--mca", "btl", "tcp,self", "-x", "A B", "a b"});
  CHECK(split_words("  ", "o").empty());
  CHECK_THAT(message_of([] { split_words("a 'b", "--launcher-args"); }),
             Contains("[--launcher-args] a quote is not closed"));
}

TEST_CASE("variables of communication and libraries go to every rank") {
  for (const char* name :
       {"NCCL_DEBUG", "UCX_TLS", "FI_PROVIDER", "CUDA_VISIBLE_DEVICES", "OPENBLAS_CORETYPE", "PATH", "LD_LIBRARY_PATH"})
    CHECK(is_forwarded(name));
  for (const char* name : {"HOME", "NCCL", "MY_NCCL_DEBUG", "LD_PRELOAD"}) CHECK_FALSE(is_forwarded(name));
  Launcher l = two_nodes(LauncherKind::mpirun);
  l.forwarded = {"NCCL_DEBUG", "PATH"};
  Point p = point_of(8);
  p.env = {{"NCCL_DEBUG", "WARN"}};  // the point's own wins, and is named once
  const std::string open_mpi = text_of(l, p);
  CHECK_THAT(open_mpi, Contains("NCCL_DEBUG=WARN ") && Contains("-x NCCL_DEBUG ") && Contains("-x PATH "));
  CHECK(open_mpi.find("-x NCCL_DEBUG") == open_mpi.rfind("-x NCCL_DEBUG"));
  l.flavour = MpiFlavour::mpich;
  CHECK_THAT(text_of(l, p), Contains("-genv NCCL_DEBUG WARN") && Contains("-genvlist PATH"));
  CHECK_THAT(text_of(two_nodes(LauncherKind::srun), p), Contains("--export=ALL"));
}

TEST_CASE("Slurm is asked for the PMI that the program's MPI speaks") {
  const char* slurm22 =
      "MPI plugin types are...\n\tcray_shasta\n\tnone\n\tpmi2\n\tpmix\nspecific pmix plugin versions available: "
      "pmix_v4\n";
  const char* bare = "srun: MPI types are...\nsrun: none\nsrun: pmi2\n";
  CHECK(pmi_for(slurm22, "Open MPI v4.1.4") == "pmix");
  CHECK(pmi_for(slurm22, "MPICH Version: 4.0.2") == "pmi2");
  CHECK(pmi_for("srun: MPI types are...\nsrun: pmix_v3\nsrun: none\n", "Open MPI v4.1.4") == "pmix_v3");
  CHECK(pmi_for(bare, "Open MPI v4.1.4").empty());
  CHECK(pmi_for(bare, "MPICH Version: 4.0.2") == "pmi2");
}

TEST_CASE("a launcher is known by its name or path") {
  CHECK(read_launcher("/opt/mpich/bin/mpiexec", "o") == LauncherKind::mpiexec);
  CHECK(read_launcher("mpirun.mpich", "o") == LauncherKind::mpirun);
  CHECK(read_launcher("flux", "o") == LauncherKind::flux);
  CHECK_THAT(message_of([] { read_launcher("aprun", "--launcher"); }),
             Contains("[--launcher] no such launcher, got \"aprun\""));
}
