# `accrue train` under mpirun, with each library of MPI that is there.

# Open MPI refuses root and more ranks than cores, and binds ranks to cores; containers may forbid copies between processes.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=lo
# What libraries of MPI never free is not ours.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0

small=(--layers 1 --heads 2 --width 16 --context 16 --batch 6 --schedule constant --warmup 0)
shared=(train gpt --data text "${tiny[@]}" --threads 1 --schedule constant --warmup 0 --steps 12 --eval-every 4 --ema 0.9)

launchers() {
  local library found=()
  for library in openmpi mpich; do
    ! command -v "mpirun.$library" >/dev/null || [[ ! -e ${PROGRAM%/bin/*}/accrue/libaccrue-mpi-$library.so ]] || found+=("$library")
  done
  if ((${#found[@]} == 0)); then exit 77; fi
  echo "${found[@]}"
}

# start LIBRARY RANKS ARGUMENT...: messages are in run.err, the exit code in $code.
start() {
  code=0
  timeout 120 "mpirun.$1" -n "$2" "$ACCRUE" "${@:3}" >run.out 2>run.err </dev/null || code=$?
  ((code != 124)) || die "mpirun.$1 -n $2 does not end"
}
starts() {
  start "$@"
  ((code == 0)) || die "mpirun.$1 -n $2 accrue ${*:3} failed: $(cat run.err)"
}
# value FILE EVENT FIELD: of the last such line.
value() { grep "\"event\":\"$2\"" "$1" | tail -n 1 | sed -E "s/.*\"$3\":([^,}]*).*/\1/"; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d < 1e-4 * a && -d < 1e-4 * a) }' || die "$1 is not near $2: $3"; }

case_ranks() {
  local library ranks all
  text
  run "${shared[@]}" --out one --overwrite >/dev/null
  for library in $(launchers); do
    for ranks in 2 3 4 8; do # of a batch of 6
      starts "$library" $ranks "${shared[@]}" --out "$library$ranks" --overwrite
      (($(grep -c '^done after 12 updates' run.out) == 1)) || die "not one result: $(cat run.out)"
      (($(grep -c '"event":"step"' "$library$ranks/metrics.jsonl") == 12)) || die "not the metrics of one rank"
      (($(value "$library$ranks/metrics.jsonl" ranks bytes | wc -c) > 2)) || die "no bytes by rank"
      near "$(value one/metrics.jsonl end val_loss)" "$(value "$library$ranks/metrics.jsonl" end val_loss)" "$library $ranks"
      "$METRICS" check "$library$ranks/metrics.jsonl" >metrics.out 2>&1 || die "metrics of ranks: $(cat metrics.out)"
      # The library of MPI changes nothing.
      [[ ! -d openmpi$ranks ]] || cmp "openmpi$ranks/model.safetensors" "$library$ranks/model.safetensors" || die "$library: other weights"
      [[ ! -d openmpi$ranks ]] || cmp "openmpi$ranks/average.safetensors" "$library$ranks/average.safetensors" || die "$library: other averages"
    done
    # A state goes on with any number of ranks.
    starts "$library" 4 "${shared[@]}" --steps 4 --out "go$library" --overwrite
    starts "$library" 3 train --resume --out "go$library" --steps 8
    grep -q 'the state was saved by 4 ranks, not 3: results agree to rounding' run.err || die "other ranks: $(cat run.err)"
    run train --resume --out "go$library" --steps 12 >/dev/null
    near "$(value one/metrics.jsonl end val_loss)" "$(value "go$library/metrics.jsonl" end val_loss)" "resumed"
  done
  library=$(launchers)
  starts "${library%% *}" 2 "${shared[@]}" --print-config
  (($(grep -c '"steps": 12' run.out) == 1)) || die "not one configuration: $(cat run.out)"
  starts "${library%% *}" 2 plan gpt --data text "${tiny[@]}"
  grep -q 'rank 0 of 2, which takes at most 3 of 6 samples' run.out || die "the plan is not that of a rank: $(cat run.out)"
  grep -q '^network .* measured$' run.out || die "no network is measured: $(cat run.out)"
  run plan gpt --data text "${tiny[@]}" --json >plan1
  run plan gpt --data text "${tiny[@]}" --ranks 3 --json >plan3
  local bytes1 bytes3
  bytes1=$(sed -n 's/.*"optimizer": \([0-9]*\).*/\1/p' plan1)
  bytes3=$(sed -n 's/.*"optimizer": \([0-9]*\).*/\1/p' plan3)
  ((bytes3 * 3 < bytes1 + 30000 && bytes3 < bytes1)) || die "optimizer state $bytes3 of $bytes1 with three ranks"
}

case_ranks_refused() {
  local library
  text
  seq 1 1400 >other
  for library in $(launchers); do refused_by_all; done
}

refused_by_all() {
  # refuses_all TEXT ARGUMENT...: one sentence of the program.
  refuses_all() {
    start "$library" 2 "${@:2}"
    ((code != 0)) || die "accrue ${*:2} does not fail with two ranks"
    grep -qF -- "$1" run.err || die "no '$1' in: $(cat run.err)"
    (($(grep -c '^accrue: ' run.err) == 1)) || die "not one sentence: $(cat run.err)"
  }
  refuses_all '--gradients fused leaves no gradients to be summed over ranks' "${shared[@]}" --gradients fused --out refused
  refuses_all 'cannot read nothing' train gpt --data nothing --out refused
  refuses_all 'unknown flag --nonsense' "${shared[@]}" --nonsense --out refused
  [[ ! -e refused ]] || die "a refused run leaves a folder"
  refuses_all 'step 2: the loss is not finite' "${shared[@]}" --lr 1e20 --out diverges --overwrite
  differ 'ranks must agree on --lr: it is "0.001" on rank 0 and "0.01" on rank 1' --lr 0.01
  differ 'ranks must agree on the data' --data other
  differ 'rank 1 cannot begin: cannot read nothing: No such file or directory' --data nothing
  # MPICH does not end ranks that have not begun: each says it.
  [[ $library == mpich ]] || ACCRUE_MPI_PLUGIN=$PWD/none refuses_all 'cannot open the plugin for ' "${shared[@]}" --out refused
}

# differ TEXT FLAG...: flags of rank 1 alone, which runs under $more.
differ() {
  code=0
  # shellcheck disable=SC2086
  timeout 60 "mpirun.$library" -n 1 "$ACCRUE" "${shared[@]}" --out refused : -n 1 ${more:-} "$ACCRUE" "${shared[@]}" --out refused "${@:2}" >run.out 2>run.err </dev/null || code=$?
  ((code != 0 && code != 124)) || die "ranks that differ: $code"
  grep -qF -- "$1" run.err || die "no '$1' in: $(cat run.err)"
  (($(grep -c '^accrue: ' run.err) == 1)) || die "not one sentence: $(cat run.err)"
}

# One machine is not as the others.
case_ranks_unequal() {
  local library more
  text
  library=$(launchers)
  library=${library%% *}
  differ 'rank 1 cannot begin: plan: needs at least ' --memory 10KiB
  if [[ $VERSIONED ]]; then
    more="env LD_PRELOAD=$VERSIONED"
    differ 'ranks must agree on the version of Accrue: it is "'
    grep -qF 'and "0.0.0" on rank 1' run.err || die "$(cat run.err)"
  fi
}

# Commands that cannot be shared out, with the variables of each launcher. Rank 0 alone says so.
case_ranks_alone() {
  local command
  text
  for command in 'eval gpt' 'predict resnet' 'lr-find gpt --data text' 'pilot gpt --data text' 'verify gpt --data text' 'bench ops' report \
    sample export init tokenize show completion; do
    # shellcheck disable=SC2086
    OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 refuse 2 "accrue ${command%% *} cannot be shared out, and each of the 2 processes" $command
  done
  PMI_RANK=0 PMI_SIZE=3 refuse 2 'each of the 3 processes' eval gpt
  SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 refuse 2 'each of the 4 processes' eval gpt
  local code=0
  OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 "$ACCRUE" eval gpt >run.out 2>run.err || code=$?
  ((code == 2)) && [[ ! -s run.err && ! -s run.out ]] || die "rank 1 ends with $code and says: $(cat run.err)"
  OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 run eval --help >/dev/null
  OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 refuse 2 '--model is missing' eval gpt
  refuse 2 'accrue train has no --ranks: a launcher starts its ranks, as in mpirun -n 4 accrue train' train gpt --data text --ranks 4
  refuse 2 'mpirun -n N accrue train' train gpt --data text --ranks=some
  local library
  for library in $(launchers); do
    start "$library" 3 eval gpt --model none
    ((code != 0)) || die "$library: accrue eval does not fail with three ranks"
    (($(grep -c 'accrue eval cannot be shared out, and each of the 3 processes' run.err) == 1)) || die "$library: $(cat run.err)"
  done
}

# Several devices of one machine, without a launcher and under one. Two CPUs are the same one.
case_ranks_devices() {
  local library
  text
  run "${shared[@]}" --out one >/dev/null
  run "${shared[@]}" --device cpu,cpu,cpu --out three >run.out
  (($(grep -c '^done after 12 updates' run.out) == 1)) || die "not one result: $(cat run.out)"
  (($(grep -c '"event":"step"' three/metrics.jsonl) == 12)) || die "not the metrics of one rank"
  (($(grep -c '^step 12/12  validation' run.err) == 1)) || die "not the lines of one rank: $(cat run.err)"
  near "$(value one/metrics.jsonl end val_loss)" "$(value three/metrics.jsonl end val_loss)" "three devices"
  # Threads do what processes do.
  for library in openmpi mpich; do
    [[ -e ${PROGRAM%/bin/*}/accrue/libaccrue-mpi-$library.so ]] && command -v "mpirun.$library" >/dev/null || continue
    starts "$library" 3 "${shared[@]}" --device cpu,cpu --out "by$library" --overwrite
    cmp three/model.safetensors "by$library/model.safetensors" || die "$library: other weights"
    cmp three/average.safetensors "by$library/average.safetensors" || die "$library: other averages"
  done
  run train --resume --out three --steps 14 --device cpu,cpu >/dev/null
  [[ $(value three/metrics.jsonl end steps) == 14 ]] || die "two devices do not go on: $(cat run.err)"
  run "${shared[@]}" --device cpu,cpu --print-config >config
  grep -q '"device": "cpu,cpu"' config || die "$(cat config)"

  refuse 1 'rank 1 cannot begin: no device "opencl:77"' "${shared[@]}" --device cpu,opencl:77 --out none
  refuse 2 '--gradients fused leaves no gradients to be summed over ranks' "${shared[@]}" --device cpu,cpu --gradients fused --out none
  refuse 2 'only accrue train takes several devices, on its command line' plan gpt --data text --device cpu,cpu
  refuse 2 'the run had --device cpu,cpu; give --device again' train --resume --out three --steps 15
  refuse 1 'no device "cpu,nonsense"' "${shared[@]}" --device cpu,nonsense --out none
  refuse 1 'the loss is not finite' "${shared[@]}" --device cpu,cpu --lr 1e20 --out none --quiet
  [[ -e none/diverged.safetensors ]] || die "nothing is left of the run: $(ls none)"

  # A signal ends all, and leaves a state.
  "$PROGRAM" train gpt --data text "${small[@]}" --steps 10000000 --eval-every 0 --device cpu,cpu --out stopped >run.out 2>run.err &
  local program=$! code=0
  for _ in $(seq 300); do
    grep -qs '"event":"step"' stopped/metrics.jsonl && break
    sleep 0.1
  done
  kill -TERM $program
  wait $program || code=$?
  ((code == 143)) || die "a stopped run ends with $code: $(tail -n 3 run.err)"
  compgen -G 'stopped/state-*.safetensors' >/dev/null || die "no state is left"
}

# Ranks of one process read the same tokens: three of them hold 40 MB of text once. What a folder is left out of is said once.
case_ranks_tokens() {
  text
  head -c 40000000 < <(yes 'all ranks of one process read the same tokens, which the first of them opens') >large
  local -a most
  local devices
  for devices in cpu cpu,cpu,cpu; do
    "$PROGRAM" train gpt --data large "${small[@]}" --device $devices --steps 10000000 --eval-every 0 --threads 1 --keep 0 --out large-$devices >run.out 2>run.err &
    local program=$!
    for _ in $(seq 300); do
      grep -qs '"event":"step"' large-$devices/metrics.jsonl && break
      sleep 0.1
    done
    most[${#devices}]=$(awk '/^VmHWM/ { print $2 }' /proc/$program/status)
    kill -TERM $program
    wait $program || true
  done
  ((most[11] < most[3] + 30000)) || die "three ranks take ${most[11]} KiB, and one ${most[3]} KiB"
  mkdir texts
  cp text texts
  run train gpt --data texts "${tiny[@]}" --steps 2 --out texts/first >/dev/null
  run train gpt --data texts "${tiny[@]}" --steps 2 --device cpu,cpu,cpu --out second >/dev/null
  (($(grep -c '^left out of the data in texts, as runs have written it: texts/first$' run.err) == 1)) || die "not said once: $(cat run.err)"
}

# Ranks that OpenCL devices compute for, one device twice.
case_ranks_opencl() {
  local library
  run devices --json >devices
  if ! grep -q '"id": "opencl:0"' devices; then
    [[ ! ${ACCRUE_TEST_OPENCL:-} ]] || die "no OpenCL device"
    exit 77
  fi
  "$FIXTURE" images . train 60
  local net=(train mlp --data . --hidden 16 --batch 12 --micro-batch 3 --steps 6 --optimizer adamw --overwrite)
  run "${net[@]}" --out one --device cpu >/dev/null
  run "${net[@]}" --out two --device opencl:0,opencl:0 >/dev/null
  near "$(value one/metrics.jsonl end val_loss)" "$(value two/metrics.jsonl end val_loss)" "two OpenCL devices"
  run "${net[@]}" --out mixed --device cpu,opencl:0 >/dev/null
  near "$(value one/metrics.jsonl end val_loss)" "$(value mixed/metrics.jsonl end val_loss)" "a CPU and an OpenCL device"
  for library in $(launchers); do
    starts "$library" 2 "${net[@]}" --out "by$library" --device opencl:0
    cmp two/model.safetensors "by$library/model.safetensors" || die "$library: other weights"
  done
}

# lose_rank SIGNAL FLAG...: one of three ranks gets the signal after a state is saved, and all end.
lose_rank() {
  local launcher victim code=0
  rm -rf gone
  "mpirun.$library" -n 3 "$ACCRUE" "${shared[@]}" --steps 1000000 --eval-every 0 "${@:2}" --out gone >run.out 2>run.err </dev/null &
  launcher=$!
  for _ in $(seq 300); do
    compgen -G 'gone/state-??????????.safetensors' >/dev/null && break
    sleep 0.2
  done
  compgen -G 'gone/state-??????????.safetensors' >/dev/null || die "no state is saved: $(cat run.err)"
  victim=$(pgrep -f "^$PROGRAM train gpt --data text .*--out gone" | tail -n 1)
  kill "-$1" "$victim"
  wait $launcher || code=$?
  ((code != 0)) || die "the launcher ends with 0"
  for _ in $(seq 100); do
    pgrep -f "^$PROGRAM train gpt --data text .*--out gone" >/dev/null || break
    sleep 0.2
  done
  ! pgrep -f "^$PROGRAM train gpt --data text .*--out gone" >/dev/null || die "a rank is still there"
}

# One rank is killed while it trains: the others end as well, and the run goes on from its state.
case_ranks_gone() {
  local library last
  text
  library=$(launchers)
  library=${library%% *}
  lose_rank KILL --save-every 5 --rank-timeout 20
  last=$(ls gone | sed -n 's/^state-0*\([1-9][0-9]*\).safetensors$/\1/p' | sort -n | tail -n 1)
  starts "$library" 2 train --resume --out gone --steps $((last + 3)) --eval-every 0
  [[ $(value gone/metrics.jsonl end steps) == $((last + 3)) ]] || die "the run does not go on: $(tail -n 1 gone/metrics.jsonl)"

  # One that does not answer is named, once, even if the others were saving a state.
  lose_rank STOP --save-every 1 --rank-timeout 3
  (($(grep -c '^accrue: rank [12] is silent for 3 s' run.err) == 1 && $(grep -c '^accrue: ' run.err) == 1)) || die "not one sentence: $(cat run.err)"
  ! grep -q 'training goes on' run.err || die "training does not go on: $(cat run.err)"
}
