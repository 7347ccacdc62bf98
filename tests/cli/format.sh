#!/usr/bin/env bash
# tests/cli/format.sh CLANG-FORMAT SOURCE: all C and C++ is laid out as .clang-format says.
set -euo pipefail
cd "$2"
find include src tests examples tools \( -name '*.[ch]' -o -name '*.cpp' \) -print0 | xargs -0 "$1" --dry-run --Werror
