#!/usr/bin/env bash
# tools/gpu-check.sh [--any] [--no-bench] [--minutes N] [--jobs N] [--report FILE]
#   [--accrue PROGRAM --tests TEST_OPS [--vectors DIR]]
# Builds Accrue, lists the devices and, on every OpenCL GPU (--any: on every OpenCL device), runs the tests of all ops, short
# training runs in each precision, to compare losses with the CPU's, and benchmarks: what the device does at best, the
# kernels compared with that, training steps, planned and real memory. All that it finds goes into one report, the result
# first; it goes on after a failure and exits 1 in the end. After --minutes (20) it ends with what it has, and the report names
# what was left out. --jobs says how many ops are tested at a time (half of the processors, 8 at most): most of the time a
# driver compiles kernels, on one processor for each op.
#
# tools/gpu-check.sh --kit DIR
# For a machine where nothing can be built: fills DIR with self-contained programs, the tests' vectors, an OpenCL
# loader and this script. There, DIR/gpu-check.sh needs neither packages nor the source.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/.." && pwd)
accrue='' tests='' vectors='' any=0 bench=1 minutes=20 jobs='' report=gpu-check.md kit=''

usage() {
  echo "gpu-check: $1; usage: gpu-check.sh [--any] [--no-bench] [--minutes N] [--jobs N] [--report FILE]" \
    "[--accrue PROGRAM --tests TEST_OPS [--vectors DIR]] | --kit DIR" >&2
  exit 2
}
while (($#)); do
  case $1 in
    --any) any=1 ;;
    --no-bench) bench=0 ;;
    --minutes | --jobs | --report | --accrue | --tests | --vectors | --kit)
      (($# >= 2)) || usage "$1 needs a value"
      declare "${1#--}=$2"
      shift
      ;;
    *) usage "unknown argument $1" ;;
  esac
  shift
done
[[ $minutes =~ ^[1-9][0-9]{0,3}$ ]] || usage "--minutes takes a whole number from 1 on"
processors=$(nproc)
if [[ -z $jobs ]]; then jobs=$((processors < 4 ? 1 : processors > 16 ? 8 : processors / 2)); fi
[[ $jobs =~ ^[1-9][0-9]{0,2}$ ]] || usage "--jobs takes a whole number from 1 to 999"
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
failures=() left_out=() short=()
turn=1 turns=1 # the device that is checked now; each device has the same share of the time

say() { printf '%s\n' "$@" | tee -a "$report"; }
fail() {
  failures+=("$1")
  say "" "**FAILED: $1**"
}
leave_out() {
  left_out+=("$1")
  say "" "Left out, as there was no time: $1."
}
# A block of the report from the standard input, unless that is empty.
quote() {
  local text
  text=$(cat)
  if [[ $text ]]; then say "" '```' "$text" '```'; fi
}
# run SECONDS FOLDER COMMAND...: runs it for so long at most, as far as there is time, with its output in FOLDER/out, its
# messages in FOLDER/err, and in FOLDER/status its exit status, or `late` if there was no time for it.
run() {
  local limit=$1 folder=$2 status=0 rest=$((60 * minutes * turn / turns - SECONDS))
  shift 2
  : >"$folder/out"
  : >"$folder/err"
  if ((rest > 0)); then timeout "$((limit < rest ? limit : rest))" "$@" >"$folder/out" 2>"$folder/err" </dev/null || status=$?; fi
  if ((rest <= 0 || (status == 124 && limit > rest))); then status=late; fi
  echo "$status" >"$folder/status"
}
# judge SECONDS FOLDER NAME: reports if the command that ran there failed or had no time.
judge() {
  local status
  status=$(cat "$2/status" 2>/dev/null)
  case ${status:-unknown} in
    0) return 0 ;;
    late) leave_out "$3" ;;
    124) fail "$3: not done after $1 s" ;;
    *) fail "$3: exit status ${status:-unknown}" ;;
  esac
  return 1
}
# Quotes the end of the messages in a folder.
quote_end() {
  cat "$1/out" "$1/err" | tail -n 30 | quote
}
# try SECONDS NAME COMMAND...: runs and judges a command in $work.
try() {
  run "$1" "$work" "${@:3}"
  judge "$1" "$work" "$2"
}
# attempt SECONDS NAME COMMAND...: the same, and quotes the end of its messages.
attempt() {
  try "$@" && return
  quote_end "$work"
  return 1
}

# ---- devices ----------------------------------------------------------------------------------------

# If the system has no loader, the one that came with the program is used.
next_to=$(dirname "$accrue")
if [[ -e $next_to/libOpenCL.so.1 ]] && ! PATH=$PATH:/sbin ldconfig -p | grep -q 'libOpenCL\.so\.1'; then
  export LD_LIBRARY_PATH=$next_to${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
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
# not look. Writes an .icd file for every driver that there is, in addition to those that are known.
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
    "- $processors processors: $(awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)"
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null |
      while IFS= read -r line; do say "- nvidia-smi: $line"; done
  fi
}

# ---- checks of one device ---------------------------------------------------------------------------

# Starts the tests of a family, which shares the processors with the others.
start_family() {
  local folder=$work/ops/$1 threads=$((processors > jobs ? processors / jobs : 1))
  mkdir "$folder"
  ACCRUE_TEST_DEVICES=cpu,$id OMP_NUM_THREADS=$threads run 600 "$folder" "$tests" "$1" &
}

# Judges the families in the order of the list, from where it last ended up to the first that is not done.
judge_families() {
  local family folder
  while ((judged < ${#names[@]})); do
    family=${names[judged]}
    folder=$work/ops/$family
    [[ -s $folder/status ]] || ((ended)) || return 0
    judged=$((judged + 1))
    if ! judge 600 "$folder" "$id: tests of $family"; then
      quote_end "$folder"
    elif grep -qs "on $id" "$folder/out" "$folder/err"; then
      passed=$((passed + 1))
    else
      fail "$id: $family was not tested"
    fi
  done
}

check_ops() {
  local id=$1 family longest='attention|conv2d' passed=0 judged=0 ended=0 names queue
  say "" "### Tests of the ops, against the CPU"
  if ! attempt 60 "the list of ops" "$tests" --list; then return; fi
  mapfile -t names <"$work/out"
  if ((!${#names[@]})); then
    fail "$id: the list of ops is empty"
    return
  fi
  mapfile -t queue < <(grep -xE "$longest" "$work/out"; grep -vxE "$longest" "$work/out")
  rm -rf "$work/ops"
  mkdir "$work/ops"
  for family in "${queue[@]}"; do
    while (($(jobs -rp | wc -l) >= jobs)); do wait -n; done
    start_family "$family"
    judge_families
  done
  wait
  ended=1
  judge_families
  say "" "$passed of ${#names[@]} families of ops pass."
  short+=("$id: $passed of ${#names[@]} families of ops pass their tests.")
}

is_gpu() {
  "$accrue" devices --json 2>/dev/null | awk -v wanted="$1" -F '"' '
    $2 == "id" { id = $4 }
    $2 == "gpu" && id == wanted && /true/ { found = 1 }
    END { exit !found }'
}

# bench WHAT FLAG...: its output is then in $work/out, also rows before a failure.
bench() {
  local what=$1 line
  shift
  try 900 "$id: bench $what $*" "$accrue" bench "$what" --device "$id" "$@" || tail -n 5 "$work/err" | quote
  # Not every device has memory for every op, but whole steps adapt to the memory.
  while IFS= read -r line; do
    say "- $line"
    [[ $line != "left out on $id: a step of "* ]] || fail "$id: bench: ${line#"left out on $id: "}"
  done < <(cat "$work/out" "$work/err" | grep '^left out on ')
}

# The rows of `accrue bench ops`, one line a kernel, the longest first: how close it comes to its roof.
summarise_kernels() {
  awk '
    BEGIN { unit["us"] = 1e-3; unit["ms"] = 1; unit["s"] = 1e3 }
    $2 in unit && $4 == "%" && $6 == "%" {
      time = $1 * unit[$2] * ($12 ? $12 : 1)
      op = $13
      if (time > longest[op]) { longest[op] = time; bound[op] = $7 }
      all[op] += time
      ideal[op] += time * $5 / 100
      if ($8 > flops[op]) flops[op] = $8
      if ($9 > bytes[op]) bytes[op] = $9
    }
    END {
      for (op in all)
        printf "%.3f | %s | %s | %.0f %% | %s | %s | %.2f ms |\n", all[op], op, bound[op], 100 * ideal[op] / all[op], flops[op] ? flops[op] : "-", bytes[op] ? bytes[op] : "-", all[op]
    }' "$1" | sort -rn | sed 's/^[^|]*//'
}

check_kernels() { # FLAG...
  local precision rows
  for precision in f32 bf16; do
    say "" "### Kernels in $precision, compared with the products, the copy and the launch above"
    bench ops --precision "$precision" --visits 1 "$@"
    mapfile -t rows < <(summarise_kernels "$work/out")
    ((${#rows[@]})) || continue
    say "" "Time is that of a micro-batch and an update of each model, or of one run. More than 100 % are of a cache, or of memory" \
      "that is changed in place, which a CPU does faster than it copies." "" \
      "| kernel | bound by | of its roof | GFLOP/s at best | GB/s at best | time |" "|---|---|---|---|---|---|" "${rows[@]}"
    quote <"$work/out"
  done
}

# Bytes that all GPUs have in use, as far as the system tells; nothing otherwise.
gpu_bytes() {
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | awk '{ sum += $1 } END { printf "%.0f\n", sum * 1048576 }'
  elif compgen -G '/sys/class/drm/card*/device/mem_info_vram_used' >/dev/null; then
    cat /sys/class/drm/card*/device/mem_info_vram_used | awk '{ sum += $1 } END { printf "%.0f\n", sum }'
  fi
}

# While the program runs, the memory that a GPU has in use is read from outside.
check_memory() {
  local model watcher before most used planned flags rows=()
  say "" "### Memory: planned and real"
  for model in gpt2-124m resnet18; do
    flags=()
    if ! is_gpu "$id"; then flags=(--batch 1); fi
    before=$(gpu_bytes)
    : >"$work/used"
    while :; do gpu_bytes >>"$work/used"; sleep 0.2; done &
    watcher=$!
    try 300 "$id: bench memory --model $model" "$accrue" bench memory --device "$id" --model "$model" --repeat 3 "${flags[@]}" ||
      { cat "$work/out" "$work/err" | tail -n 5 | quote; }
    kill "$watcher"
    wait "$watcher" 2>/dev/null
    [[ -s $work/out ]] || continue
    most=$(sort -n "$work/used" | tail -n 1) used=-
    if [[ $most ]]; then used="$(((most - before) >> 20)) MiB"; fi
    planned=$(awk '/^planned/ { sub(/^planned */, ""); print }' "$work/out")
    rows+=("| $model | $planned | $(awk '/^training/ { print $(NF - 2), $(NF - 1) }' "$work/out") | $used |")
  done
  say "" "A GPU's memory lies on the device, and its driver takes some for itself; a CPU's lies in the process." "" \
    "| model | planned | more in the process | more on the GPUs |" "|---|---|---|---|" "${rows[@]}"
}

check_steps() { # FLAG...
  local model precision shape rate
  say "" "### Training steps"
  for model in gpt2-124m resnet18; do
    shape=()
    if ! is_gpu "$id"; then shape=(--batch 1); fi
    if ! is_gpu "$id" && [[ $model == gpt* ]]; then shape+=(--context 16); fi
    for precision in f32 bf16; do
      bench step --model "$model" --precision "$precision" "${shape[@]}" "$@"
      quote < <(sed -n '/^Training steps/,/^$/p' "$work/out")
      rate=$(grep -oE '[0-9.]+ samples/s' "$work/out") && short+=("$id: $model in $precision: $rate")
    done
  done
}

check_bench() {
  local id=$1 line sizes=() flags=(--seconds 1) steps=()
  # On other devices than GPUs it only matters that they run, and at full size they would take an hour.
  if ! is_gpu "$id"; then
    sizes=(--size 256) flags=(--seconds 0.05 --samples 5) steps=(--batch 1 --context 16)
  fi
  say "" "### What the device does at best"
  bench gemm --visits 1 "${sizes[@]}" "${flags[@]}"
  quote <"$work/out"
  while IFS= read -r line; do short+=("$id: $line"); done < <(grep -E '^(product|copy|launch)' "$work/out" | tr -s ' ')
  check_steps "${flags[@]}"
  check_memory
  check_kernels "${steps[@]}" "${flags[@]}"
}

write_data() {
  seq 1 20000 >"$work/text"
  # IDX: 400 images of 16 x 16, the bytes of the text, and labels from 0 to 9.
  { printf '\0\0\10\3\0\0\1\220\0\0\0\20\0\0\0\20' && head -c $((400 * 16 * 16)) "$work/text"; } >"$work/images"
  { printf '\0\0\10\1\0\0\1\220' && printf '\0\1\2\3\4\5\6\7\10\11%.0s' {1..40}; } >"$work/labels"
}

# Images are learned so slowly that differences of rounding do not grow.
train() { # KIND DEVICE PRECISION METRICS
  local flags
  case $1 in
    gpt) flags=(--data "$work/text" --steps 50 --layers 2 --heads 2 --width 64 --context 32) ;;
    *) flags=(--images "$work/images" --labels "$work/labels" --steps 20 --batch 16 --lr 1e-4) ;;
  esac
  attempt 600 "$2: training of $1 in $3" "$accrue" train "$1" "${flags[@]}" --device "$2" --precision "$3" \
    --eval-every 0 --out "$work/model" --overwrite --metrics "$work/metrics" && mv "$work/metrics" "$4"
}

# The losses of two runs, step by step: the largest relative difference, the last losses, the median step. Or what is
# wrong with them.
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
  local id=$1 kind precision result largest cpu device step within=0 rows=()
  # What is stored in bf16 is rounded eight times as coarsely as in f16.
  local -A most=([f32]=2e-3 [f16]=2e-3 [bf16]=1e-2)
  say "" "### Training, against the CPU" "" \
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
      if awk -v x="$largest" -v most="${most[$precision]}" 'BEGIN { exit !(x <= most) }'; then within=$((within + 1)); else
        fail "$id: training of $kind in $precision: losses differ by $largest"
      fi
    done
  done
  say "" "| model | precision | loss on the CPU | loss here | largest difference | step here |" \
    "|---|---|---|---|---|---|" "${rows[@]}"
  short+=("$id: $within of ${#rows[@]} training runs have the CPU's losses.")
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
turns=${#devices[@]} turn=0
for id in "${devices[@]}"; do
  turn=$((turn + 1))
  say "" "## $id"
  check_ops "$id"
  check_training "$id"
  if ((bench)); then check_bench "$id"; fi
done

# The result comes first in the report, below the line that names the device.
sum_up() {
  printf '%s\n' "" "## Result" ""
  if ((${#failures[@]})); then printf '%s\n' "${#failures[@]} failed:" "" "${failures[@]/#/- }"; else echo "Nothing failed of what was done${left_out:+, which was not all}."; fi
  if ((${#left_out[@]})); then printf '%s\n' "" "${#left_out[@]} left out, as there was no time after $minutes min:" "" "${left_out[@]/#/- }"; fi
  if ((${#short[@]})); then printf '%s\n' "" "In short:" "" "${short[@]/#/- }"; fi
  printf '%s\n' "" "It took $((SECONDS / 60)) min $((SECONDS % 60)) s."
}
sum_up | tee "$work/result"
{ head -n 1 "$report" && cat "$work/result" && tail -n +2 "$report"; } >"$work/report" && cp "$work/report" "$report"
echo "The report is in $report." >&2
((!${#failures[@]}))
