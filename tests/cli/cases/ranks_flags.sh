# Every flag of `accrue train` with two ranks: it works, with the losses of one rank but for rounding; or it is refused by name; or
# it says nothing about ranks. A flag that is in none of the three lists fails the case. Sourced by cases.sh.

declare -A base_of=(
  [gpt]='--data text --layers 1 --heads 2 --width 16 --context 16 --batch 6 --steps 8 --eval-every 4 --lr 1e-3'
  [mlp]='--images train-images-idx3-ubyte --labels train-labels-idx1-ubyte --hidden 16 --batch 6 --steps 4 --eval-every 2 --lr 1e-3'
  [resnet]='--data shapes --size 24 --depth 8 --width 4 --norm group --batch 6 --steps 4 --eval-every 2 --lr 1e-2'
  [mobilenet]='--data shapes --size 32 --variant v3-small --width 8 --batch-norm exact --batch 6 --steps 2 --eval-every 2 --lr 1e-3'
  [vit]='--images train-images-idx3-ubyte --labels train-labels-idx1-ubyte --width 16 --heads 2 --depth 1 --batch 6 --steps 2 --eval-every 2 --lr 1e-3'
  [unet]='--data set/images --masks set/masks --size 24 --depth 2 --width 8 --batch 4 --steps 4 --eval-every 2 --lr 1e-3'
  [llm]='--model base --data chats.jsonl --context 64 --batch 4 --lora 4 --steps 4 --eval-every 2 --lr 0.01'
)
declare -A instead_of=([--steps]=--epochs [--lora]=--adapter) classified
classify() { for name in "$@"; do [[ $name != --* ]] || classified[${name#--}]=1; done; }

# words KIND FLAG...: the kind's flags, but for those that are given in another way, and whatever is needed for equal losses.
words() {
  local kind=$1 word
  shift
  words=(train "$kind" --threads 1 --overwrite)
  [[ " $* " == *' --schedule '* ]] || words+=(--schedule constant)
  [[ " $* " == *' --warmup '* || " $* " == *' one-cycle '* ]] || words+=(--warmup 0)
  local -a base
  read -ra base <<<"${base_of[$kind]}"
  for ((word = 0; word < ${#base[@]}; word += 2)); do
    case " $* " in
    *" ${base[word]} "* | *" ${instead_of[${base[word]}]-none} "*) ;;
    *) words+=("${base[word]}" "${base[word + 1]}") ;;
    esac
  done
  words+=("$@")
}

losses() { grep -E '"event":"(step|end)"' "$1" | sed -E 's/.*"(loss|val_loss)":([^,}]*).*/\2/'; }

# works KIND FLAG...
works() {
  local words
  words "$@"
  classify "${words[@]}"
  rm -rf one two
  "$PROGRAM" "${words[@]}" --device cpu --out one >out 2>err || die "accrue ${words[*]} fails with one rank: $(cat err)"
  "$PROGRAM" "${words[@]}" --device cpu,cpu --out two >out 2>err || die "accrue ${words[*]} fails with two ranks: $(cat err)"
  paste <(losses one/metrics.jsonl) <(losses two/metrics.jsonl) |
    awk '{ d = $1 - $2; if (NF != 2 || d > 2e-4 * $1 || -d > 2e-4 * $1) bad = 1 } END { exit bad || NR < 2 }' ||
    die "two ranks have other losses: accrue ${words[*]}: $(paste <(losses one/metrics.jsonl) <(losses two/metrics.jsonl))"
}

# alone KIND FLAG...: the first flag is refused by name.
alone() {
  local words
  words "$@"
  classify "$2"
  refuse 2 "$2" "${words[@]}" --device cpu,cpu --out none
}

case_ranks_flags() {
  text
  mkdir base
  "$FIXTURE" llm base 1
  "$FIXTURE" chats 60 >chats.jsonl
  "$FIXTURE" images . train 60
  "$FIXTURE" pictures shapes 40 1
  "$FIXTURE" masks set 24 1
  "$FIXTURE" tokens tokens 4000 300
  printf '{"version": 1, "max_batch": 8}\n' >policy.json
  for i in $(seq 0 39); do
    printf '{"prompt": [{"role": "user", "content": "%d+2?"}], "chosen": [{"role": "assistant", "content": "%d."}], "rejected": [{"role": "assistant", "content": "no, %d"}]}\n' "$i" $((i + 2)) $((i % 7))
  done >pairs.jsonl

  works gpt --batch 7 --micro-batch 2 --dropout 0.2 --seed 7 --ema 0.9 --keep-best --clip 0.5 --clip-by each --recompute all --memory 4MiB \
    --save-every 3 --save-minutes 0 --keep 1 --grace 0 --quiet --eval-samples 10 --rank-timeout 30
  mv two first
  works gpt --clip 0.5 --clip-by value --group '*bias:clip=0.1,lr=0.5' --freeze '*ln_1*' --fold 2/4 --read-ahead 2 --weight-decay 0.2
  works gpt --optimizer muon --adamw-rate 0.1 --muon-scale original --momentum 0.9 --no-nesterov --layers-every 2 --on-spike back \
    --spike-deviations 3 --spike-rate 0.5 --good-every 2 --init first
  works gpt --optimizer lion --beta1 0.8 --beta2 0.95 --optimizer-state 8bit --state-f32 '*wte*' --rank 1/2 --max-bytes 4KiB
  works gpt --gradients sharded --micro-batch 2 --clip 0.5 --clip-by adaptive --noise-scale on --ema 0.9
  works gpt --precision bf16 --weights bf16 --gradients bf16 --binary --json
  works gpt --precision bf16 --working-copies none --vocab 300 --data tokens
  works gpt --precision f16 --loss-scale dynamic --loss-scale-init 1073741824 --loss-scale-growth 2 --loss-scale-interval 2 \
    --loss-scale-floor 2 --loss-scale-backoff 0.25 --replay
  works gpt --batch 2..6@noise --noise-scale on --noise-layers 2 --preset gpt-tiny
  works gpt --batch 4@0,6@3 --lr-scaling sqrt --lr-base-batch 3 --max-tokens 600 --policy policy.json
  works gpt --epochs 3 --batch 64 --last-window carry --max-minutes 5
  works gpt --schedule one-cycle --cycle-momentum on --max-momentum 0.95 --min-momentum 0.8 --lr-rise 0.3 --lr-start-divisor 10 \
    --lr-end-divisor 100 --lr-anneal linear --lr-phases three
  works gpt --schedule cyclic --lr-period 4 --lr-fall 2 --lr-cycle triangular2 --min-lr 1e-5
  works gpt --schedule restarts --lr-period 2 --lr-period-factor 2 --warmup 1
  works gpt --schedule wsd --lr-decay 3
  works gpt --schedule multistep --lr-milestones 2,4 --lr-factor 0.5
  works gpt --schedule plateau --lr-patience 0 --lr-threshold 10 --lr-threshold-kind absolute --lr-cooldown 1 --eval-every 1 \
    --patience 6 --patience-gain 10
  works mlp --optimizer adafactor
  works resnet --norm batch --batch-norm exact --micro-batch 2 --mixup 0.3 --label-smoothing 0.1 --drop-path 0.1 --dropout 0.1 \
    --crop-area 0.5 --flip --jitter 0.3 --hue 0.1 --grey --erase 0.2 --rotation 10 --scaling 0.1 --shift 2
  works resnet --cutmix 1 --balanced --rand-augment 2 --magnitude 5 --loader-threads 2 --image-cache cache --bad-images skip --pixels half \
    --layer-decay 0.8
  works resnet --class-weights --trivial-augment --filter bicubic --crop-share 0.9 --scaled-decoding --classes 4
  works resnet --stem large --depth 18
  works mobilenet --optimizer sgd
  works vit --patch 3
  works unet --fit crop --loss dice --optimizer adam-mini
  works llm --lora-dropout 0.1 --lora-alpha 8 --rslora --dora --base q8_0 --no-pack --learn all --held-out 0.2 --template chatml
  works llm --lora-targets q_proj,v_proj --drop-long
  mv two adapted
  works llm --adapter adapted --batch 5
  works llm --data pairs.jsonl --objective dpo --beta 0.2 --label-smoothing 0.1

  alone resnet --batch-norm whole --norm batch
  alone gpt --gradients fused
  alone resnet --batch-norm exact --norm batch --gradients sharded
  alone gpt --debug-numerics --precision bf16
  alone gpt --host-memory 1MiB
  alone gpt --optimizer-state-in host
  alone mlp --examples 2

  # A run of other ranks goes on, by its record or another's.
  local words
  words gpt --ema 0.9
  run "${words[@]}" --device cpu --out one >/dev/null
  run "${words[@]}" --device cpu,cpu,cpu --out two --steps 3 >/dev/null
  run train --resume --out two --device cpu,cpu --steps 6 >/dev/null
  run train gpt --resume-or-start --out two --device cpu,cpu,cpu --steps 8 --data text >/dev/null
  near "$(value one/metrics.jsonl end val_loss)" "$(value two/metrics.jsonl end val_loss)" "resumed"
  run train gpt --config one/run.json --device cpu,cpu --out three >/dev/null
  near "$(value one/metrics.jsonl end val_loss)" "$(value three/metrics.jsonl end val_loss)" "of a configuration"
  classify --resume --resume-or-start --config --device --out
  # Those of files, texts and the machine alone; CIFAR-100 is opened as other images are, and what --tensorboard takes is optional.
  classify --metrics --tensorboard --histograms --print-config --coarse

  local file name
  for file in "$here"/../../docs/flags/*.md; do
    grep -qE '^commands:.*\<train\>' "$file" || continue
    name=$(sed -n 's/^name: //p' "$file")
    [[ ${classified[$name]-} ]] || die "nobody has tried --$name with two ranks: say in ranks_flags.sh whether it works"
  done
}
