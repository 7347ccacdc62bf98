#!/usr/bin/env bash
# tests/added_optimizer/run.sh SOURCE WORK GENERATOR: an optimizer is its row, the op of its step, and a line in each of four
# files, as docs/contribute/add-an-optimizer.md lists them. A copy of the tree is given one more optimizer, built and tested;
# nothing else in it is changed. The copy stays in WORK, so that the next run builds what has changed since, and is built
# without optimisation.
set -euo pipefail
source=$1 work=$2 generator=$3 here=$1/tests/added_optimizer/tree
copy=$work/source build=$work/build
mkdir -p "$work"
rm -rf "$copy"
mkdir "$copy"
cp -rp "$source"/{CMakeLists.txt,CMakePresets.json,cl,docs,examples,include,src,tests,tools} "$copy"

lines=(include/accrue/optimizer.h src/optimizer/list.h src/ops/list.h docs/flags/optimizer.md)
page=$source/docs/contribute/add-an-optimizer.md
touched=$({ printf '%s\n' "${lines[@]}" && cd "$here" && find -- * -type f; } | sed 's|signum|NAME|' | sort)
listed=$(sed -n '/^## Files/,/^## The row/s/^| `\([^`]*\)` |.*/\1/p' "$page" | sort)
diff <(echo "$touched") <(echo "$listed") || { echo "$page does not list what an optimizer takes" >&2; exit 1; }
grep -q "^An optimizer takes $(wc -l <<<"$touched") files" "$page" ||
  { echo "$page has another number of files" >&2; exit 1; }

change() { # FILE SED LINES: so many lines differ; what is built already stays so
  sed -i "$2" "$copy/$1"
  (($(diff "$source/$1" "$copy/$1" | grep -c '^[<>]') == $3)) || { echo "$1: not one line" >&2; exit 1; }
  touch -r "$source/$1" "$copy/$1"
}
change include/accrue/optimizer.h 's/^  AC_UNSTABLE(AC_OPTIMIZER_COUNT)/  AC_UNSTABLE(AC_SIGNUM), \/**< One float for each element. *\/\n&/' 1
change src/optimizer/list.h 's/^  X(AC_OPTIMIZER_CALLBACK/  X(AC_SIGNUM, signum) \\\n&/' 1
change src/ops/list.h 's/^  F(update, adafactor)/  F(update, signum) X(signum, "p", "pbs") \/* g -> p momentum w?, in place *\/ \\\n&/' 1
change docs/flags/optimizer.md '/^value: /s/$/|signum/' 2

(cd "$here" && find . -type f) | while read -r file; do
  [[ ! -e $copy/$file ]] || { echo "$file is there already" >&2; exit 1; }
done
cp -rp "$here/." "$copy"

cat >"$work/compile" <<'END'
#!/bin/sh
exec $(command -v ccache) "$@" -O0
END
chmod +x "$work/compile"
cmake -S "$copy" -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=None "-DCMAKE_C_COMPILER_LAUNCHER=$work/compile" \
  -DACCRUE_TESTS=ON >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$build" --parallel 2 --target test_ops test_signum accrue_program >"$work/log" 2>&1 ||
  { tail -n 60 "$work/log"; exit 1; }

# The op of its step, and the optimizer, on every device.
ctest --test-dir "$build" -N | grep ' op_signum$'
ctest --test-dir "$build" -R '^(op_)?signum$' --output-on-failure

# The program takes it.
cd "$work"
program=$build/bin/accrue
printf 'So many words are enough for a plan. %.0s' {1..40} >text
bytes() { # OPTIMIZER: of its state
  "$program" plan gpt --data text --device cpu --optimizer "$1" --gradients folded --clip 0 --json |
    sed -n 's/^ *"optimizer": \([0-9]*\).*/\1/p'
}
(($(bytes adamw) == 2 * $(bytes signum))) || { echo "the plan does not count its state" >&2; exit 1; }
"$program" plan gpt --data text --optimizer lamb 2>refused && { echo "an unknown optimizer is taken" >&2; exit 1; }
grep -q 'adam-mini or signum' refused || { cat refused; echo "it is not among the choices" >&2; exit 1; }
"$program" plan gpt --data text --optimizer muon --optimizer-state 8bit 2>refused &&
  { echo "muon's state is taken in 8 bits" >&2; exit 1; }
grep -q 'is for adamw, sgd, lion and signum, not for muon' refused || { cat refused; exit 1; }
