#!/usr/bin/env bash
# tests/ranks/run.sh PROGRAM LIBRARY: test_mpi_ranks under the launcher of a library of MPI, openmpi or mpich, with 1 to 8
# ranks: random traffic as ranks of one process have it, messages in pieces, and what goes wrong, each in one sentence and with all
# ranks gone. Exit code 77, skipped, without the launcher, unless ACCRUE_TEST_MPI=1.
set -euo pipefail
program=$1 library=$2 other=mpich
[[ $library == mpich ]] && other=openmpi
if ! command -v "mpirun.$library" >/dev/null; then
  echo "ranks: there is no mpirun.$library here"
  [[ ${ACCRUE_TEST_MPI:-} == 1 ]] && exit 1
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Open MPI refuses root and more ranks than cores, and binds ranks to cores; containers may forbid copies between processes.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=lo
# What libraries of MPI never free is not ours.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0

fail() {
  echo "ranks: $*"
  cat "$work/out"
  exit 1
}

# start RANKS ARGUMENT...: output is in $work/out, the exit code in $code. Everything has to end within 60 seconds.
start() {
  code=0
  timeout 60 "mpirun.$library" -n "$1" "$program" "${@:2}" >"$work/out" 2>&1 </dev/null || code=$?
  ((code != 124)) || fail "mpirun -n $* did not end"
}
succeeds() {
  start "$@"
  ((code == 0)) || fail "mpirun -n $* failed with $code"
}
# refuses SENTENCE RANKS ARGUMENT...
refuses() {
  start "${@:2}"
  ((code != 0)) || fail "mpirun -n ${*:2} did not fail"
  grep -qF -- "$1" "$work/out" || fail "mpirun -n ${*:2} does not say «$1»"
}
gone() {
  sleep 0.5
  if pgrep -f "^$program $1" >/dev/null; then fail "a rank of «$1» is still there"; fi
}

for ranks in 1 2 3 4 8; do
  succeeds $ranks info
  [[ $(grep -c "^rank [0-9] of $ranks, [0-9] of $ranks on this machine" "$work/out") == "$ranks" ]] ||
    fail "$ranks ranks do not see each other"
  succeeds $ranks traffic $((ranks + 5))
  grep '^rank' "$work/out" | sort >"$work/processes"
  "$program" threads $ranks $((ranks + 5)) | sort >"$work/threads"
  cmp "$work/processes" "$work/threads" || fail "$ranks processes get other bytes than $ranks threads"
done
succeeds 3 pieces
refuses 'rank 1 expects 50 bytes from rank 0 with tag 9, which has sent 70' 2 size
refuses 'ranks must agree on --lr: it is "0.1" on rank 0 and "0.2" on rank 2 (1 other fact differs as well)' 3 differ 2
refuses 'rank 2 is silent for 2 s' 3 stall 2
gone stall
refuses 'rank 1 has no data' 3 leave 1
gone leave
start 3 die 1
((code != 0)) || fail 'mpirun does not fail when a rank dies'
gone die
# The library of the other launcher, also where this one lacks its own.
title='MPICH'
[[ $other == openmpi ]] && title='Open MPI'
refuses "which cannot connect ranks of $title" 2 engine "$other"
ACCRUE_MPI_PLUGIN=$work/none.so refuses 'cannot open the plugin' 2 info
# The other library by another name: the ranks find themselves alone.
plugin=$(dirname "$program")/../accrue/libaccrue-mpi-$other.so
if [[ -f $plugin ]]; then
  ACCRUE_MPI_PLUGIN=$plugin refuses 'launcher and library are not of the same MPI' 2 info
  gone info
fi
if [[ $library == openmpi ]] && (($(nproc) >= 2)); then # 2 ranks on cores of their own
  OMPI_MCA_hwloc_base_binding_policy=core succeeds 2 info
  (($(nproc) == 2)) || grep -q "warning: the launcher has bound each rank to . of $(nproc) processors" "$work/out" ||
    fail 'a rank does not say that it is bound'
fi
"$program" engine "$library" >"$work/out" 2>&1 && fail 'a rank without a launcher did not fail'
grep -q "needs its launcher" "$work/out" || fail 'it does not say that it needs a launcher'
"$program" info >"$work/out"
grep -q '^rank 0 of 1, 0 of 1 on this machine.*, alone$' "$work/out" || fail 'one rank is not alone'
echo "ranks: 1 to 8 ranks of $library move what threads do, and say what is wrong"
