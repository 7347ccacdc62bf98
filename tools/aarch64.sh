#!/usr/bin/env bash
# tools/aarch64.sh [--dir DIR] [--all]: Accrue for 64-bit ARM, on an x86 machine. Builds it with a cross compiler,
# shows that the CPU kernels are vectors of NEON and of SVE in their loops, runs tests of ops and of training under
# qemu on a CPU without SVE and on two of different vector lengths, and compares losses with those of the
# native program. Takes about ten minutes, or two where ACCRUE_TEST_SEED draws a sample (tests/sample.sh); with --all it runs
# every test of ops whole and also the tests of training, in an hour.
#
# DIR (build/aarch64) keeps the packages for ARM, unpacked and not installed, and the build. ACCRUE is the native program
# (build/ci/bin/accrue). With ACCRUE_NO_INSTALL=1 nothing is installed or fetched; if something is missing then, the
# exit status is 77, or 1 if ACCRUE_TEST_AARCH64=1 says that it must be there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tools/packages.sh

folder=build/aarch64 all=
while (($#)); do
  case $1 in
    --dir) folder=${2:?--dir takes a folder} && shift 2 ;;
    --all) all=1 && shift ;;
    *) echo "usage: tools/aarch64.sh [--dir DIR] [--all]" >&2 && exit 2 ;;
  esac
done
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
root=$folder/root build=$folder/build
native=${ACCRUE:-build/ci/bin/accrue}

unable() {
  echo "AArch64 is not tested: $*" >&2
  if [[ ${ACCRUE_TEST_AARCH64:-} == 1 ]]; then exit 1; fi
  exit 77
}
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# ---- what it takes ---------------------------------------------------------------------------------------------

install_packages "${cross_packages[@]}"
for program in aarch64-linux-gnu-gcc aarch64-linux-gnu-objdump qemu-aarch64; do
  command -v $program >/dev/null || unable "there is no $program"
done
[[ -x $native ]] || unable "there is no native program $native to compare with"
unpack_arm64_packages "$root" || unable "packages for arm64 are missing"

# ---- the build -------------------------------------------------------------------------------------------------

libraries=$root/usr/lib/aarch64-linux-gnu
export PKG_CONFIG_LIBDIR=$libraries/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
cmake -S . -B "$build" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu \
  -DCMAKE_FIND_ROOT_PATH="$root" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER \
  -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
  -DCMAKE_C_STANDARD_INCLUDE_DIRECTORIES="$root/usr/include/aarch64-linux-gnu" \
  -DACCRUE_OPENCL=OFF -DACCRUE_WERROR=ON
targets=(accrue_program cli_fixture cli_metrics test_ops test_half test_products test_initialisers)
if [[ $all ]]; then targets=(all); fi
cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}"

# ---- vectors ---------------------------------------------------------------------------------------------------

# Reads a disassembly and prints how many floating-point instructions on vectors of NEON and of SVE lie between the
# target of a backward branch and the branch.
count_vectors='
function finish(  i, depth) {
  for (i = 1; i <= count; i++) {
    depth += begins[i] - ends[i - 1]
    if (depth > 0) { neon += is_neon[i]; sve += is_sve[i] }
  }
  split("", at); split("", begins); split("", ends); split("", is_neon); split("", is_sve)
  count = 0
}
/^[0-9a-f]+ <.*>:$/ { finish() }
/^ *[0-9a-f]+:\t/ {
  sub(/[ \t]*\/\/.*/, "") # another name of the instruction
  sub(/:$/, "", $1)
  at[$1] = ++count
  is_neon[count] = $2 ~ /^(f|[su]cvtf)/ && $2 != "fmov" && /[ \t]v[0-9]+\.[248][hsd]/
  is_sve[count] = $2 ~ /^(f|[su]cvtf)/ && $2 != "fmov" && /[ \t]z[0-9]+\.[hsd]/
  if ($2 ~ /^(b|b\..*|cbn?z|tbn?z)$/ && ($(NF - 1) in at)) { begins[at[$(NF - 1)]]++; ends[count]++ }
}
END { finish(); print neon + 0, sve + 0 }'

# These move, copy, choose, count, add up two neighbours, divide work among others, name what another file computes, or are
# for AVX-512 alone.
without_vectors=" blocks concat conv2d conv2d_lanes conv2d_volume conv2d_winograd conv_depthwise conv_patch gemm_stored linear matmul numerics "
without_vectors+="cache custom length_mask linear_log_probability permute planes top_k "

echo "Vector instructions for floats in the loops of kernels: NEON of 128 bits, SVE of 256 and of 512"
scalar=()
for file in src/backend/cpu/*/*.c; do
  name=$(basename "$file" .c)
  counts=()
  for isa in base sve256 sve512; do
    object=$build/CMakeFiles/accrue_cpu_$isa.dir/$file.o
    [[ -f $object ]] || continue 2 # not compiled for each
    read -r neon sve < <(aarch64-linux-gnu-objdump -d --no-show-raw-insn "$object" | awk "$count_vectors")
    if [[ $isa == base ]]; then counts+=("$neon"); else counts+=("$sve"); fi
  done
  printf '  %-26s %5d %5d %5d\n' "$name" "${counts[@]}"
  [[ $without_vectors == *" $name "* ]] && continue
  for count in "${counts[@]}"; do
    if ((!count)); then scalar+=("$name") && break; fi
  done
done
((!${#scalar[@]})) || fail "no vectors in the loops of ${scalar[*]}"

# ---- tests -----------------------------------------------------------------------------------------------------

export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu QEMU_SET_ENV=LD_LIBRARY_PATH=$libraries:$libraries/openblas-openmp
export OMP_WAIT_POLICY=passive OMP_NUM_THREADS=2 ACCRUE_CACHE_DIR=$folder/cache
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
emulate() { # CPU PROGRAM [ARGUMENT...]
  qemu-aarch64 -cpu "$1" "$build/bin/$2" "${@:3}"
}

names=(neon sve256 sve512)
cpu_of() {
  case $1 in
    neon) echo max,sve=off ;;
    sve256) echo max,sve256=on ;;
    sve512) echo max,sve512=on ;;
  esac
}
driver_of() {
  case $1 in
    neon) echo ', NEON$' ;;
    sve256) echo ', SVE of 256 bits$' ;;
    sve512) echo ', SVE of 512 bits$' ;;
  esac
}

mapfile -t families < <(emulate max test_ops --list)
((${#families[@]})) || fail "test_ops lists no ops"
# Their whole tests take minutes.
slow=" attention conv2d linear linear_cross_entropy "
[[ $all ]] || slow_ones=--reduced
programs=(half)
if [[ $all ]]; then programs+=(initialisers training whole_windows batch_norm precision loss_scaling cpu_stream); fi
models=(mlp gpt resnet)
# What each CPU runs, as CPU_NAME: a test, a family of ops or a model that is trained.
mapfile -t chosen < <({
  echo neon_products
  for name in "${names[@]}"; do printf "${name}_%s\n" "${programs[@]}" "${families[@]}" "${models[@]}"; done
} | tests/sample.sh aarch64)
((${#chosen[@]})) || fail "no test is chosen"
is_chosen() { [[ " ${chosen[*]} " == *" $1 "* ]]; }

test_program() { # NAME CPU PROGRAM [ARGUMENT...]
  local log=$work/$1-$3-${*: -1} start=$SECONDS
  if ! emulate "${@:2}" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    fail "${*:3} on $1"
  fi
  echo "  $1: ${*:3} ($((SECONDS - start)) s)"
}

test_cpu() { # NAME
  local cpu item
  cpu=$(cpu_of "$1")
  emulate "$cpu" accrue devices >"$work/devices-$1"
  grep -q "$(driver_of "$1")" "$work/devices-$1" || fail "$1 is not chosen: $(cat "$work/devices-$1")"
  for item in products "${programs[@]}"; do
    if is_chosen "$1_$item"; then test_program "$1" "$cpu" "test_$item"; fi
  done
  for item in "${families[@]}"; do
    is_chosen "$1_$item" || continue
    if [[ $slow == *" $item "* ]]; then test_program "$1" "$cpu" test_ops "${slow_ones:---devices-only}" "$item"
    else test_program "$1" "$cpu" test_ops --devices-only "$item"; fi
  done
}

# The same steps as the native program's: the losses differ by rounding, which grows from step to step.
train() { # NAME MODEL COMMAND...
  local name=$1 model=$2
  shift 2
  local flags=(train "$model" --device cpu --eval-every 0 --steps 8 --seed 5)
  case $model in
    mlp) flags+=(--data "$work/images" --hidden 40,24 --batch 32 --lr 0.01) ;;
    gpt) flags+=(--data "$work/text" --layers 2 --heads 2 --width 32 --context 32 --batch 8 --dropout 0.1) ;;
    resnet) flags+=(--data "$work/images" --width 8 --batch 16) ;;
  esac
  "$@" "${flags[@]}" --metrics "$work/$name-$model.jsonl" --out "$work/$name-$model" >"$work/$name-$model.log" 2>&1 ||
    fail "$model on $name: $(cat "$work/$name-$model.log")"
}

compare_training() { # NAME
  local model
  for model in "${models[@]}"; do
    is_chosen "$1_$model" || continue
    train "$1" $model emulate "$(cpu_of "$1")" accrue
    emulate max cli_metrics compare 1e-6 "$work/native-$model.jsonl" "$work/$1-$model.jsonl" ||
      fail "losses of $model on $1"
    echo "  $1: losses of $model as on this machine"
  done
}

mkdir "$work/images"
emulate max cli_fixture images "$work/images" train 400
emulate max cli_fixture images "$work/images" t10k 40
cat src/backend/cpu/*/*.h >"$work/text"
for model in "${models[@]}"; do train native "$model" "$native"; done

echo "Tests under qemu"
running=()
for name in "${names[@]}"; do
  { test_cpu "$name" && compare_training "$name"; } &
  running+=($!)
done
status=0
for process in "${running[@]}"; do wait "$process" || status=1; done
((!status)) || fail "see above"
echo "AArch64: all of it passed in $SECONDS s"
