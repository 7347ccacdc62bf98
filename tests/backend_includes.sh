#!/usr/bin/env bash
# tests/backend_includes.sh COMPILER SOURCE: backends see the arguments of ops and their attributes. No file under
# src/backend includes a header of graphs or plans, directly or through others.
set -euo pipefail
compiler=$1
cd "$2"
mapfile -t files < <(find src/backend -name '*.[ch]' | sort)
# A line for each file: its name, then all that it includes.
"$compiler" -MM -MG -I src -I include -DAC_HAVE_OPENCL -DAC_HAVE_CLBLAST "${files[@]}" |
  sed -e ':join' -e '/\\$/{N;s/\\\n//;b join' -e '}' -e 's/^[^:]*: *//' |
  awk -v expected="${#files[@]}" '
    { for (i = 2; i <= NF; i++)
        if ($i ~ /^src\/(ops\/description\.h|(graph|optimizer|plan|data|io|bench|schedule|record|observe|run|window|state|fit)\/)/) { print $1 " includes " $i; wrong = 1 }
        else if ($i == "src/ops/arguments.h") seen = 1 }
    END {
      if (NR != expected || !seen) { print NR " of " expected " files were read"; wrong = 1 }
      exit wrong
    }' >&2
