#!/usr/bin/env bash
# tests/cli/selfcontained.sh SELFCONTAINED ACCRUE: the program linked with archives needs libc alone, does what the
# other one does, and runs where there is no OpenCL loader. Without arguments there are no archives to link it with,
# which is a failure where all that tests need was installed.
set -euo pipefail
if (($# == 0)); then
  echo "no self-contained program: archives are missing, as cmake has said"
  if [[ ${ACCRUE_TEST_OPENCL:-} || ${CI:-} ]]; then exit 1; fi
  exit 77
fi
program=$1 other=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMP_WAIT_POLICY=passive

die() {
  echo "FAILED: $*" >&2
  exit 1
}

ldd "$program" >libraries
grep -q 'libc\.so' libraries || die "ldd names no libc: $(cat libraries)"
others=$(grep -vE 'linux-vdso|ld-linux|lib(c|m|dl|pthread|rt)\.so' libraries || true)
[[ -z $others ]] || die "it needs more than libc: $others"

# The same devices, OpenBLAS with the same kernels among them.
"$program" devices --json >devices
"$other" devices --json >devices.other
cmp devices devices.other

seq 1 1500 >text
train() { # PROGRAM DEVICE OUT
  "$1" train gpt --data text --device "$2" --out "$3" --layers 1 --heads 2 --width 16 --context 16 --batch 6 \
    --eval-every 0 --steps 5 >/dev/null 2>err || die "training on $2: $(cat err)"
}
train "$program" cpu a
train "$other" cpu b
cmp a/model.safetensors b/model.safetensors

if grep -q '"id": "opencl:0"' devices; then
  train "$program" opencl:0 c
  train "$other" opencl:0 d
  cmp c/model.safetensors d/model.safetensors
fi

# A file that is not a library hides the loader.
mkdir hidden
: >hidden/libOpenCL.so.1
export LD_LIBRARY_PATH=$work/hidden
"$program" devices --json >devices
grep -q '"id": "cpu"' devices || die "no CPU without a loader"
if grep -q '"id": "opencl' devices; then die "the loader is not hidden"; fi
train "$program" auto e
cmp a/model.safetensors e/model.safetensors
status=0
"$program" train gpt --data text --device opencl 2>err || status=$?
((status == 1)) || die "status $status for a device that is not there: $(cat err)"
