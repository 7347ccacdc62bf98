#!/usr/bin/env bash
# tools/quickstart.sh [TEXT FILE OR FOLDER]
# Builds Accrue, trains a byte-level GPT within 64 MiB on a text (by default on this machine's C headers)
# and lets it write. ACCRUE_NO_INSTALL=1 installs nothing.
set -euo pipefail

if (($# > 1)) || [[ ${1:-} == -* ]]; then
  echo "usage: tools/quickstart.sh [TEXT FILE OR FOLDER]" >&2
  exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/quickstart
data=${1:-/usr/include}
if [[ ! -e $data ]]; then
  echo "quickstart: there is no $data" >&2
  exit 2
fi
limit=2MiB
if (($#)); then limit=16MiB; fi
# shellcheck source=tools/packages.sh
source "$root/tools/packages.sh"

headline() { printf '\n== %s\n' "$1"; }

install_packages "${build_packages[@]}"

headline "Building a release in $build"
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DACCRUE_TESTS=OFF >/dev/null
cmake --build "$build" --parallel "$(nproc)" >/dev/null
accrue=$build/bin/accrue

headline "Devices"
"$accrue" devices

headline "Training on $data within 64 MiB"
"$accrue" train gpt --data "$data" --max-bytes "$limit" --memory 64MiB --eval-samples 512 \
  --out "$build/model" --overwrite

headline "300 bytes from the model"
"$accrue" sample --model "$build/model" --bytes 300
echo

headline "Files"
echo "program  $accrue"
echo "model    $build/model/model.safetensors"
echo "metrics  $build/model/metrics.jsonl"
echo "next     $root/docs/start/first-run.md"
