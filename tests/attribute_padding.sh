#!/usr/bin/env bash
# tests/attribute_padding.sh COMPILER SOURCE GENERATED: nodes are compared and hashed by all bytes of their attributes
# (src/plan/works.c), so the structs of these have no padding, which nothing sets. GENERATED has op_attributes.h, which
# includes them all.
set -euo pipefail
compiler=$1 generated=$3
cd "$2"
warnings=$("$compiler" -std=c17 -Wpadded -fsyntax-only -I "$generated" -I include -I src -x c - 2>&1 <<< '#include "op_attributes.h"
op_attributes all; int bytes = sizeof all;') # so that each is laid out
# Other structs of the same headers have padding, so it warns of some.
grep -q Wpadded <<< "$warnings" || { echo "$compiler does not know -Wpadded: $warnings" >&2; exit 1; }
wrong=0
while IFS=: read -r file line _; do
  struct=$(awk -v first="$line" 'NR >= first && /^}/ { print; exit }' "$file")
  [[ $struct =~ ^'} ac_'(.*_attributes|program|program_step)';' ]] || continue
  echo "$file:$line: padding in ${struct:2}" >&2
  wrong=1
done < <(grep -E '^src/ops/.*Wpadded' <<< "$warnings")
exit $wrong
