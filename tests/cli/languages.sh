#!/usr/bin/env bash
# tests/cli/languages.sh SOURCE LIBRARY-FOLDER: the headers, what they teach and the examples that say so compile in
# C17, C++11, C++17 and C++20 without a warning; the example in C++ runs. With gcc's and clang's compilers as far as
# they are there; without one for C++ the test is skipped. A second argument of "" leaves the running out.
set -euo pipefail
source=$1 library=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strict=(-Wall -Wextra -Wpedantic -Werror -I "$source/include")

# What a program in either language writes: base.h's form for every description, and AC_SHAPE.
cat >"$work/use.c" <<'END'
#include <accrue/accrue.h>

bool every_description(void);
ac_tensor *shapes(ac_graph *graph, int64_t rows);
bool stop_at_evaluations(void *user, const ac_fit_event *event);

bool every_description(void) {
  ac_init init = AC_DEFAULTS;
  ac_parameter_desc parameter = AC_DEFAULTS;
END
sed 's/AC_UNSTABLE(\([a-z0-9_]*\))/\1/' "$source"/include/accrue/*.h |
  grep -oE '^\} ac_[a-z0-9_]*(_desc|schedule|augmentation);' | tr -d '};' | sort -u |
  grep -v ac_parameter_desc | awk '{print "  " $1 " " $1 "_ = AC_DEFAULTS; (void)" $1 "_;"}' >>"$work/use.c"
cat >>"$work/use.c" <<'END'
  parameter.init = init;
  return parameter.frozen;
}

ac_tensor *shapes(ac_graph *graph, int64_t rows) {
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, rows, 4));
  ac_tensor *w = ac_parameter(graph, "w", AC_SHAPE(8, 4), NULL);
  return ac_reshape(ac_linear(x, w, NULL, AC_OUT_IN), AC_SHAPE(AC_BATCH_TIMES(rows), 8));
}

bool stop_at_evaluations(void *user, const ac_fit_event *event) {
  (void)user;
  return event->kind == AC_FIT_STEP;
}

#ifndef __cplusplus
int64_t with_designators(void);
int64_t with_designators(void) {
  ac_plan_desc policy = {.batch = 64};
  return policy.batch;
}
#endif
END
# What C++ alone writes: a wrapping of its own, as around headers of C, and sizes of the standard library's type.
cat >"$work/wrapped.cpp" <<'END'
#include <cstddef>
extern "C" {
#include <accrue/accrue.h>
}

ac_tensor *shapes(ac_graph *graph, std::size_t rows, int columns);
ac_tensor *shapes(ac_graph *graph, std::size_t rows, int columns) {
  return ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, rows, columns, 4u));
}
END
for header in "$source"/include/accrue/*.h; do
  echo "#include <accrue/$(basename "$header")>" >"$work/alone_$(basename "$header" .h).c"
done

check() { # COMPILER LANGUAGE STANDARD FILE...
  local compiler=$1 language=$2 standard=$3
  shift 3
  "$compiler" -x "$language" "-std=$standard" "${strict[@]}" -fsyntax-only "$@" ||
    { echo "$compiler $standard: $*" >&2; return 1; }
}

plain=() plus=()
for compiler in gcc clang; do command -v $compiler >/dev/null && plain+=("$compiler"); done
for compiler in g++ clang++; do command -v $compiler >/dev/null && plus+=("$compiler"); done
((${#plus[@]})) || { echo "no compiler for C++"; exit 77; }

for compiler in "${plain[@]}"; do
  check "$compiler" c c17 -I "$source/tools" "$work"/*.c "$source"/examples/*.c "$source"/examples/template/*.c
done
for compiler in "${plus[@]}"; do
  for standard in c++11 c++17 c++20; do
    check "$compiler" c++ $standard "$work"/*.c "$work"/*.cpp "$source"/examples/first_model.c \
      "$source"/examples/*.cpp
  done
done
[[ $library ]] || exit 0

for compiler in "${plus[@]}"; do
  for example in "$source"/examples/*.cpp; do
    "$compiler" -std=c++11 "${strict[@]}" "$example" -o "$work/program" -L "$library" -laccrue "-Wl,-rpath,$library"
    echo "$compiler $(basename "$example")"
    "$work/program"
  done
done
