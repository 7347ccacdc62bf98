#!/usr/bin/env bash
# Records what a build of the program computes, so that a change of its structure can be shown to change nothing else:
#
#   tools/record-runs.sh PROGRAM DATA FOLDER > before.txt     # then change the code, build, and again > after.txt
#   diff before.txt after.txt
#
# DATA is a folder with tinyshakespeare.txt (any text) and MNIST's t10k files. FOLDER keeps the calibration of devices between
# the two, since plans under a budget follow from it. A line is a run: model, optimizer, precision, recomputation or
# budget, device; the plan's micro-batch, ops run again and bytes; a hash of the losses and gradient norms of all
# updates and of the validation; a hash of the model's bytes; with --save-every one of its last state: what the host counts
# and the tensors. A run with «resumed» in its name continues the one before it.
set -euo pipefail
(($# == 3)) || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
program=$(realpath "$1") data=$(realpath "$2") folder=$3
mkdir -p "$folder"
folder=$(realpath "$folder")
export ACCRUE_CACHE_DIR="$folder/cache" OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive
unset OPENBLAS_CORETYPE # the program takes what suits the CPU
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

runs=0
hash() { sha256sum | cut -c 1-16; }

# run NAME FLAGS...: of a training of a few updates. With --resume among the flags it continues the last one.
run() {
  local name=$1 metrics="$work/metrics.jsonl"
  shift
  [[ " $* " == *" --resume "* ]] || rm -rf "$metrics" "$work/out"
  runs=$((runs + 1))
  if ! "$program" train "$@" --metrics "$metrics" --out "$work/out" --seed 5 >"$work/stdout" 2>"$work/stderr"; then
    echo "$name: $(grep '^accrue: ' "$work/stderr" | tail -n 1 | sed "s|$work|FOLDER|")"
    return
  fi
  local plan numbers
  plan=$(sed -n 's/.*"micro_batch":\([0-9]*\).*"recomputed_ops":\([0-9]*\).*"total":\([0-9]*\).*/\1 \2 \3/p' "$metrics" |
    head -n 1)
  numbers=$(grep -oE '"(loss|grad_norm|val_loss|val_accuracy|accuracy|loss_scale)":[^,}]*' "$metrics" | hash)
  local states state=""
  mapfile -t states < <(find "$work/out" -name 'state-*' | sort)
  if ((${#states[@]})); then
    state=", state $(LC_ALL=C grep -aoE '"accrue\.(state\.[a-z0-9_.]*|xxh3)":"[^"]*"' "${states[-1]}" | hash)"
  fi
  echo "$name: plan $plan, numbers $numbers, model $(hash <"$work/out/model.safetensors")$state"
}

text="$data/tinyshakespeare.txt"
gpt=(gpt --data "$text" --max-bytes 20KiB --layers 2 --heads 2 --width 32 --context 32 --dropout 0.1)
mlp=(mlp --images "$data/t10k-images-idx3-ubyte.gz" --labels "$data/t10k-labels-idx1-ubyte.gz" --hidden 32,16)
resnet=(resnet --images "$data/t10k-images-idx3-ubyte.gz" --labels "$data/t10k-labels-idx1-ubyte.gz" --width 4)
mobilenet=(mobilenet "${resnet[@]:1:4}" --width 4)

for model in gpt mlp resnet mobilenet; do
  declare -n flags=$model
  common=("${flags[@]}" --batch 12 --steps 3 --eval-samples 12 --eval-every 2)
  case $model in
    gpt) budget=900KiB ;;
    mlp) budget=500KiB ;;
    *) budget=1MiB ;;
  esac
  for device in cpu opencl; do
    for precision in f32 f16 bf16; do
      for optimizer in adamw sgd; do
        for recompute in none all; do
          run "$model $optimizer $precision $recompute $device" "${common[@]}" --device $device --precision $precision \
            --optimizer $optimizer --micro-batch 5 --recompute $recompute
        done
      done
      run "$model adamw $precision $budget $device" "${common[@]}" --device $device --precision $precision --memory $budget
    done
  done
done

# What is watched, how gradients are kept, and each optimizer: with the states of these, and runs that go on from them.
for optimizer in adamw sgd lion adafactor muon adam-mini; do
  for gradients in buffer fused fused-local folded bf16; do
    for model in gpt mlp; do
      declare -n flags=$model
      common=("${flags[@]}" --batch 12 --eval-samples 12 --eval-every 2 --save-every 3 --device cpu
        --optimizer $optimizer --gradients $gradients)
      [[ $gradients == fused* ]] || common+=(--micro-batch 5)
      [[ $gradients == folded ]] && common+=(--clip 0) || common+=(--clip 1)
      run "$model $optimizer $gradients" "${common[@]}" --steps 4
      run "$model $optimizer $gradients resumed" "${common[@]}" --steps 6 --resume
    done
  done
done
watched=("${gpt[@]}" --eval-samples 12 --eval-every 2 --save-every 18 --device cpu)
set -f # a pattern of a group is not a path
while read -r name more; do
  [[ $more == *--batch* ]] || more="--batch 12 --micro-batch 5 $more"
  run "$name" "${watched[@]}" $more --steps 25
  run "$name resumed" "${watched[@]}" $more --steps 40 --resume
done <<'END'
noise --noise-scale on
noise-layers --noise-scale on --noise-layers 4
layers --layers-every 3
spikes-tell --on-spike tell --lr 0.3 --optimizer sgd --spike-deviations 2
spikes-skip --on-spike skip --lr 0.3 --optimizer sgd --spike-deviations 2
spikes-back --on-spike back --lr 0.3 --optimizer sgd --spike-deviations 2 --good-every 9
plateau --schedule plateau --lr-patience 2
patience --patience 3 --patience-gain 0.01
scaler --precision f16 --loss-scale-init 1e9 --loss-scale-interval 4
scaler-replay --precision f16 --loss-scale-init 1e9 --loss-scale-interval 4 --replay
batches --batch 6@0,9@10,12@20 --micro-batch 5
growth --batch 6..12@noise --micro-batch 2
average --ema 0.9
8bit --optimizer-state 8bit
groups --group *.weight:lr=0.5,decay=0.1,clip=0.5 --freeze *wpe*
one-cycle --schedule one-cycle
cyclic --schedule cyclic --optimizer sgd --lr-period 5
everything --noise-scale on --noise-layers 4 --layers-every 5 --on-spike skip --precision f16 --schedule plateau --ema 0.9
END
echo "$runs runs"
