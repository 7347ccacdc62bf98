#!/usr/bin/env bash
# tests/cli/readme.sh SOURCE: the README's C program is examples/first_model.c, which the build compiles.
set -euo pipefail
cd "$1"
diff <(awk '/^```c$/ {inside = 1; next} /^```$/ {inside = 0} inside' README.md) examples/first_model.c
