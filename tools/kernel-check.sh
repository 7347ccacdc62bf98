#!/usr/bin/env bash
# tools/kernel-check.sh [--quick] [--variants PROGRAM] [--report FILE] [--write-limits] [TARGET...]
# Compiles the OpenCL kernels as the compilers of GPUs do, without a GPU, and compares their registers, spills, private and
# local memory with tests/kernels/limits.txt. PROGRAM (else built here) lists every program that the
# backend would compile on a GPU; --quick takes products, convolution and attention in bf16, without rare variants, and one
# target a vendor, and of these a sample where ACCRUE_TEST_SEED draws one (tests/sample.sh). TARGETs are those below. --report
# keeps a line for each kernel of each variant; --write-limits makes the measured values the limits. Exits 1 if a limit is exceeded or a kernel does not compile, 77 if
# there is no compiler at all, or 1 if ACCRUE_TEST_KERNELS=1 says that Debian's must be there.
#
# NVIDIA's own OpenCL compiler is part of its driver; clang and ptxas replace it here. Occupancy is in percent of the
# threads that a processor can hold; AMD's compiler names it, for others it follows from registers and local memory.
set -euo pipefail
shopt -s inherit_errexit

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
limits=$root/tests/kernels/limits.txt
nvidia=(sm_75 sm_80 sm_90 sm_120) amd=(gfx90a gfx1030 gfx1100) intel=(dg2)
quick=0 write=0 program='' report='' targets=()

usage() {
  echo "kernel-check: $1; usage: kernel-check.sh [--quick] [--variants PROGRAM] [--report FILE] [--write-limits]" \
    "[TARGET...]; targets are ${nvidia[*]} ${amd[*]} ${intel[*]}" >&2
  exit 2
}
while (($#)); do
  case $1 in
    --quick) quick=1 ;;
    --write-limits) write=1 ;;
    --variants | --report)
      (($# >= 2)) || usage "$1 needs a value"
      if [[ $1 == --report ]]; then report=$2; else program=$2; fi
      shift
      ;;
    -*) usage "unknown argument $1" ;;
    *)
      [[ " ${nvidia[*]} ${amd[*]} ${intel[*]} " == *" $1 "* ]] || usage "unknown target $1"
      targets+=("$1")
      ;;
  esac
  shift
done
if ((!${#targets[@]})); then
  if ((quick)); then targets=(sm_90 gfx1030 dg2); else targets=("${nvidia[@]}" "${amd[@]}" "${intel[@]}"); fi
fi

# ---- the compilers --------------------------------------------------------------------------------------------------

libclc=/usr/lib/clc/nvptx64--nvidiacl.bc
device_libraries=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Debian's device libraries may not know the newest devices; then those of the generation before are used.
make_device_libraries() {
  mkdir "$work/amdgcn"
  ln -s "$device_libraries"/*.bc "$work/amdgcn/"
  [[ -e $work/amdgcn/oclc_isa_version_1100.bc ]] ||
    ln -s "$device_libraries/oclc_isa_version_1030.bc" "$work/amdgcn/oclc_isa_version_1100.bc"
}

have() { command -v "$1" >/dev/null; }

# Why a target is left out; nothing if it is not.
missing() {
  case $1 in
    sm_*)
      if ! have clang-15 || [[ ! -e $libclc ]]; then
        echo "clang-15 or libclc-15 is not installed"
      elif have ptxas && [[ $(ptxas --help) != *"'$1'"* ]]; then
        echo "this ptxas does not know it"
      fi
      ;;
    gfx*)
      if ! have clang-15 || [[ ! -d $device_libraries ]]; then
        echo "clang-15 or rocm-device-libs is not installed"
      fi
      ;;
    *) if ! have ocloc; then echo "ocloc, of intel-opencl-icd, is not installed"; fi ;;
  esac
}

chosen=() ptx_only=0
for target in "${targets[@]}"; do
  why=$(missing "$target")
  if [[ -z $why ]]; then
    chosen+=("$target")
    continue
  fi
  echo "$target: skipped, $why"
  if [[ ${ACCRUE_TEST_KERNELS:-} == 1 && $why == *installed ]]; then exit 1; fi
done
if ((!${#chosen[@]})); then exit 77; fi
if [[ " ${chosen[*]}" == *" sm_"* ]] && ! have ptxas; then
  echo "There is no ptxas: for NVIDIA kernels are compiled to PTX, and nothing is measured."
  ptx_only=1
fi
if [[ " ${chosen[*]}" == *" gfx"* ]]; then make_device_libraries; fi
if [[ " ${chosen[*]} " == *" gfx1100 "* ]] && ! have clang-19; then echo "gfx1100: its matrix units are left out, clang-19 is not installed"; fi

# ---- one program ----------------------------------------------------------------------------------------------------

# Each of these writes lines KERNEL REGISTERS SPILLED PRIVATE LOCAL OCCUPANCY-OR-SIMD, separated by blanks.

# The infinities and NaN of NVIDIA's headers, which are functions of bits: a table of constants cannot have them.
nvidia_constants() {
  local name
  for name in INFINITY HUGE_VALF; do printf '#undef %s\n#define %s as_float(0x7f800000)\n' $name $name; done
  printf '#undef NAN\n#define NAN as_float(0x7fc00000)\n'
  printf '#undef HUGE_VAL\n#define HUGE_VAL as_double(0x7ff0000000000000)\n'
}

# SOURCE OBJECT OPTIONS TARGET...: one PTX for all of them, that of the oldest
compile_nvidia() {
  local source=$1 object=$2 options=$3 target processor='-march=sm_75'
  shift 3
  { nvidia_constants && echo '#line 1' && cat "$source"; } >"$object.cl"
  if [[ $options == *-DUNIT_MMA* ]]; then processor='-march=sm_80 -Xclang -target-feature -Xclang +ptx75'; fi
  # shellcheck disable=SC2086 # options are words
  clang-15 -x cl $options -target nvptx64-nvidia-nvcl $processor -Xclang -finclude-default-header -O3 \
    -Xclang -mlink-builtin-bitcode -Xclang "$libclc" -Wno-linker-warnings -S -o "$object.ptx" "$object.cl" || return
  ((!ptx_only)) || return 0
  for target; do
    ptxas -v -arch="$target" -o /dev/null "$object.ptx" >"$object.log" 2>&1 || {
      cat "$object.log" >&2
      return 1
    }
    awk -v target="$target" '
      /Compiling entry function/ { split($0, part, "\047"); kernel = part[2] }
      /bytes stack frame/ { private = $1; spilled = $5 }
      /: Used / {
        match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5)
        shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH) + 0 : 0
        print target, kernel, registers, spilled, private, shared, "-"
      }' "$object.log"
  done
}

compile_amd() { # SOURCE OBJECT OPTIONS TARGET
  local source=$1 object=$2 options=$3 target=$4 clang='clang-15'
  if [[ $options == *-DUNIT_WMMA* ]]; then clang='clang-19'; fi
  # shellcheck disable=SC2086 # options are words
  "$clang" -x cl $options -target amdgcn-amd-amdhsa -mcpu="$target" -Xclang -finclude-default-header -O3 \
    --rocm-device-lib-path="$work/amdgcn" -Rpass-analysis=kernel-resource-usage -c -o "$object.o" "$source" \
    2>"$object.log" || {
    cat "$object.log" >&2
    return 1
  }
  # Only kernels have local memory to report; other functions have none.
  awk -v target="$target" '
    /remark:/ { sub(/ \[-Rpass.*/, ""); value = $NF }
    /remark: Function Name:/ { kernel = value; accumulators = 0 }
    /remark: +VGPRs:/ { registers = value }
    /remark: +AGPRs:/ { accumulators = value }
    /remark: +ScratchSize/ { private = value }
    /remark: +Occupancy/ { waves = value }
    /remark: +[SV]GPRs Spill:/ { spilled = /SGPRs/ ? value : spilled + value }
    /remark: +LDS Size/ {
      most = target == "gfx90a" ? 8 : 16
      print target, kernel, registers + accumulators, spilled, private, value, int(100 * waves / most + 0.5)
    }' "$object.log"
}

compile_intel() { # SOURCE OBJECT OPTIONS TARGET
  local source=$1 object=$2 options=$3 target=$4
  mkdir -p "$object"
  ocloc compile -q -file "$source" -device "$target" -options "$options" -internal_options -ze-allow-zebin \
    -out_dir "$object" -output program >"$object.log" 2>&1 || {
    cat "$object.log" >&2
    return 1
  }
  # Registers are those of 32 bits that the width leaves an item, of 128 or 256 with 32 bytes.
  readelf -p .ze_info "$object"/program*.bin | sed 's/^ *\[[ 0-9a-f]*\]//; s/\\n$//' | awk -v target="$target" '
    function flush() { if (kernel) print target, kernel, grf * 8 / simd, spilled, private, shared, simd }
    /^ *kernels_misc_info:/ { beyond = 1 }
    beyond { next }
    /^ *- name:/ { flush(); kernel = $3; grf = 128; simd = spilled = private = shared = 0 }
    /^ *grf_count:/ { grf = $2 }
    /^ *simd_size:/ { simd = $2 }
    /^ *slm_size:/ { shared = $2 }
    /^ *(- )?usage:/ { use = $NF }
    /^ *(- )?type:/ { use = "" }
    /^ *size:/ && use == "private_space" { private += $2 }
    # Of a thread, which runs as many items as it is wide.
    /^ *size:/ && use ~ /^(single|spill_fill)_space$/ { spilled += $2 / simd }
    END { flush() }'
}

# Items of a work-group by kernel, as the source says once it is preprocessed.
group_sizes() { # SOURCE OPTIONS
  # shellcheck disable=SC2086 # options are words
  { clang-15 -x cl $2 -E -P "$1" | tr '\n' ' ' && echo; } | sed 's/\bkernel\b/\n/g' |
    sed -nE 's/^ *__attribute__\(\(reqd_work_group_size\(([^,]*), ([^,]*), 1\)\)\) *void ([a-z0-9_]+)\(.*/\3 (\1) * (\2)/p' |
    while read -r kernel items; do echo "$kernel $((items))"; done
}

# The columns of the report from those above: TARGET FAMILY KERNEL REGISTERS SPILLED PRIVATE LOCAL OCCUPANCY OPTIONS.
complete() { # SIZES FAMILY OPTIONS
  awk -v family="$2" -v options="$3" '
    BEGIN {
      OFS = "\t"
      # Of a processor: warps, groups, bytes of local memory, bytes of it that a group takes for itself.
      split("32 16 65536 0", sm_75); split("64 32 167936 1024", sm_80)
      split("64 32 233472 1024", sm_90); split("48 24 102400 1024", sm_120)
    }
    function least(a, b) { return a < b ? a : b }
    # 65536 registers, given out in units of 256 a warp.
    function nvidia(limit, items, registers, shared,    warps, groups) {
      warps = int((items + 31) / 32)
      groups = least(int(limit[1] / warps), limit[2])
      groups = least(groups, int(65536 / (warps * 256 * int((32 * registers + 255) / 256))))
      if (shared + limit[4]) groups = least(groups, int(limit[3] / (shared + limit[4])))
      return groups * warps / limit[1]
    }
    # 128 threads and 128 KiB of local memory for each of its cores.
    function intel(items, width, shared,    threads, groups) {
      threads = int((items + width - 1) / width)
      groups = int(128 / threads)
      if (shared) groups = least(groups, int(131072 / shared))
      return groups * threads / 128
    }
    FNR == NR { items[$1] = $2; next }
    $2 in items { # and no table that a compiler adds
      if ($1 == "sm_75") share = nvidia(sm_75, items[$2], $3, $6)
      else if ($1 == "sm_80") share = nvidia(sm_80, items[$2], $3, $6)
      else if ($1 == "sm_90") share = nvidia(sm_90, items[$2], $3, $6)
      else if ($1 == "sm_120") share = nvidia(sm_120, items[$2], $3, $6)
      else if ($1 ~ /^gfx/) share = $7 / 100
      else share = intel(items[$2], $7, $6)
      print $1, family, $2, $3, $4, $5, $6, int(100 * share + 0.5), options
    }' "$1" -
}

# Whether the variant is for the target: matrix units are not alike. clang 15 cannot compile WMMA.
is_for() { # OPTIONS TARGET
  case $1 in
    *-DUNIT_MMA*) [[ $2 == sm_* && $2 != sm_75 ]] ;;
    *-DUNIT_DPAS*) [[ $2 == dg2 ]] ;;
    *-DUNIT_WMMA*) [[ $2 == gfx1100 ]] && have clang-19 ;;
    *-DUNIT_MFMA*) [[ $2 == gfx90a ]] ;;
  esac
}

# Compiles a variant for all targets that were chosen. Reports and counts what does not compile.
measure() { # FAMILY <tab> OPTIONS
  local family=${1%%$'\t'*} options=${1#*$'\t'} object target nvidia=()
  object=$(mktemp -d "$work/XXXXXXXX")
  if [[ -e $work/written/$family.cl ]]; then
    cp "$work/written/$family.cl" "$object/program.cl"
    family=${family%%.*}
  else
    "$program" "$family" >"$object/program.cl"
  fi
  group_sizes "$object/program.cl" "$options" >"$object/sizes"
  for target in $chosen_targets; do
    if [[ $target == sm_* ]] && is_for "$options" "$target"; then nvidia+=("$target"); fi
  done
  {
    if ((${#nvidia[@]})); then
      compile_nvidia "$object/program.cl" "$object/nvidia" "$options" "${nvidia[@]}" || refuse "$family" "$options"
    fi
    for target in $chosen_targets; do
      is_for "$options" "$target" || continue
      case $target in
        gfx*) compile_amd "$object/program.cl" "$object/$target" "$options" "$target" ;;
        dg2) compile_intel "$object/program.cl" "$object/$target" "$options" "$target" ;;
      esac || refuse "$family" "$options"
    done
  } | complete "$object/sizes" "$family" "$options"
  rm -rf "$object"
}

refuse() {
  echo "kernel-check: $1.cl does not compile with $2" | tee -a "$work/refused" >&2
}

# ---- all of them ----------------------------------------------------------------------------------------------------

if [[ -z $program ]]; then
  program=$root/build/ci/bin/test_kernel_variants
  (cd "$root" && cmake --preset ci && cmake --build --preset ci --target test_kernel_variants) >/dev/null
fi
# Sources that the backend writes for one variant are kept there, as FAMILY.HASH.cl.
mkdir "$work/written"
ACCRUE_WRITTEN_KERNELS=$work/written "$program" | sort -u >"$work/variants"
if ((quick)); then
  grep -E '^(gemm|unit_gemm|conv2d|attention)\b.* -DSTORAGE_BF16$' "$work/variants" |
    grep -vE ' -D[ABC]_F32| -DHEAD=(1|3|20|32|96)\b' | "$root/tests/sample.sh" kernel_check >"$work/fewer"
  mv "$work/fewer" "$work/variants"
fi

export program work libclc ptx_only chosen_targets="${chosen[*]}"
export -f have is_for nvidia_constants compile_nvidia compile_amd compile_intel group_sizes complete measure refuse
: >"$work/refused"
# shellcheck disable=SC2016 # for the shells that xargs starts
tr '\n' '\0' <"$work/variants" | xargs -0 -P "$(nproc)" -I '{}' bash -euo pipefail -c 'measure "$1"' - '{}' |
  sort >"$work/report"
if [[ -n $report ]]; then cp "$work/report" "$report"; fi
if [[ -s $work/refused ]]; then exit 1; fi

# Nothing is known of a kernel that no variant compiles.
if ((!quick && (!ptx_only || ${#chosen[@]} > 1))); then
  sed -nE 's/^(SUB_GROUPS )?kernel .*void ([a-z0-9_]+)\(.*/\2/p' "$root"/cl/*/*.cl | sort -u >"$work/kernels"
  cut -f 3 "$work/report" | sort -u | comm -23 "$work/kernels" - >"$work/unseen"
  if [[ -s $work/unseen ]]; then
    echo "kernel-check: no variant compiles $(tr '\n' ' ' <"$work/unseen")" >&2
    exit 1
  fi
fi

# VENDOR FAMILY REGISTERS SPILLED PRIVATE LOCAL: the most of any kernel and variant.
awk -F '\t' '
  { vendor = $1 ~ /^sm_/ ? "nvidia" : $1 ~ /^gfx/ ? "amd" : "intel"; key = vendor " " $2 }
  { seen[key]; for (i = 4; i <= 7; i++) if (!(most[key, i] >= $i)) most[key, i] = $i }
  END { for (key in seen) print key, most[key, 4] + 0, most[key, 5] + 0, most[key, 6] + 0, most[key, 7] + 0 }' \
  "$work/report" | sort >"$work/measured"
if ((write)); then
  ((!quick && !ptx_only && ${#chosen[@]} == 8)) || usage "limits are of all targets and variants"
  { sed -n '/^#/p' "$limits" && column -t "$work/measured"; } >"$work/limits"
  mv "$work/limits" "$limits"
fi

# The table, then each value that exceeds its limit, with a variant that does.
{
  echo "target family variants registers spilled private local occupancy"
  awk -F '\t' '
    { key = $1 " " $2; if (!((key, $9) in variant)) { variant[key, $9]; variants[key]++ } }
    { for (i = 4; i <= 7; i++) if (!(most[key, i] >= $i)) most[key, i] = $i }
    !(key in least) || $8 < least[key] { least[key] = $8 }
    END {
      for (key in variants)
        print key, variants[key], most[key, 4] + 0, most[key, 5] + 0, most[key, 6] + 0, most[key, 7] + 0, least[key] "%"
    }' "$work/report" | sort
} | column -t
awk -F '\t' '
  BEGIN { split("registers spilled private local", names, " ") }
  FNR == NR { if (!/^#/) { n = split($0, limit, " "); for (i = 3; i <= n; i++) most[limit[1], limit[2], i + 1] = limit[i] }; next }
  { vendor = $1 ~ /^sm_/ ? "nvidia" : $1 ~ /^gfx/ ? "amd" : "intel" }
  !((vendor, $2, 4) in most) { if (!told[vendor, $2]++) print "kernel-check: there are no limits for " $2 " on " vendor; failed = 1; next }
  {
    for (i = 4; i <= 7; i++)
      if ($i > most[vendor, $2, i]) {
        printf "kernel-check: %s, %s: %s %d, the limit is %d: %s\n", $1, $3, names[i - 3], $i, most[vendor, $2, i], $9
        failed = 1
      }
  }
  END { exit failed }' "$limits" "$work/report"
