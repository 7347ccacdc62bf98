#!/usr/bin/env bash
# tests/cli/fetched.sh SOURCE GENERATOR: other projects use the library by FetchContent and by add_subdirectory. They get
# only the library: no program, tests or examples, no installation and no build type. To build all of it would take
# minutes, so only a program's own file is built, and what depends on the place of the source.
set -euo pipefail
source=$1 generator=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() {
  echo "FAILED: $*" >&2
  exit 1
}

# lean BUILD TYPE: no more than the library, and the build type that the project asks for.
lean() {
  local target
  cmake --build "$1" --target help >"$work/targets"
  grep -qw accrue_static "$work/targets" || die "no library: $(cat "$work/targets")"
  for target in accrue_program test_graph first_model budgets accrue_man; do
    ! grep -qw $target "$work/targets" || die "$target in another project"
  done
  grep -q "^CMAKE_BUILD_TYPE:[A-Z]*=$2\$" "$1/CMakeCache.txt" || die "a build type that nobody asked for"
  cmake --install "$1" --prefix "$work/prefix" >"$work/out" 2>&1 || die "$(cat "$work/out")"
  [[ ! -d $work/prefix ]] || die "installed with another project: $(find "$work/prefix")"
}

cmake -S "$source/examples/template" -B "$work/fetched" -G "$generator" -DACCRUE_SOURCE="$source" >"$work/out" 2>&1 ||
  die "$(cat "$work/out")"
lean "$work/fetched" Release

mkdir "$work/project"
cp "$source/examples/template/main.c" "$work/project"
cat >"$work/project/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.21)
project(project LANGUAGES C)
add_subdirectory($source accrue)
add_library(alone OBJECT main.c)
target_include_directories(alone PRIVATE \$<TARGET_PROPERTY:accrue::accrue,INTERFACE_INCLUDE_DIRECTORIES>)
END
cmake -S "$work/project" -B "$work/added" -G "$generator" >"$work/out" 2>&1 || die "$(cat "$work/out")"
lean "$work/added" ""
parts=(alone accrue_opened accrue_models)
! grep -qw accrue_embedded "$work/targets" || parts+=(accrue_embedded)
cmake --build "$work/added" --target "${parts[@]}" >"$work/out" 2>&1 || die "$(cat "$work/out")"
