#!/usr/bin/env bash
# tools/test.sh [--all]: builds Accrue optimised and with sanitizers, warnings being errors, and runs the tests of both builds:
# most of them, and of those that repeat a property for one more instruction set, emulated unit or sanitizer, or take long, a
# sample (tests/sampled.txt), which each commit changes; --all runs them all. ACCRUE_TEST_SEED=N draws the sample of another commit.
# Ends in ctest's closing line; fails if anything does. ACCRUE_NO_INSTALL=1 installs nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

# Commits are counted, so that as many as there are turns run everything. Where not all are here, the commit's name is drawn from.
seed_of_commit() {
  local name
  if [[ $(git rev-parse --is-shallow-repository 2>/dev/null) == false ]]; then
    git rev-list --count --first-parent HEAD
  else
    name=$(git rev-parse HEAD 2>/dev/null) || name=0
    echo $((16#${name:0:7}))
  fi
}
again=tools/test.sh
case $# in
  0)
    export ACCRUE_TEST_SEED=${ACCRUE_TEST_SEED:-$(seed_of_commit)}
    again="ACCRUE_TEST_SEED=$ACCRUE_TEST_SEED tools/test.sh"
    tests/sample.sh ci </dev/null # says what is wrong with the number before anything is built
    ;;
  *)
    if [[ $* != --all ]]; then echo "usage: tools/test.sh [--all]" >&2 && exit 2; fi
    unset ACCRUE_TEST_SEED
    again+=' --all'
    ;;
esac

install_packages "${build_packages[@]}" "${test_packages[@]}"
if [[ $(uname -m) == x86_64 ]]; then
  install_packages "${cross_packages[@]}" "${gpu_packages[@]}"
  if [[ ${ACCRUE_NO_INSTALL:-} != 1 ]]; then unpack_arm64_packages build/ci/aarch64/root; fi
fi

# What a preset leaves out this time, as a regular expression, and the programs of the tests that run.
declare -A left_out
leave_out() { # PRESET
  local names
  names=$(ctest --preset "$1" -N | sed -n 's/^ *Test *#[0-9]*: //p')
  left_out[$1]=$(tests/sample.sh --left-out "$1" <<<"$names")
  echo "$1: $(grep -c . <<<"${left_out[$1]}") of $(grep -c . <<<"$names") tests are left out this time. These again: $again"
  left_out[$1]="^(${left_out[$1]//$'\n'/|})\$"
}
# Before they are built ctest names them as programs that it does not find. Without any name all are built.
programs_of() { # PRESET
  ctest --preset "$1" -N -V --exclude-regex "${left_out[$1]}" | grep -o 'bin/test_[a-z0-9_]*' | sed 's|bin/||' | sort -u |
    paste -sd ';'
}

# All tests are built once, and those that run with sanitizers again.
cmake --preset ci
cmake --build --preset ci --parallel "$(nproc)"
leave_out ci
cmake --preset ci-sanitize
leave_out ci-sanitize
cmake --preset ci-sanitize -DACCRUE_TEST_PROGRAMS="$(programs_of ci-sanitize)"
cmake --build --preset ci-sanitize --parallel "$(nproc)"
# Threads that wait by spinning would take the cores from each other on a busy machine.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
# What was just installed must be found.
if [[ ${ACCRUE_NO_INSTALL:-} != 1 ]]; then export ACCRUE_TEST_OPENCL=1 ACCRUE_TEST_MPI=1 ACCRUE_TEST_FUZZ=1 ACCRUE_TEST_AARCH64=1 ACCRUE_TEST_KERNELS=1; fi
# Both halves run, whatever the first one finds. Failures are repeated at the end.
failed=()
for preset in ci ci-sanitize; do
  ctest --preset "$preset" --parallel "$(nproc)" --exclude-regex "${left_out[$preset]}" 2>&1 |
    tee "build/$preset/ctest.txt" || failed+=("$preset")
done
for preset in ${failed[@]+"${failed[@]}"}; do
  echo "Failed with the preset $preset; the same tests again: $again"
  sed -n '/% tests passed/,$p' "build/$preset/ctest.txt"
done
((${#failed[@]} == 0))
