# Runs that end early, and the files that they leave.

# wait_for_step FILE: until a run's metrics show that it is training.
wait_for_step() {
  local i
  for ((i = 0; i < 600; i++)); do
    grep -qs '"event":"step"' "$1" && return
    sleep 0.05
  done
  die "no step within 30 s"
}

# A run that trains until it is stopped. A shell without job control starts what it puts into the
# background with SIGINT ignored; `set -m` has a process group of its own for each job, as a terminal's have.
forever=(train gpt --data text "${tiny[@]}" --steps 100000000 --metrics m)

# stopped PID STATUS: the process has ended with that status, 128 and the signal.
stopped() {
  local status=0
  wait "$1" || status=$?
  ((status == $2)) || die "status $status instead of $2: $(cat err)"
}

# saved FOLDER: the run that ended was stopped, and left a model.
saved() {
  "$METRICS" check m
  [[ $("$METRICS" field m end stopped) == true ]] || die "the end does not say it was stopped"
  run sample --model "$1" --bytes 5 >/dev/null
}

case_interrupt() {
  text
  local signal pid
  set -m
  for signal in INT TERM HUP; do
    rm -f m
    "$ACCRUE" "${forever[@]}" --out $signal >out 2>err &
    pid=$!
    wait_for_step m
    kill -$signal $pid
    stopped $pid $((128 + $(kill -l $signal)))
    saved $signal
  done
  # What a program inherits as ignored stays so: nohup, jobs of a script.
  rm m
  (trap '' INT HUP && exec "$ACCRUE" "${forever[@]}" --out ignored >out 2>err) &
  pid=$!
  wait_for_step m
  kill -INT $pid
  kill -HUP $pid
  sleep 0.5
  kill -TERM $pid || die "ended by a signal that is ignored: $(cat err)"
  stopped $pid 143
  saved ignored
}

# Ctrl-C also ends the reader of a pipe, and what the run writes then must not end it before it has saved.
case_interrupt_pipe() {
  text
  local i group
  set -m
  for i in 1 2 3 4; do
    rm -f m
    "$ACCRUE" "${forever[@]}" --out pipe 2>&1 | tee log &
    group=$(jobs -p %+)
    wait_for_step m
    kill -INT -- -$group
    wait %+ || true # the result cannot be told either
    saved pipe
    rm -r pipe
  done
  # Where only the reader is gone, the model is saved, and that nobody was told of it is an error.
  local status=0
  rm m
  ("$ACCRUE" train gpt --data text "${tiny[@]}" --steps 3 --metrics m --out pipe 2>err || echo $? >status) | true
  [[ $(cat status) == 1 ]] || die "status $(cat status)"
  grep -q '^accrue: cannot write to the standard output' err || die "no reason: $(cat err)"
  run sample --model pipe --bytes 5 >/dev/null
  # A help that nobody reads ends as any program does.
  local verb
  for verb in plan train; do
    (sleep 0.3 && "$ACCRUE" $verb gpt --help 2>err || echo $? >status) | true
    [[ $(cat status) == 141 && ! -s err ]] || die "$verb gpt --help | true: status $(cat status): $(cat err)"
  done
}

# Signals that follow at once are one: `timeout` sends two. A second later they are impatience.
case_interrupt_twice() {
  text
  local pid status=0
  set -m
  timeout 1000 "$ACCRUE" "${forever[@]}" --out once >out 2>err &
  pid=$!
  wait_for_step m
  kill -TERM $pid
  stopped $pid 143
  saved once

  # A run that has been told to stop and cannot, as nobody reads what it says of that.
  mkfifo fifo
  exec 9<>fifo
  rm m
  "$ACCRUE" "${forever[@]}" --out twice >out 2>fifo &
  pid=$!
  wait_for_step m
  ! dd if=/dev/zero of=fifo oflag=nonblock bs=1 count=10000000 2>/dev/null || die "a pipe without an end"
  kill -TERM $pid
  sleep 0.2
  kill -INT $pid
  sleep 1.2
  kill -TERM $pid || die "ended by signals that follow at once"
  wait $pid || status=$?
  ((status == 143)) || die "status $status after a second signal"
  [[ ! -e twice/model.safetensors ]] || die "saved after all"
}

# A signal that comes while another one is being handled is the same one as well.
case_interrupt_meeting() {
  text
  local pid
  set -m
  LD_PRELOAD=$MEETING "$ACCRUE" "${forever[@]}" --out meeting >out 2>err &
  pid=$!
  wait_for_step m
  kill -TERM $pid
  stopped $pid 143
  saved meeting
}

# A run that is stopped before its first update has learned nothing, and leaves the model that is there.
case_interrupt_early() {
  text
  mkdir pair
  "$FIXTURE" images pair train 20000
  run train mlp --data pair --device cpu --hidden 8 --steps 1 --out model >/dev/null
  cp model/model.safetensors before
  # A window of many micro-batches, so that the signal comes within the first.
  "$ACCRUE" train mlp --data pair --device cpu --threads 1 --hidden 2048,2048 --batch 20000 --micro-batch 8 --read-ahead 0 \
    --steps 1 --warmup 0 --metrics m --out model --overwrite >out 2>err &
  local pid=$! i
  for ((i = 0; i < 600; i++)); do
    grep -qs '"event":"plan"' m && break
    sleep 0.05
  done
  sleep 0.3
  kill -TERM $pid
  stopped $pid 143
  ! grep -q '"event":"step"' m || die "there was an update"
  [[ $("$METRICS" field m end stopped) == true ]] || die "the end does not say it was stopped"
  grep -qE '^stopped after 0 updates, .*; (nothing is saved|a state is in model)$' out || die "another result: $(cat out)"
  grep -q 'saving' err && die "it says that it saves: $(cat err)"
  cmp before model/model.safetensors
}

# A window that is to run again is not done: what a run says that it stops after is the one before.
case_interrupt_replay() {
  text
  # After the first update the scale is such that lowering it takes about a hundred thousand windows.
  "$ACCRUE" train gpt --data text "${tiny[@]}" --steps 9 --precision f16 --replay --loss-scale-init 1 --loss-scale-interval 1 \
    --loss-scale-growth 1e30 --loss-scale-backoff 0.9999 --metrics m --out model >out 2>err &
  local pid=$! i
  for ((i = 0; i < 600; i++)); do
    grep -qs '"replayed":true' m && break
    sleep 0.05
  done
  kill -TERM $pid
  stopped $pid 143
  tail -n 2 m | grep -q '"step":2,.*"replayed":true' || die "no window runs again: $(tail -n 3 m)"
  grep -q 'stopping after update 1 and saving' err || die "another step: $(cat err)"
}

# A validation split that takes far longer to evaluate than a signal may take to be obeyed, and a micro-batch far less.
long_evaluation() {
  mkdir pair few
  "$FIXTURE" images pair train 256
  cp pair/* few
  "$FIXTURE" images pair t10k 250000
  "$FIXTURE" images few t10k 10
  long=(--device cpu --hidden 2048,2048 --batch 64 --lr 0.001 --schedule constant --warmup 0 --read-ahead 0 --threads 1 --metrics m)
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
    stopped $pid 143
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

# The evaluation of averaged weights, which follows, is also left out; the run that is resumed makes it up.
case_interrupt_average() {
  local round pid i
  mkdir pair
  "$FIXTURE" images pair train 256
  "$FIXTURE" images pair t10k 20000
  "$ACCRUE" train mlp --data pair --device cpu --hidden 2048,2048 --batch 64 --schedule constant --warmup 0 --threads 1 \
    --ema 0.9 --steps 5 --eval-every 1 --metrics m --out model >out 2>err &
  pid=$!
  for round in 1 2; do # in that of the run, and in the one made up
    for ((i = 0; i < 1200; i++)); do
      ((round == 1)) && grep -qs '"event":"eval"' m && break
      ((round == 2)) && grep -q '^going on after step 1' err && break
      sleep 0.05
    done
    ((round == 1)) || sleep 0.2
    kill -TERM $pid
    stopped $pid 143
    (($(grep -c 'stopping after update 1 and saving' err) == 1)) || die "not said once: $(cat err)"
    grep -q '^stopped after 1 update' out || die "another result: $(cat out)"
    ! grep -q '"event":"average"' m || die "the evaluation of averages was not left"
    ((round == 2)) && break
    "$ACCRUE" train --resume --out model >out 2>err &
    pid=$!
  done
  run train --resume --out model --steps 2 >out
  grep -q '^done after 2 updates' out || die "it does not go on: $(cat out)"
  [[ $(grep -oE '"event":"(eval|average)","step":[0-9]+' m | tr '\n' ' ') == \
    '"event":"eval","step":1 "event":"average","step":1 "event":"eval","step":2 "event":"average","step":2 ' ]] ||
    die "other evaluations: $(grep -v '"event":"step"' m)"
}

# A run that is killed in the last evaluation has saved the model already.
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

# Of two runs in one folder the second is refused, and changes nothing; a run that was killed leaves no lock.
case_one_folder() {
  text
  "$ACCRUE" train gpt --data text "${tiny[@]}" --steps 100000 --metrics m --out model >out 2>run.err &
  local pid=$! status=0 mode
  wait_for_step m
  ls -l model >before
  "$ACCRUE" train gpt --data text "${tiny[@]}" --steps 1 --metrics n --out model --overwrite >out.2 2>err || status=$?
  ((status == 1)) || die "status $status: $(cat err)"
  grep -q '^accrue: another run writes into model; ' err || die "no reason: $(cat err)"
  ls -l model | cmp - before || die "the second run has changed the folder"
  [[ ! -e n ]] || die "the second run has written metrics"
  kill -KILL $pid || die "the run had ended before it could be killed"
  wait $pid && die "no word of the kill"
  train --steps 1 --out model >out
  for mode in config.json metrics.jsonl model.safetensors run.json state-0000000001.safetensors; do
    [[ $(stat -c %a model/$mode) == $(printf '%o' $((0666 & ~0$(umask)))) ]] || die "permissions of $mode: $(ls -l model)"
  done
  (($(find model -type f | wc -l) == 5)) || die "files that remain: $(ls model)"
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
  ACCRUE_ISA=zzz refuse 2 'the environment variable ACCRUE_ISA is "zzz"' eval --model mlp --data pair
  ACCRUE_ISA=zzz refuse 2 'the environment variable ACCRUE_ISA is "zzz"' sample --model gpt
}
