#!/usr/bin/env bash
# tests/backend_includes.sh COMPILER SOURCE: backends see the arguments of ops and their attributes; of what graphs and
# plans know they include nothing, by whatever way round.
set -euo pipefail
compiler=$1
cd "$2"
seen=$("$compiler" -MM -MG -I src -I include -DAC_HAVE_OPENCL src/backend/{cpu,opencl,dry}/*.c | tr ' ' '\n')
grep -qx 'src/ops/arguments.h' <<<"$seen"
wrong=$(grep -E '^src/(ops/(description|words|elementwise|loss|norm)\.h|(graph|plan|data|io|bench|train)/)' <<<"$seen" |
  sort -u) || exit 0
echo "backends include" $wrong >&2
exit 1
