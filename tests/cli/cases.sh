#!/usr/bin/env bash
# Drives the real program: tests/cli/cases.sh CASE, with ACCRUE, FIXTURE, METRICS and PAGE naming the programs. Each
# case runs in a folder of its own, which is removed afterwards. More cases are in cases/.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMP_WAIT_POLICY=passive # cases run side by side on few cores

# Cases share flags, and some give one of these again. The program refuses that, so what is called here is a script that
# leaves out all but the last; $PROGRAM is the program itself.
PROGRAM=$ACCRUE
ACCRUE=$work.once
export PROGRAM
trap 'rm -rf "$work" "$work.once"' EXIT
cat >"$ACCRUE" <<'ONCE'
#!/bin/bash
declare -A last
words=("$@") kept=()
for i in "${!words[@]}"; do
  name=${words[i]%%=*}
  [[ $name != --* || $name =~ ^--(group|grid|ablate)$ || $1$name == bench--device ]] || last[$name]=$i
done
for ((i = 0; i < ${#words[@]}; i++)); do
  name=${words[i]%%=*}
  if [[ $name == --* && ${last[$name]-$i} != "$i" ]]; then
    if [[ ${words[i]} != *=* && ${words[i + 1]-} && ${words[i + 1]} != --* ]]; then i=$((i + 1)); fi
  else kept+=("${words[i]}"); fi
done
exec "$PROGRAM" "${kept[@]}"
ONCE
chmod +x "$ACCRUE"

die() {
  echo "FAILED: $*" >&2
  exit 1
}

# refuse STATUS TEXT ARGUMENT...: the program exits with STATUS and says one sentence, which holds TEXT.
refuse() {
  local want=$1 text=$2 got=0
  shift 2
  "$ACCRUE" "$@" >refuse.out 2>refuse.err </dev/null || got=$?
  ((got == want)) || die "status $got instead of $want: accrue $*: $(cat refuse.err)"
  sed -i '/^[a-z0-9:]*: \(measur\|compil\|prepar\|first \)/d' refuse.err # what took longer than a second
  # One line; but if a plan needs too much memory, or may see a part of a batch, the ways out follow.
  (($(sed '/^Less would do/,$d; /^What else needs less/d; /^--batch-norm exact splits/d' refuse.err | wc -l) == 1)) || die "not one line: accrue $*: $(cat refuse.err)"
  grep -q '^accrue: ' refuse.err || die "not the program's own words: $(cat refuse.err)"
  grep -qF -- "$text" refuse.err || die "no '$text' in: $(cat refuse.err)"
  [[ ! -s refuse.out ]] || die "something on stdout: accrue $*"
}

# Cases train into the same folder again and again: run says that this is meant, where the case does not.
run() {
  local more=()
  if [[ $1 == train && ! " $* " =~ ' '--(help|resume|resume-or-start|overwrite)' ' ]]; then more=(--overwrite); fi
  "$ACCRUE" "$@" "${more[@]}" 2>run.err || die "accrue $* failed: $(cat run.err)"
}

tiny=(--device cpu --layers 1 --heads 2 --width 16 --context 16 --batch 6 --eval-every 0)
text() { seq 1 1500 >text; }
train() { run train gpt --data text "${tiny[@]}" "$@"; }

# ---- cases ------------------------------------------------------------------------------------------

case_help() {
  run --version | grep -qE '^accrue [0-9]+\.[0-9]+\.[0-9]+$' || die "--version"
  local command
  for command in "" devices train "train gpt" "train llm" "train mlp" "train resnet" "train mobilenet" "train efficientnet" "train vit" "train convnext" "train unet" eval sample plan "plan gpt" \
    verify "verify gpt" lr-find "lr-find mlp" pilot "pilot gpt" bench "bench gemm" "bench ops" "bench step" "bench all" "bench memory" report; do
    # shellcheck disable=SC2086
    run $command --help >help
    [[ -s help && ! -s run.err ]] || die "no help on stdout for '$command'"
  done
  run train gpt --help all >help
  local flag verb
  for flag in data layers heads width context vocab dropout lr min-lr warmup schedule optimizer beta1 beta2 \
    weight-decay momentum clip batch micro-batch memory steps epochs eval-every seed threads device \
    precision recompute gradients metrics tensorboard histograms out init last-window loss-scale loss-scale-init loss-scale-growth \
    loss-scale-backoff loss-scale-interval loss-scale-floor replay lr-period lr-period-factor lr-fall lr-cycle lr-factor \
    lr-milestones lr-decay lr-anneal lr-rise lr-start-divisor lr-end-divisor lr-phases cycle-momentum min-momentum \
    max-momentum lr-patience lr-cooldown lr-threshold lr-threshold-kind lr-scaling lr-base-batch; do
    grep -q -- "--$flag " help || die "the help lacks --$flag"
  done
  # Every choice is listed whole, each command says what it does itself, and no flag that is refused is offered.
  for command in gpt llm mlp resnet mobilenet efficientnet vit convnext unet; do
    run plan $command --help >help
    grep -q '^Says what training would take' help || die "plan $command --help: $(head -n 5 help)"
    run verify $command --help >help
    grep -q '^Compares training' help || die "verify $command --help: $(head -n 5 help)"
    for flag in steps epochs eval-every eval-samples out metrics tensorboard histograms; do
      for verb in plan verify; do
        run $verb $command --help all >help
        offered >offered
        without_effect >without_effect
        ! grep -qx "$flag" offered || die "$verb $command --help offers --$flag"
        grep -qx "$flag" without_effect || die "$verb $command --help lacks --$flag"
      done
    done
    run train $command --help all >help
    ! grep -q 'without effect' help || die "train $command --help has flags without effect"
    grep -q '^Trains' help || die "train $command --help: $(head -n 5 help)"
    grep -q -- '--fold ' help || die "--fold in the help of $command"
  done
  run bench ops --help >help
  local choices
  choices=$({ "$ACCRUE" bench ops --model nothing 2>&1 || true; } | sed 's/.*one of //; s/, \| or /|/g')
  tr -d ' \n' <help | grep -qF -- "--model$choices" || die "the help of bench cuts '$choices'"
  run devices | grep -q '^cpu' || die "devices does not list the CPU"
  run devices --json | grep -q '"id": "cpu"' || die "devices --json"
}

case_usage() {
  text
  refuse 2 'command is missing'
  refuse 2 'unknown command' frobnicate
  refuse 2 'model is missing' train
  refuse 2 'unknown model transformer' train transformer
  refuse 2 'did you mean --layers' train gpt --layer 3
  refuse 2 'unknown flag --colour' train gpt --colour red
  refuse 2 'unexpected argument' train gpt text
  refuse 2 '--data needs a value' train gpt --data
  refuse 2 '--data needs a value' train gpt --data --steps 5
  refuse 2 '--json takes no value' devices --json=yes
  refuse 2 '--data is missing' train gpt
  refuse 2 'not a whole number' train gpt --data text --steps 5x
  refuse 2 'not a whole number' train gpt --data text --steps ''
  refuse 2 'out of range' train gpt --data text --steps 0
  refuse 2 'out of range' train gpt --data text --steps 99999999999999999999
  refuse 2 'out of range' train gpt --data text --layers -1
  refuse 2 'below 1' train gpt --data text --dropout 1
  refuse 2 'not a number' train gpt --data text --lr nan
  refuse 2 'not a number' train gpt --data text --lr 0x10
  refuse 2 '--seed 18446744073709551616 is out of range: it must be at most 9223372036854775807' train gpt --data text \
    --seed 18446744073709551616
  refuse 2 '--seed -99999999999999999999 is out of range: it must be at least 0' train gpt --data text --seed=-99999999999999999999
  refuse 2 '--lr 1e999 is out of range: it must be at most 1.797693134862315e308' train gpt --data text --lr 1e999
  refuse 2 'out of range' train gpt --data text --lr=-1
  refuse 2 'must be one of constant, cosine' train gpt --data text --schedule square
  refuse 2 'unknown unit MB' train gpt --data text --memory 64MB
  refuse 2 'not a size' train gpt --data text --memory much
  refuse 2 'less than one byte' train gpt --data text --memory 0
  refuse 2 '--steps and --epochs contradict' train gpt --data text --steps 5 --epochs 1
  ACCRUE=$PROGRAM refuse 2 '--data is given twice' train gpt --data text --steps 5 --data=text
  ACCRUE=$PROGRAM refuse 2 '--freeze is given twice' train gpt --data text --freeze '*.wte.*' --freeze '*.wpe.*'
  ACCRUE=$PROGRAM refuse 2 '--no-nesterov is given twice' plan gpt --data text --no-nesterov --no-nesterov
  ACCRUE=$PROGRAM refuse 2 'no parameter' train gpt --data text "${tiny[@]}" --group '*.bias:lr=1' --group 'nothing:lr=1'
  # Flags that the library refuses are also wrong usage.
  local verb
  for verb in train plan verify lr-find; do
    refuse 2 'matches "nothing*", which is to be frozen' $verb gpt --data text "${tiny[@]}" --freeze 'nothing*'
    refuse 2 'depends on no trainable parameter' $verb gpt --data text "${tiny[@]}" --freeze '*'
    refuse 2 'cannot be moved to host memory' $verb gpt --data text "${tiny[@]}" --optimizer-state-in host
    refuse 2 '--ema averages weights' $verb gpt --data text "${tiny[@]}" --weights bf16 --precision bf16 --ema 0.9
    refuse 2 '--clip-by value needs' $verb gpt --data text "${tiny[@]}" --gradients bf16 --clip-by value
  done
  refuse 2 'matches "nothing*" of group' train gpt --data text "${tiny[@]}" --group 'nothing*:lr=1'
  refuse 2 'leave out --read-ahead 0, or give --micro-batch 4' train gpt --data text "${tiny[@]}" --batch 4 --micro-batch 2 \
    --gradients folded --clip 0 --read-ahead 0 --out uncounted
  [[ ! -e uncounted/run.json ]] || die "a run that was refused is recorded"
  refuse 2 'take folded gradients' train gpt --data text "${tiny[@]}" --gradients folded --clip 0 --optimizer lion
  refuse 2 '--vocab and --max-bytes contradict' train gpt --data text --vocab 300 --max-bytes 1KiB
  refuse 1 'text is text, not uint16 tokens' train gpt --data text --vocab 300
  refuse 2 '--vocab and --binary contradict' train gpt --data text --vocab 300 --binary
  refuse 2 'is a folder' train gpt --data . --vocab 300
  refuse 2 'larger than the batch' train gpt --data text --batch 4 --micro-batch 5
  refuse 2 '--heads 3 does not divide --width 128' train gpt --data text --heads 3
  refuse 2 '--beta1 has no meaning' train gpt --data text --optimizer sgd --beta1 0.9
  refuse 2 '--momentum has no meaning' train gpt --data text --momentum 0.9
  refuse 2 '--state-f32 has no meaning' train gpt --data text --state-f32 x
  refuse 2 '--weights bf16 needs --precision bf16' train gpt --data text --weights bf16
  refuse 2 '--momentum has no meaning with --optimizer lion' train gpt --data text --optimizer lion --momentum 0.9
  refuse 2 '--beta2 has no meaning with --optimizer adafactor' train gpt --data text --optimizer adafactor --beta2 0.9
  refuse 2 '--muon-scale has no meaning without --optimizer muon' train gpt --data text --muon-scale original
  refuse 2 '--no-nesterov has no meaning without --optimizer muon' train gpt --data text --optimizer sgd --no-nesterov
  refuse 2 '--adamw-rate has no meaning without --optimizer muon' train gpt --data text --optimizer lion --adamw-rate 0.5
  refuse 2 '--momentum has no meaning with --optimizer adam-mini' train gpt --data text --optimizer adam-mini --momentum 0.9
  refuse 2 '8bit is for adamw, sgd and lion, not for adam-mini' plan gpt --data text --optimizer adam-mini --optimizer-state 8bit
  refuse 2 '--min-lr has no meaning' train gpt --data text --schedule constant --min-lr 0.1
  local rate=(train gpt --data text)
  refuse 2 '--min-lr has no meaning with --schedule one-cycle' "${rate[@]}" --schedule one-cycle --min-lr 1e-5
  refuse 2 '--lr-period has no meaning with --schedule cosine' "${rate[@]}" --lr-period 5
  refuse 2 '--lr-period-factor has no meaning without --schedule restarts' "${rate[@]}" --schedule step --lr-period-factor 2
  refuse 2 '--lr-fall has no meaning without --schedule cyclic' "${rate[@]}" --schedule restarts --lr-fall 5
  refuse 2 '--lr-cycle has no meaning without --schedule cyclic' "${rate[@]}" --schedule step --lr-cycle triangular2
  refuse 2 '--lr-factor has no meaning with --schedule linear' "${rate[@]}" --schedule linear --lr-factor 0.5
  refuse 2 '--lr-factor has no meaning without' "${rate[@]}" --schedule cyclic --lr-factor 0.5
  refuse 2 '--lr-milestones has no meaning' "${rate[@]}" --schedule step --lr-milestones 5
  refuse 2 '--lr-decay has no meaning' "${rate[@]}" --schedule inverse-sqrt --lr-decay 5
  refuse 2 '--lr-anneal has no meaning' "${rate[@]}" --schedule cosine --lr-anneal linear
  refuse 2 '--lr-anneal sqrt has no meaning' "${rate[@]}" --schedule one-cycle --lr-anneal sqrt
  refuse 2 '--lr-rise has no meaning' "${rate[@]}" --schedule wsd --lr-rise 0.5
  refuse 2 'out of range' "${rate[@]}" --schedule one-cycle --lr-rise 1.5
  refuse 2 'in three phases' "${rate[@]}" --schedule one-cycle --lr-rise 0.6 --lr-phases three
  refuse 2 '--lr-start-divisor has no meaning' "${rate[@]}" --lr-start-divisor 5
  refuse 2 'at least 1' "${rate[@]}" --schedule one-cycle --lr-end-divisor 0.5
  refuse 2 '--cycle-momentum has no meaning' "${rate[@]}" --cycle-momentum off
  refuse 2 'has no meaning with --optimizer adafactor' "${rate[@]}" --schedule cyclic --optimizer adafactor --max-momentum 0.9
  refuse 2 'has no meaning without --cycle-momentum on' "${rate[@]}" --schedule cyclic --cycle-momentum off --min-momentum 0.5
  refuse 2 '--beta1 has no meaning where the schedule moves it' "${rate[@]}" --schedule one-cycle --beta1 0.8
  refuse 2 '--momentum has no meaning where' "${rate[@]}" --schedule cyclic --optimizer sgd --momentum 0.8
  refuse 2 '--min-momentum 0.92 is above --max-momentum 0.9' "${rate[@]}" --schedule cyclic --min-momentum 0.92
  refuse 2 'below 1' "${rate[@]}" --schedule cyclic --max-momentum 1
  refuse 2 '--schedule plateau needs validations' "${rate[@]}" --schedule plateau --eval-every 0
  refuse 2 'does not reduce the rate' "${rate[@]}" --schedule plateau --lr-factor 1
  refuse 2 'not a part of a loss' "${rate[@]}" --schedule plateau --lr-threshold 1
  refuse 2 '--lr-patience has no meaning' "${rate[@]}" --lr-patience 5
  local list
  for list in 5,5 0 -1 5, ,5 5x 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17 ''; do
    refuse 2 "--lr-milestones $list is not a rising list" "${rate[@]}" --schedule multistep "--lr-milestones=$list" --steps 9
  done
  refuse 2 'a decay of 6 updates does not fit' "${rate[@]}" --schedule wsd --steps 9 --warmup 4 --lr-decay 6
  refuse 2 '--lr-base-batch has no meaning' "${rate[@]}" --lr-base-batch 32
  refuse 2 '--lr-scaling needs --lr-base-batch' "${rate[@]}" --lr-scaling sqrt
  refuse 2 '--data is missing: a text file or a folder' lr-find gpt
  refuse 2 'is not below --most-lr' lr-find gpt --data text --least-lr 1 --most-lr 1
  refuse 2 'at least 10' lr-find gpt --data text --updates 9
  refuse 2 'above 1' lr-find gpt --data text --divergence 1
  refuse 2 'computes nothing' lr-find gpt --data text --device dry
  refuse 2 'larger than the learning rate' train gpt --data text --lr 0.1 --min-lr 0.2
  refuse 2 'longer than the run' train gpt --data text --steps 5 --warmup 6
  local scale
  for scale in 0 -1 nan inf 1e39 0x10 some ''; do
    refuse 2 "--loss-scale $scale is out of range" train gpt --data text "--loss-scale=$scale"
  done
  refuse 2 'at least 1e-18' train gpt --data text --loss-scale dynamic --loss-scale-init 0
  refuse 2 'not a number' train gpt --data text --loss-scale dynamic --loss-scale-init nan
  refuse 2 'above 1' train gpt --data text --loss-scale dynamic --loss-scale-growth 1
  refuse 2 'above 0 and below 1' train gpt --data text --loss-scale dynamic --loss-scale-backoff 1
  refuse 2 'above 0 and below 1' train gpt --data text --loss-scale dynamic --loss-scale-backoff 0
  refuse 2 'at least 1' train gpt --data text --loss-scale dynamic --loss-scale-interval 0
  refuse 2 'below --loss-scale-floor 4' train gpt --data text --loss-scale dynamic --loss-scale-init 2 --loss-scale-floor 4
  refuse 2 '--replay has no meaning' train gpt --data text --replay
  refuse 2 '--loss-scale-growth has no meaning' train gpt --data text --loss-scale 8 --loss-scale-growth 4
  refuse 2 '--data is missing' train mlp
  refuse 2 '--images needs --labels' train mlp --images x
  refuse 2 '--labels needs --images' train mlp --labels x
  refuse 2 'contradict' train mlp --data . --images x --labels x
  refuse 2 'not a list of' train mlp --data . --hidden 256,
  refuse 2 '--model is missing' sample
  refuse 2 'out of range' sample --model x --temperature=-1
}

case_data() {
  text
  refuse 1 'nowhere' train gpt --data nowhere
  : >empty
  refuse 1 'empty' train gpt --data empty
  mkdir folder
  refuse 1 'folder' train gpt --data folder
  seq 1 20 >short
  refuse 1 'too few for a context of 64' train gpt --data short
  "$FIXTURE" tokens tokens 4000 300
  refuse 1 'outside the vocabulary' train gpt --data tokens --vocab 200
  head -c 4001 tokens >odd
  refuse 1 'odd' train gpt --data odd --vocab 300
  refuse 1 'cpu' train gpt --data text --device abacus
  refuse 1 'cpu' train gpt --data text --device opencl:999
  refuse 1 'budget' train gpt --data text --device cpu --memory 100KiB
  : >file
  refuse 1 'file' train gpt --data text --device cpu --out file
  refuse 1 'nowhere/metrics' train gpt --data text --device cpu --metrics nowhere/metrics
  refuse 1 'nowhere' train mlp --data nowhere
  refuse 1 'train-images-idx3-ubyte' train mlp --data folder
  "$FIXTURE" images . train 100
  mv train-labels-idx1-ubyte labels
  refuse 1 'train-labels-idx1-ubyte: No such file' train mlp --data .
  head -c 1000 train-images-idx3-ubyte >images
  refuse 1 'images' train mlp --images images --labels labels
  refuse 1 'labels' train mlp --images labels --labels train-images-idx3-ubyte
  refuse 1 'label 7 of sample 1 is not in [0, 5)' train mlp --images train-images-idx3-ubyte --labels labels --classes 5
}

# A model file that lies about itself is refused by name and reason, wherever it is read.
case_hostile() {
  local f32='"dtype":"F32","shape":[2],"data_offsets"'
  : >empty
  head -c 5 /dev/zero >stub
  "$FIXTURE" safetensors long 1000000 '{}' 0
  "$FIXTURE" safetensors overflow 18446744073709551615 '{}' 0
  "$FIXTURE" safetensors notjson 0 '{"a":' 0
  "$FIXTURE" safetensors range 0 "{\"a\":{$f32:[0,800]}}" 8
  "$FIXTURE" safetensors mismatch 0 "{\"a\":{$f32:[0,4]}}" 4
  "$FIXTURE" safetensors overlap 0 "{\"a\":{$f32:[0,8]},\"b\":{$f32:[4,12]}}" 12
  "$FIXTURE" safetensors hole 0 "{\"a\":{$f32:[4,12]}}" 12
  "$FIXTURE" safetensors duplicate 0 "{\"a\":{$f32:[0,8]},\"a\":{$f32:[8,16]}}" 16
  "$FIXTURE" safetensors negative 0 "{\"a\":{$f32:[-8,0]}}" 8
  "$FIXTURE" safetensors huge 0 \
    '{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}' 0
  "$FIXTURE" safetensors other 0 "{\"a\":{$f32:[0,8]}}" 8
  text
  local file
  for file in empty stub long overflow notjson range mismatch overlap hole duplicate negative huge other; do
    refuse 1 "$file" sample --model $file
    refuse 1 "$file" train gpt --data text --init $file
  done
  train --steps 2 --out model >/dev/null
  head -c 5000 model/model.safetensors >truncated
  refuse 1 truncated sample --model truncated
  refuse 1 'not hold a model of kind mlp' train mlp --data . --init model/model.safetensors
}

case_metrics() {
  text
  train --steps 7 --eval-every 3 --metrics m --out model --memory 64MiB >result
  "$METRICS" check m
  (($(grep -c '"event":"step"' m) == 7)) || die "not one line a step"
  (($(grep -c '"event":"eval"' m) >= 2)) || die "no evaluations"
  [[ $("$METRICS" field m plan budget_bytes) == 67108864 ]] || die "budget_bytes"
  (($(wc -l <result) == 1)) || die "stdout holds more than the result"
  grep -q 'validation loss' result || die "no validation loss on stdout"
  grep -q 'total' run.err || die "no plan on stderr"
  ! grep -q $'\r' run.err || die "a progress bar where there is no terminal"

  "$FIXTURE" images . train 200
  run train mlp --data . --device cpu --epochs 2 --hidden 8 --metrics m --out mlp >/dev/null
  "$METRICS" check m
  run train gpt --data text "${tiny[@]}" --epochs 1 --last-window drop --metrics m --out model >/dev/null
  "$METRICS" check m
}

# A run is resumed with more steps, and its rate does not depend on them: it writes what the longer run does, with the
# evaluation that was due after its last step.
case_longer() {
  text
  local same=(--eval-every 3 --eval-samples 4 --schedule constant --warmup 1 --seed 3 --threads 1 --micro-batch 3) times
  times='s/"(run|seconds|data_wait_s|samples_per_s|tokens_per_s|peak_bytes)":[^,}]*//g'
  train "${same[@]}" --steps 9 --metrics whole.jsonl --out whole >/dev/null
  train "${same[@]}" --steps 6 --metrics m.jsonl --out model >/dev/null
  train "${same[@]}" --steps 9 --metrics m.jsonl --out model --resume >/dev/null
  cmp whole/model.safetensors model/model.safetensors || die "another model"
  cmp <(sed -E "$times" whole.jsonl) <(sed -E "$times" m.jsonl) || die "other metrics"
}

# The same seed gives the same bits; another seed, another model.
case_repeat() {
  text
  train --steps 6 --dropout 0.1 --seed 3 --metrics m1 --out a >/dev/null
  train --steps 6 --dropout 0.1 --seed 3 --metrics m2 --out b >/dev/null
  train --steps 6 --dropout 0.1 --seed 4 --metrics m3 --out c >/dev/null
  cmp a/model.safetensors b/model.safetensors
  "$METRICS" compare 0 m1 m2
  ! cmp -s a/model.safetensors c/model.safetensors || die "the seed changes nothing"
}

# How a batch is split changes nothing but rounding: sums of at most 96 terms in another order.
case_split() {
  text
  local micro
  for micro in 6 3 4 1; do
    train --steps 20 --micro-batch $micro --metrics m$micro --out model$micro >/dev/null
    "$METRICS" compare 1e-5 m6 m$micro
  done
  [[ $("$METRICS" field m4 plan accumulation_steps) == 2 ]] || die "accumulation_steps"
}

# norms FILE: the gradient's norm in each step.
norms() { sed -n 's/.*"event":"step".*"grad_norm":\([^,]*\),.*/\1/p' "$1"; }

# The same for images: the norm of the gradient has the same bits whether or not a small budget makes activations be
# computed again or buffers be shared. With another micro-batch it is the same up to rounding.
case_images_split() {
  mkdir pair
  "$FIXTURE" images pair train 60
  local net micro way least count
  for net in 'mlp --hidden 32' 'resnet --width 8' 'mobilenet --width 8'; do
    # shellcheck disable=SC2206
    local flags=($net --data pair --device cpu --batch 12 --steps 3 --warmup 0 --read-ahead 0 --metrics m --out model)
    for micro in 12 5 4 1; do
      run train "${flags[@]}" --micro-batch $micro --recompute none >/dev/null
      norms m >norms.$micro
      # The smallest budget in which this micro-batch can be trained at all.
      "$ACCRUE" plan "${flags[@]}" --micro-batch $micro --memory 1 >out 2>err || true
      least=$(sed -n 's/.*needs at least [^(]*(\([0-9]*\) bytes.*/\1/p' err)
      [[ $least ]] || die "no least budget of $net: $(cat err)"
      for way in '--recompute all' "--memory $least"; do
        # shellcheck disable=SC2086
        run train "${flags[@]}" --micro-batch $micro $way >/dev/null
        norms m >norms
        [[ $net == mlp* || $way == --memory* || $("$METRICS" field m plan recomputed_ops) != 0 ]] || die "$net: nothing runs again"
        cmp norms.$micro norms || die "$net at micro-batch $micro, $way: $(paste norms.$micro norms)"
      done
      count=$(paste norms.12 norms.$micro |
        awk 'function off(d) { return d < 0 ? -d : d } $1 > 0 && off($1 - $2) <= 1e-5 * $1 { n++ } END { print n + 0 }')
      ((count == 3)) || die "$net at micro-batch $micro: $(paste norms.12 norms.$micro)"
    done
  done
}

case_init() {
  text
  train --steps 5 --schedule constant --metrics m1 --out a >/dev/null
  [[ -s a/config.json ]] || die "no config.json"
  # A rate of zero leaves the weights as they were loaded.
  train --steps 1 --lr 0 --warmup 0 --init a/model.safetensors --metrics m2 --out b >/dev/null
  [[ $("$METRICS" field m1 end val_loss) == "$("$METRICS" field m2 end val_loss)" ]] ||
    die "another validation loss after loading"
  # Names without their prefix; the number of heads comes from the config.json next to the weights.
  mkdir bare
  "$FIXTURE" bare a/model.safetensors bare/model.safetensors
  refuse 2 'number of heads' train gpt --data text --init bare/model.safetensors
  cp a/config.json bare
  run train gpt --data text --device cpu --batch 6 --steps 1 --lr 0 --warmup 0 \
    --init bare/model.safetensors --metrics m3 --out c >/dev/null
  [[ $("$METRICS" field m1 end val_loss) == "$("$METRICS" field m3 end val_loss)" ]] ||
    die "another validation loss from names without prefix"
  refuse 2 '--layers 2 contradicts' train gpt --data text --layers 2 --init a/model.safetensors
  "$FIXTURE" tokens tokens 4000 300
  run train gpt --data tokens --vocab 300 "${tiny[@]}" --steps 2 --out d >/dev/null
  refuse 2 '--vocab 300' train gpt --data text --init d/model.safetensors
  refuse 1 'vocabulary of 300' sample --model d
  "$FIXTURE" tokens wide 4000 70000
  run train gpt --data wide --vocab 70000 "${tiny[@]}" --steps 2 --out e >/dev/null
  refuse 1 'outside the vocabulary of 69000' train gpt --data wide --vocab 69000
  refuse 1 'or read it as uint32' train gpt --data wide --vocab 300
  mv wide wide.u32
  refuse 1 'outside the vocabulary of 300' train gpt --data wide.u32 --vocab 300
}

case_sample() {
  text
  train --steps 20 --out model >/dev/null
  run sample --model model --bytes 40 --seed 1 --prompt 12 >a
  run sample --model model/model.safetensors --bytes 40 --seed 1 --prompt 12 >b
  run sample --model model --bytes 40 --seed 2 --prompt 12 >c
  cmp a b
  ! cmp -s a c || die "the seed changes nothing"
  (($(wc -c <a) == 40)) || die "not 40 bytes"
  run sample --model model --bytes 30 --temperature 0 --seed 1 >a
  run sample --model model --bytes 30 --top-k 1 --seed 2 >b
  cmp a b
  # A short one needs fewer positions, and says the same.
  run sample --model model --bytes 5 --temperature 0 >b
  head -c 5 a | cmp - b
  run sample --model model --bytes 10 --prompt "$(seq 1 50)" >a
  (($(wc -c <a) == 10)) || die "a prompt longer than the context"
  [[ ! -w /dev/full ]] || ! "$ACCRUE" sample --model model --bytes 10 >/dev/full 2>/dev/null ||
    die "a full disk goes unnoticed"
}

# What training would take: without data, without device memory, for models larger than the machine.
case_plan() {
  local model=(--layers 2 --heads 2 --width 32 --context 16 --batch 8)
  run plan gpt "${model[@]}" --device cpu >out
  grep -q '^peak  *step [0-9]* of [0-9]*: ' out || die "no peak in: $(cat out)"
  grep -q 'ops run again' out || die "no word of recomputation"
  local recompute
  for recompute in none all auto; do
    grep -qE "^ *[0-9]+ +[0-9]+ +$recompute " out || die "no alternative with --recompute $recompute"
  done
  run plan gpt "${model[@]}" --device dry --memory 700KiB --json >json
  grep -q '"budget_bytes": 716800' json || die "no budget in the JSON: $(cat json)"
  grep -q '"alternatives"' json || die "no alternatives in the JSON"
  # Two batches of 8 x 16 tokens and as many targets, one of them read ahead.
  run plan gpt "${model[@]}" --device dry --read-ahead 1 --json >json
  grep -q '"read_ahead_bytes": 2048' json || die "no bytes of batches read ahead: $(cat json)"
  run plan gpt --layers 96 --heads 96 --width 12288 --context 2048 --vocab 50257 --batch 64 --device cpu >out
  grep -q 'more than the device has' out || die "175 billion parameters fit: $(cat out)"
  if command -v gnuplot >/dev/null; then
    run plan gpt "${model[@]}" --device dry --memory 700KiB --svg picture.svg >/dev/null
    grep -q '<svg' picture.svg || die "no picture"
    grep -q 'budget' picture.svg || die "the picture lacks the budget"
  fi
  echo "<svg>keep" >old.svg
  (PATH=/dev/null && refuse_svg "${model[@]}")
  grep -q keep old.svg || die "the old picture is gone"

  refuse 1 'needs at least' plan gpt "${model[@]}" --device dry --memory 1
  refuse 1 'Less would do' plan gpt "${model[@]}" --device dry --memory 1 --recompute none
  refuse 2 'less than one byte' plan gpt "${model[@]}" --memory 0
  refuse 2 'unknown unit' plan gpt "${model[@]}" --memory 5MB
  refuse 2 'larger than the batch' plan gpt "${model[@]}" --micro-batch 9
  refuse 2 'must be one of' plan gpt "${model[@]}" --recompute some
  run plan gpt "${model[@]}" --device dry --gradients fused >out
  grep -q '^gradients  *none are kept' out || die "no word of gradients in: $(cat out)"
  ! grep -qE '^ *[0-9]+ .* buffer ' out || die "alternatives with a buffer: $(cat out)"
  run plan gpt "${model[@]}" --device dry --gradients fused --json >json
  grep -q '"gradients": "fused"' json || die "no way of gradients in the JSON: $(cat json)"
  run plan gpt "${model[@]}" --device dry --json >json
  grep -q '"gradients": "buffer"' json || die "no way of gradients in the JSON: $(cat json)"
  run plan gpt "${model[@]}" --width 64 --device dry --micro-batch 1 --recompute all --optimizer-state-in host >out
  grep -q 'KiB, on the host, of optimizer state' out || die "no word of host memory in: $(cat out)"
  grep -q '^peak .*, update$' out || die "the most is not alive in the update: $(cat out)"
  run plan gpt "${model[@]}" --width 64 --device dry --optimizer-state-in host --json >json
  grep -qE '"host_bytes": [1-9]' json || die "no bytes on the host in the JSON: $(cat json)"
  refuse 1 'the budget of host memory is 1.0 KiB' plan gpt "${model[@]}" --width 64 --device dry --optimizer-state-in host --host-memory 1KiB
  refuse 2 "because the memory of cpu is the host's" plan gpt "${model[@]}" --width 64 --device cpu --host-memory 1GiB
  refuse 2 'no meaning with --optimizer-state-in device' plan gpt "${model[@]}" --optimizer-state-in device --host-memory 1GiB
  refuse 2 'takes a batch of 8 at once, and --micro-batch 4 splits it' plan gpt "${model[@]}" --gradients fused --micro-batch 4
  refuse 2 'carry splits one' plan gpt "${model[@]}" --gradients fused --last-window carry
  run plan gpt "${model[@]}" --device dry --clip 0 --gradients folded >out
  grep -q '^gradients  *folded into' out || die "no word of gradients in: $(cat out)"
  run plan gpt "${model[@]}" --device dry --clip 0 --gradients folded --json >json
  grep -q '"gradients": "folded"' json || die "no way of gradients in the JSON: $(cat json)"
  refuse 2 'no norm of all gradients for --clip 1; give --clip 0' train gpt "${model[@]}" --gradients folded
  refuse 2 'dynamic loss scale' train gpt "${model[@]}" --clip 0 --gradients folded --precision f16
  refuse 2 'give --no-nesterov' train gpt "${model[@]}" --clip 0 --gradients folded --optimizer muon
  run plan gpt "${model[@]}" --device dry --gradients fused-local --json >json
  grep -q '"gradients": "fused-local"' json || die "no way of gradients in the JSON: $(cat json)"
  run plan gpt "${model[@]}" --device dry --gradients fused-local >out
  grep -q 'clipped and stepped by itself' out || die "no word of clipping in: $(cat out)"
  refuse 2 'fused-local takes a batch of 8 at once' plan gpt "${model[@]}" --gradients fused-local --micro-batch 4
  text
  refuse 1 'is larger than the memory of cpu' train gpt --data text "${tiny[@]}" --memory 1000000GiB
  refuse 2 'precision' train gpt --data text "${tiny[@]}" --precision f8
  refuse 2 'computes nothing' train gpt --data text "${tiny[@]}" --device dry
  refuse 2 'computes nothing' verify gpt --data text "${tiny[@]}" --device dry
  # Without --read-ahead nothing is said if there is less room than reading ahead takes.
  "$FIXTURE" images . train 64
  local whole=(plan mlp --data . --device cpu --hidden 8 --batch 64 --micro-batch 64 --steps 5 --out m --metrics m)
  run "${whole[@]}" --json >json
  local total
  total=$(sed -n 's/^ *"total": \([0-9]*\),*/\1/p' json)
  run "${whole[@]}" --memory "$total" --json >json
  [[ ! -s run.err ]] || die "$(cat run.err)"
  grep -q '"read_ahead_bytes": 0' json || die "there is room to read ahead: $(cat json)"
  refuse 1 'nothing read ahead' "${whole[@]}" --memory "$total" --read-ahead 1
}

# Few rows, short, in little memory: what they show does not depend on how busy the machine is.
bench_quickly() { run bench "$@" --seconds 0.02 --samples 5 --footprint 1MiB; }

case_bench() {
  local norm=(ops --model gpt-small --batch 2 --context 16 --filter layer_norm)
  bench_quickly "${norm[@]}" --device cpu --json now.json >out
  grep -qE '^copy +[0-9.]+ GB/s' out || die "no copy bandwidth in: $(cat out)"
  grep -qE ' layer_norm f32 2x16x128 128 128 -> 2x16x128 2x16x2' out || die "no layer_norm in: $(cat out)"
  ! grep -q ' linear ' out || die "--filter lets other rows through"
  (($(grep -c '"detail": ' now.json) == 4)) || die "not four rows in the JSON"
  # 2 x 16 rows of 128: 7 flops for each; x and y, gamma and beta, and two statistics a row move.
  grep -q '"flops": 28672.0' now.json || die "flops of layer_norm"
  grep -q '"bytes": 34048.0' now.json || die "bytes of layer_norm"

  (($(grep -c '"visits": 5' now.json) == 5)) || die "not five visits of each row: $(cat now.json)"
  bench_quickly "${norm[@]}" --device cpu --visits 1 --json once.json >out
  (($(grep -c ' layer_norm' out) == 4 && $(grep -c '"visits": 1' once.json) == 5)) || die "not one visit: $(cat out)"

  # A baseline in which two rows took next to no time, one very long, and one had another shape.
  awk '/"rows": \[/ { rows = 1 }
    rows && /"median_seconds"/ { count++; sub(/[0-9][0-9.e-]*,/, count == 3 ? "1000," : "1e-12,") }
    count == 3 && sub(/"detail": "/, "&9x") { }
    { print }' now.json >then.json
  local picture=()
  if command -v gnuplot >/dev/null; then picture=(--svg picture.svg); fi
  bench_quickly "${norm[@]}" --device cpu --baseline then.json "${picture[@]}" >out
  (($(grep -c '^slower.*layer_norm' out) == 2)) || die "not two are slower: $(cat out)"
  (($(grep -c '^not measured now: cpu, layer_norm.* 9x.* of gpt-small' out) == 1)) || die "what is gone is not told: $(cat out)"
  grep -q '^baseline: 3 compared, 2 slower, 1 faster.*; 1 are not in it; 1 of it were not measured now$' out ||
    die "another baseline: $(cat out)"
  [[ ${#picture[@]} == 0 ]] || grep -q 'layer_norm_input_gradient' picture.svg || die "no picture"

  # With time enough for a drift that would show.
  run bench gemm --device cpu --size 48 --precision f32 --seconds 0.1 --samples 5 --json gemm.json >out
  grep -q 'linear f32 48x48 48x48 -> 48x48' out || die "no product in: $(cat out)"
  grep -qE '"bytes_per_s_at_end": [1-9]' gemm.json || die "the copies at the end are not in the JSON"
  bench_quickly step --model gpt-small --batch 4 --context 16 --micro-batch 2 --recompute all --device cpu \
    --json step.json >out
  grep -q 'gpt-small f32 batch 4, context 16, micro-batch 2, recompute all' out || die "no step in: $(cat out)"
  local planned peak
  planned=$(sed -n 's/.*"planned_bytes": \([0-9]*\),/\1/p' step.json)
  peak=$(sed -n 's/.*"peak_bytes": \([0-9]*\),/\1/p' step.json)
  [[ $planned && $planned == "$peak" ]] || die "planned $planned, peak $peak"
  # However it is cut, a window does the same work.
  local size
  for size in 4 3; do
    bench_quickly step --model gpt-small --batch 4 --context 16 --micro-batch $size --recompute none --device cpu \
      --json step.$size.json >/dev/null
    grep '"flops": ' step.$size.json >flops.$size
  done
  cmp flops.4 flops.3 || die "flops of micro-batches of 4 and 3: $(cat flops.4 flops.3)"
  bench_quickly ops --model mobilenet --batch 1 --filter 'conv2d f32' --device cpu >out
  grep -qE ' conv2d f32 1x3x32x32 24x3x3x3 -> 1x24x32x32' out || die "no convolution in: $(cat out)"
  bench_quickly step --model mobilenet --batch 2 --precision f16 --device cpu >out
  grep -q ' mobilenet f16 batch 2' out || die "no step of images in: $(cat out)"
  run bench memory --model gpt-small --batch 2 --repeat 2 --device cpu >out
  grep -q '^resident / planned' out || die "no memory in: $(cat out)"
  run bench memory --model gpt-small --batch 2 --micro-batch 1 --repeat 2 --optimizer muon --gradients folded --device cpu >out
  grep -q ', gradients folded$' out || die "no folded gradients in: $(cat out)"
  bench_quickly step --model gpt-small --batch 2 --context 16 --precision bf16 --weights bf16 --optimizer lion \
    --optimizer-state 8bit --state-f32= --gradients fused --device cpu >out
  grep -q 'batch 2, context 16, lion, weights bf16, gradients fused, optimizer-state 8bit, state-f32 ' out ||
    die "a step's storage is not named in: $(cat out)"
  if "$ACCRUE" devices --json | grep -q '"id": "opencl:0"'; then
    bench_quickly "${norm[@]}" --device cpu --device opencl:0 --json two.json >out
    grep -qE '^ +median +spread +of roof +median +spread +of roof +ratio' out || die "no columns in: $(cat out)"
    (($(grep -c '"device": "opencl:0"' two.json) == 4)) || die "no results of opencl:0"
    run bench memory --model gpt-small --batch 2 --repeat 2 --device opencl:0 >out
    grep -q '^idle .* with the kernels compiled' out || die "no memory of compiled kernels in: $(cat out)"
    refuse 2 'folded gradients need' bench memory --model gpt-small --batch 1 --optimizer muon --precision bf16 --weights bf16 \
      --gradients folded --device opencl:0
  else
    [[ ! ${ACCRUE_TEST_OPENCL:-} ]] || die "no OpenCL device"
  fi

  refuse 2 'what to measure is missing' bench
  refuse 2 'unknown measurement speed' bench speed
  refuse 2 'unknown flag --size' bench step --size 5
  refuse 2 'unknown flag --svg' bench step --svg now.svg
  refuse 2 'must be one of' bench ops --model gpt5
  refuse 2 'must be one of' bench ops --precision f8
  refuse 2 'out of range' bench ops --samples 4
  refuse 2 'out of range' bench ops --visits 17
  refuse 2 'unknown flag --visits' bench step --visits 2
  refuse 2 'larger than the batch' bench ops --batch 2 --micro-batch 3
  refuse 2 'larger than the batch of gpt2-124m, 4' bench all --device cpu --micro-batch 5
  refuse 2 'no meaning for resnet18' bench step --model resnet18 --context 5
  refuse 2 '--weights bf16 needs --precision bf16' bench step --weights bf16
  refuse 2 '8bit is for adamw, sgd and lion, not for muon' bench memory --optimizer muon --optimizer-state 8bit
  refuse 2 'given twice' bench ops --device cpu --device cpu
  refuse 1 'no device "abacus"' bench ops --device abacus
  refuse 1 'computes nothing' bench ops --device dry
  refuse 2 'a footprint of 512 bytes' bench ops --device cpu --footprint 512
  refuse 1 'nowhere.json' bench ops --device cpu --baseline nowhere.json
  refuse 1 'nowhere/now.svg' bench ops --device cpu --svg nowhere/now.svg
  refuse 1 'nowhere/now.json' bench ops --device cpu --json nowhere/now.json
  echo '{"rows": [{"results": [{"device": "cpu"}]}]}' >odd.json
  refuse 1 'odd.json is not what' bench ops --device cpu --baseline odd.json
  local status=0
  (PATH=/dev/null && "$ACCRUE" bench ops --device cpu --svg now.svg >out 2>err) || status=$?
  ((status == 1)) && grep -q 'is gnuplot' err && [[ ! -s out ]] || die "status $status without gnuplot: $(cat out err)"
  status=0
  "$ACCRUE" bench ops --device cpu --model gpt-small --filter transmogrify --seconds 0.01 --footprint 1MiB \
    >out 2>err || status=$?
  ((status == 2)) || die "status $status where no row is left"
  grep -q 'no row contains' err || die "no reason: $(cat err)"

  # What no device has room for is left out, by name; the rest is measured. Where nothing was, no file is left.
  "$ACCRUE" bench all --device cpu --model gpt-small --batch 1048576 --context 1048576 --size 48 --precision f32 \
    --seconds 0.01 --footprint 1MiB --json kept.json >out 2>err || die "$(cat err)"
  grep -q 'left out on cpu: .*beyond any device' err || die "no reason: $(cat err)"
  grep -q '48x48 48x48 -> 48x48' kept.json || die "the product is lost"
  status=0
  "$ACCRUE" bench step --device cpu --memory 1KiB --seconds 0.01 --json none.json >out 2>err || status=$?
  ((status == 1)) || die "status $status where nothing was measured"
  grep -q 'left out on cpu: a step of gpt2-124m: .*needs at least' err || die "no reason: $(cat err)"
  tail -n 1 err | grep -q '^accrue: no device runs any of the rows' || die "no sentence: $(cat err)"
  refuse 1 'computes nothing' bench ops --device dry --json none.json
  [[ ! -e none.json ]] || die "an empty file is left"
  mkfifo pipe
  status=0
  timeout 60 "$ACCRUE" bench ops --device abacus --json pipe >out 2>err || status=$?
  ((status == 1)) && [[ -p pipe ]] || die "status $status with a pipe that nobody reads"
}

refuse_svg() {
  local status=0
  "$ACCRUE" plan gpt "$@" --device dry --svg old.svg >/dev/null 2>svg.err || status=$?
  ((status == 1)) && [[ $(<svg.err) == *gnuplot* ]] || die "status $status without gnuplot"
}

# The smallest budget that a refusal names works, one byte less does not, and between it and plenty the device's peak is
# the planned total, which is within the budget.
check_budgets() {
  local least most budget i
  "$ACCRUE" plan "$@" --memory 1 >/dev/null 2>err && die "a budget of one byte is enough"
  least=$(sed -n 's/.*(\([0-9]*\) bytes, at a micro-batch.*/\1/p' err)
  [[ $least ]] || die "no bytes in: $(cat err)"
  run plan "$@" --json >json
  most=$(sed -n 's/.*"total": \([0-9]*\).*/\1/p' json)
  refuse 1 'needs at least' train "$@" --memory $((least - 1))
  for i in 0 1 2 3 4 5 6 7 8 9; do
    budget=$((least + (most - least) * i / 9))
    run train "$@" --memory $budget --metrics m --out model >/dev/null
    grep -q "\"planned_bytes\":\([0-9]*\),\"peak_bytes\":\([0-9]*\)" m || die "no peak in the metrics"
    local planned peak
    planned=$(sed -n 's/.*"planned_bytes":\([0-9]*\),.*/\1/p' m | tail -n 1)
    peak=$(sed -n 's/.*"peak_bytes":\([0-9]*\).*/\1/p' m | tail -n 1)
    ((planned == peak && planned <= budget)) || die "planned $planned, peak $peak, budget $budget: $*"
  done
}

case_budgets() {
  text
  check_budgets gpt --data text "${tiny[@]}" --layers 3 --steps 1
  mkdir pair
  "$FIXTURE" images pair train 400
  "$FIXTURE" images pair t10k 50
  check_budgets mlp --data pair --device cpu --hidden 32,16 --batch 32 --steps 1

  # Without gradients training leaves the same bytes, in less memory, and a budget may call for it.
  local way net=(--data pair --device cpu --hidden 512,512 --batch 8 --steps 5 --read-ahead 0) total
  for way in buffer fused fused-local; do
    run train mlp "${net[@]}" --clip 0 --gradients $way --metrics $way.jsonl --out $way >/dev/null
    cmp buffer/model.safetensors $way/model.safetensors
  done
  "$METRICS" check fused.jsonl
  total=$("$METRICS" field fused.jsonl end planned_bytes)
  ((total < $("$METRICS" field buffer.jsonl end planned_bytes))) || die "as many bytes: $total"
  run train mlp "${net[@]}" --clip 0 --memory $total --out auto >/dev/null
  grep -q '^gradients  *none are kept' run.err || die "no word of gradients in: $(cat run.err)"
  cmp buffer/model.safetensors auto/model.safetensors

  # So does folding them, in any number of micro-batches, but for norms, which nobody knows.
  net+=(--optimizer sgd --lr 0.01 --clip 0 --micro-batch 3)
  for way in buffer folded; do
    run train mlp "${net[@]}" --gradients $way --metrics $way.jsonl --out $way >/dev/null
  done
  "$METRICS" check folded.jsonl
  grep -q '"grad_norm": *null' folded.jsonl || die "a norm of what is folded: $(head -2 folded.jsonl)"
  total=$("$METRICS" field folded.jsonl end planned_bytes)
  ((total < $("$METRICS" field buffer.jsonl end planned_bytes))) || die "as many bytes with folded gradients: $total"
}

# A limit on a file's size acts like a full disk: writing fails half way.
case_full_disk() {
  text
  train --steps 2 --out model >/dev/null
  cp model/model.safetensors before
  cp model/config.json before.json
  local status=0
  (ulimit -f 8 && exec "$ACCRUE" train gpt --data text "${tiny[@]}" --steps 3 --out model --overwrite >out 2>err) ||
    status=$?
  ((status == 1)) || die "status $status: $(cat err)"
  grep -q '^accrue: .*model.safetensors' err || die "the file is not named: $(cat err)"
  cmp before model/model.safetensors
  cmp before.json model/config.json
  [[ $(echo $(ls model)) == 'config.json metrics.jsonl model.safetensors run.json state-0000000002.safetensors' ]] ||
    die "files that remain: $(ls model)"
  (($(grep -c 'no state could be saved' err) == 1)) || die "no word of the state: $(cat err)"

  # On a terminal the sentence has a line of its own: no progress bar is left before it.
  command -v script >/dev/null || return 0
  mkdir -p taken/model.safetensors/by-a-folder
  status=0
  script -qec "$ACCRUE train gpt --data text ${tiny[*]} --steps 3 --out taken --overwrite" typescript </dev/null >/dev/null || status=$?
  ((status == 1)) || die "status $status on a terminal: $(cat typescript)"
  grep -q $'^\\(.*\r\033\\[K\\)\\{0,1\\}accrue: .*model.safetensors' typescript || die "after the bar: $(cat typescript)"
}

# A run that diverges says where, and does not touch the model that is there.
case_diverge() {
  text
  train --steps 2 --out model >/dev/null
  cp model/model.safetensors before
  local status=0
  "$ACCRUE" train gpt --data text "${tiny[@]}" --steps 50 --optimizer sgd --clip 0 --lr 1e30 --warmup 0 \
    --schedule constant --out model --overwrite >out 2>err || status=$?
  ((status == 1)) || die "status $status: $(cat err)"
  tail -n 1 err | grep -qE '^accrue: .*step [0-9]+.*' || die "no step in: $(tail -n 1 err)"
  tail -n 1 err | grep -qE 'first appears in (op|parameter) ' || die "no op in: $(tail -n 1 err)"
  cmp before model/model.safetensors
  [[ -s model/diverged.safetensors && ! -s out ]] || die "no diverged.safetensors"

  # The last update: no window after it shows the weights. And a model with finite weights, but a loss that is not
  # finite. A rate that is not a number as a float is refused.
  local rate
  for rate in 3e38 1e30 1e39; do
    rm -f model/diverged.safetensors
    status=0
    "$ACCRUE" train gpt --data text "${tiny[@]}" --steps 1 --optimizer sgd --clip 0 --lr $rate --weight-decay 1000 \
      --warmup 0 --schedule constant --out model --overwrite >out 2>err || status=$?
    cmp before model/model.safetensors
    [[ ! -s out ]] || die "a result at a rate of $rate: $(cat out)"
    case $rate in
      3e38)
        ((status == 1)) && [[ ! -e model/diverged.safetensors ]] || die "status $status: $(cat err)"
        tail -n 1 err | grep -q 'step 1: the update overflowed: element .* are not saved' || die "$(tail -n 1 err)"
        ;;
      1e30)
        ((status == 1)) && [[ -s model/diverged.safetensors ]] || die "status $status: $(cat err)"
        tail -n 1 err | grep -q 'step 1: the validation loss is not finite; the last finite' || die "$(tail -n 1 err)"
        ;;
      *) ((status == 2)) || die "status $status: $(cat err)" ;;
    esac
  done
  # Where none is there the model is saved before the last validation, which takes it away again.
  status=0
  "$ACCRUE" train gpt --data text "${tiny[@]}" --steps 1 --optimizer sgd --clip 0 --lr 1e30 --warmup 0 \
    --schedule constant --ema 0.9 --out new >out 2>err || status=$?
  ((status == 1)) && [[ ! -e new/model.safetensors && ! -e new/average.safetensors && -s new/diverged.safetensors ]] || die "status $status: $(ls new)"
}

# In floats a scale is a factor and no more. In f16 one that is too high costs windows, or with --replay only time.
case_loss_scale() {
  text
  train --steps 5 --out plain >/dev/null
  train --steps 5 --out static --loss-scale 64 >/dev/null
  train --steps 5 --out dynamic --loss-scale dynamic --loss-scale-interval 2 --metrics m >/dev/null
  cmp plain/model.safetensors static/model.safetensors
  cmp plain/model.safetensors dynamic/model.safetensors
  [[ $("$METRICS" field m step loss_scale) == 262144.0 ]] || die "the scale does not grow"

  train --steps 40 --precision f16 --loss-scale-init 16777216 --metrics m --out half >result
  "$METRICS" check m
  local skipped
  skipped=$(grep -c '"skipped":true' m)
  ((skipped > 0)) || die "nothing overflows"
  [[ $("$METRICS" field m end skipped) == "$skipped" ]] || die "the end counts other windows"
  grep -q "after $((40 - skipped)) updates, $skipped windows\\? overflowed" result || die "$(cat result)"
  grep -q "$skipped skipped" run.err || die "no word of skipped windows while training"

  train --steps 40 --precision f16 --loss-scale-init 16777216 --replay --metrics m1 --out replayed >result
  "$METRICS" check m1
  grep -q 'after 40 updates' result || die "$(cat result)"
  (($(grep -c '"replayed":true' m1) > 0)) || die "nothing was replayed"
  train --steps 40 --precision f16 --replay --metrics m2 --out lower \
    --loss-scale-init "$(grep -m 1 '"skipped":false' m1 | sed 's/.*"loss_scale":\([0-9]*\).*/\1/')" >/dev/null
  cmp replayed/model.safetensors lower/model.safetensors

  refuse_run 'the model diverges or the loss scale is too high' --precision f16 --loss-scale 1e30 --steps 20
}

# refuse_run TEXT FLAG...: training begins, and ends with status 1 and one sentence which holds TEXT.
refuse_run() {
  local text=$1 status=0
  shift
  "$ACCRUE" train gpt --data text "${tiny[@]}" "$@" >out 2>err || status=$?
  ((status == 1)) || die "status $status: $(cat err)"
  tail -n 1 err | grep -q "^accrue: .*$text" || die "no '$text' in: $(tail -n 1 err)"
}

case_mlp() {
  mkdir pair single
  "$FIXTURE" images pair train 400
  "$FIXTURE" images pair t10k 50
  "$FIXTURE" images single t10k 300
  gzip single/*
  run plan mlp --data pair --device cpu --hidden 8 --dropout 0.99999999 >/dev/null
  run plan resnet --data pair --device cpu --width 8 --depth 8 --label-smoothing 0.99999999 >/dev/null
  run train mlp --data pair --device cpu --hidden 32,16 --dropout 0 --batch 32 --epochs 20 --lr 0.01 --metrics m --out a >result
  grep -q 'accuracy 100.00 %' result || die "easy images are not learned: $(cat result)"
  run train mlp --images single/t10k-images-idx3-ubyte.gz --labels single/t10k-labels-idx1-ubyte.gz \
    --device cpu --optimizer sgd --lr 0.1 --hidden none --epochs 2 --out b >/dev/null
  run train mlp --data single --device cpu --optimizer sgd --lr 0.1 --hidden none --epochs 2 --out c >/dev/null
  cmp b/model.safetensors c/model.safetensors
  run train mlp --data pair --device cpu --init a/model.safetensors --epochs 1 --lr 0 --warmup 0 \
    --out d >result
  grep -q 'accuracy 100.00 %' result || die "the loaded model has forgotten: $(cat result)"
  local weights=$(((36 * 32 + 32 + 32 * 16 + 16 + 16 * 10 + 10) * 4)) # bytes, at the file's end
  cmp <(tail -c $weights a/model.safetensors) <(tail -c $weights d/model.safetensors) || die "--lr 0 changes weights"
  refuse 2 '--hidden 5 contradicts' train mlp --data pair --hidden 5 --init a/model.safetensors
}

# Convolutional networks on images of 4 x 4 pixels; small ones that learn fast.
case_images() {
  mkdir pair
  "$FIXTURE" images pair train 200
  "$FIXTURE" images pair t10k 50
  local net=(--data pair --device cpu --batch 20) kind
  for kind in resnet mobilenet; do
    run train $kind "${net[@]}" --width 8 --epochs 12 --lr 0.01 --shift 0 --rotation 0 --scaling 0 --metrics m \
      --out $kind >result
    grep -qE 'accuracy (9[0-9]|100)' result || die "$kind does not learn easy images: $(cat result)"
    awk -v wait="$("$METRICS" field m end data_wait_s)" 'BEGIN { exit !(wait >= 0) }' || die "no data_wait_s"
    run eval --model $kind --data pair --device cpu >result
    grep -q '^accuracy' result && grep -q '^ *label ' result || die "no confusion matrix: $(cat result)"
    run eval --model $kind/model.safetensors --data pair --device cpu --precision bf16 --json >json
    grep -q '"confusion": \[$' json || die "no JSON: $(cat json)"
  done

  # What training says of validation is what eval says, folds and smoothing included.
  run train resnet "${net[@]}" --width 8 --steps 6 --label-smoothing 0.2 --fold 2/3 --metrics m --out smooth >/dev/null
  run eval --model smooth --data pair --device cpu --fold 2/3 --json >json
  awk -v a="$("$METRICS" field m end val_accuracy)" -v b="$(sed -n 's/.*"accuracy": \(.*\),/\1/p' json)" \
    'BEGIN { exit a != b }' || die "another accuracy: $(cat json)"
  awk -v a="$("$METRICS" field m end val_loss)" -v b="$(sed -n 's/.*"loss": \(.*\),/\1/p' json)" \
    'BEGIN { exit !(a > 0 && (a - b) ^ 2 < (1e-6 * a) ^ 2) }' || die "another loss: $(cat json)"
  grep -q '"samples": 67' json || die "not a third of 200 samples: $(cat json)"
  run eval --model smooth --data pair --device cpu --fold 2/3 --split train --json >json
  grep -q '"samples": 133' json || die "not two thirds of 200 samples: $(cat json)"
  refuse 2 'unknown flag --shift' eval --model smooth --data pair --shift 1

  # Neither the loader's threads nor whether it reads ahead change a bit.
  run train resnet "${net[@]}" --width 8 --steps 8 --loader-threads 1 --out one >/dev/null
  run train resnet "${net[@]}" --width 8 --steps 8 --loader-threads 3 --read-ahead 2 --out three >/dev/null
  run train resnet "${net[@]}" --width 8 --steps 8 --read-ahead 0 --out none >/dev/null
  cmp one/model.safetensors three/model.safetensors
  cmp one/model.safetensors none/model.safetensors
  run train resnet --data pair --device cpu --batch 20 --init one/model.safetensors --steps 1 --out again >/dev/null
  refuse 2 '--norm layer contradicts' train resnet "${net[@]}" --norm layer --init one/model.safetensors
  refuse 2 '--depth 9 is not a depth of a ResNet' train resnet "${net[@]}" --depth 9
  refuse 1 'does not hold a model of kind mobilenet' train mobilenet "${net[@]}" --init one/model.safetensors

  # Every norm trains; group norm splits exactly, batch norm is refused unless micro-batches are accepted.
  local norm
  for norm in group layer instance; do
    run verify resnet "${net[@]}" --width 8 --norm $norm --micro-batch 5 >result
    grep -q 'the same up to rounding' result || die "$norm: $(cat result)"
  done
  refuse 2 'cannot be split into micro-batches of 5' train resnet "${net[@]}" --norm batch --micro-batch 5
  run train resnet "${net[@]}" --width 8 --norm batch --micro-batch 5 --batch-norm micro --steps 3 --out batch >/dev/null
  # Exact: the whole window at once, resumed to the bit, between the other two in memory.
  local exact=(resnet "${net[@]}" --width 8 --norm batch --micro-batch 5 --batch-norm exact --schedule constant) bytes
  run train "${exact[@]}" --steps 4 --out exact >/dev/null
  run train "${exact[@]}" --steps 2 --out halves >/dev/null
  run train "${exact[@]}" --steps 4 --out halves --resume >/dev/null
  cmp exact/model.safetensors halves/model.safetensors || die 'exact batch norm resumes with other bits'
  run plan "${exact[@]}" --json >json
  mapfile -t bytes < <(sed -n '/"batch_norms"/,/\]/s/.*"total_bytes": \([0-9]*\).*/\1/p' json)
  ((${#bytes[@]} == 3 && bytes[1] < bytes[0] && bytes[0] < bytes[2])) ||
    die "exact batch norm is not between the others: ${bytes[*]}: $(cat json)"
  refuse 2 'excludes gradients that are folded' train "${exact[@]}" --gradients folded --clip 0
  # Three images that train have labels 0, 7 and 4; those that validate have up to 9.
  mkdir few
  "$FIXTURE" images few train 3
  "$FIXTURE" images few t10k 50
  run train resnet --data few --device cpu --batch 3 --width 8 --steps 1 --metrics m --out few-model >/dev/null
  "$METRICS" field m end val_loss >/dev/null
  refuse 1 'label 8 of sample 4 is not in [0, 8)' train resnet --data few --classes 8
  refuse 1 'label 8 of sample 4 is not in [0, 8)' train mlp --data few --classes 8
  run train mlp --images few/train-images-idx3-ubyte --labels few/train-labels-idx1-ubyte --device cpu --classes 8 \
    --hidden none --steps 1 --out eight >/dev/null
  refuse 1 'label 8 of sample 4 is not in [0, 8)' train mlp --data few --init eight/model.safetensors
  # The other spelling of MNIST's names.
  local file
  for file in few/*; do mv "$file" "${file/-idx/.idx}"; done
  run train resnet --data few --device cpu --batch 3 --width 8 --steps 1 --out again >/dev/null
  cmp few-model/model.safetensors again/model.safetensors

  refuse 2 '--model is missing' eval --data pair
  refuse 2 'unknown model nothing' eval nothing --model one/model.safetensors --data pair
}

# Folds and shards: which share of 300 images, or of 200 with 100 of their own to validate, an epoch reads.
case_parts() {
  mkdir single pair
  "$FIXTURE" images single t10k 300
  "$FIXTURE" images pair train 200
  "$FIXTURE" images pair t10k 100
  local small=(--device cpu --hidden none --batch 32 --epochs 1 --metrics m --out model)
  samples() {
    run train mlp "${small[@]}" "${@:2}" >/dev/null
    (($("$METRICS" field m end samples) == $1)) || die "not $1 samples: accrue train mlp ${*:2}"
  }
  samples 270 --data single
  samples 200 --data single --fold 2/3
  samples 150 --data pair --fold 4/4
  samples 67 --data pair --rank 1/3
  samples 50 --data pair --fold 1/4 --rank 0/3
  refuse 2 '--fold 3 is not of the form I/N, such as 1/4' train mlp --data pair --fold 3
  refuse 2 '--rank 1/2x is not of the form I/N, such as 0/4' train mlp --data pair --rank 1/2x
  refuse 2 '--rank -1/2 is not of the form' train mlp --data pair --rank -1/2
  refuse 2 '--fold 0/5 is out of range: of N parts, I is one of 1 to N' train mlp --data pair --fold 0/5
  refuse 2 '--rank 5/5 is out of range: of N parts, I is one of 0 to N - 1' train mlp --data pair --rank 5/5
  refuse 2 '--fold 1/99999999999999999999 is out of range' train mlp --data pair --fold 1/99999999999999999999
  refuse 1 '200 samples leave some of 201 folds empty' train mlp --data pair --fold 7/201
  refuse 1 'leave nothing for rank 200 of 300' train mlp --data pair --rank 200/300
  refuse 2 'at least two folds are needed' train mlp --data pair --fold 1/1
  text
  # Of text a fold is a range, and every fold another.
  text
  local fold loss
  for fold in 1/3 3/3; do
    train --steps 2 --fold $fold --out folds --metrics folds.jsonl
    loss=$("$METRICS" field folds.jsonl end val_loss)
    run eval --model folds --data text --fold $fold --json >eval.json
    grep -q "\"loss\": ${loss:0:6}" eval.json || die "fold $fold: $loss, and $(cat eval.json)"
    echo "$loss" >>losses
  done
  (($(sort -u losses | wc -l) == 2)) || die "folds of text are all the same: $(cat losses)"
  refuse 1 'are too few for a context of 16' train gpt --data text "${tiny[@]}" --fold 1/400
  run train gpt --data text "${tiny[@]}" --epochs 1 --rank 1/2 --metrics m --out text-model >/dev/null
}

# CIFAR's two formats by their folders' file names; class c lights up quarter c of the bytes of an image.
records() { # LABEL-BYTES COUNT
  local i quarter
  for ((i = 0; i < $2; i++)); do
    for ((quarter = 0; quarter < $1; quarter++)); do printf "\\00$((i % 4))"; done
    for quarter in 0 1 2 3; do
      head -c 768 /dev/zero | if ((quarter == i % 4)); then tr '\0' '\377'; else cat; fi
    done
  done
}
case_cifar() {
  text
  mkdir ten hundred
  records 1 40 >ten/data_batch_1.bin
  records 1 24 | gzip >ten/data_batch_2.bin.gz
  records 1 16 >ten/test_batch.bin
  records 2 64 >hundred/train.bin
  records 2 16 | gzip >hundred/test.bin.gz
  local folder
  for folder in ten hundred; do
    run train mlp --data $folder --device cpu --hidden 16 --dropout 0 --batch 16 --epochs 30 --lr 0.01 --metrics m \
      --out model >result
    grep -q 'accuracy 100.00 %' result || die "easy images are not learned: $(cat result)"
    (($("$METRICS" field m end samples) == 30 * 64)) || die "not 64 samples an epoch"
  done
  # Part of a folder: what validates alone, and files that do not begin with the first.
  mkdir part
  cp ten/test_batch.bin part
  run train mlp --data part --device cpu --hidden none --batch 15 --epochs 1 --metrics m --out model >/dev/null
  (($("$METRICS" field m end samples) == 15)) || die "not 15 of 16 samples"
  cp ten/data_batch_2.bin.gz part
  refuse 1 'part lacks data_batch_1.bin, but has data_batch_2.bin' train mlp --data part
  # One file: nine tenths of 40 train. Records of the hundred are told from their length.
  run train mlp --data ten/data_batch_1.bin --device cpu --hidden none --batch 36 --epochs 1 --metrics m --out model >/dev/null
  (($("$METRICS" field m end samples) == 36)) || die "not 36 of 40 samples"
  run train resnet --data hundred/train.bin --device cpu --width 8 --batch 64 --steps 1 --fold 1/4 --metrics m \
    --out fine >/dev/null
  run train resnet --data hundred --coarse --device cpu --width 8 --batch 64 --steps 1 --metrics m --out coarse >/dev/null
  # Another number of classes replaces the last layer.
  run train resnet --data hundred --classes 100 --init coarse/model.safetensors --device cpu --batch 64 --steps 1 \
    --out replaced 2>said >/dev/null
  grep -q 'the head, fc, has 20 classes in the file and 100 here; it begins anew' run.err ||
    die "the head is not said to be replaced: $(cat run.err)"
  refuse 2 '--classes 20 contradicts' eval resnet --model fine/model.safetensors --data hundred --coarse --classes 20
  refuse 2 '--coarse is for CIFAR-100' train mlp --data ten --coarse
  refuse 1 "text is text, not a file of CIFAR-10's records" train mlp --data text
  truncate -s -1 ten/test_batch.bin
  refuse 1 'test_batch.bin: 49167 bytes are not a whole number' train mlp --data ten
  printf '\012' | dd of=ten/data_batch_1.bin conv=notrunc status=none
  refuse 1 'data_batch_1.bin: label 10 of image 0 is not in [0, 10)' train mlp --data ten
}

# OpenCL learns what the CPU learns. The devices' sums differ in order; 1e-3 is what some updates make of it.
case_opencl() {
  run devices --json >devices
  if ! grep -q '"id": "opencl:0"' devices; then
    [[ ! ${ACCRUE_TEST_OPENCL:-} ]] || die "no OpenCL device"
    echo "no OpenCL device"
    exit 77
  fi
  text
  train --steps 5 --metrics m1 --out a >/dev/null
  train --steps 5 --metrics m2 --out b --device opencl:0 >/dev/null
  "$METRICS" compare 1e-3 m1 m2
  "$METRICS" check m2

  "$FIXTURE" images . train 200
  local net=(--data . --width 8 --batch 20 --steps 20)
  run train resnet "${net[@]}" --metrics m1 --out a --device cpu >/dev/null
  run train resnet "${net[@]}" --metrics m2 --out b --device opencl:0 >/dev/null
  "$METRICS" compare 1e-3 m1 m2
  "$METRICS" check m2
}

# A device that compiles kernels first says so: with a bar on a terminal, else with a line now and then. PoCL takes
# seconds for that; the second time it and we have everything on disk.
case_waiting() {
  if ! run devices | grep -A2 '^opencl:0' | grep -q Portable || ! command -v script >/dev/null; then
    echo "no PoCL, or no program \`script\`"
    exit 77
  fi
  "$FIXTURE" images . train 200
  export ACCRUE_CACHE_DIR=$work/cache POCL_CACHE_DIR=$work/pocl
  mkdir cache pocl
  run plan mlp --data . --device opencl:0 >/dev/null
  grep -q '^opencl:0: [a-z].*\.\.\.$' run.err || die "it waits in silence: $(cat run.err)"
  grep -q '^opencl:0: measured [0-9]* ops in .*of them compiling' run.err || die "no end of it: $(cat run.err)"
  ! grep -q $'\r' run.err || die "a progress bar where there is no terminal"
  # On a busy machine the time may be up several times before all is measured.
  local i
  for ((i = 0; i < 10; i++)); do
    grep -q 'is an estimate' run.err || break
    run plan mlp --data . --device opencl:0 >/dev/null
  done
  run plan mlp --data . --device opencl:0 >/dev/null
  ! grep -q '^opencl:0: ' run.err || die "measured again: $(cat run.err)"

  rm -r cache pocl
  mkdir cache pocl
  script -qec "$ACCRUE plan mlp --data . --device opencl:0 >/dev/null" typescript </dev/null >/dev/null
  grep -q $'\r\033\[K##*\.* opencl:0: measuring' typescript || die "no bar on a terminal"
}

# The digits in ACCRUE_TEST_DATA, where they are: nine tenths train, the last tenth validates.
case_digits() {
  if [[ ! -e ${ACCRUE_TEST_DATA:-}/t10k-images-idx3-ubyte.gz ]]; then
    echo "skipped: no t10k-images-idx3-ubyte.gz in '${ACCRUE_TEST_DATA:-}'"
    exit 77
  fi
  run train mlp --data "$ACCRUE_TEST_DATA" --device cpu --metrics m --out model >result
  cat result
  awk -v a="$("$METRICS" field m end val_accuracy)" 'BEGIN { exit !(a > 0.96) }' || die "at most 96 %"

  # Small and for few epochs, yet beyond the 92 % of a linear classifier.
  local net=(--data "$ACCRUE_TEST_DATA" --device cpu --lr 0.01 --shift 0 --rotation 0 --scaling 0 --metrics m --out model)
  run train resnet "${net[@]}" --width 8 --epochs 3 >result
  cat result
  check_digits
  run train mobilenet "${net[@]}" --width 16 --epochs 4 >result
  cat result
  check_digits
}
check_digits() {
  awk -v a="$("$METRICS" field m end val_accuracy)" 'BEGIN { exit !(a > 0.94) }' || die "at most 94 %"
  # How much of the reading is done during the steps depends on what else the machine does.
  awk -v wait="$("$METRICS" field m end data_wait_s)" -v samples="$("$METRICS" field m end samples)" \
    -v rate="$("$METRICS" field m end samples_per_s)" \
    'BEGIN { printf "%.3g s of %.3g s waiting for images\n", wait, samples / rate }'
}

for file in "$here"/cases/*.sh; do
  # shellcheck source=/dev/null
  . "$file"
done
"case_${1:?which case}"
