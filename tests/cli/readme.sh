#!/usr/bin/env bash
# tests/cli/readme.sh SOURCE: the README's C program is examples/first_model.c, which the build compiles, and its
# environment variables are those that the code reads.
set -euo pipefail
cd "$1"
diff <(awk '/^```c$/ {inside = 1; next} /^```$/ {inside = 0} inside' README.md) examples/first_model.c

# Those of the scripts begin with ACCRUE_; variables of CMake are given as -DNAME=VALUE.
diff <(sed -E 's/-D[A-Z_]+//g' README.md | grep -oE '`[A-Z_]+(=1)?`' | tr -d '`' | sed 's/=1$//' |
  grep -E '^(ACCRUE|OMP|GOMP|OPENBLAS|XDG)_|^HOME$' | sort -u) \
  <({
    grep -rhoE 'getenv\("[A-Z_]+"' src tools | sed 's/.*"\(.*\)"/\1/'
    grep -hoE '\$\{?ACCRUE_[A-Z_]+' tools/quickstart.sh tools/gpu-check.sh tools/packages.sh | tr -d '${'
  } | sort -u) || {
  echo "the README names other environment variables (<) than the code reads (>)" >&2
  exit 1
}
