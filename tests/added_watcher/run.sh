#!/usr/bin/env bash
# tests/added_watcher/run.sh SOURCE WORK GENERATOR: a watcher is one file and one row. A copy of the tree is given one more,
# built, and a program looks at it from outside: it is called, what it keeps is part of states and comes through a range
# test, and a way of gradients that lacks what it needs is refused. docs/contribute/add-a-watcher.md names the same number
# of files. The copy stays in WORK, so that the next run builds what has changed since, and is built without optimisation.
set -euo pipefail
source=$1 work=$2 generator=$3 here=$1/tests/added_watcher
copy=$work/source build=$work/build
mkdir -p "$work"
rm -rf "$copy"
mkdir "$copy"
cp -rp "$source"/{CMakeLists.txt,CMakePresets.json,cl,docs,examples,include,src,tests,tools} "$copy"
cp -rp "$here/tree/." "$copy"
sed -i 's/^  W(noise_layers)$/  W(noise_layers)      \\\n  W(least)/' "$copy/src/observe/list.h"
touch -r "$source/src/observe/list.h" "$copy/src/observe/list.h"

changed=$(cd "$copy" && find include src tools cl -type f | while read -r file; do
  cmp -s "$file" "$source/$file" || echo "$file"
done | sort)
[[ $changed == $'src/observe/least.c\nsrc/observe/list.h' ]] || { echo "other files are changed: $changed" >&2; exit 1; }
grep -q "^A watcher is $(wc -l <<<"$changed") files" "$source/docs/contribute/add-a-watcher.md" ||
  { echo "docs/contribute/add-a-watcher.md names another number of files" >&2; exit 1; }

cat >"$work/compile" <<'END_OF_SCRIPT'
#!/bin/sh
exec $(command -v ccache) "$@" -O0
END_OF_SCRIPT
chmod +x "$work/compile"
cmake -S "$copy" -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=None "-DCMAKE_C_COMPILER_LAUNCHER=$work/compile" \
  -DACCRUE_TESTS=OFF -DACCRUE_OPENCL=OFF >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$build" --parallel 2 --target accrue >"$work/log" 2>&1 || { tail -n 60 "$work/log"; exit 1; }
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
"$compiler" -std=c17 -Wall -I"$copy/include" -I"$build/include" "$here/main.c" -o "$work/main" -L"$build" -laccrue -lm \
  -Wl,-rpath,"$build"
cd "$work"
./main
echo "a watcher that was added works"
