// MPI of this process, from its start to its end.
#pragma once
#include <string>

namespace mbench::comm {

// Initialises MPI for as long as it lives; one per process, owned by whoever runs a point or a test.
class MpiSession {
 public:
  MpiSession();  // launch_failed where a limit of this machine leaves MPI no room: it would wait for ever
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  // Ends every rank of the job at once, this one included.
  [[noreturn]] static void abort(int exit_code);
  static std::string library();
  // Ranks of this job on this host.
  int ranks_here() const;
  // This rank's place among them, from 0.
  int rank_here() const;
};

}  // namespace mbench::comm
