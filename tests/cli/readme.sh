#!/usr/bin/env bash
# tests/cli/readme.sh SOURCE PROGRAM DATA: the README's C program is examples/first_model.c, which the build compiles to
# PROGRAM. Where DATA has digits, it prints loss and accuracy of images held back, learns, and saves the model.
set -euo pipefail
source=$1 program=$2 data=$(realpath "$3" 2>/dev/null || true)
diff <(awk '/^```c$/ {inside = 1; next} /^```$/ {inside = 0} inside' "$source/README.md") "$source/examples/first_model.c"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
if "$program" "$work" >out 2>err; then echo "no data, and no failure"; exit 1; fi
grep -q 'holds neither' err
compgen -G "$data/*images*" >/dev/null || exit 0
"$program" "$data" | tee out
tail -n 1 out | awk '/^update [0-9]+: validation loss 0\.[0-9]+, accuracy 0\.[0-9]+$/ && $NF > 0.88 {good = 1} END {exit !good}'
test -s digits.safetensors
