# `accrue verify`: training as planned against training on whole batches.

# same FLAG...: verify says so.
same() {
  run verify "$@" --device cpu >out
  grep -q '^verdict  *the same up to rounding' out || die "not the same: accrue verify $*: $(cat out)"
}

# differs FLAG...: verify says so, and which parameters.
differs() {
  local status=0
  "$ACCRUE" verify "$@" --device cpu >out 2>err || status=$?
  ((status == 1)) || die "status $status: accrue verify $*: $(cat out err)"
  grep -q '^verdict  *different: .* gradients are off' out && grep -q 'worse than rounding' out ||
    die "no difference: accrue verify $*: $(cat out)"
}

# Every kind of model at every precision, at its default seed and others, split and recomputed.
case_verify() {
  text
  mkdir pair
  "$FIXTURE" images pair train 200
  "$FIXTURE" images pair t10k 50
  local precision seed net
  for precision in f32 f16 bf16; do
    for seed in 1 2 3; do
      same gpt --data text "${tiny[@]}" --micro-batch 4 --recompute all --dropout 0.1 --precision $precision --seed $seed
      for net in mlp 'resnet --width 8' 'mobilenet --width 8'; do
        # shellcheck disable=SC2086
        same $net --data pair --batch 20 --micro-batch 7 --recompute all --precision $precision --seed $seed
      done
    done
  done
  same mlp --data pair --batch 20 --micro-batch 7 --optimizer sgd --lr 0.1 --clip 0.01
  same mlp --data pair --batch 20 --micro-batch 7 --optimizer lion --lr 0.001
  same mlp --data pair --batch 20 --micro-batch 7 --optimizer muon --lr 0.001
  same mlp --data pair --batch 20 --micro-batch 7 --optimizer adam-mini --lr 0.001
  grep -q 'accumulation is equivalent' out || die "no word of the layers"
  grep -q 'layers.0.weight' out || die "parameters are not listed"

  for seed in 1 2 3; do
    for precision in f32 f16 bf16; do
      same resnet --data pair --batch 20 --width 8 --norm batch --batch-norm exact --micro-batch 7 --precision $precision --seed $seed
    done
    same resnet --data pair --batch 20 --width 8 --norm batch --batch-norm exact --micro-batch 3 --recompute all --seed $seed
  done
  grep -q 'batch norms see the whole batch' out || die "no word of exact batch norms: $(cat out)"

  local storage
  for storage in '' '--gradients bf16'; do
    # shellcheck disable=SC2086
    differs resnet --data pair --batch 20 --width 8 --norm batch --micro-batch 5 --batch-norm micro $storage
    grep -q 'not equivalent under accumulation' out || die "$(cat out)"
  done
  local status=0
  "$ACCRUE" verify gpt --data text "${tiny[@]}" --optimizer sgd --clip 0 --lr 1e38 >out 2>err || status=$?
  ((status == 1)) || die "status $status for runs that are not finite"
  grep -q 'not finite' err || die "no reason: $(cat err)"
  refuse 2 '--data is missing: a text file or a folder' verify gpt
  refuse 2 '--data is missing: a text file or a folder' verify gpt --preset gpt-tiny
  refuse 2 '--data is missing: a folder of pictures, or one with the file names' verify resnet --preset resnet18
}

# Every optimizer with every way to store weights, gradients and state. Their rounding is not a fault. Weights have 4,096
# elements or more, so that gradients are in bf16, and a micro-batch has one sample.
case_verify_storage() {
  text
  mkdir pair
  "$FIXTURE" images pair train 60
  "$FIXTURE" images pair t10k 20
  local optimizer storage seed
  for optimizer in sgd adamw lion adafactor adam-mini muon; do
    for storage in '' '--gradients bf16' '--precision f16 --gradients bf16' '--precision bf16' '--precision bf16 --gradients bf16' \
      '--precision bf16 --weights bf16' '--precision bf16 --weights bf16 --gradients bf16' \
      '--precision bf16 --weights bf16 --gradients bf16 --optimizer-state 8bit'; do
      [[ $storage != *8bit || $optimizer == @(sgd|adamw|lion) ]] || continue
      for seed in 1 2; do
        # shellcheck disable=SC2086
        same gpt --data text --layers 1 --heads 2 --width 64 --context 16 --batch 6 --micro-batch 4 --optimizer $optimizer $storage --threads 1 --seed $seed
        # shellcheck disable=SC2086
        same gpt --data text --layers 1 --heads 2 --width 16 --context 16 --batch 6 --micro-batch 1 --optimizer $optimizer $storage --threads 1 --seed $seed
        # shellcheck disable=SC2086
        same mlp --data pair --hidden 16 --batch 20 --micro-batch 7 --optimizer $optimizer $storage --threads 1 --seed $seed
      done
    done
  done
}

# Ranks of this process against one with whole batches.
case_verify_ranks() {
  text
  mkdir pair
  "$FIXTURE" images pair train 60
  "$FIXTURE" images pair t10k 20
  local ranks optimizer precision
  for ranks in 2 3 4; do
    for precision in f32 f16 bf16; do
      same gpt --data text "${tiny[@]}" --dropout 0.1 --precision $precision --ranks $ranks
      grep -q "^planned  $ranks ranks x " out || die "the plan is not for $ranks ranks: $(cat out)"
    done
    for optimizer in sgd lion adafactor adam-mini muon; do
      same gpt --data text "${tiny[@]}" --optimizer $optimizer --micro-batch 1 --threads 1 --ranks $ranks
    done
    same mlp --data pair --batch 20 --micro-batch 3 --recompute all --ranks $ranks
    same gpt --data text "${tiny[@]}" --micro-batch 1 --threads 1 --gradients sharded --ranks $ranks
  done
  same gpt --data text "${tiny[@]}" --batch 3 --ranks 8 # most have no sample
  same gpt --data text "${tiny[@]}" --batch 3 --ranks 8 --gradients sharded
  "$ACCRUE" verify gpt --data text "${tiny[@]}" --ranks 3 --json >out
  grep -q '"ranks": 3' out && grep -q '"same": true' out || die "no verdict of 3 ranks: $(cat out)"
  differs resnet --data pair --batch 20 --width 8 --norm batch --batch-norm micro --ranks 4
  refuse 2 '--ranks 65 is too much' verify gpt --data text "${tiny[@]}" --ranks 65
  refuse 2 'leave out --gradients bf16' verify gpt --data text "${tiny[@]}" --ranks 2 --gradients bf16
}
