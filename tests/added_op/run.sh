#!/usr/bin/env bash
# tests/added_op/run.sh SOURCE WORK GENERATOR: an op is its files, one line in the list and its builder's prototype, as
# docs/contribute/add-an-op.md lists them. A copy of the tree is given one more op, with a workspace and a limit on OpenCL,
# built and tested, on every device; nothing else in it is changed. Until the files are there, the build names them. The
# copy stays in WORK, so that the next run builds what has changed since, and is built without optimisation.
set -euo pipefail
source=$1 work=$2 generator=$3 here=$1/tests/added_op/tree
copy=$work/source build=$work/build
mkdir -p "$work"
rm -rf "$copy"
mkdir "$copy"
cp -rp "$source"/{CMakeLists.txt,CMakePresets.json,cl,docs,examples,include,src,tests,tools} "$copy"

page=$source/docs/contribute/add-an-op.md
touched=$({ echo src/ops/list.h && echo include/accrue/graph.h && cd "$here" && find -- * -type f; } |
  sed 's|pointwise/scaled_square|FOLDER/NAME|' | sort)
listed=$(sed -n '/^## Files/,/^## 1/s/^| `\([^`]*\)` |.*/\1/p' "$page" | sort)
diff <(echo "$touched") <(echo "$listed") || { echo "$page does not list what an op takes" >&2; exit 1; }
grep -q "^An op takes $(wc -l <<<"$touched") files" "$page" || { echo "$page has another number of files" >&2; exit 1; }

add_before() { # FILE PATTERN LINE; what is built already stays so
  sed -i "0,/$2/s//$3\n&/" "$copy/$1"
  (($(diff "$source/$1" "$copy/$1" | grep -c '^[<>]') == 1)) || { echo "$1: not one line more" >&2; exit 1; }
  touch -r "$source/$1" "$copy/$1"
}
ops='X(scaled_square, "s", "s") X(scaled_square_gradient, "ss", "s") \/* x -> y;  dy x -> dx *\/'
add_before src/ops/list.h '^  F(update, numerics)' "  F(pointwise, scaled_square) $ops \\\\"
prototype='AC_API ac_tensor *ac_scaled_square(ac_tensor *x, float factor);'
add_before include/accrue/graph.h '^AC_API ac_tensor \*ac_softmax' "$prototype"

cat >"$work/compile" <<'END'
#!/bin/sh
exec $(command -v ccache) "$@" -O0
END
chmod +x "$work/compile"
configure() {
  cmake -S "$copy" -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=None "-DCMAKE_C_COMPILER_LAUNCHER=$work/compile" \
    -DACCRUE_TESTS=ON >"$work/log" 2>&1
}

if configure; then
  echo "an op without files is built" >&2
  exit 1
fi
for folder in src/ops src/backend/cpu src/backend/opencl tests/ops; do
  grep -qx "  *$folder/pointwise/scaled_square.c" "$work/log" ||
    { cat "$work/log"; echo "$folder/pointwise/scaled_square.c is not asked for" >&2; exit 1; }
done

(cd "$here" && find . -type f) | while read -r file; do
  [[ ! -e $copy/$file ]] || { echo "$file is there already" >&2; exit 1; }
done
cp -rp "$here/." "$copy"
configure || { cat "$work/log"; exit 1; }
cmake --build "$build" --parallel 2 --target test_ops test_random >"$work/log" 2>&1 ||
  { tail -n 60 "$work/log"; exit 1; }

ctest --test-dir "$build" -N | grep ' op_scaled_square$'
ctest --test-dir "$build" -R '^op_scaled_square$' --output-on-failure
"$build/bin/test_random" --graphs 20 --families scaled_square
