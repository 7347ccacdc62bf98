#!/usr/bin/env bash
# tools/opencl-implementations.sh FOLDER [NAME...] [-- COMMAND...]
# Runs the tests that use OpenCL devices on implementations that run on a CPU, one after the other, and ends with a table:
#   debian      the PoCL that is installed
#   pocl-wheel  the PoCL of the Python package pocl-binary-distribution
#   pocl-new    the PoCL of Debian's unstable distribution, with the C library that it needs
#   intel       Intel's runtime, from Python packages
#   oclgrind    the installed checker of kernels, under which tests/oclgrind.sh runs its part of the tests
# Without names it takes them all. What is not installed is fetched into FOLDER once, with pip and apt-get, and is not
# installed on the system. With COMMAND it runs that instead, such as tools/gpu-check.sh --any. The output is in
# FOLDER/NAME.log. Exits 1 if a test fails or an implementation cannot be fetched. The preset ci must be built, for x86-64.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

all=(debian pocl-wheel pocl-new intel oclgrind)
names=() command=()
usage() {
  echo "opencl-implementations: $1; usage: opencl-implementations.sh FOLDER [NAME...] [-- COMMAND...]; names are ${all[*]}" >&2
  exit 2
}
(($#)) && [[ $1 != -* ]] || usage "there is no folder"
mkdir -p "$1"
folder=$(realpath "$1")
shift
while (($#)); do
  if [[ $1 == -- ]]; then
    shift
    (($#)) || usage "-- is followed by a command"
    command=("$@")
    break
  fi
  [[ " ${all[*]} " == *" $1 "* ]] || usage "unknown implementation $1"
  names+=("$1")
  shift
done
((${#names[@]})) || names=("${all[@]}")
accrue=build/ci/bin/accrue
[[ -x $accrue ]] || usage "$accrue is missing, build the preset ci first"

# ---- fetching -------------------------------------------------------------------------------------------------------

# Says in one sentence why an implementation is not available.
missing() {
  echo "opencl-implementations: $1" >&2
  return 1
}

# fetch_wheels FOLDER NAME...: Python packages and what they need, unpacked.
fetch_wheels() {
  local into=$1 wheel
  shift
  [[ -e $into/complete ]] && return
  command -v pip >/dev/null || missing "there is no pip to fetch $* with; Debian's package is python3-pip" || return
  command -v unzip >/dev/null || missing "there is no unzip to unpack $* with" || return
  rm -rf "$into"
  mkdir -p "$into/wheels"
  echo "Fetching $*"
  pip download --quiet --dest "$into/wheels" "$@" >"$into/pip.log" 2>&1 ||
    missing "pip could not fetch $*, perhaps for want of a network: $(grep -m 1 ERROR "$into/pip.log" || tail -n 1 "$into/pip.log")" ||
    return
  for wheel in "$into"/wheels/*.whl; do unzip -q -o "$wheel" -d "$into" || return; done
  rm -r "$into/wheels"
  touch "$into/complete"
}

# This machine's mirror of Debian, with the newest distribution instead of its own.
fetch_new_pocl() {
  local into=$1 mirror apt_options
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(LABEL)' 'Created-By: Packages' 2>/dev/null |
    awk '$2 == "Debian" { print $1; exit }')
  [[ $mirror ]] || missing "apt-get knows no mirror of Debian to fetch the newest PoCL from" || return
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror unstable main" >"$folder/unstable.list"
  apt_options=(-o Dir::Etc::SourceList="$folder/unstable.list" -o Dir::Etc::SourceParts=-)
  unpack_packages "$into" libpocl2t64 libpocl2-common libc6 libgcc-s1 libhwloc15 libstdc++6 libzstd1 zlib1g 2>"$folder/apt.log" ||
    missing "apt-get could not fetch Debian's newest PoCL, perhaps for want of a network: $(tail -n 1 "$folder/apt.log")"
}

# library FOLDER PATTERN: the path of the one library of that name.
library() { find "$1" -name "$2" ! -type d | sort | head -n 1; }

# prepare NAME: fetches it and writes FOLDER/NAME.vendors, which names its library alone.
prepare() {
  local into=$folder/$1 path
  case $1 in
    debian) path=$(library /usr/lib 'libpocl.so.2') ;;
    pocl-wheel) fetch_wheels "$into" pocl-binary-distribution && path=$(library "$into" 'libpocl-*.so') ;;
    pocl-new) fetch_new_pocl "$into" && path=$(library "$into" 'libpocl.so.2') ;;
    intel)
      # The package of the runtime does not name all libraries that it loads, and finds them in its own folder.
      fetch_wheels "$into" intel-opencl-rt intel-cmplr-lib-rt &&
        mkdir -p "$into/lib" && find "$into" -path '*.data/data/lib/*' ! -name 'libOpenCL.so*' -type f -exec mv -t "$into/lib" {} + &&
        path=$(library "$into/lib" libintelocl.so)
      ;;
  esac || return
  [[ $path ]] || missing "$1: there is no library of that implementation" || return
  mkdir -p "$into.vendors"
  echo "$path" >"$into.vendors/$1.icd"
}

# ---- running --------------------------------------------------------------------------------------------------------

# within NAME COMMAND...: with that implementation's devices and no others. The newest PoCL needs a newer C library: a mount
# that only the command sees puts it over the system's.
within() {
  local name=$1 system new
  shift
  local variables=(OCL_ICD_VENDORS="$folder/$name.vendors" POCL_CACHE_DIR="$folder/$name.kernels" ACCRUE_TEST_DEVICES=opencl:0)
  if [[ $name != pocl-new ]]; then
    env "${variables[@]}" "$@"
    return
  fi
  system=$(dirname "$(realpath /lib64/ld-linux-x86-64.so.2)") new=$(dirname "$(library "$folder/$name" libc.so.6)")
  local as_root=()
  if ((EUID)); then as_root=(--map-root-user); fi
  env "${variables[@]}" unshare "${as_root[@]}" --mount \
    sh -c 'mount -t overlay -o lowerdir="$1:$2" overlay "$2" && shift 2 && exec "$@"' sh "$new" "$system" "$@"
}

rows=() failed=0
# run NAME WHAT COMMAND...: a row of the table.
run() {
  local name=$1 what=$2 status=0 result seconds=$SECONDS
  shift 2
  "$@" >"$folder/$name.log" 2>&1 </dev/null || status=$?
  result=$(grep -E '^[0-9]+% tests passed' "$folder/$name.log" || echo "exit status $status")
  if ((status)); then
    failed=1
    echo "$name: the end of $folder/$name.log:" >&2
    tail -n 25 "$folder/$name.log" >&2
  fi
  rows+=("| $name | $what | $result | $((SECONDS - seconds)) s |")
}

tests=(ctest --preset ci --output-on-failure --parallel "$(nproc)" -L)
for name in "${names[@]}"; do
  if [[ $name == oclgrind ]]; then
    if ((!${#command[@]})); then run oclgrind "$(dpkg-query -W -f '${Version}' oclgrind 2>/dev/null)" "${tests[@]}" '^oclgrind$'; fi
    continue
  fi
  if ! prepare "$name"; then
    failed=1
    rows+=("| $name | | not to be had | |")
    continue
  fi
  echo "== $name"
  if command -v clinfo >/dev/null; then within "$name" clinfo -l || true; fi
  device=$(within "$name" "$accrue" devices | sed -n '/^opencl:0/,$p' || true)
  echo "${device:-Accrue finds no OpenCL device.}"
  if [[ ! $device ]]; then
    failed=1
    rows+=("| $name | | no device | |")
    continue
  fi
  driver=$(sed -n 's/^ *driver *//p' <<<"$device" | head -n 1)
  if ((${#command[@]})); then run "$name" "$driver" within "$name" "${command[@]}"; else
    run "$name" "$driver" within "$name" "${tests[@]}" '^opencl$'
  fi
done

echo
printf '%s\n' "| implementation | driver | result | time |" "|---|---|---|---|" "${rows[@]}"
((!failed))
