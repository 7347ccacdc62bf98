#!/usr/bin/env bash
# The binary interface of the library: exported functions, and the layouts of all types that they use.
#
#   tools/abi.sh --renew          writes tests/abi/accrue.abi.xml from the public headers
#   tools/abi.sh --check LIBRARY  compares the headers and the library with that file: fails if a function or a layout was
#                                 removed or changed, or if the library does not export what the headers declare
#
# A release build has no debug information, and the instruction set of the machine must not matter. So libabigail reads a
# library of empty functions, which this script makes of the declarations. gcc compiles it, so that compilers do not matter.
set -euo pipefail
export LC_ALL=C
root=$(cd "$(dirname "$0")/.." && pwd)
stored=$root/tests/abi/accrue.abi.xml
usage() {
  echo "usage: tools/abi.sh --renew | --check LIBRARY" >&2
  exit 2
}
[[ $# == 1 && $1 == --renew || $# == 2 && $1 == --check ]] || usage
for tool in abidw abidiff nm gcc; do
  command -v "$tool" >/dev/null || { echo "there is no $tool here (Debian: abigail-tools, binutils, gcc)"; exit 77; }
done
[[ $1 == --renew ]] || library=$(realpath -e "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Each declaration that begins with AC_API, with an empty body. Comments and definitions of macros go first.
{
  echo '#include <accrue/accrue.h>'
  cat "$root"/include/accrue/*.h | gcc -fpreprocessed -E -P -x c - 2>/dev/null | tr '\n' ' ' | sed 's/[;{}]/&\n/g' |
    sed -n 's/^.*AC_API \(.*\);$/\1 { __builtin_trap(); }/p'
} >interface.c
gcc -std=c17 -O0 -g -shared -fPIC -fvisibility=hidden -I"$root/include" -o interface.so interface.c
abidw --headers-dir "$root/include" --no-show-locs --no-corpus-path --no-comp-dir-path --no-architecture \
  --type-id-style hash interface.so >now.xml

if [[ $1 == --renew ]]; then
  cp now.xml "$stored"
  echo "wrote ${stored#"$root"/}"
  exit
fi

exported() { nm -D --defined-only "$1" | awk '$2 == "T" && $3 ~ /^ac_/ { print $3 }' | sort; }
exported interface.so >declared
exported "$library" >there
if ! diff declared there >differences; then
  echo "abi: the library does not export what the public headers declare (<: only declared, >: only exported):"
  cat differences
  exit 1
fi
if ! abidiff --no-added-syms --no-architecture "$stored" now.xml >differences; then
  cat differences
  echo "abi: programs that were built with the last release would break. If that is meant: name the change in CHANGELOG.md"
  echo "under \"Source breaks\" or \"Public headers\", and run tools/abi.sh --renew in the same change."
  exit 1
fi
echo "$(wc -l <there) functions; none was removed or changed since tests/abi/accrue.abi.xml was written"
