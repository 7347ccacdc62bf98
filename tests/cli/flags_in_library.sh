#!/usr/bin/env bash
# The library has no flags: its sentences and comments say what a description is to have, and the program knows the
# flags for it. flags_in_library.sh SOURCE
set -euo pipefail
cd "$1"
# In a text, or in a comment. `--n` of C has neither before it. Programs that start ranks have flags of their own.
found=$(grep -rnE "\"[^\"]*(^|[^-a-z0-9_])--[a-z]|(/\*|^ *\*|//).*[ \"\`(]--[a-z]" src include cl --include='*.c' --include='*.h' --include='*.cl' | grep -vE '(mpirun|srun) --' || true)
if [[ $found ]]; then
  printf 'the library names a flag:\n%s\n' "$found" >&2
  exit 1
fi
