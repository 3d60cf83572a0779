// Watches the ranks of a running point by the signs of life that each gives on standard error (cli/heartbeat.h). It reports faults that
// their launcher does not see, or not before its own time-outs:
//
//   silence    A rank gives none for as long as the limit. It was stopped, or its host or the link to it is lost.
//   a hang     Every rank gives signs, each is within a communication, and none has progressed for as long as the limit.
//              A link between them is gone, or they wait for one another.
//   no start   No rank has given a sign or any output for the limit and a minute more. That minute allows for a slow start.
//
// A rank that computes for long is neither. Only time in which this process itself ran counts, and an ended rank is no fault. Nothing
// is reported where ranks came up but give no signs: their launcher changes what they print.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/point/hosts.h"

namespace mbench::sweeps {

class RankWatch {
 public:
  explicit RankWatch(double limit_s) : limit_s_(limit_s) {}
  void on_hosts(const std::vector<Host>& hosts) { hosts_ = hosts, up_ = true; }
  // A line that only a rank prints was heard.
  void on_rank() { up_ = true; }
  // Whether the line was a sign of life. One within a line that the launcher has changed shows at least that ranks came up.
  bool take(std::string_view line);
  // `seconds`: on any clock that does not stand still while this process sleeps. To be called at least every second; empty while
  // nothing is wrong. "no sign of life for 5 s of rank 1 on h2: ..."
  std::string look(double seconds);

  // Of each rank that gave a sign, the seconds since its last one.
  std::map<std::int64_t, double> silence() const;
  // Hosts all of whose ranks are silent, once look() has found that, while other hosts' are not.
  const std::vector<std::string>& lost_hosts() const { return lost_hosts_; }

 private:
  struct Rank {
    double heard = 0, moved = 0;  // on awake_
    std::uint64_t turn = 0;
    std::string in;
    bool ended = false;
  };
  std::string say_silent(const std::vector<std::int64_t>& silent);
  std::string say_hung() const;
  std::string where_others_wait(const std::vector<std::int64_t>& but) const;

  double limit_s_;
  bool up_ = false;  // some rank has come up
  double awake_ = 0, last_ = -1;
  std::vector<Host> hosts_;
  std::map<std::int64_t, Rank> ranks_;
  std::vector<std::string> lost_hosts_;
};

}  // namespace mbench::sweeps
