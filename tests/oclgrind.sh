#!/bin/sh
# Runs the op kernels under oclgrind, which finds accesses outside buffers, races and uninitialised reads of private
# and local memory:
#   tests/oclgrind.sh TEST_OPS [FAMILY...]
#   tests/oclgrind.sh TEST_OPENCL_JOINED
# Fails when a test fails or when oclgrind reports anything.
set -eu
program=$1
shift
log=$(mktemp)
cache=$(mktemp -d)
trap 'rm -rf "$log" "$cache"' EXIT

# Our kernels are the subject, so not CLBlast's. A cache of its own, since a program kept for another driver is none
# for this one. Oclgrind adds up the local memory of all kernels of a program, hence the size.
status=0
ACCRUE_CACHE_DIR=$cache ACCRUE_TEST_DEVICES=opencl:0 ACCRUE_CLBLAST=0 \
  oclgrind --data-races --local-mem-size 262144 --log "$log" "$program" --reduced "$@" || status=$?
if [ -s "$log" ]; then
  head -n 60 "$log" >&2
  echo "oclgrind reported the errors above" >&2
  exit 1
fi
exit "$status"
