# Pilots: short runs over grids, seeds and folds. Sourced by cases.sh.

# Plans are pinned: another one would round otherwise.
pinned=(--device cpu --threads 1 --micro-batch 2 --recompute none)
tiny_pilot=(gpt --data text --layers 1 --heads 2 --width 16 --context 16 --batch 4 --eval-samples 8 "${pinned[@]}")
pilot() { run pilot "${tiny_pilot[@]}" "$@"; }

# What is the same each time: all but times.
timeless_table() { sed 's/ *|.*//' "$1"; }
timeless_json() { sed -E '/"seconds(_to_target)?": [0-9.e-]/d; /"seconds(_to_target)?": \{/,/\}/d' "$1"; }

milliseconds() { echo $(($(date +%s%N) / 1000000)); }

# killed TOOK ARGUMENT...: a pilot that takes so many milliseconds is killed in the middle of something, and started again
# until it is done. False: it was faster than that, and killed less than twice.
killed() {
  local strikes=0 life=1 limit took=$1
  shift
  while :; do
    "$ACCRUE" pilot "$@" >killed.out 2>killed.err &
    limit=$((took * (10 + 15 * life + RANDOM % 10) / 100))
    sleep "$(printf '%d.%03d' $((limit / 1000)) $((limit % 1000)))"
    if kill -KILL $! 2>/dev/null; then
      strikes=$((strikes + 1))
      wait $! 2>/dev/null || true
    else
      wait $! || die "a pilot that was killed does not go on: $(cat killed.err)"
      break
    fi
    life=$((life + 1))
  done
  echo "killed $strikes times: accrue pilot $*"
  ((strikes >= 2))
}

# same_when_killed ARGUMENT...: without --out
same_when_killed() {
  local begin took
  begin=$(milliseconds)
  run pilot "$@" --out whole >whole.out
  took=$(($(milliseconds) - begin))
  until killed $took "$@" --out parts; do
    took=$((took / 2))
    rm -r parts
  done
  diff <(timeless_table whole.out) <(timeless_table killed.out) || die "a pilot that is killed has another table: $*"
  run pilot "$@" --out whole --json >whole.json
  run pilot "$@" --out parts --json >parts.json
  diff <(timeless_json whole.json) <(timeless_json parts.json) || die "a pilot that is killed has other results: $*"
  rm -r whole parts
}

case_pilot() {
  text
  pilot --steps 6 --eval-every 2 --grid lr=1e-3,1e-2 --grid batch=4,8 --seeds 3 --target-loss 5.3 --out pilot --svg pilot.svg >out
  cat out
  grep -q '^12 runs, 2 plans$' run.err || die "plans are not shared: $(cat run.err)"
  (($(grep -cE '^1e-[23] +[48] +3 +6 +[0-9.]+ \+- [0-9.]+ +' out) == 4)) || die "not four cells"
  grep -q '^least loss: lr 1e-2, batch' out || die "what is best is not told"
  if command -v gnuplot >/dev/null; then grep -q 'batch 8' pilot.svg || die "the picture lacks a line"; fi
  pilot --steps 1 --grid patience=1,2 --grid 'group=*.bias:lr=1;*.bias:lr=0.5' --grid on-spike=tell,back --eval-every 1 --out shared >/dev/null
  grep -q '^8 runs, 1 plan$' run.err || die "plans are made of what they know nothing of: $(cat run.err)"
  pilot --steps 1 --grid micro-batch=4,1 --ema 0.9 --out micro >/dev/null
  ! grep -q averaged run.err || die "a run tells of its averages: $(cat run.err)"
  local metrics
  for metrics in {pilot,micro}/run-*/metrics.jsonl; do
    "$METRICS" check "$metrics" || die "$metrics: the memory of another run"
  done
  # A cell's mean is that of the runs that accrue train makes.
  local seed
  for seed in 1 2 3; do
    run train "${tiny_pilot[@]}" --steps 6 --eval-every 2 --lr 1e-2 --batch 8 --seed $seed --out run --metrics m >/dev/null
    "$METRICS" field m end val_loss >>losses
  done
  awk '{ n++; s += $1; q += $1 * $1 } END { m = s / n; printf "%.4f +- %.4f\n", m, sqrt((q - n * m * m) / (n - 1)) }' losses >mean
  grep -F "$(cat mean)" out | grep -q '^1e-2 *8 ' || die "the mean is not $(cat mean)"
  # The loss that is looked for is reached at a validation: after 2, 4 or 6 updates.
  grep -E '^1e-2 +4 ' out | grep -qE ' (128|256|384|[0-9]+ \+- [0-9]+)( \([12] of 3\))? +\| ' || die "no tokens to the loss"
  # The same command tells the same without a run; another is refused, as is another's folder.
  pilot --steps 6 --eval-every 2 --grid lr=1e-3,1e-2 --grid batch=4,8 --seeds 3 --target-loss 5.3 --out pilot >again
  cmp out again || die "the same command tells something else"
  ! grep -q '^run ' run.err || die "runs that are done are made again"
  refuse_pilot 2 'its --steps is not the same' --steps 7 --eval-every 2 --grid lr=1e-3,1e-2 --grid batch=4,8 --seeds 3 \
    --target-loss 5.3 --out pilot
  echo '{' >pilot/pilot.json
  refuse_pilot 2 'is not a record of a pilot' --steps 6 --out pilot
  compgen -G 'pilot/run-0001/*.safetensors' >/dev/null && die "models of a pilot stay"
  compgen -G 'micro/run-0001/*.safetensors' >/dev/null && die "averages of a pilot stay"
  [[ -s pilot/run-0012/metrics.jsonl && -s pilot/run-0012/run.json ]] || die "the metrics of a pilot's runs are gone"

  # A run that diverges is a result.
  pilot --steps 4 --grid lr=1e-3,1e30 --clip 0 --optimizer sgd --momentum 0 --weight-decay 0 --warmup 0 --out diverged >out
  grep -qE '^1e30 +1, 1 diverged +0 +- ' out || die "a run that diverged is not in the table: $(cat out)"
  grep -q '^least loss: lr 1e-3' out || die "$(cat out)"
  pilot --steps 4 --grid lr=1e29,1e30 --clip 0 --optimizer sgd --momentum 0 --weight-decay 0 --warmup 0 --out all --svg all.svg >out
  grep -q '^all cells have runs that diverged' out || die "$(cat out)"
  # Someone stops it, or the time is over; it goes on.
  pilot --steps 3 --grid lr=1e-3,1e-2 --max-minutes 1e-7 --out timed >out
  [[ ! -s out ]] || die "a pilot without time has a result"
  grep -q '^stopped; the same command resumes from' run.err || die "$(cat run.err)"
  pilot --steps 3 --grid lr=1e-3,1e-2 --out timed >out
  grep -q '^1e-2 ' out || die "$(cat out)"
  # The limit is for one start, and also ends a run that has begun.
  pilot --steps 3000 --max-minutes 1e-3 --out later >out
  [[ ! -s out ]] || die "a pilot of 60 ms: $(cat out)"
  pilot --steps 3000 --out later >out
  grep -q '^1 ' out || die "a run in hand has the limit of the start before: $(cat run.err)"
  # So is a policy.
  echo '{"version": 1, "max_gradient_norm": 1e-6}' >policy.json
  ! "$ACCRUE" pilot "${tiny_pilot[@]}" --steps 2 --policy policy.json --out free >out 2>err || die "a policy is not kept"
  grep -q 'ends the run: a gradient norm of' err || die "$(cat err)"
  pilot --steps 2 --out free >out
  grep -q '^1 ' out || die "a run in hand has the policy of the start before: $(cat run.err)"
  # A cell that does not fit the budget is told before anything runs; so is one outside the policy.
  refuse_pilot 1 'budget' --steps 3 --grid width=16,2048 --memory 4MiB --out never
  echo '{"version": 1, "max_batch": 5}' >policy.json
  refuse_pilot 2 'its max_batch is 5' --steps 3 --grid batch=4,8 --policy policy.json --out never
  echo '{"version": 1, "max_lr": 0.1}' >policy.json
  refuse_pilot 2 'its max_lr is 0.1' --steps 3 --grid lr=0.01,1 --policy policy.json --out never
  echo '{"version": 1, "seeds": [1, 2]}' >policy.json
  refuse_pilot 2 'name matches "nothing" of group 0' --steps 3 --grid 'group=*.bias:lr=1;nothing:lr=1' --out never
  refuse_pilot 2 'refuses --seed 3' --steps 3 --seeds 3 --policy policy.json --out never
  [[ ! -e never ]] || die "a pilot that is refused left a folder"
}
refuse_pilot() { refuse "$1" "$2" pilot "${tiny_pilot[@]}" "${@:3}"; }

case_pilot_refused() {
  text
  refuse 2 'model is missing' pilot --data text
  refuse_pilot 2 'is not of the form FLAG=VALUE' --grid lr
  refuse_pilot 2 'is not of the form FLAG=VALUE' --grid lr=
  refuse_pilot 2 'has an empty value' --grid lr=1,,2
  refuse_pilot 2 'accrue train has no such flag' --grid rate=1,2
  refuse_pilot 2 'accrue train has no such flag' --grid seeds=1,2
  refuse_pilot 2 'that is the same in all runs' --grid seed=1,2
  refuse_pilot 2 'two axes of --lr' --grid lr=1,2 --grid lr=3
  refuse_pilot 2 '--grid lr has the same value twice: 1e-3 and 1e-3' --grid lr=1e-3,2,1e-3
  refuse_pilot 2 '--grid lr has the same value twice: 1e-3 and 0.001' --grid lr=1e-3,0.001
  refuse_pilot 2 '--grid replay has the same value twice' --grid replay=on,on
  refuse_pilot 2 '--ablate dropout is given twice' --ablate dropout --ablate dropout
  refuse_pilot 2 'not a number' --grid lr=1,fast --out never
  refuse_pilot 2 'a switch is on or off' --grid replay=yes,no
  refuse_pilot 2 'learning rates 1e+39' --grid lr=1e-3,1e39 --steps 2 --out never
  refuse_pilot 2 'does not tell what switched off means' --ablate data
  refuse_pilot 2 'it is not switched on' --ablate replay
  refuse_pilot 2 '--halving has no meaning without --steps' --halving 2 --grid lr=1,2
  refuse_pilot 2 '--halving stops cells by their steps' --halving 2 --steps 4 --grid steps=1,2
  refuse_pilot 2 '--folds and --fold contradict' --folds 2 --fold 1/2
  refuse_pilot 2 '--svg draws a grid' --svg x.svg
  refuse_pilot 2 'out of range' --folds 1
  [[ ! -e never && ! -e accrue-gpt-pilot ]] || die "a pilot that is refused left a folder"
}

# A pilot has runs of its own alone, on data that stay what they were.
case_pilot_owner() {
  text
  local grid=(--steps 3 --grid lr=1e-3,1e-2) name
  # Neither a run nor the runs of others are taken over, whether there is a pilot's record or not.
  run train "${tiny_pilot[@]}" --steps 5 --out exp/run-0001 >/dev/null
  cp -r exp before
  refuse_pilot 2 'exp/run-0001 is not a run of this pilot; give another folder' "${grid[@]}" --out exp
  refuse_pilot 2 'exp/run-0001 holds a run (run.json), which is not a pilot' "${grid[@]}" --out exp/run-0001
  diff -r exp before || die "a pilot that was refused has changed a run"
  mkdir -p bare/run-0002 && cp exp/run-0001/state* bare/run-0002
  refuse_pilot 2 'bare/run-0002 is not a run of this pilot' "${grid[@]}" --out bare
  pilot "${grid[@]}" --out clean >out
  pilot "${grid[@]}" --out clean.2 >/dev/null
  # Nor are a pilot's folder and its runs taken over by a run, even where it is to replace one.
  local words=(train "${tiny_pilot[@]}" --steps 1)
  refuse 2 'clean is the folder of a pilot; name another one with --out' "${words[@]}" --out clean --overwrite
  refuse 2 'clean is the folder of a pilot; name another one with --out' "${words[@]}" --out clean
  refuse 2 'clean/run-0001 holds a run of a pilot' "${words[@]}" --resume-or-start --out clean/run-0001
  pilot "${grid[@]}" --out clean >again
  cmp out again || die "a run that was refused has changed a pilot"
  # Nor are those of another pilot of the same settings.
  rm -r clean.2/run-0001 && cp -r clean/run-0001 clean.2
  refuse_pilot 2 'clean.2/run-0001 is not a run of this pilot' "${grid[@]}" --out clean.2
  cp -r clean clean.3 && rm -r clean.3/run-0002 && cp -r clean/run-0001 clean.3/run-0002
  refuse_pilot 2 'clean.3/run-0002 is not a run of this pilot' "${grid[@]}" --out clean.3
  mkdir -p clean/run-notes clean/run-0003
  pilot "${grid[@]}" --out clean >again
  cmp out again || die "the same pilot tells something else"
  # The record is there before the first run ends, so another pilot does not go on with what is there.
  "$ACCRUE" pilot "${tiny_pilot[@]}" --steps 100000 --grid lr=1e-5,1e-4 --save-every 5 --out early >/dev/null 2>err &
  for ((i = 0; i < 600; i++)); do compgen -G 'early/run-0001/state-*' >/dev/null && break || sleep 0.05; done
  kill -TERM $!
  stopped $! 143
  refuse_pilot 2 'its --grid is not the same' --steps 100000 --grid lr=1e-2,2e-2 --save-every 5 --out early
  rm early/pilot.json
  refuse_pilot 2 'early/run-0001 is not a run of this pilot' "${grid[@]}" --out early
  # The same data may be called by another path; other data may not.
  ln -s . here
  run pilot "${tiny_pilot[@]}" --data "$PWD/here/../$(basename "$PWD")/text" "${grid[@]}" --out clean >again
  cmp out again || die "the same data by another path"
  cp text text.1 && seq 2 1501 >text
  refuse_pilot 2 'clean/pilot.json is of a pilot on other data' "${grid[@]}" --out clean
  mv text.1 text
  # So with the weights that runs start from.
  pilot "${grid[@]}" --init exp/run-0001/model.safetensors --out init >/dev/null
  pilot "${grid[@]}" --init "$PWD/exp/run-0001/model.safetensors" --out init >/dev/null
  run train "${tiny_pilot[@]}" --steps 1 --out exp/run-0001 >/dev/null
  refuse_pilot 2 'of a pilot on other data: what --data or --init names has changed' "${grid[@]}" \
    --init exp/run-0001/model.safetensors --out init
  # Nothing but what its runs wrote is deleted.
  pilot --steps 4 --grid lr=1e-3,1e-2 --halving 2 --max-minutes 1e-7 --out tidy >/dev/null
  mkdir -p tidy/run-0001 && echo mine >tidy/run-0001/model.safetensors.copy
  for name in notes state-4 good-0000000009.safetensors; do echo mine >tidy/run-0001/$name; done
  pilot --steps 4 --grid lr=1e-3,1e-2 --halving 2 --out tidy >/dev/null
  (($(grep -lx mine tidy/run-0001/* | wc -l) == 4)) || die "deleted: $(ls tidy/run-0001)"
}

# Where only the last validation shows that a run diverges, it has diverged.
case_pilot_diverged() {
  text
  pilot --steps 4 --warmup 0 --schedule constant --optimizer sgd --momentum 0 --weight-decay 0 --dropout 0 --clip 0 --halving 2 \
    --grid lr=3e38,1e-3,1e30,1e-2 --out op >out
  cat out
  (($(grep -cE '^(3e38|1e30) +1, 1 diverged ' out) == 2)) || die "not two cells have diverged"
  grep -qE '^least loss: lr 1e-[23]' out || die "$(cat out)"
  # So without rungs.
  pilot --steps 4 --warmup 0 --schedule constant --optimizer sgd --momentum 0 --weight-decay 0 --dropout 0 --clip 0 \
    --grid lr=3e38,1e-3,1e30,1e-2 --out op.2 >out
  (($(grep -cE '^(3e38|1e30) +1, 1 diverged ' out) == 2)) || die "not two cells have diverged: $(cat out)"
  # Nor is it held up by a rate that is beyond floats only as an update uses it: 1e38 / (1 - beta1).
  pilot --steps 4 --warmup 0 --schedule constant --grid lr=1e38,1e-3 --out op.3 >out
  grep -qE '^1e38 +1, 1 diverged ' out || die "$(cat out)"
  grep -qE '^least loss: lr 1e-3' out || die "$(cat out)"
}

case_pilot_killed() {
  text
  mkdir images
  "$FIXTURE" images images train 150
  same_when_killed "${tiny_pilot[@]}" --steps 40 --eval-every 10 --save-every 7 --grid lr=1e-3,3e-3,1e-2 --grid clip=0,1 \
    --seeds 3 --target-loss 4
  same_when_killed mlp --data images --hidden 64 "${pinned[@]}" --batch 16 --epochs 12 --save-every 9 --grid lr=1e-3,1e-2 \
    --grid dropout=0,0.2 --seeds 2
  # Rungs, folds, settings switched off.
  same_when_killed "${tiny_pilot[@]}" --steps 64 --save-every 5 --grid lr=1e-3,3e-3,1e-2,3e-2 --grid clip=0,1 --seeds 2 --halving 2
  same_when_killed mlp --data images --hidden 64 "${pinned[@]}" --batch 16 --epochs 12 --folds 5 --seeds 2
  same_when_killed "${tiny_pilot[@]}" --steps 60 --folds 4 --dropout 0.1 --ablate dropout --ablate clip --seeds 2
}

case_pilot_parts() {
  text
  mkdir images
  "$FIXTURE" images images train 60
  # Of 8 cells 4 come to half of the steps, 2 to the end: what is dropped has the steps of its last rung.
  pilot --steps 8 --grid lr=1e-4,1e-3,3e-3,1e-2 --grid clip=0,1 --halving 2 --out halved >out
  cat out
  (($(awk '$4 == 1' out | wc -l) == 4 && $(awk '$4 == 2' out | wc -l) == 2 && $(awk '$4 == 4' out | wc -l) == 1 &&
    $(awk '$4 == 8' out | wc -l) == 1)) || die "the rungs are others"
  # The run that came to the end has the bits of a run without rungs, as its rates depend on all of its steps.
  local lr clip
  read -r lr clip _ < <(awk '$4 == 8' out)
  run train "${tiny_pilot[@]}" --steps 8 --lr "$lr" --clip "$clip" --out run --metrics m >/dev/null
  [[ $(awk '$4 == 8 { print $5 }' out) == $(printf %.4f "$("$METRICS" field m end val_loss)") ]] || die "a rung changes a run"

  # Each fold validates once: the mean is that of the folds one by one.
  run pilot mlp --data images --hidden 16 "${pinned[@]}" --batch 16 --epochs 2 --folds 3 --out folds --json >folds.json
  local fold
  for fold in 1 2 3; do
    run train mlp --data images --hidden 16 "${pinned[@]}" --batch 16 --epochs 2 --fold $fold/3 --out run --metrics m >/dev/null
    grep -qF "\"loss\": $("$METRICS" field m end val_loss | cut -c 1-10)" folds.json || die "fold $fold is not in $(cat folds.json)"
  done

  # Everything, and everything but one.
  pilot --steps 3 --dropout 0.2 --ablate dropout --ablate weight-decay=0.5 --out ablated >out
  cat out
  grep -qE '^nothing +1 ' out && grep -qE '^dropout +1 ' out && grep -qE '^weight-decay +1 ' out || die "ablations are missing"
  run train "${tiny_pilot[@]}" --steps 3 --dropout 0 --out run --metrics m >/dev/null
  [[ $(awk '$1 == "dropout" { print $4 }' out) == $(printf %.4f "$("$METRICS" field m end val_loss)") ]] ||
    die "what is without dropout has some"
  # A switch, as an axis and switched off.
  run pilot resnet --data images --depth 8 --width 4 "${pinned[@]}" --batch 4 --steps 2 --grid flip=on,off --out switch >/dev/null
  grep -q '"flip": true' switch/run-0001/run.json && grep -q '"flip": false' switch/run-0002/run.json || die "a switch does not work as an axis"
  run pilot resnet --data images --depth 8 --width 4 "${pinned[@]}" --batch 4 --steps 2 --flip --ablate flip --out off >/dev/null
  grep -q '"flip": true' off/run-0001/run.json && grep -q '"flip": false' off/run-0002/run.json || die "a switch is not switched off"
  # Values with commas.
  run pilot mlp --data images "${pinned[@]}" --batch 4 --steps 1 --grid 'hidden=8,4;16' --out commas >out
  grep -q '^8,4 ' out && grep -q '^16 ' out || die "$(cat out)"
}
