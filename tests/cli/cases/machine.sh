# What the machine and its limits allow: memory, and devices.

small=(--layers 1 --heads 2 --width 16 --context 16 --batch 6 --eval-every 0)

# limited KIB ARGUMENT...: the program's status and last line under a limit of its address space. It ends by itself.
limited() {
  local kib=$1 status=0
  shift
  rm -rf limited
  (ulimit -v "$kib" && timeout 30 "$ACCRUE" "$@" >limited.out 2>limited.err </dev/null) || status=$?
  ((status == 0 || status == 1)) || die "status $status with $kib KiB: accrue $*: $(cat limited.err)"
  ((status == 0)) || (($(wc -l <limited.err) == 1)) || die "not one line with $kib KiB: accrue $*: $(cat limited.err)"
  return $status
}

# OpenBLAS would wait for memory for ever.
case_limits() {
  text
  local kib threads brief=(train gpt --data text "${tiny[@]}" --steps 2 --out limited)
  for threads in 1 2 300; do
    for kib in 150000 300000 450000 1200000; do
      limited $kib "${brief[@]}" --threads $threads || grep -qE 'OpenBLAS|address space' limited.err ||
        die "$threads threads, $kib KiB: $(cat limited.err)"
    done
  done
  # The number of threads that is offered is one that runs.
  ! limited 2400000 "${brief[@]}" --threads 300 || die "300 threads in 2.3 GiB"
  threads=$(sed -n 's/.*take at most \([0-9]*\),.*/\1/p' limited.err)
  ((threads > 1 && threads < 300)) || die "nothing is offered: $(cat limited.err)"
  limited 2400000 "${brief[@]}" --threads "$threads" || die "$threads threads do not run: $(cat limited.err)"
  # Where there is just enough memory the result is the same.
  limited 450000 "${brief[@]}" --threads 1 || die "one thread needs more than 440 MiB: $(cat limited.err)"
  cp limited/model.safetensors tight
  run "${brief[@]}" --threads 1
  cmp tight limited/model.safetensors

  # The budget of a run without --memory keeps to it, and so does what `devices` lists.
  limited 3000000 devices --json || die "$(cat limited.err)"
  local memory
  memory=$(sed -n 's/.*"memory_bytes": \([0-9]*\).*/\1/p' limited.out | sort -n | tail -n 1)
  ((memory > 0 && memory < 3000000 * 1024)) || die "memory of $memory bytes within 3000000 KiB"
  ! limited 3000000 "${brief[@]}" --memory 4GiB || die "a budget of 4 GiB within 3000000 KiB"
  grep -q 'larger than the memory of cpu' limited.err || die "$(cat limited.err)"
}

# An OpenCL driver that is only asked for a GPU does not stay in the process.
case_auto_device() {
  text
  local opencl device pid
  opencl=$(run devices | grep -c '^opencl' || true)
  device=$(run devices --auto)
  [[ $device == cpu || $device == opencl:* ]] || die "--auto says '$device'"
  run devices --json >list
  if grep -q '"gpu": true' list; then [[ $device == opencl:* ]]; else [[ $device == cpu ]]; fi || die "$device of $(<list)"
  refuse 2 '--auto and --json contradict' devices --json --auto
  [[ $device == cpu && $opencl != 0 ]] || exit 77

  local brief=(train gpt --data text "${small[@]}" --steps 5)
  run "${brief[@]}" --device cpu --out cpu
  run "${brief[@]}" --device auto --out auto
  cmp cpu/model.safetensors auto/model.safetensors
  grep -q '"device": "auto"' auto/run.json || die "the record has another device: $(grep device auto/run.json)"
  declare -A drivers most
  for device in auto cpu opencl; do
    rm -f m
    "$ACCRUE" train gpt --data text "${small[@]}" --device $device --steps 100000000 --metrics m --out forever-$device >out 2>err &
    pid=$!
    wait_for_step m
    drivers[$device]=$(grep -c pocl /proc/$pid/maps || true)
    most[$device]=$(awk '/^VmHWM/ { print $2 }' /proc/$pid/status)
    kill $pid
    stopped $pid 143
  done
  ((drivers[opencl] > 0)) || exit 77 # another driver than PoCL: its libraries have other names
  ((drivers[cpu] == 0 && drivers[auto] == 0)) || die "PoCL stays: ${drivers[auto]} of its mappings"
  ((most[auto] < most[cpu] + 16384)) || die "${most[auto]} KiB resident, ${most[cpu]} with --device cpu"
}

# Where there is no device the reason is said, and a driver that crashes does not end the program.
case_no_device() {
  text
  "$ACCRUE" devices | grep -q '^opencl' || exit 77
  export POCL_CACHE_DIR=/dev/null/none OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
  [[ -e $OCL_ICD_VENDORS ]] || exit 77
  refuse 1 'cache folder (POCL_CACHE_DIR) cannot be written to' train gpt --data text --device opencl
  refuse 1 'no device "opencl:0"; there is: cpu' train gpt --data text --device opencl:0
  [[ $(run devices --auto) == cpu ]] || die "--auto without a cache folder for PoCL"
  mkdir vendors
  OCL_ICD_VENDORS=$work/vendors refuse 1 'no OpenCL driver is installed' train gpt --data text --device opencl

  [[ $CRASHING ]] || return 0
  echo "$CRASHING" >vendors/crashing.icd
  export OCL_ICD_VENDORS=$work/vendors
  run train gpt --data text "${small[@]}" --steps 1 --device auto
  grep -q 'an OpenCL driver crashed while Accrue looked for a GPU; the CPU is used' run.err || die "$(cat run.err)"
}
