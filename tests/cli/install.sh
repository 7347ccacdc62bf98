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

# uses PROGRAM: it trains, saves, and predicts from the file.
uses() {
  rm -f model.safetensors
  "$1" | grep '^accuracy 0\.9'
  ! "$1" a b 2>usage && grep -q '^usage: .* numbers$' usage || { echo "$1 takes words for numbers" >&2; exit 1; }
  [[ $("$1" 0.1 -0.2) == inside* && $("$1" -0.9 0.8) == outside* ]] || { echo "$1 predicts wrong" >&2; exit 1; }
}

# The template, as the program writes it: with the shared library, the static one, and by pkg-config.
"$work/prefix/bin/accrue" init "$work/template" >said
grep -qF -- " -DCMAKE_PREFIX_PATH=$work/prefix && cmake --build " said || { cat said >&2; exit 1; }
diff -r "$work/prefix/share/doc/accrue/examples/template" "$work/template"
cd "$work/template"
for static in OFF ON; do
  cmake -S . -B build-$static -DCMAKE_PREFIX_PATH="$work/prefix" -DMY_MODEL_STATIC=$static >/dev/null
  cmake --build build-$static >/dev/null
  uses build-$static/my_model
done
! cmake -S . -B nowhere -DCMAKE_DISABLE_FIND_PACKAGE_accrue=ON >/dev/null 2>said || { echo "built without Accrue" >&2; exit 1; }
tr -s ' \n' ' ' <said | grep -qF 'not found: give -DCMAKE_PREFIX_PATH=WHERE_ACCRUE_IS_INSTALLED, or -DACCRUE_SOURCE=' || { cat said >&2; exit 1; }
pc=$(find "$work/prefix" -name accrue.pc)
mkdir build
PKG_CONFIG_PATH=$(dirname "$pc") make BUILD=build build/my_model
uses build/my_model

# The examples, as a project of their own. The one in C++ is among them where there is a compiler.
cd "$work"
cmake -S "$work/prefix/share/doc/accrue/examples" -B examples -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build examples >/dev/null
for example in custom_loop budgets embed; do examples/$example >/dev/null; done
! command -v c++ >/dev/null || examples/circle >/dev/null
