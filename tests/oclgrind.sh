#!/bin/sh
# Runs the op kernels under oclgrind, which finds accesses outside buffers, races and uninitialised reads of private
# and local memory:
#   tests/oclgrind.sh TEST_OPS [FAMILY...]
# Fails when a test fails or when oclgrind reports anything.
set -eu
program=$1
shift
log=$(mktemp)
cache=$(mktemp -d)
trap 'rm -rf "$log" "$cache"' EXIT

# The program cache would hold another driver's kernels; only oclgrind's own device is there to be opened.
status=0
ACCRUE_CACHE_DIR=$cache ACCRUE_TEST_DEVICES=opencl:0 \
  oclgrind --data-races --log "$log" "$program" --reduced "$@" || status=$?
if [ -s "$log" ]; then
  head -n 60 "$log" >&2
  echo "oclgrind reported the errors above" >&2
  exit 1
fi
exit "$status"
