# The help of `accrue plan` and `accrue verify` lists flags of `accrue train` as without effect: these have none, and the
# flags that it offers have one.

# How a flag is given, for all models (*) or one, so that it changes something where it can. What follows the bar is given
# with and without it.
flag_table() {
  cat <<'TABLE'
* data nowhere
* max-bytes 10
* binary | --data tokens
* vocab 300 | --data tokens
* layers 2
* heads 4
* width 32
* context 8
* depth 14
* norm layer
* classes 12
* dropout 0.3
* images pair/train-images-idx3-ubyte
* labels pair/train-labels-idx1-ubyte
* coarse
* size 24 | --data shapes
* grey | --data shapes --size 8
* filter bicubic | --data shapes --size 8 --crop-area 0
* crop-share 0.5 | --data shapes --size 8 --crop-area 0
* scaled-decoding | --data jpegs --size 4 --crop-area 0
* bad-images skip | --data broken --size 8
* balanced | --data unequal --size 8
* image-cache nowhere/c | --data shapes --size 8
* examples 3
* class-weights | --data unequal --size 8
* mixup 0.5
* cutmix 1
* crop-area 1 | --data shapes --size 8
* rand-augment 2 | --data shapes --size 8
* magnitude 30 | --data shapes --size 8 --rand-augment 4
* trivial-augment | --data shapes --size 8
* jitter 0.5 | --data shapes --size 8
* hue 0.5 | --data shapes --size 8
* label-smoothing 0.2
* shift 1
* flip
* rotation 30
* scaling 0.3
* erase 1
* batch 4
* steps 7
* epochs 3
* lr 0.1
* schedule constant
* min-lr 1e-5
* warmup 3
* lr-period 2 | --schedule step
* lr-period-factor 2 | --schedule restarts
* lr-fall 3 | --schedule cyclic
* lr-cycle triangular2 | --schedule cyclic
* lr-factor 0.5 | --schedule step
* lr-milestones 2,3 | --schedule multistep
* lr-decay 3 | --schedule wsd
* lr-anneal sqrt | --schedule wsd
* lr-rise 0.4 | --schedule one-cycle
* lr-start-divisor 5 | --schedule one-cycle
* lr-end-divisor 5 | --schedule one-cycle
* lr-phases three | --schedule one-cycle
* cycle-momentum off | --schedule one-cycle
* min-momentum 0.5 | --schedule one-cycle
* max-momentum 0.99 | --schedule one-cycle
* lr-patience 1 | --schedule plateau --eval-every 1
* lr-cooldown 1 | --schedule plateau --eval-every 1
* lr-threshold 0.1 | --schedule plateau --eval-every 1
* lr-threshold-kind absolute | --schedule plateau --eval-every 1
* lr-scaling sqrt | --lr-scaling linear --lr-base-batch 2
* lr-base-batch 3 | --lr-scaling linear --lr-base-batch 2
* optimizer sgd
gpt optimizer-state 8bit | --width 64
gpt state-f32 none | --optimizer-state 8bit --width 64
resnet optimizer-state 8bit
resnet state-f32 * | --optimizer-state 8bit
gpt freeze *.ln_*
resnet freeze *weight
gpt optimizer-state-in host | --width 64
resnet optimizer-state-in host
gpt host-memory 1MiB | --width 64 --memory 1000KiB
resnet host-memory 1MiB | --memory 330KiB
gpt weights bf16 | --precision bf16
resnet weights bf16 | --precision bf16
* working-copies none | --precision bf16
gpt gradients bf16 | --width 64
resnet gradients bf16
* beta1 0.5
* beta2 0.5
* momentum 0 | --optimizer sgd
* no-nesterov | --optimizer muon
* muon-scale original | --optimizer muon
* adamw-rate 0.5 | --optimizer muon
* weight-decay 0.5
* clip 0.01
gpt group *.ln_*:lr=0.5
resnet group *weight:lr=0.5
* clip-by value
* ema 0.5
* last-window carry | --micro-batch 6
* eval-every 1
* eval-samples 1
* patience 2 | --eval-every 1
* patience-gain 0.5 | --eval-every 1 --patience 2
* rank 99999/100000
* fold 1/100000
* seed 2
* loss-scale 1000 | --precision f16
* loss-scale-init 1000 | --precision f16
* loss-scale-growth 3 | --precision f16 --loss-scale-interval 1
* loss-scale-interval 1 | --precision f16 --loss-scale-growth 3
* loss-scale-backoff 0.3 | --precision f16 --loss-scale-init 1e30
* loss-scale-floor 1e29 | --precision f16 --loss-scale-init 1e30
* replay | --precision f16 --loss-scale-init 1e30
* device nothing
* memory 1
* micro-batch 3
gpt read-ahead 32 | --memory 210KiB
resnet read-ahead 32 | --memory JUST
* loader-threads 3
* batch-norm micro | --norm batch
resnet stem large
resnet pixels half
resnet layer-decay 0.5
resnet drop-path 0.3
* precision bf16
* debug-numerics | --precision f16
* recompute all
* init other/model.safetensors
* out elsewhere
* metrics m
* resume
* resume-or-start
* overwrite
* save-every 3
* save-minutes 1
* keep 1
* keep-best
* grace 1
* on-spike tell
* spike-deviations 5 | --on-spike tell
* spike-rate 0.1 | --on-spike back
* good-every 3 | --on-spike back
* layers-every 2
* max-minutes 1
* max-tokens 1G
* policy none.json
* config recorded.json
* print-config
* preset nothing
* names
* largest resolution | --memory 64MiB
gpt largest context | --memory 64MiB
* ranks 2
* bandwidth 3 | --ranks 2
* latency 50000 | --ranks 2
* rank-timeout 100
* tensorboard events
* noise-scale on
* noise-layers 1
* histograms 1 | --tensorboard events
* quiet
* updates 2
* json
* svg nowhere/picture.svg
TABLE
}

# flag_given MODEL NAME: its line, as arrays `given` and `given_with`.
flag_given() {
  local model name rest line found=''
  while read -r model name rest; do
    if [[ $model == '*' || $model == "$1" ]] && [[ $name == "$2" ]]; then found=1 line=$rest; fi
  done < <(flag_table)
  [[ $found ]] || die "this test does not know --$2"
  read -r -a given <<<"${line%%|*}"
  given_with=()
  [[ $line != *'|'* ]] || read -r -a given_with <<<"${line#*|}"
  # What the command takes by itself, rounded up. It depends on the CPU.
  given_with=("${given_with[@]/#JUST/$just}")
}

# outcome FILE ARGUMENT...: what the program prints and its status.
outcome() {
  local file=$1 status=0
  shift
  "$ACCRUE" "$@" >"$file" 2>err </dev/null || status=$?
  echo "status $status" >>"$file"
}

# changes VERB MODEL NAME: whether the flag makes a difference to what the verb prints or whether it does its work.
changes() {
  local given given_with device=cpu
  [[ $1 != plan ]] || device=dry
  flag_given "$2" "$3"
  [[ $1$3 != plangroup ]] || given_with+=(--names)
  local flags=("$1" "$2" "${base[@]}" --device $device "${given_with[@]}")
  outcome with "${flags[@]}" "--$3" "${given[@]}"
  if [[ ${without_flags:-} != "${flags[*]}" ]]; then # most flags are given with the same others
    outcome without "${flags[@]}"
    without_flags=${flags[*]}
  fi
  ! cmp -s with without
}

# The flags in a file `help`, one a line.
offered() { sed -n '/without effect:$/,/^$/d; s/^  --\([a-z0-9-]*\).*/\1/p' help | sed /^help$/d; }
without_effect() { sed -n '/without effect:$/,/^$/p' help | grep -o -- '--[a-z0-9-]*' | sed 's/^--//'; }

case_without_effect() {
  text
  "$FIXTURE" tokens tokens 4000 300
  mkdir pair
  "$FIXTURE" images pair train 60
  "$FIXTURE" images pair t10k 20
  "$FIXTURE" pictures shapes 30 1
  cp -r shapes broken
  head -c 20 shapes/cross/0001.png >broken/cross/cut.png
  cp -r shapes unequal
  rm unequal/cross/00[12]*.png
  mkdir -p jpegs/{a,b}
  cp "$here/../vectors/pictures/"colour*.jpg jpegs/a
  cp "$here/../vectors/pictures/"turned*.jpg jpegs/b
  train --layers 3 --steps 1 --out other >/dev/null
  local model verb name base just
  for model in gpt resnet; do
    base=(--batch 6 --micro-batch 2 --recompute none --data pair --width 8)
    echo '{"model": "'$model'", "flags": {"optimizer": "sgd", "recompute": "all"}}' >recorded.json
    [[ $model != gpt ]] || base+=(--data text --layers 1 --heads 2 --width 16 --context 16)
    run verify $model "${base[@]}" --device cpu >verified
    just=$(sed -n '1s/.*, \([0-9]*\)[.0-9]* KiB$/\1/p' verified)
    just=$((just + 1))KiB
    for verb in plan verify; do
      run $verb $model --help all >help
      without_effect >names
      (($(wc -l <names) > 10)) || die "$verb $model --help lists hardly any flag: $(cat names)"
      while read -r name; do
        ! changes $verb $model "$name" || die "$verb $model --$name has an effect: $(diff without with)"
        grep -qx 'status 0' with || die "$verb $model fails with --$name: $(cat err)"
      done <names
      offered >names
      while read -r name; do
        [[ $name == threads || $model$name == gptbatch-norm ]] && continue # it depends on the machine; not for this model
        changes $verb $model "$name" || die "$verb $model --help offers --$name, which changes nothing: $(cat with)"
      done <names
    done
  done
}
