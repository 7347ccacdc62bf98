#!/usr/bin/env bash
# tools/gpu-check.sh [--any] [--no-bench] [--report FILE] [--accrue PROGRAM --tests TEST_OPS [--vectors DIR]]
# Builds Accrue, lists the devices and, on every OpenCL GPU (--any: on every OpenCL device), runs the tests of all
# ops, the benchmarks, and short training runs in each precision whose losses are compared with the CPU's. All that
# it finds goes into one report; it goes on after a failure and exits 1 in the end.
#
# tools/gpu-check.sh --kit DIR
# For a machine where nothing can be built: fills DIR with self-contained programs, the tests' vectors, an OpenCL
# loader and this script. There, DIR/gpu-check.sh needs neither packages nor the source.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/.." && pwd)
accrue='' tests='' vectors='' any=0 bench=1 report=gpu-check.md kit=''

usage() {
  echo "gpu-check: $1; usage: gpu-check.sh [--any] [--no-bench] [--report FILE]" \
    "[--accrue PROGRAM --tests TEST_OPS [--vectors DIR]] | --kit DIR" >&2
  exit 2
}
while (($#)); do
  case $1 in
    --any) any=1 ;;
    --no-bench) bench=0 ;;
    --report | --accrue | --tests | --vectors | --kit)
      (($# >= 2)) || usage "$1 needs a value"
      declare "${1#--}=$2"
      shift
      ;;
    *) usage "unknown argument $1" ;;
  esac
  shift
done
[[ ${accrue:+given} == "${tests:+given}" ]] || usage "--accrue and --tests go together"

# ---- building ---------------------------------------------------------------------------------------

# build FOLDER FLAG...: the program and the test of ops, from the source around this script.
build() {
  local folder=$1
  shift
  # shellcheck source=tools/packages.sh
  source "$root/tools/packages.sh"
  install_packages "${build_packages[@]}" "${static_packages[@]}" libcmocka-dev ||
    echo "gpu-check: packages could not be installed; trying without" >&2
  cmake -S "$root" -B "$folder" -DCMAKE_BUILD_TYPE=Release "$@" >/dev/null &&
    cmake --build "$folder" --parallel "$(nproc)" --target accrue_program test_ops >/dev/null
}

# library PROGRAM NAME: the path of a shared library that PROGRAM loads, or that the linker's cache knows.
library() {
  { ldd "$1" | awk -v name="$2" '$1 == name { print $3 }' && ldconfig -p | awk -v name="$2" '$1 == name { print $NF }'; } |
    head -n 1
}

make_kit() {
  local folder=$root/build/gpu-check-kit
  build "$folder" -DACCRUE_STATIC=ON || exit 1
  mkdir -p "$kit" &&
    cp "$folder/bin/accrue" "$folder/bin/test_ops" "$here/gpu-check.sh" "$kit/" &&
    cp -r "$root/tests/vectors" "$kit/" &&
    cp -L "$(library "$folder/bin/test_ops" libcmocka.so.0)" "$kit/libcmocka.so.0" &&
    cp -L "$(PATH=$PATH:/sbin library "$folder/bin/accrue" libOpenCL.so.1)" "$kit/libOpenCL.so.1" &&
    strip "$kit/accrue" "$kit/test_ops" || exit 1
  git -C "$root" rev-parse --short HEAD >"$kit/commit" 2>/dev/null
  echo "The kit is in $kit ($(du -sh "$kit" | cut -f 1))."
  exit 0
}

if [[ -n $kit ]]; then make_kit; fi
if [[ -z $accrue && -x $here/accrue && -x $here/test_ops ]]; then
  accrue=$here/accrue tests=$here/test_ops vectors=${vectors:-$here/vectors}
fi
if [[ -z $accrue ]]; then
  accrue=$root/build/gpu-check/bin/accrue tests=$root/build/gpu-check/bin/test_ops
  build "$root/build/gpu-check" || {
    echo "gpu-check: the build failed" >&2
    exit 1
  }
fi
accrue=$(realpath "$accrue") tests=$(realpath "$tests")

# ---- the report -------------------------------------------------------------------------------------

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$report" || exit 1
report=$(realpath "$report")
failures=()

say() { printf '%s\n' "$@" | tee -a "$report"; }
fail() {
  failures+=("$1")
  say "" "**FAILED: $1**"
}
# A block of the report from the standard input, blank or not.
quote() {
  say "" '```'
  tee -a "$report"
  say '```'
}
# try SECONDS NAME COMMAND...: runs it with its output in $work/out, and says that it failed.
try() {
  local limit=$1 name=$2 status=0
  shift 2
  timeout "$limit" "$@" >"$work/out" 2>&1 </dev/null || status=$?
  ((status)) || return 0
  if ((status == 124)); then fail "$name: not done after $limit s"; else fail "$name: exit status $status"; fi
  return 1
}
# attempt SECONDS NAME COMMAND...: the same, and quotes the end of what it said.
attempt() {
  try "$@" && return
  tail -n 30 "$work/out" | quote
  return 1
}

# ---- devices ----------------------------------------------------------------------------------------

# A loader that came along with the program serves where the system has none.
beside=$(dirname "$accrue")
if [[ -e $beside/libOpenCL.so.1 ]] && ! PATH=$PATH:/sbin ldconfig -p | grep -q 'libOpenCL\.so\.1'; then
  export LD_LIBRARY_PATH=$beside${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
export ACCRUE_CACHE_DIR=$work/cache
if [[ -n $vectors ]]; then
  ACCRUE_TEST_VECTORS=$(realpath "$vectors")
  export ACCRUE_TEST_VECTORS
fi

# The ids of the devices to check, one a line.
list_devices() {
  "$accrue" devices --json 2>/dev/null | awk -v any=$any -F '"' '
    $2 == "id" { id = $4 }
    $2 == "gpu" && id ~ /^opencl/ && (any || $0 ~ /true/) { print id }'
}

# Containers often mount a driver without the .icd file that makes it known to the loader, or where the linker does
# not look. Writes the former for every driver that there is, beside those that are known.
find_drivers() {
  local names=(-name 'libnvidia-opencl.so.*' -o -name 'libamdocl64.so*' -o -name 'libigdrcl.so*' -o -name 'libmali.so*')
  if ((any)); then names+=(-o -name 'libpocl.so.*'); fi
  local path stem vendors=$work/vendors known=${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}
  mkdir "$vendors"
  if [[ -d $known ]]; then cp "$known"/*.icd "$vendors/" 2>/dev/null; fi
  while IFS= read -r -d '' path; do
    head -c 5 "$path" | grep -q $'\x02' || continue # not of 64 bits
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$path")
    stem=$(basename "$path")
    stem=${stem%%.so*}
    grep -qsF "$stem" "$vendors"/*.icd && continue
    echo "$path" >"$vendors/$stem.icd"
    say "- a driver that no .icd file named: $path"
  done < <(find / \( -path /proc -o -path /sys \) -prune -o \( "${names[@]}" \) ! -type d -print0 2>/dev/null |
    xargs -r -0 realpath -z | sort -zu)
  export OCL_ICD_VENDORS=$vendors LD_LIBRARY_PATH
}

describe_machine() {
  say "# Accrue on $(uname -n), $(date -u '+%Y-%m-%d %H:%M UTC')" "" \
    "- $("$accrue" --version 2>&1), $(cat "$here/commit" 2>/dev/null || git -C "$root" rev-parse --short HEAD 2>/dev/null)" \
    "- $(uname -srm), $(. /etc/os-release 2>/dev/null && echo "${PRETTY_NAME:-}")" \
    "- $(nproc) processors: $(awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)"
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null |
      while IFS= read -r line; do say "- nvidia-smi: $line"; done
  fi
}

# ---- checks of one device ---------------------------------------------------------------------------

check_ops() {
  local id=$1 family passed=0 names
  say "" "### Tests of the ops, beside the CPU"
  if ! attempt 60 "the list of ops" "$tests" --list; then return; fi
  mapfile -t names <"$work/out"
  if ((!${#names[@]})); then
    fail "$id: the list of ops is empty"
    return
  fi
  for family in "${names[@]}"; do
    if ACCRUE_TEST_DEVICES=cpu,$id attempt 600 "$id: tests of $family" "$tests" "$family"; then
      if grep -q "on $id" "$work/out"; then passed=$((passed + 1)); else fail "$id: $family was not tested"; fi
    fi
  done
  say "" "$passed of ${#names[@]} families of ops pass."
}

is_gpu() {
  "$accrue" devices --json 2>/dev/null | awk -v wanted="$1" -F '"' '
    $2 == "id" { id = $4 }
    $2 == "gpu" && id == wanted && /true/ { found = 1 }
    END { exit !found }'
}

check_bench() {
  local id=$1 flags=() line
  say "" "### Benchmarks"
  # Of what is no GPU only that they run is of interest, and at full size they would take an hour.
  is_gpu "$id" || flags=(--size 256 --batch 1 --context 16 --seconds 0.05 --samples 5 --visits 1)
  # Rows come with the last of several visits: after a failure the first ones, as far as they go.
  try 1800 "$id: bench all" "$accrue" bench all --device "$id" "${flags[@]}" || ((${#flags[@]})) ||
    try 1800 "$id: bench all, once more" "$accrue" bench all --device "$id" --visits 1
  quote <"$work/out" # rows are worth having whatever became of those after them
  grep '^left out on ' "$work/out" >"$work/left" || return 0
  say "" "Left out:" ""
  while IFS= read -r line; do
    say "- $line"
    [[ $line != "left out on $id: a step of "* ]] || fail "$id: bench: ${line#"left out on $id: "}"
  done <"$work/left"
}

write_data() {
  seq 1 20000 >"$work/text"
  # IDX: 400 images of 16 x 16, the bytes of the text, and labels from 0 to 9.
  { printf '\0\0\10\3\0\0\1\220\0\0\0\20\0\0\0\20' && head -c $((400 * 16 * 16)) "$work/text"; } >"$work/images"
  { printf '\0\0\10\1\0\0\1\220' && printf '\0\1\2\3\4\5\6\7\10\11%.0s' {1..40}; } >"$work/labels"
}

# Images are learnt so slowly that differences of rounding do not grow.
train() { # KIND DEVICE PRECISION METRICS
  local flags
  case $1 in
    gpt) flags=(--data "$work/text" --steps 50 --layers 2 --heads 2 --width 64 --context 32) ;;
    *) flags=(--images "$work/images" --labels "$work/labels" --steps 20 --batch 16 --lr 1e-4) ;;
  esac
  attempt 600 "$2: training of $1 in $3" "$accrue" train "$1" "${flags[@]}" --device "$2" --precision "$3" \
    --eval-every 0 --out "$work/model" --metrics "$work/metrics" && mv "$work/metrics" "$4"
}

# The losses of two runs, step by step: the largest relative difference, the last losses, the median step. Otherwise
# what is wrong with them.
compare_losses() {
  awk -F '[,:]' '
    function field(name) { match($0, "\"" name "\":[^,}]*"); return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) }
    function stop(text) { print text; stopped = 1; exit 1 }
    !/"event":"step"/ { next }
    !(field("loss") + 0) { stop("the loss of a step is " field("loss")) }
    FNR == NR { loss[++steps] = field("loss"); next }
    {
      if (++seen > steps) stop("the runs have different lengths")
      difference = (field("loss") - loss[seen]) / loss[seen]
      if (difference < 0) difference = -difference
      if (!(difference <= most)) most = difference
      last = field("loss")
      time[seen] = field("seconds") + 0
    }
    END {
      if (stopped) exit 1
      if (!seen || seen != steps) stop("the runs have different lengths")
      for (i = 1; i <= seen; i++)
        for (j = i; j > 1 && time[j] < time[j - 1]; j--) { t = time[j]; time[j] = time[j - 1]; time[j - 1] = t }
      printf "%.2e %.5f %.5f %.2f\n", most, loss[seen], last, 1000 * time[int((seen + 1) / 2)]
    }' "$1" "$2"
}

check_training() {
  local id=$1 kind precision result largest cpu device step rows=()
  # What is stored in bf16 is rounded eight times as coarsely as in f16.
  local -A most=([f32]=2e-3 [f16]=2e-3 [bf16]=1e-2)
  say "" "### Training, beside the CPU" "" \
    "Small models, a few steps; losses may differ by ${most[f32]} of their value, in bf16 by ${most[bf16]}."
  for kind in gpt resnet mobilenet; do
    for precision in f32 f16 bf16; do
      [[ -e $work/cpu.$kind.$precision ]] || train "$kind" cpu "$precision" "$work/cpu.$kind.$precision" || continue
      train "$kind" "$id" "$precision" "$work/here" || continue
      if ! result=$(compare_losses "$work/cpu.$kind.$precision" "$work/here"); then
        fail "$id: training of $kind in $precision: $result"
        continue
      fi
      read -r largest cpu device step <<<"$result"
      rows+=("| $kind | $precision | $cpu | $device | $largest | $step ms |")
      awk -v x="$largest" -v most="${most[$precision]}" 'BEGIN { exit !(x <= most) }' ||
        fail "$id: training of $kind in $precision: losses differ by $largest"
    done
  done
  say "" "| model | precision | loss on the CPU | loss here | largest difference | step here |" \
    "|---|---|---|---|---|---|" "${rows[@]}"
}

# ---- all of it --------------------------------------------------------------------------------------

describe_machine
mapfile -t devices < <(list_devices)
if ((!${#devices[@]})); then
  find_drivers
  mapfile -t devices < <(list_devices)
fi
say "" "## Devices"
if attempt 60 "the list of devices" "$accrue" devices; then quote <"$work/out"; fi
if ((!${#devices[@]})); then
  if ((any)); then fail "there is no OpenCL device"; else fail "there is no OpenCL GPU (--any takes any device)"; fi
fi

write_data
for id in "${devices[@]}"; do
  say "" "## $id"
  check_ops "$id"
  check_training "$id"
  if ((bench)); then check_bench "$id"; fi
done

say "" "## Result" ""
if ((${#failures[@]})); then
  say "${#failures[@]} failed:" "" "${failures[@]/#/- }"
else
  say "Nothing failed."
fi
echo "The report is in $report." >&2
((!${#failures[@]}))
