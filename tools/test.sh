#!/usr/bin/env bash
# Builds Accrue optimised and with sanitizers, warnings being errors, and runs all tests of both builds.
# Ends in ctest's closing line; fails if anything does. ACCRUE_NO_INSTALL=1 installs nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

install_packages "${build_packages[@]}" "${test_packages[@]}"
if [[ $(uname -m) == x86_64 ]]; then
  install_packages "${cross_packages[@]}" "${gpu_packages[@]}"
  if [[ ${ACCRUE_NO_INSTALL:-} != 1 ]]; then unpack_arm64_packages build/ci/aarch64/root; fi
fi

for preset in ci ci-sanitize; do
  cmake --preset "$preset"
  cmake --build --preset "$preset" --parallel "$(nproc)"
done
# Threads that wait by spinning would take the cores from each other on a busy machine.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
# What was just installed must be found.
if [[ ${ACCRUE_NO_INSTALL:-} != 1 ]]; then export ACCRUE_TEST_OPENCL=1 ACCRUE_TEST_FUZZ=1 ACCRUE_TEST_AARCH64=1 ACCRUE_TEST_KERNELS=1; fi
# Both halves run, whatever the first one finds. Failures are repeated at the end.
failed=()
for preset in ci ci-sanitize; do
  ctest --preset "$preset" --parallel "$(nproc)" 2>&1 | tee "build/$preset/ctest.txt" || failed+=("$preset")
done
for preset in ${failed[@]+"${failed[@]}"}; do
  echo "Failed with the preset $preset:"
  sed -n '/% tests passed/,$p' "build/$preset/ctest.txt"
done
((${#failed[@]} == 0))
