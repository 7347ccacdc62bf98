#!/usr/bin/env bash
# tests/cli/sample.sh SOURCE BUILD PRESET FAMILY...: the samples of tools/test.sh leave something out each time, and nothing
# ten times in a row; what a sample may not leave out is always in it: each FAMILY of ops in the optimised build, and what reads
# hostile input in the sanitized one. Where all that the tests need must be there, each row of tests/sampled.txt has a test.
set -euo pipefail
source=$1 build=$2 preset=$3
shift 3
sample() { "$source/tests/sample.sh" "$@" "$preset" <"$work/all"; }
die() {
  echo "FAILED: $*" >&2
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ctest --test-dir "$build" -N | sed -n 's/^ *Test *#[0-9]*: //p' >"$work/all"
unset ACCRUE_TEST_SEED
sample | cmp - "$work/all" || die "without a number something is left out"
always=(fuzz io_hostile_model_file)
if [[ $preset == ci ]]; then always=("${@/#/op_}"); fi
for first in 0 1358 268435450; do
  for ((seed = first; seed < first + 10; seed++)); do
    export ACCRUE_TEST_SEED=$seed
    sample >"$work/chosen"
    sample --left-out >"$work/left"
    [[ -s $work/left ]] || die "$seed leaves nothing out"
    sort "$work/chosen" "$work/left" | cmp - <(sort "$work/all") || die "$seed: a test is in both halves, or in none"
    missing=$(printf '%s\n' "${always[@]}" | grep -vxFf "$work/chosen") && die "$seed leaves out $missing"
    cat "$work/chosen" >>"$work/$first"
  done
  sort -u "$work/$first" | cmp - <(sort "$work/all") || die "ten numbers from $first on leave something out each time"
done
if [[ ${ACCRUE_TEST_OPENCL:-} == 1 ]]; then
  while read -r name turns pattern; do
    [[ $name == "$preset" ]] || continue
    ((turns <= 10)) && grep -qxE "$pattern" "$work/all" || die "tests/sampled.txt: no test is $pattern, or it has too many turns"
  done <"$source/tests/sampled.txt"
fi
for seed in x -1 1.5 1234567890; do
  ! ACCRUE_TEST_SEED=$seed "$source/tests/sample.sh" ci </dev/null >"$work/out" 2>&1 || die "$seed is taken for a number"
  [[ $(wc -l <"$work/out") == 1 ]] || die "$seed: not one sentence"
done
