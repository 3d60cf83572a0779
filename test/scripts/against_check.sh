#!/usr/bin/env bash
# Whether scripts/ci/against finds what it is for: test/scripts/against_check.sh [RUNS]
# Clones this repository, plants a change in the clone and holds it against the revision before, RUNS times each (default 1):
#   nothing                      must pass
#   5 % more time in each step   must be "slower"
#   4 KiB more of memory         must be "larger"
#   a learning rate x 1.01       must be "loss changed"
# Each prints how long it took, and the load of the machine at its end.
# Its steps are short and of one thread: where a neighbour takes a core from one of two threads the other waits for it.
# Builds the clone a few times (minutes; ccache helps) and measures: not a part of ctest. KINDS are those to plant (nothing delay memory
# rate), SPEC and SWEEP_OPTIONS as scripts/ci/against has them. Exit code 0 if all came out so.
set -euo pipefail
runs=${1:-1}
here=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
spec=${SPEC:-$work/spec.json}
cat >"$work/spec.json" <<'JSON'
{"name": "against-check", "model": "gpt-bytes-tiny", "seq": 128, "global_batch": 2, "iterations": 300, "warmup": 5,
 "learning_rate": 1e-3, "env": {"OMP_NUM_THREADS": "1"}}
JSON
export CCACHE_BASEDIR=/ CCACHE_NOHASHDIR=1
git clone -q "$here" "$work/clone"
cd "$work/clone"
git config user.name check
git config user.email check@localhost
cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DMBENCH_CUDA=OFF -DMBENCH_TESTS=OFF -DMBENCH_BENCH=OFF -DCMAKE_UNITY_BUILD=ON >/dev/null
base=$(git rev-parse HEAD)

plant() {  # FILE PATTERN TEXT: puts TEXT in the place of the one line that has PATTERN
  [ "$(grep -cF "$2" "$1")" = 1 ] || { echo "cannot plant: \"$2\" stands $(grep -cF "$2" "$1") times in $1" >&2; exit 2; }
  python3 - "$@" <<'PY'
import sys
path, old, new = sys.argv[1:]
text = open(path).read()
open(path, "w").write(text.replace(old, new))
PY
}
change() {
  case "$1" in
    nothing) echo >>README.md ;;
    delay) plant engine/run/run_point.cpp 'const StepResult step = trainer.step();' \
      'const double began = device.synchronize();
    const StepResult step = trainer.step();
    for (const double until = began + 1.05 * (device.synchronize() - began); device.synchronize() < until;) {
    }' ;;
    memory) plant engine/run/run_point.cpp 'Trainer trainer(plan, device, world, data.get());' \
      'const Tensor planted = device.empty(Shape{1024}, DType::f32, Category::other, "planted");
  Trainer trainer(plan, device, world, data.get());' ;;
    rate) plant engine/train/optimizer.cpp 'const float lr = learning_rate();' 'const float lr = 1.01f * learning_rate();' ;;
  esac
}
wrong=0
for what in ${KINDS:-nothing delay memory rate}; do
  git checkout -q --detach "$base"
  change "$what"
  git commit -qam "$what"
  for run in $(seq "$runs"); do
    code=0 began=$SECONDS
    scripts/ci/against "$base" "$spec" "$work/out" >"$work/said" 2>&1 || code=$?
    case "$what" in
      nothing) need=0 say='' ;;
      delay) need=1 say='**slower**' ;;
      memory) need=1 say='**larger**' ;;
      rate) need=1 say='**loss changed**' ;;
    esac
    if [ "$code" = "$need" ] && grep -qF -- "$say" "$work/said"; then verdict=good; else verdict=WRONG wrong=$((wrong + 1)); fi
    echo "$what, run $run: exit code $code, need $need: $verdict, $((SECONDS - began)) s, load $(cut -d' ' -f1 /proc/loadavg)"
    grep -E '^\|' "$work/said" | sed 's/^/    /' || tail -n 5 "$work/said"
  done
done
exit "$((wrong > 0))"
