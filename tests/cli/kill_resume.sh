#!/usr/bin/env bash
# tests/cli/kill_resume.sh [--kills N] [--seed N] [--devices "cpu opencl"] [--models "gpt llm"]: ends runs of accrue train with SIGKILL or SIGTERM
# at random times, resumes them with --resume-or-start, and compares the results with those of the same runs undisturbed: model,
# the tensors of the last state, and metrics without their times, byte by byte. Runs differ in model, precision, optimizer,
# storage of weights, gradients and optimizer states, schedules of batches, batches that grow, accumulation with a short last window, moving
# averages, groups and frozen parameters, rates by validation, alarms for spikes, norms and noise by layer, dropout, augmentation and reading ahead.
#
# PROGRAMS (build/ci/bin) holds accrue and cli_fixture. The same seed makes the same choices, but the moment of a kill
# depends on the machine. Prints a line for each run, and the failures.
set -euo pipefail
kills=20 seed=1 devices="cpu opencl" models="gpt mlp resnet llm"
while (($#)); do
  case $1 in
    --kills) kills=$2 && shift 2 ;;
    --seed) seed=$2 && shift 2 ;;
    --devices) devices=$2 && shift 2 ;;
    --models) models=$2 && shift 2 ;;
    *) echo "usage: tests/cli/kill_resume.sh [--kills N] [--seed N] [--devices NAMES] [--models NAMES]" >&2 && exit 2 ;;
  esac
done
programs=$(cd "${PROGRAMS:-build/ci/bin}" && pwd)
accrue=$programs/accrue
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir images
"$programs/cli_fixture" images images train 150
"$programs/cli_fixture" images images t10k 20
seq 1 3000 >text
mkdir llm
"$programs/cli_fixture" llm llm 1
"$programs/cli_fixture" chats 90 >chats.jsonl

RANDOM=$seed
export ACCRUE_OWN_MEMORY=1 # so that state can be in host memory
pick() { # NAME WORD...: sets the variable to one of the words. Not by $(...), in which RANDOM repeats itself.
  local words=("${@:2}")
  printf -v "$1" %s "${words[RANDOM % ${#words[@]}]}"
}

# Muon, Adam-mini and Adafactor keep their states in f32. Folded gradients are also f32, and none of them can be
# skipped.
choose_storage() { # PRECISION OPTIMIZER DEVICE
  local place copies weights=f32 state=f32 tables=f32 gradients=(buffer fused fused-local bf16)
  if [[ $1 != f16 && $2 =~ ^(adamw|sgd|muon)$ ]]; then gradients+=(folded); fi
  if [[ $2 =~ ^(adamw|sgd|lion)$ ]]; then
    pick state f32 8bit
    pick tables f32 8bit
  fi
  if [[ $1 == bf16 ]]; then pick weights f32 bf16; fi
  pick gradient "${gradients[@]}"
  if [[ $gradient == folded ]]; then weights=f32 state=f32; fi
  storage=(--gradients "$gradient" --weights "$weights" --optimizer-state "$state")
  if [[ $1 != f32 ]]; then
    pick copies auto keep none
    storage+=(--working-copies "$copies")
  fi
  if [[ $state$tables == 8bit8bit ]]; then storage+=(--state-f32=); fi
  if [[ $gradient == folded ]]; then storage+=(--clip 0); fi
  if [[ $gradient$2 == foldedmuon ]]; then storage+=(--no-nesterov); fi
  if [[ $3 == opencl && ! $gradient =~ ^(folded|fused-local)$ && $2 != adafactor ]]; then
    pick place device host
    storage+=(--optimizer-state-in "$place")
  fi
}

# What has memory of its own, or leaves parameters without it.
choose_practice() {
  local average group freeze schedule spike layers noise grace patience
  pick average 0 0.9
  pick group '' '*weight:lr=0.5,decay=0.1'
  pick freeze '' '*.bias'
  pick schedule cosine plateau
  practice=(--schedule "$schedule")
  pick layers '' 1 3
  if [[ $layers ]]; then practice+=(--layers-every "$layers"); fi
  pick noise '' 2
  if [[ $noise && ${storage[*]} =~ 'gradients '(buffer|bf16) ]]; then practice+=(--noise-layers "$noise"); fi
  pick grace 0 30
  pick patience '' '' 1
  practice+=(--grace "$grace")
  if [[ $patience ]]; then practice+=(--patience "$patience"); fi
  pick spike off tell skip back
  if [[ $spike == skip && ${storage[*]} =~ folded|fused-local ]]; then spike=back; fi
  if [[ $spike != off ]]; then practice+=(--on-spike "$spike" --spike-deviations 1.5); fi
  if [[ $spike == back ]]; then practice+=(--good-every 3); fi
  if [[ $schedule == plateau ]]; then practice+=(--lr-patience 0 --lr-threshold 0.1); fi
  if [[ ${storage[*]} != *'--weights bf16'* ]]; then practice+=(--ema "$average"); fi
  if [[ $group ]]; then practice+=(--group "$group"); fi
  if [[ $freeze ]]; then practice+=(--freeze "$freeze"); fi
}

# Runs are short, so that kills meet all that a run does. Each model has tensors of 4,096 weights: states and gradients of
# smaller ones stay in f32.
choose_flags() {
  local device model precision micro last ahead every save keep optimizer dropout more gradient storage batch steps
  # shellcheck disable=SC2086
  pick device $devices
  # shellcheck disable=SC2086
  pick model $models
  pick precision f32 f32 f16 bf16
  pick micro 3 5 7
  pick last update carry drop
  pick ahead 0 2
  pick every 3 4
  pick save 1 2 3
  pick keep 1 2 3
  pick optimizer adamw sgd lion adafactor muon adam-mini
  pick dropout 0 0.2
  pick more --replay --keep-best
  choose_storage "$precision" "$optimizer" "$device"
  choose_practice
  flags=("$model" --device "$device" --precision "$precision" --seed $((RANDOM % 3 + 1)) --threads 1 "${storage[@]}"
    "${practice[@]}")
  case $model in
    gpt)
      pick batch 7 3@0,7@4,5@900tok 8..20@noise
      steps=$((RANDOM % 30 + 20))
      # It takes long until the noise is known; runs that keep no gradients never know it.
      if [[ $batch$gradient =~ noise(buffer|bf16) ]]; then steps=1300 every=200 save=90 micro=2
      elif [[ $batch == *noise ]]; then batch=7; fi
      # What losses weigh is counted before a window that is folded.
      if [[ $gradient == folded ]]; then ahead=2; fi
      flags+=(--data "$work/text" --layers 1 --heads 2 --width 32 --context 16 --dropout "$dropout"
        --batch "$batch" --steps "$steps")
      ;;
    mlp)
      pick batch 32 12@0,32@1ep,20@17
      flags+=(--data "$work/images" --hidden 128 --dropout "$dropout" --batch "$batch" --epochs $((RANDOM % 5 + 3)))
      ;;
    llm)
      local rank base
      pick rank 0 8 64
      pick batch 7 3@0,7@4,5@20
      flags+=(--model "$work/llm" --data "$work/chats.jsonl" --context 64 --lora "$rank" --batch "$batch" --epochs 3)
      if [[ $rank != 0 ]]; then
        pick base file q8_0 q4_0 nf4
        flags+=(--lora-dropout "$dropout" --base "$base")
      fi
      flags=("${flags[@]/#\*.bias/*.layers.0.*}")
      if [[ $gradient == folded ]]; then ahead=2; fi
      ;;
    resnet)
      pick batch 40 16,40@1ep
      flags+=(--data "$work/images" --width 8 --batch "$batch" --epochs 2 --flip)
      ;;
  esac
  if [[ $gradient != fused* ]]; then flags+=(--micro-batch "$micro" --last-window "$last"); fi
  flags+=(--read-ahead "$ahead" --eval-every "$every" --eval-samples 10)
  flags+=(--save-every "$save" --keep "$keep" --optimizer "$optimizer" --lr 0.01)
  if [[ $precision == f16 ]]; then flags+=(--loss-scale-init 1e12 --loss-scale-interval 5 "$more"); fi
}

without_times() {
  sed -E 's/"(run|seconds|data_wait_s|samples_per_s|tokens_per_s)":[^,}]*//g' "$1"
}
# The elements of a safetensors file: what follows its header.
tensors() {
  local header
  header=$(od -An -N8 -tu8 "$1")
  tail -c +$((header + 9)) "$1"
}
newest_state() {
  printf '%s\n' "$1"/state-*.safetensors | tail -n 1
}
same() { # UNDISTURBED DISTURBED
  local weights=model.safetensors
  if [[ -e $1/adapter_model.safetensors ]]; then weights=adapter_model.safetensors; fi
  cmp "$1/$weights" "$2/$weights" &&
    if [[ -e $1/average.safetensors ]]; then cmp "$1/average.safetensors" "$2/average.safetensors"; fi &&
    cmp <(tensors "$(newest_state "$1")") <(tensors "$(newest_state "$2")") &&
    cmp <(without_times "$1.jsonl") <(without_times "$2.jsonl")
}
milliseconds() {
  echo $(($(date +%s%N) / 1000000))
}

done_kills=0 runs=0 failed=0
while ((done_kills < kills)); do
  choose_flags
  runs=$((runs + 1))
  rm -rf whole killed whole.jsonl killed.jsonl
  begin=$(milliseconds)
  "$accrue" train "${flags[@]}" --out whole --metrics whole.jsonl >whole.log 2>&1 ||
    {
      grep -q 'without getting further' whole.log && echo "goes back too often: ${flags[*]}" && continue
      echo "FAILED undisturbed: ${flags[*]}" && tail -n 3 whole.log && exit 1
    }
  took=$(($(milliseconds) - begin))

  # Each life is a little longer than the one before, so that the run comes to its end.
  life=1 struck=0 stopped=0
  while :; do
    "$accrue" train "${flags[@]}" --out killed --metrics killed.jsonl --resume-or-start >killed.log 2>&1 &
    process=$!
    limit=$((took * (10 + RANDOM % 50 + 4 * life) / 100))
    sleep "$(printf '%d.%03d' $((limit / 1000)) $((limit % 1000)))"
    pick signal KILL TERM
    if kill -$signal $process 2>/dev/null; then
      struck=$((struck + 1))
      status=0
      wait $process 2>/dev/null || status=$?
      # One that has heeded SIGTERM says so; it may also have come to its end before the signal.
      if ((status == 0 || status == 143)); then stopped=$((stopped + 1)); fi
    elif wait $process; then break
    else
      echo "FAILED to go on: ${flags[*]}" && tail -n 3 killed.log && exit 1
    fi
    life=$((life + 1))
  done
  done_kills=$((done_kills + struck))
  if same whole killed >difference 2>&1; then verdict=equal
  else
    verdict="DIFFERENT: $(head -n 1 difference)" failed=$((failed + 1))
  fi
  echo "$struck kills, $stopped of them heeded, $verdict: ${flags[*]}"
done
echo "$runs runs, $done_kills kills, $failed different from the undisturbed run"
((!failed))
