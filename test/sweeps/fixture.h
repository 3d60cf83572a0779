// What the sweep tests share: a folder of its own, and a stand-in for this binary whose `run` does what the
// point's env says.
#pragma once
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "sweeps/launch/launcher.h"
#include "sweeps/spec/spec.h"
#include "test/catch.h"
#include "test/support/temporary_folder.h"

namespace sweeps_test {

namespace fs = std::filesystem;

using Folder = mbench::test::TemporaryFolder;

inline void put(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const mbench::Error& e) {
    return e.what();
  }
  FAIL("no error was thrown");
  return "";
}

// A program for `run POINT --result FILE --progress` that does what MODE says; LOSS is the loss it reports.
inline std::string fake_program(const Folder& folder) {
  const std::string path = folder / "fake-mbench";
  put(path, R"SH(#!/bin/sh
# $1 run, $2 point, $3 --result, $4 result, $5 --progress. A point itself in place of its file, and "-" for the result: in lines.
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
result() {
  if [ "$rank" != 0 ]; then return; fi
  case "$2" in
    "{"*) printf '%s' "$2" > "$0.point"; set -- "$1" "$0.point" "$3" ;;
  esac
  to=$3
  if [ "$to" = - ]; then to=$0.result; fi
  { printf '{"id": "of-the-run", "outcome": "%s", "reason": null, "losses": [%s],' "$1" "${LOSS:-5.5}"
    printf '"iteration_ms": {"mean": 2, "stddev": 0, "median": 2, "p95": 2, "min": 2, "max": 2, "samples": [2]},'
    tail -c +2 "$2"; } > "$to.part"
  if [ "$3" = - ]; then echo "{\"record\": $(tr '\n' ' ' < "$to.part")}"; else mv "$to.part" "$to"; fi
}
echo "run $1 $2 $3 $5" >&2
case "$MODE" in
  ok)
    echo '{"progress": {"phase": "iteration", "iteration": 1, "of": 2, "ms": 2.5, "loss": 5.5}}'
    result ok "$2" "$4" ;;
  hosts)
    echo '{"hosts":[{"name":"far","cpu":"B","cores":96,"memory_bytes":1,"mpi":"M","revision":"r","ranks":[0]}],"variables":{"NCCL_DEBUG":"INFO"},"environment":{"host":"far","cpu":"B","cores":96}}'
    if [ -n "$DIES" ]; then echo "process rank 0 with PID 7 on node far exited on signal 11" >&2; exit 139; fi
    result ok "$2" "$4" ;;
  oom) result oom "$2" "$4"; exit 77 ;;
  threads) echo "threads $OMP_NUM_THREADS" >&2; result ok "$2" "$4" ;;
  signal)
    echo '{"progress": {"phase": "warmup", "iteration": 1, "of": 2}}'
    echo "about to fall over" >&2
    if [ "$rank" = "${DIES:-0}" ]; then kill -SEGV $$; fi
    sleep 30 ;;
  code) echo "mbench: [weights] cannot be, got 3, need 4" >&2; exit 3 ;;
  silent) exit 0 ;;
  partial) printf '{"id": "x", "outcome": "o' > "$4" ;;
  late) result ok "$2" "$4"; exit 9 ;;
  hang)
    trap '' TERM
    (trap '' TERM; setsid sleep 30) &
    echo $! > "$4.grandchild"
    sleep 30 ;;
  leaves) (setsid sleep 30 > /dev/null 2>&1 &); result ok "$2" "$4" ;;
  trace)
    echo '{"trace": "[1,", "more": true}'
    echo '{"trace": "2]"}'
    result ok "$2" "$4" ;;
  stopped)
    echo '{"alive": {"rank": 0, "turn": 1, "in": "all_reduce of dp"}}' >&2
    echo '{"progress": {"phase": "iteration", "iteration": 1, "of": 2, "ms": 2.5, "loss": 5.5}}'
    sleep 30 ;;
  chatty) head -c 3000000 /dev/zero | tr '\0' 'x'; result ok "$2" "$4" ;;
esac
)SH");
  fs::permissions(path, fs::perms::owner_all);
  return path;
}

inline mbench::sweeps::Launcher local_launcher() {
  mbench::sweeps::Launcher launcher;
  launcher.cores = 2;
  return launcher;
}

// A spec of one model whose points are the given sweep.
inline mbench::sweeps::Spec spec_of(const Folder& folder, const std::string& fields) {
  const std::string path = folder / "spec.json";
  put(path, R"({"model": "gpt-bytes-tiny", "seq": 64, "iterations": 2, "warmup": 1, )" + fields + "}");
  mbench::sweeps::SpecOptions options;
  options.path = path;
  return mbench::sweeps::read_spec(options);
}

}  // namespace sweeps_test
