#!/usr/bin/env bash
# tests/cli/format.sh CLANG-FORMAT SOURCE: all C and C++ is laid out as .clang-format says. No line of a
# comment is left with a few characters, as where a formula was torn to make lines fit.
set -euo pipefail
cd "$2"
find include src tests examples tools \( -name '*.[ch]' -o -name '*.cpp' \) -print0 | xargs -0 "$1" --dry-run --Werror
if grep -rnE '^ *\* [^ /]{0,2}[^ /.]$' include src tools --include='*.[ch]'; then
  echo "a formula is torn: give it a line of its own" >&2
  exit 1
fi
