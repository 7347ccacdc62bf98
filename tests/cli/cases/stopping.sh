# Runs that end early, and what they leave behind.

# wait_for_step FILE: until a run's metrics show that it is training.
wait_for_step() {
  local i
  for ((i = 0; i < 600; i++)); do
    grep -qs '"event":"step"' "$1" && return
    sleep 0.05
  done
  die "no step within 30 s"
}

case_interrupt() {
  text
  local signal pid
  for signal in INT TERM; do
    rm -f m
    "$ACCRUE" train gpt --data text "${tiny[@]}" --steps 100000000 --metrics m --out $signal >out 2>err &
    pid=$!
    wait_for_step m
    kill -$signal $pid
    wait $pid || die "status $? after SIG$signal: $(cat err)"
    "$METRICS" check m
    [[ $("$METRICS" field m end stopped) == true ]] || die "the end does not say it was stopped"
    run sample --model $signal --bytes 5 >/dev/null
  done
}

# A validation split that takes far longer to evaluate than a signal may take to be obeyed, and a micro-batch far less.
long_evaluation() {
  mkdir pair few
  "$FIXTURE" images pair train 256
  cp pair/* few
  "$FIXTURE" images pair t10k 250000
  "$FIXTURE" images few t10k 10
  long=(--device cpu --hidden 2048,2048 --batch 64 --lr 0.001 --schedule constant --warmup 0 --read-ahead 0 --metrics m)
}

# SIGTERM while a run evaluates: it saves the model at once, and that is the one of a run without the long evaluation.
case_interrupt_evaluation() {
  long_evaluation
  run train mlp --data few "${long[@]}" --steps 1 --out whole >/dev/null
  local pid began waited steps
  for steps in 1 5; do # in the last evaluation, and in one on the way
    rm -f m
    "$ACCRUE" train mlp --data pair "${long[@]}" --steps $steps --eval-every 1 --out model >out 2>err &
    pid=$!
    wait_for_step m
    sleep 0.5
    began=$(date +%s%N)
    kill -TERM $pid
    wait $pid || die "status $? after SIGTERM: $(cat err)"
    waited=$((($(date +%s%N) - began) / 1000000))
    echo "saved and ended $waited ms after SIGTERM in an evaluation"
    ((waited < 5000)) || die "$waited ms from SIGTERM to the end"
    grep -q 'stopping after update 1 and saving' err || die "no word of it: $(cat err)"
    grep -q '^stopped after 1 update, [^v]*model in' out || die "another result: $(cat out)"
    "$METRICS" check m
    [[ $("$METRICS" field m end stopped) == true ]] || die "the end does not say it was stopped"
    [[ $("$METRICS" field m end val_loss) == null ]] || die "a stopped run has a validation loss"
    ! grep -q '"event":"eval"' m || die "the evaluation was not left"
    cmp whole/model.safetensors model/model.safetensors
    rm -r model
  done
}

# Whoever does not wait for the last evaluation has the model all the same.
case_kill() {
  long_evaluation
  run train mlp --data few "${long[@]}" --steps 2 --out whole >/dev/null
  rm -f m
  "$ACCRUE" train mlp --data pair "${long[@]}" --steps 2 --out model >out 2>err &
  local pid=$! i
  wait_for_step m
  for ((i = 0; i < 600; i++)); do
    [[ -e model/model.safetensors ]] && break
    sleep 0.05
  done
  kill -KILL $pid || die "the run had ended before it could be killed"
  wait $pid && die "no word of the kill"
  ! grep -q '"event":"end"' m || die "the evaluation was done"
  cmp whole/model.safetensors model/model.safetensors
}

# Runs that save into one folder do not take each other's files away. The model is large enough for them to meet.
case_one_folder() {
  text
  local i pids=()
  for i in 1 2 3 4 5 6 7 8; do
    "$ACCRUE" train gpt --data text "${tiny[@]}" --width 256 --steps 1 --seed $i --threads 1 --out model >out.$i 2>err.$i &
    pids+=($!)
  done
  local failed=''
  for i in 1 2 3 4 5 6 7 8; do wait ${pids[i - 1]} || failed+=" $(tail -n 1 err.$i)"; done
  [[ ! $failed ]] || die "$failed"
  (($(find model -type f | wc -l) == 2)) || die "left behind: $(ls model)"
  run sample --model model --bytes 5 >/dev/null
  local mode
  for mode in config.json model.safetensors; do
    [[ $(stat -c %a model/$mode) == $(printf '%o' $((0666 & ~0$(umask)))) ]] || die "permissions of $mode: $(ls -l model)"
  done
}

# spoil FILE: makes the first number of a model's first tensor NaN.
spoil() {
  local header
  header=$(od -An -tu8 -N8 "$1")
  printf '\0\0\300\177' | dd of="$1" bs=1 seek=$((8 + header)) conv=notrunc status=none
}

# A model that became NaN is of no use, and that is said.
case_not_finite() {
  text
  train --steps 2 --out gpt >/dev/null
  mkdir pair
  "$FIXTURE" images pair train 100
  run train mlp --data pair --device cpu --hidden 8 --epochs 1 --out mlp >/dev/null
  spoil gpt/model.safetensors
  spoil mlp/model.safetensors
  refuse 1 'gpt/model.safetensors: its loss is not finite, and neither is its tensor transformer.' eval --model gpt --data text
  refuse 1 'gpt/model.safetensors: what it predicts is not finite, and neither is its tensor transformer.' sample --model gpt
  refuse 1 'what it predicts is not finite' sample --model gpt --temperature 0
  refuse 1 'mlp/model.safetensors: its loss is not finite, and neither is its tensor layers.0.' eval --model mlp --data pair --json
}
