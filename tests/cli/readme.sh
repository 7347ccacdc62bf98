#!/usr/bin/env bash
# tests/cli/readme.sh SOURCE PROGRAM DATA: the C program of docs/start/first-model.md is examples/first_model.c, which the
# build compiles to PROGRAM, and the README shows lines of it. If DATA has digits, it prints loss and accuracy of images held
# back, learns, and saves the model. The README fits a screen.
set -euo pipefail
source=$1 program=$2 data=$(realpath "$3" 2>/dev/null || true)
# c_lines FILE: the lines of its blocks of C.
c_lines() { awk '/^```c$/ {inside = 1; next} /^```$/ {inside = 0} inside' "$1"; }

diff <(c_lines "$source/docs/start/first-model.md") "$source/examples/first_model.c"
[[ $(c_lines "$source/README.md" | wc -l) -ge 10 ]] || { echo "the README has no C"; exit 1; }
if diff "$source/examples/first_model.c" <(c_lines "$source/README.md") | grep '^>'; then
  echo "these lines of the README are not in examples/first_model.c, or not in this order"
  exit 1
fi
(($(wc -l <"$source/README.md") <= 100 && $(wc -w <"$source/README.md") <= 900)) ||
  { echo "the README has more than 100 lines or 900 words"; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
if "$program" "$work" >out 2>err; then echo "no data, and no failure"; exit 1; fi
grep -q 'holds neither' err
compgen -G "$data/*images*" >/dev/null || exit 0
"$program" "$data" | tee out
tail -n 1 out | awk '/^loss 0\.[0-9]+, accuracy 0\.[0-9]+$/ && $NF > 0.88 {good = 1} END {exit !good}'
test -s digits.safetensors
