#!/usr/bin/env bash
# tests/cli/configure.sh SOURCE: the build by hand needs no more than docs/start/install.md lists. What only
# the tests need is hidden, so the presets with tests fail.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PKG_CONFIG_PATH

mkdir "$work/pc"
IFS=: read -ra folders <<<"$(pkg-config --variable pc_path pkg-config)"
for folder in "${folders[@]}"; do
  for file in "$folder"/*.pc; do
    [[ ! -e $file || $file == */cmocka.pc ]] || ln -sf "$file" "$work/pc"
  done
done
export PKG_CONFIG_LIBDIR=$work/pc

cmake -S "$source" --preset release -B "$work/release" >"$work/out"
grep -q 'tests OFF' "$work/out"
cmake --build "$work/release" --target help >"$work/targets"
for target in accrue_program first_model custom_loop own_optimizer budgets; do
  grep -q $target "$work/targets" || { echo "no $target without cmocka" >&2; exit 1; }
done
! command -v c++ >/dev/null || grep -q circle "$work/targets"
for preset in ci ci-sanitize; do
  if cmake -S "$source" --preset $preset -B "$work/$preset" >"$work/out" 2>&1; then
    echo "preset $preset does without the tests" >&2
    exit 1
  fi
  grep -q 'ACCRUE_TESTS=ON, but cmocka was not found' "$work/out"
done

rm -f "$work/pc/libprotobuf-c.pc"
cmake -S "$source" --preset release -B "$work/bare" -DCMAKE_DISABLE_FIND_PACKAGE_OpenCL=ON >"$work/out"
grep -q 'OpenCL OFF, CLBlast OFF, TensorBoard OFF' "$work/out"
if cmake -S "$source" --preset ci -B "$work/without" >"$work/out" 2>&1; then
  echo "preset ci does without TensorBoard" >&2
  exit 1
fi
grep -q 'ACCRUE_TENSORBOARD=ON, but protobuf-c' "$work/out"
