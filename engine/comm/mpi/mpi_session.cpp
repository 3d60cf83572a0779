#include "engine/comm/mpi/mpi_session.h"

#include <mpi.h>
#include <sys/resource.h>

#include <cstdlib>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace mbench::comm {
namespace {

// Ranks of a host share memory by files, of 4 MiB each in Open MPI: where none may be as large, MPI_Init ends by a signal in some
// ranks and waits for ever in others.
void need_room_for_files() {
  constexpr rlim_t kNeed = rlim_t{8} << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= kNeed) return;
  fail(ErrorKind::launch_failed, "limits",
       "the limit on the size of files (ulimit -f) leaves no room for the memory that ranks share, got {}, need {}: "
       "raise it",
       format_bytes(limit.rlim_cur), format_bytes(kNeed));
}

// Asks the ranks of this host, as one communicator.
template <class Ask>
int ask_host(const Ask& ask) {
  MPI_Comm host;
  int n = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  ask(host, &n);
  MPI_Comm_free(&host);
  return n;
}

}  // namespace

MpiSession::MpiSession() {
  need_room_for_files();
  // One thread of a rank talks to MPI; its OpenMP threads never do.
  int provided = 0;
  // Ranks share cores more often than not on a CPU: a rank that waits gives its core away. Whoever starts the
  // job may say otherwise.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

MpiSession::~MpiSession() {
  MPI_Finalize();
}

int MpiSession::ranks_here() const {
  return ask_host(MPI_Comm_size);
}

int MpiSession::rank_here() const {
  return ask_host(MPI_Comm_rank);
}

void MpiSession::abort(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::abort();
}

std::string MpiSession::library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string s(text, length);
  return s.substr(0, s.find_first_of(",\n"));
}

}  // namespace mbench::comm
