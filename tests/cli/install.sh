#!/usr/bin/env bash
# tests/cli/install.sh BUILD SOURCE: installs into a temporary prefix and builds and runs a project of its own
# against it, by CMake package and by pkg-config.
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >/dev/null
"$work/prefix/bin/accrue" --version
for page in accrue accrue-train accrue-train-gpt accrue-bench-all; do
  grep -q '^\.TH ACCRUE' "$work/prefix/share/man/man1/$page.1" || { echo "no page $page.1" >&2; exit 1; }
done
for script in bash-completion/completions/accrue zsh/site-functions/_accrue; do
  grep -q 'completion for accrue' "$work/prefix/share/$script" || { echo "no $script" >&2; exit 1; }
done
cmp "$work/prefix/share/accrue/policy.schema.json" "$source/tools/package/policy.schema.json"

cp -r "$source/examples/consumer" "$work/consumer"
cd "$work/consumer"
cmake -S . -B build -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build build >/dev/null
build/consumer
build/consumer_static

pc=$(find "$work/prefix" -name accrue.pc)
PKG_CONFIG_PATH=$(dirname "$pc") make BUILD=build build/consumer_pc
build/consumer_pc

# The examples, as a project of their own. The one in C++ is among them where there is a compiler.
cd "$work"
cmake -S "$work/prefix/share/doc/accrue/examples" -B examples -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build examples >/dev/null
examples/custom_loop >/dev/null
examples/budgets >/dev/null
! command -v c++ >/dev/null || examples/circle >/dev/null
