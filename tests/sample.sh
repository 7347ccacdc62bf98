#!/usr/bin/env bash
# tests/sample.sh [--left-out] BUILD: prints the names on stdin that have their turn, or those that do not. The number
# ACCRUE_TEST_SEED says which turn it is; without it all have theirs. tests/sampled.txt says how many turns there are for which
# names of a BUILD. Each name has its turn once among that many consecutive numbers.
set -euo pipefail
left_out=0
if [[ ${1:-} == --left-out ]]; then left_out=1 && shift; fi
seed=${ACCRUE_TEST_SEED:-}
if [[ ! $seed =~ ^[0-9]{0,9}$ ]]; then
  echo "ACCRUE_TEST_SEED is '$seed', but must be a whole number of at most nine digits." >&2
  exit 2
fi
awk -v build="$1" -v seed="$seed" -v left_out=$left_out '
  FNR == NR {
    if ($1 == build) { turns[++rows] = $2; pattern[rows] = "^(" $3 ")$" }
    next
  }
  {
    for (row = 1; row <= rows && $0 !~ pattern[row]; row++);
    # The row is added so that the same family of ops has its turns at different times.
    its_turn = seed == "" || row > rows || (seen[row]++ + seed + row) % turns[row] == 0
    if (its_turn != left_out) print
  }' "$(dirname "${BASH_SOURCE[0]}")/sampled.txt" -
