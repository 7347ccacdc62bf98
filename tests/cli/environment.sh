#!/usr/bin/env bash
# tests/cli/environment.sh SOURCE: docs/reference/environment.md names the environment
# variables that the code reads, and no others.
set -euo pipefail
cd "$1"
# Those of the scripts begin with ACCRUE_; variables of CMake are given as -DNAME=VALUE.
diff <(sed -E 's/-D[A-Z_]+//g' docs/reference/environment.md | grep -oE '`[A-Z_]+(=1)?`' | tr -d '`' | sed 's/=1$//' |
  grep -E '^(ACCRUE|OMP|GOMP|OPENBLAS|XDG)_|^(COLUMNS|HOME|TERM|TMPDIR)$' | sort -u) \
  <({
    grep -rhoE 'getenv\("[A-Z_]+"' src tools | sed 's/.*"\(.*\)"/\1/'
    grep -hoE '\$\{?ACCRUE_[A-Z_]+' tools/quickstart.sh tools/gpu-check.sh tools/packages.sh | tr -d '${'
  } | sort -u) || {
  echo "docs/reference/environment.md names other environment variables (<) than the code reads (>)" >&2
  exit 1
}
