# What stays in a run's folder, and what `accrue train` resumes from there.

steady=(--schedule constant --warmup 0 --lr 0.01) # so that runs of several lengths have their steps in common

steps_in() { # FOLDER: of its states
  local file
  for file in "$1"/state-*; do
    file=${file##*/state-}
    printf '%s ' $((10#${file%.safetensors}))
  done
}

# unfinished FOLDER: its run says nothing of its end, as one that was killed.
unfinished() {
  sed -i 's/"outcome": "done"/"outcome": "stopped"/' "$1/run.json"
}

said() { grep -qF -- "$1" run.err || die "no '$1' in: $(cat run.err)"; }

# fails STATUS TEXT ARGUMENT...: the program ends with STATUS, and says a sentence that holds TEXT.
fails() {
  local want=$1 text=$2 got=0
  shift 2
  "$ACCRUE" "$@" >run.out 2>run.err </dev/null || got=$?
  ((got == want)) || die "status $got instead of $want: accrue $*: $(cat run.err)"
  grep -q "^accrue: .*$text" run.err || die "no '$text' in: $(cat run.err)"
}

without_times() {
  sed -E 's/"(run|seconds|data_wait_s|samples_per_s|tokens_per_s)":[^,}]*//g' "$1"
}

# A folder that holds a run is not trained into without a word of what is to become of it.
case_resume_unasked() {
  text
  local begin=(train gpt --data text "${tiny[@]}" --steps 1) file
  train "${steady[@]}" --steps 3 --save-every 1 --out model >/dev/null
  for outcome in done stopped; do
    cp -r model before
    refuse 2 'model holds a run already (run.json): resume it with --resume, name another folder with --out, or replace' \
      "${begin[@]}" --out model
    refuse 2 'model holds a run already' "${begin[@]}" --out model --layers 2 --metrics none
    refuse 2 'model holds a run already' train gpt --config model/run.json --out model
    diff -r before model || die "a run that was refused has changed the folder"
    rm -r before && unfinished model
  done
  refuse 2 '--resume and --overwrite contradict' "${begin[@]}" --out model --resume --overwrite
  # Any of its files is enough, and nothing else is a run.
  for file in model.safetensors run.json config.json best.safetensors state-0000000002.safetensors; do
    mkdir one && echo mine >one/$file
    refuse 2 'one holds a run already' "${begin[@]}" --out one
    [[ $(cat one/*) == mine ]] || die "$file was changed"
    rm -r one
  done
  mkdir one && touch one/notes one/state-2.safetensors one/state-00000000002.safetensors "one/state- 000000002.safetensors"
  "$ACCRUE" "${begin[@]}" --out one >/dev/null 2>err || die "odd names were taken for a run: $(cat err)"

  # What is replaced stays until there is something in its place: a run that diverges costs no older one anything.
  cp -r model before
  fails 1 'the last finite parameters' train gpt --data text "${tiny[@]}" --optimizer sgd --clip 0 --lr 1e30 --warmup 0 \
    --schedule constant --steps 50 --out model --overwrite
  rm model/diverged.safetensors
  diff -r -x metrics.jsonl before model || die "the run that diverged has changed the folder"
  cp before/metrics.jsonl model
  train "${steady[@]}" --steps 4 --resume --out model >/dev/null
  said 'going on after step 3'

  # The states go with the first of the new run, be they of later steps; nothing of anyone else's does.
  rm -r model && cp -r before model
  train "${steady[@]}" --seed 5 --steps 1 --out other >/dev/null
  cp other/state-0000000001.safetensors model/state-0000000007.safetensors
  cp model/state-0000000003.safetensors model/state-0000000008.safetensors
  train "${steady[@]}" --steps 1 --out model --overwrite >/dev/null
  [[ $(steps_in model) == '1 7 8 ' ]] || die "states $(steps_in model)"
  cmp other/state-0000000001.safetensors model/state-0000000007.safetensors
  rm model/state-000000000[78].safetensors
  train "${steady[@]}" --steps 2 --resume --out model >/dev/null
  said 'going on after step 1'
  ! grep -q '"replaces"' model/run.json || die "$(cat model/run.json)"
  # Nor is a copy written over that has the name of a state to come.
  cp other/state-0000000001.safetensors model/state-0000000004.safetensors
  fails 1 'model/state-0000000004.safetensors is not this run.s; move it away' train --steps 4 --resume --out model
  cmp other/state-0000000001.safetensors model/state-0000000004.safetensors

  # A state of the same step, and the best model, stay until the folder is the new run's.
  rm -r model && train "${steady[@]}" --steps 3 --save-every 1 --keep 1 --out model --keep-best --eval-every 1 >/dev/null
  train "${steady[@]}" --seed 9 --steps 4 --save-every 3 --keep 1 --out model --keep-best --eval-every 2 >/dev/null
  [[ $(steps_in model) == '4 ' ]] || die "states $(steps_in model)"

  # Nothing of the old run is left, whatever model it was of.
  train "${steady[@]}" --ema 0.9 --keep-best --eval-every 1 --on-spike back --steps 3 --out model >/dev/null
  [[ -e model/average.safetensors && -e model/best.safetensors && -e model/good.safetensors ]] || die "$(ls model)"
  "$FIXTURE" images . train 60
  run train mlp --data . --device cpu --hidden 8 --steps 2 --keep 0 --metrics m --out model --overwrite >/dev/null
  [[ $(echo $(ls model)) == 'model.safetensors run.json' ]] || die "left of the old run: $(ls model)"
  run train mlp --data . --device cpu --hidden 8 --steps 2 --out model --overwrite >/dev/null
  [[ $(echo $(ls model)) == 'metrics.jsonl model.safetensors run.json state-0000000002.safetensors' ]] || die "$(ls model)"

  # The record is that of the model in the folder, also if a run without states was stopped.
  rm -r model && cp -r before model
  "$ACCRUE" train gpt --data text "${tiny[@]}" --steps 1000000 --keep 0 --max-minutes 0.003 --out model --overwrite \
    >/dev/null 2>err || die "$(cat err)"
  grep -q '"steps": 1000000' model/run.json || die "the record of another run: $(cat model/run.json)"
  grep -q '"outcome": "stopped"' model/run.json || die "$(cat model/run.json)"
  # What cannot be done is not offered.
  refuse 2 'model holds a run already (run.json): name another folder with --out, or replace' "${begin[@]}" --out model
  # A copy of a state under the name of a later step is not the newest.
  rm -r model && cp -r before model
  cp model/state-0000000002.safetensors model/state-0000000009.safetensors
  train "${steady[@]}" --steps 4 --resume --out model >/dev/null
  said 'state-0000000009.safetensors is the state of another step; an older state is tried'
  said 'going on after step 3'

  # If the record is damaged, states say themselves which run they belong to.
  rm -r model && cp -r before model
  echo '{' >model/run.json
  train "${steady[@]}" --steps 1 --keep 0 --out model >/dev/null
  [[ ! $(steps_in model) ]] || die "states $(steps_in model)"
  rm model/run.json
  mkdir -p model/run.json/in-the-way
  train "${steady[@]}" --steps 1 --out model >/dev/null
  said 'cannot write model/run.json'
}

# --resume goes on with something, or says that there is nothing.
case_resume_nothing() {
  text
  local begin=(train gpt --data text "${tiny[@]}" "${steady[@]}")
  refuse 2 'typo has no state to resume; --resume-or-start would begin the run' "${begin[@]}" --steps 2 --resume --out typo
  refuse 2 'typo holds no run to resume: there is no typo/run.json' train --resume --out typo
  refuse 2 '--resume needs --out DIR' train --resume
  [[ ! -e typo ]] || die "a run that was refused left a folder"
  "$ACCRUE" "${begin[@]}" --steps 2 --resume-or-start --out job >/dev/null 2>err || die "$(cat err)"
  "$ACCRUE" "${begin[@]}" --steps 3 --resume-or-start --out job >/dev/null 2>err || die "$(cat err)"
  grep -q 'going on after step 2' err || die "it began anew: $(cat err)"
  # Fewer steps than were made are none; what was planned is not forgotten.
  cp -r job before
  refuse 2 '--steps 1 is less than the 3 that the run in job has made' train --resume --steps 1 --out job
  diff -r before job || die "a run that was refused has changed the folder"
  "$ACCRUE" "${begin[@]}" --epochs 2 --batch 300 --out passes >/dev/null 2>err || die "$(cat err)"
  refuse 2 '--epochs 1 is less than the run in passes has trained for' train --resume --epochs 1 --out passes
  run train --resume --epochs 2 --out passes >/dev/null
  # A run that keeps no state cannot be resumed, nor is it replaced.
  "$ACCRUE" "${begin[@]}" --steps 2 --keep 0 --out stateless >/dev/null 2>err || die "$(cat err)"
  cp -r stateless before.2
  refuse 2 'stateless has no state to resume, but model.safetensors' train --resume --out stateless
  refuse 2 'stateless has no state to resume, but model.safetensors' "${begin[@]}" --resume-or-start --out stateless
  diff -r before.2 stateless || die "a run that was refused has changed the folder"
  # If the record is lost, states say themselves which run they belong to. A record with a malformed id is refused.
  rm job/run.json
  cp job/state-0000000003.safetensors job/state-0000000009.safetensors
  train "${steady[@]}" --steps 4 --resume --out job >/dev/null
  grep -q "$(grep '"id": ".*-' before/run.json | head -n 1)" job/run.json || die "the run has another id: $(cat job/run.json)"
  sed -i "s/\"id\": \"[0-9a-f-]*-[0-9a-f-]*\"/\"id\": \"$(printf '%06000d' 5)\"/" job/run.json
  cp -r job before.3
  fails 2 'job/run.json does not have a valid id' train --resume --steps 5 --save-every 1 --out job
  diff -r before.3 job || die "a run that was refused has changed the folder"
  # A folder that was moved is the run's as before.
  mv before moved
  train "${steady[@]}" --steps 4 --resume --out moved >/dev/null
  [[ ! -e before ]] || die "the run goes on elsewhere"
  rm -r moved/state* && fails 2 'moved has no state to resume, but model.safetensors' train --resume --out moved
}

# stop_first FLAG...: trains with a window of many micro-batches, and sends SIGTERM as soon as it is caught, or a little
# later.
stop_first() {
  local i caught status=0
  rm -f m
  "$ACCRUE" train mlp --data . "${long[@]}" "${@:2}" >out 2>run.err &
  local pid=$!
  for ((i = 0; i < 1500; i++)); do
    if grep -qs '"event":"plan"' m; then # from here on the process is accrue, not a shell
      caught=$(sed -n 's/^SigCgt:[^0-9a-f]*//p' /proc/$pid/status)
      ((16#${caught:-0} >> 14 & 1)) && break
    fi
    sleep 0.02
  done
  sleep "$1"
  kill -TERM $pid
  cp run.err err && stopped $pid 143
  ! grep -q '"event":"step"' m || die "there was an update"
}

# A run that is stopped before its first update costs no older one anything, and can be resumed.
case_resume_from_nothing() {
  [[ -r /proc/self/status ]] || exit 77
  "$FIXTURE" images . train 2000
  local small=(--data . --device cpu --hidden 8 --batch 32 "${steady[@]}") when
  local long=(--device cpu --threads 1 --hidden 2048,512 --batch 1000 --micro-batch 2 --read-ahead 0 --steps 1 --warmup 0
    --metrics m)
  run train mlp "${small[@]}" --steps 3 --save-every 1 --out old >/dev/null
  run train mlp --data . "${long[@]}" --out whole >/dev/null
  for when in 0 0.1; do
    rm -rf model && cp -r old model
    unfinished model && cp -r model before
    stop_first $when --out model --overwrite
    grep -q '^stopped after 0 updates, .*; nothing is saved' out || die "another result: $(cat out)"
    diff -r before model || die "the folder was changed"
    rm -r before

    rm -r model
    stop_first $when --out model
    run train mlp --data . "${long[@]}" --out model --resume-or-start >/dev/null
    [[ $when == 0 ]] || said 'going on after step 0'
    cmp whole/model.safetensors model/model.safetensors
  done
  # A run that was killed before its first state has the good state of its beginning.
  run train mlp "${small[@]}" --steps 3 --on-spike back --out good >/dev/null
  mv good/model.safetensors expected
  rm -f good/state-*
  [[ -e good/good.safetensors ]] || die "there is no good state: $(ls good)"
  run train mlp "${small[@]}" --steps 3 --on-spike back --out good --resume-or-start >/dev/null
  cmp expected good/model.safetensors
}

# A newer state that is damaged is told and passed over, and does not count among those that stay.
case_keep() {
  text
  train "${steady[@]}" --steps 5 --out whole >/dev/null
  train "${steady[@]}" --steps 3 --save-every 1 --keep 3 --out good >/dev/null
  [[ $(steps_in good) == '1 2 3 ' ]] || die "states $(steps_in good)"
  local newest=state-0000000003.safetensors size damage
  size=$(stat -c %s good/$newest)
  for damage in nothing header data; do
    rm -rf model && cp -r good model
    case $damage in
    nothing) : >model/$newest ;;
    header) head -c 20 good/$newest >model/$newest ;;
    data) printf '\377' | dd of=model/$newest bs=1 seek=$((size - 2)) conv=notrunc status=none ;;
    esac
    train "${steady[@]}" --steps 5 --save-every 100 --keep 2 --resume --out model >/dev/null
    grep -q "$newest.*; an older state is tried" run.err || die "no word of the damage: $(cat run.err)"
    said 'going on after step 2'
    cmp whole/model.safetensors model/model.safetensors
    # A state with a damaged header does not say which run it belongs to, and stays.
    local stay='2 3 5 '
    [[ $damage != data ]] || stay='3 5 '
    [[ $(steps_in model) == "$stay" ]] || die "states $(steps_in model) after damage to $damage"
  done

  # Of the life that was given up nothing stays, as it would be taken for newer.
  rm -r model && cp -r good model
  local state
  for state in 2 3; do
    printf '\377' | dd of=model/state-000000000$state.safetensors bs=1 seek=$((size - 2)) conv=notrunc status=none
  done
  train "${steady[@]}" --steps 2 --keep 1 --resume --out model >/dev/null
  said 'going on after step 1'
  [[ $(steps_in model) == '2 ' ]] || die "states $(steps_in model)"

  # Where none is left, nothing is touched.
  rm -r model && cp -r good model
  for state in model/state-*; do : >"$state"; done
  cp -r model before
  fails 1 'no state in model can be resumed' train gpt --data text "${tiny[@]}" --steps 5 --resume --out model
  diff -r before model || die "a run that was refused has changed the folder"
}

# What a killed run was writing goes with the next one, and nothing else does.
case_leftovers() {
  text
  train --steps 1 --out model >/dev/null
  local name
  for name in model.safetensors best.safetensors diverged.safetensors state-0000000009.safetensors; do
    echo part >model/$name.partial-1a2b3c4d
  done
  for name in config.json run.json; do echo part >model/$name.partial-aB3dE6; done
  local own=(model.safetensors.partial-backup config.json.partial-Backup run.json.partial-20261128 state-0000000009.safetensors.partial-copy
    good-0000000007.safetensors state-0000000005.safetensors state-0000000020.safetensors model.safetensors.backup state-0000000001.safetensors.old run.json.edited config.json.bak notes.partial-1)
  echo part >model/model.safetensors.partial-1a2b3c4d-5e6
  echo part >model/run.json.partial-00001b2c-aB3dE6
  for name in "${own[@]}"; do echo mine >"model/$name"; done
  train --steps 2 --out model --resume >/dev/null
  for name in "${own[@]}"; do grep -q mine "model/$name" || die "$name is gone"; done
  (($(find model -type f | wc -l) == 6 + ${#own[@]})) || die "$(ls model)"
}

# The last state cannot take its place: the model is there, and the run has failed.
case_last_state() {
  text
  mkdir -p model/state-0000000003.safetensors/in-the-way
  fails 1 'no state could be saved at step 3: .*state-0000000003' train gpt --data text "${tiny[@]}" "${steady[@]}" --steps 3 \
    --save-every 2 --out model --overwrite
  run sample --model model --device cpu --bytes 5 >/dev/null
  grep -q '"outcome": "failed"' model/run.json || die "$(tail -n 3 model/run.json)"
  rm -r model/state-0000000003.safetensors
  train "${steady[@]}" --steps 3 --resume --out model >/dev/null
  said 'going on after step 2'
}

# A best model that is gone, or cannot be saved, is said, and training goes on.
case_best_lost() {
  text
  local flags=("${steady[@]}" --keep-best --eval-every 1 --save-every 1 --out model)
  train "${flags[@]}" --steps 2 >/dev/null
  rm model/best.safetensors
  train "${flags[@]}" --steps 4 --resume >/dev/null
  said 'model/best.safetensors, the best model so far, with a validation loss of'
  cmp model/best.safetensors model/model.safetensors
  rm model/best.safetensors && mkdir -p model/best.safetensors/in-the-way
  train "${flags[@]}" --steps 7 --resume >out
  (($(grep -c 'the best model, of step 4, could not be saved, and training goes on: ' run.err) == 1)) || die "$(cat run.err)"
  grep -q '^done after 7 updates' out || die "$(cat out)"
  # Where the last is not the best, what is left is not what was asked for.
  fails 1 'the best model, with a validation loss of [0-9.]*, could not be saved; another one is left in model' train \
    --steps 9 --lr 30 --clip 0 --resume --out model
  run train --steps 10 --lr 0.01 --resume --out model >out
  [[ -s model/model.safetensors ]] || die "no model"
}

# If some lines of metrics are lost, the others stay whole.
case_lost_metrics() {
  text
  local flags=("${steady[@]}" --steps 3 --save-every 1 --out model --metrics m)
  train "${flags[@]}" >/dev/null
  local lost
  for lost in part line all; do
    cp m whole
    case $lost in
    part) head -c -20 <(head -n 3 whole) >m ;;
    line) head -n 2 whole >m ;;
    all) : >m ;;
    esac
    cp m before
    train "${flags[@]}" --steps 5 --resume >/dev/null
    said "some of the run's metrics in m were lost; the others stay"
    "$METRICS" field m end steps >/dev/null # which each line has to be an object for
    [[ $lost == all ]] || cmp <(head -n 2 whole) <(head -n 2 m)
    (($(grep -c '"event":"plan"' m) == 1)) || die "not one plan"
    (($(grep -c '"step":[45],.*"lr"' m) == 2)) || die "the new steps are not there"
    cp -r model ended && rm -r model
    rm ended/state-000000000[45]*
    train "${flags[@]}" >/dev/null
    rm -r ended
  done
  rm m
  train "${flags[@]}" --steps 5 --resume >/dev/null
  said 'm does not have the metrics of the run so far; the file begins anew'
  "$METRICS" field m end steps >/dev/null
  # Another file of lines is not cut, and a pipe or device is written to.
  seq 1 9999 >own && cp own before
  fails 1 'own does not hold the metrics of the run to resume' train gpt --steps 6 --resume --out model \
    --metrics own
  cmp own before
  train "${flags[@]}" --steps 6 --resume --metrics /dev/null >/dev/null
}

# A run by another's record is the same, bit for bit; and goes on by it.
case_config() {
  text
  local schedules=("--lr 0.02 --min-lr 0.003 --warmup 2" "--lr 0.02" "--lr 0.01 --min-lr 0 --warmup 0"
    "--lr 0.01 --schedule constant") schedule
  local flags=(--steps 6 --seed 7 --dropout 0.1 --weight-decay 0.3 --beta2 0.9 --clip 0.7 --last-window carry --save-every 2
    --keep 2 --group '*.bias:lr=0.5' --group '*.weight:decay=0.1,clip=0.2')
  for schedule in "${schedules[@]}"; do
    rm -rf a b
    # shellcheck disable=SC2086
    train "${flags[@]}" $schedule --metrics a.jsonl --out a >/dev/null
    run train gpt --config a/run.json --metrics b.jsonl --out b >/dev/null
    cmp a/model.safetensors b/model.safetensors
    cmp <(without_times a.jsonl) <(without_times b.jsonl)
    rm b/state-0000000006.safetensors b/model.safetensors
    run train --config a/run.json --metrics b.jsonl --out b --resume >/dev/null
    said 'going on after step 4'
    cmp a/model.safetensors b/model.safetensors
    cmp <(without_times a.jsonl) <(without_times b.jsonl)
  done
  # Numbers are written in as few digits as tell them; what was not given is null.
  grep -q '"beta2": 0.9,' a/run.json && grep -q '"min-lr": null,' a/run.json && grep -q '"layer_norm_epsilon": 1e-5,' a/config.json ||
    die "$(cat a/run.json a/config.json)"
  ! grep -qE '[0-9]{17}|: -1' a/run.json a/config.json || die "$(cat a/run.json a/config.json)"
  train --steps 1 --lr 0.30000000000000004 --beta1 0.1 --out digits >/dev/null
  grep -q '"lr": 0.30000000000000004,' digits/run.json || die "another number: $(cat digits/run.json)"
  run train --config a/run.json --epochs 1 --out b >out
  grep -q 'done after 60 updates' out || die "$(cat out)"
  run train --resume --epochs 2 --out b >out
  run train --resume --out b >out # by flags of that time, when no steps were given
  grep -q 'done after 120 updates' out || die "$(cat out)"
}

# Metrics are one run's: they are in its folder unless they are named, and say which run's they are.
case_whose_metrics() {
  text
  local begin=(train gpt --data text "${tiny[@]}" "${steady[@]}") of
  "$ACCRUE" "${begin[@]}" --steps 4 --metrics a.jsonl --tensorboard events --out a >/dev/null 2>err || die "$(cat err)"
  "$METRICS" check a.jsonl
  [[ "\"id\": $("$METRICS" field a.jsonl plan run)," == $(sed -n 's/^  \("id".*\)/\1/p' a/run.json) ]] || die "the metrics do not tell the run"
  [[ ! -e a/metrics.jsonl ]] || die "metrics twice"
  cp a.jsonl before.jsonl && cp -r a before && ls events >events.before
  # By another's record a run has a place of its own for all that it writes.
  "$ACCRUE" train --config a/run.json --steps 2 --out b >/dev/null 2>err || die "$(cat err)"
  "$METRICS" check b/metrics.jsonl
  "$ACCRUE" train --config a/run.json --steps 1 >/dev/null 2>err || die "$(cat err)"
  [[ -s accrue-gpt/model.safetensors ]] || die "the other run's --out"
  cmp a.jsonl before.jsonl && diff -r a before && ls events | cmp - events.before || die "the other run has lost something"
  # Another run's are not replaced, nor resumed; --overwrite replaces them, and files without metrics stay.
  refuse 2 'a.jsonl holds the metrics of another run' "${begin[@]}" --steps 2 --metrics a.jsonl --out c
  fails 1 'a.jsonl does not hold the metrics of the run to resume' train --resume --steps 5 --metrics a.jsonl --out b
  echo 'what I tried' >notes
  refuse 2 '--metrics text is what --data names' "${begin[@]}" --steps 2 --metrics text --out c --overwrite
  refuse 2 '--metrics notes is a file that does not hold metrics' "${begin[@]}" --steps 2 --metrics notes --out c --overwrite
  cmp a.jsonl before.jsonl
  [[ ! -e c ]] || die "a run that was refused left a folder"
  "$ACCRUE" "${begin[@]}" --steps 2 --metrics none --out c >/dev/null 2>err || die "$(cat err)"
  [[ ! -e c/metrics.jsonl && ! -e none ]] || die "there are metrics"
  # A run that goes on writes on in its folder.
  run train --resume --steps 3 --out b >/dev/null
  "$METRICS" check b/metrics.jsonl
  (($(grep -c '"event":"step"' b/metrics.jsonl) == 3 && $(grep -c '"run"' b/metrics.jsonl) == 1)) || die "$(cat b/metrics.jsonl)"
  # Nobody is shown another run's numbers as its own.
  "$ACCRUE" "${begin[@]}" --steps 3 --metrics a.jsonl --out d --overwrite >/dev/null 2>err || die "$(cat err)"
  command -v gnuplot >/dev/null || return 0
  run report a --out page.html >/dev/null
  grep -qx 'a has no curves: a.jsonl has the metrics of another run' run.err || die "$(cat run.err)"
  run report c --out page.html >/dev/null
  grep -qx 'c has no curves: it was trained with --metrics none' run.err || die "$(cat run.err)"
  for of in b d; do
    run report $of --out page.html >/dev/null
    [[ ! -s run.err ]] && grep -q 'after step 3' page.html || die "$of: $(cat run.err)"
  done
  cp before.jsonl b/metrics.jsonl
  run report b --out page.html >/dev/null
  grep -qx 'b has no curves: b/metrics.jsonl has the metrics of another run' run.err || die "$(cat run.err)"
  # A run that has gone on elsewhere, or without metrics, loses none of its own when it comes back to them.
  run train gpt --data text "${tiny[@]}" --steps 5 --out back >/dev/null
  run train --resume --out back --steps 6 --metrics elsewhere >/dev/null
  run train --resume --out back --steps 7 --metrics back/metrics.jsonl >/dev/null
  run train --resume --out back --steps 8 --metrics none >/dev/null
  run train --resume --out back --steps 9 --metrics back/metrics.jsonl >/dev/null
  [[ $(grep -o '^{"event":"step","step":[0-9]*' back/metrics.jsonl | grep -o '[0-9]*$' | xargs) == '1 2 3 4 5 7 9' ]] ||
    die "metrics of $(grep -o '^{"event":"step","step":[0-9]*' back/metrics.jsonl | xargs)"
}

# A record that someone has edited is refused in one sentence.
case_hostile_record() {
  text
  train --steps 1 --out model >/dev/null
  local record=model/run.json edit
  # bad TEXT NAME VALUE: with another value of a flag.
  bad() {
    sed "/\"flags\"/,/}/s/\"$2\": .*[^,]\\(,\\{0,1\\}\\)\$/\"$2\": $3\\1/" $record >edited.json
    ! cmp -s $record edited.json || die "no $2 in $(cat $record)"
    refuse 2 "$1" train gpt --config edited.json --data text --metrics m
  }
  # What was not given older versions recorded as a number beyond the range.
  sed 's/"threads": null/"threads": 0/; s/"min-lr": null/"min-lr": -1.0/; s/"adamw-rate": null/"adamw-rate": -1.0/
    s/"warmup": null/"warmup": -1/; s/"patience": null/"patience": 0/; s/"memory": null/"memory": 0/' $record >edited.json
  (($(diff $record edited.json | grep -c '^>') >= 5)) || die "the record has other flags: $(cat $record)"
  run train gpt --config edited.json --metrics m --overwrite --out old >/dev/null
  cmp model/model.safetensors old/model.safetensors
  rm -r old m
  for edit in 'batch 0' 'batch 1.5' 'batch "6"' 'batch null' 'batch [6]' 'lr -1' 'lr "0.1"' 'min-lr -0.5' 'dropout 1' \
    'warmup -2' 'seed -1' 'keep 1001' 'threads -1' 'memory -1' 'memory 0.5' 'memory "5 parsecs"' 'schedule "square"' 'schedule 1' 'schedule null' \
    'keep-best 1' 'keep-best null' 'device null' 'init true' 'group 5' 'group null'; do
    bad "edited.json: flags.${edit%% *}: " "${edit%% *}" "${edit#* }"
  done
  bad 'is not a configuration or a record of a run: line ' batch 99999999999999999999
  bad 'real number overflow' lr 1e999
  bad '--micro-batch 7 is larger than the batch of 6' micro-batch 7
  bad '--min-lr 5 is larger than the learning rate' min-lr 5
  bad '--warmup 9 is longer than the run' warmup 9
  sed 's/"batch":/"bath":/' $record >edited.json
  refuse 2 "edited.json: flags.bath is not a flag of accrue train gpt; did you mean batch?" train --config edited.json
  sed 's/"model": "gpt"/"model": "mlp"/' $record >edited.json
  refuse 2 'edited.json: model is mlp, but the command is for gpt' train gpt --config edited.json
  sed 's/"model": "gpt"/"model": "tree"/' $record >edited.json
  refuse 2 'unknown model tree' train --config edited.json

  local text
  for text in '' '{' '[]' '5' 'null' '{"model": "gpt", "model": "gpt"}' '{"model": "gp' $'{"model": "\xff"}' '{} {}'; do
    printf '%s' "$text" >edited.json
    refuse 2 'edited.json is not a configuration or a record of a run: ' train gpt --config edited.json
    ! grep -q ': $' refuse.err || die "no reason: $(cat refuse.err)"
    cp edited.json model/run.json
    refuse 2 'model/run.json is not a configuration or a record of a run: ' train gpt --data text --out model --resume
  done
  for text in '{"model": "gpt", "flags": []}' '{"model": "gpt", "flags": null}' '{"model": "gpt", "id": "1"}'; do
    echo "$text" >edited.json
    refuse 2 'edited.json: flags must be an object' train --config edited.json
  done
  echo '{"flags": {}}' >edited.json
  refuse 2 'a model is missing' train --config edited.json
  refuse 2 '--data is missing' train gpt --config edited.json
  refuse 1 'nowhere.json' train gpt --config nowhere.json
  [[ $(echo *) == 'edited.json model refuse.err refuse.out run.err text' ]] || die "files that remain: $(echo *)"
}

# Paths that are not UTF-8 work, but no record repeats them.
case_not_utf8() {
  text
  local out=$'o\xfft' data=$'d\xe4ta'
  mv text "$data"
  run train gpt --data "$data" "${tiny[@]}" "${steady[@]}" --steps 2 --metrics $'m\xff' --out "$out" >/dev/null
  local flag
  for flag in data metrics out; do said "--$flag is not UTF-8, so the run's record cannot repeat it"; done
  (($(wc -l < <(grep UTF-8 run.err)) == 3)) || die "it is said more than once: $(cat run.err)"
  "$METRICS" check $'m\xff'
  refuse 2 '--data is missing' train --resume --out "$out"
  run train --config "$out/run.json" --data "$data" --out model >/dev/null
  cmp "$out/model.safetensors" model/model.safetensors
  run train --resume --data "$data" --steps 3 --out "$out" >/dev/null
  said 'going on after step 2'
  run sample --model "$out" --device cpu --bytes 5 >/dev/null
}

# What is not the same model or data is refused by name, and nothing is touched.
case_resume_other() {
  text
  train "${steady[@]}" --threads 1 --steps 2 --save-every 1 --out model >/dev/null
  cp -r model before
  cp text other && echo more >>other
  local wanted flags
  while read -r wanted flags; do
    # shellcheck disable=SC2086
    fails 1 'no state in model can be resumed' train gpt --steps 5 --resume --out model $flags
    grep -q "^model/state-0000000002.safetensors is of .*$wanted" run.err || die "no $wanted in: $(cat run.err)"
    diff -r before model || die "$flags: a run that was refused has changed the folder"
  done <<'TABLE'
accrue.heads --heads 4
accrue.layers --layers 2
accrue.width --width 32
other.data --context 8
other.data --data other
AdamW.*SGD --optimizer sgd
AdamW.*Lion --optimizer lion
AdamW.*Adafactor --optimizer adafactor
AdamW.*Muon --optimizer muon
AdamW.*Adam-mini --optimizer adam-mini
TABLE
  # What makes results differ is said by its name.
  cp -r model going
  local words
  while IFS='|' read -r flags words; do
    rm -r going && cp -r model going
    # shellcheck disable=SC2086
    train --threads 1 --steps 3 --resume --out going $flags >/dev/null
    if [[ $words ]]; then said "$words"; else ! grep -q '^the state was' run.err || die "$flags: $(cat run.err)"; fi
  done <<'TABLE'
--precision f32|
--threads 2|the state was saved by 1 thread, not 2: results agree to rounding, not to the bit
--precision bf16|the state was saved in f32, not bf16: results are those of neither precision alone
--precision f16 --threads 2|the state was saved in f32, not f16, and by 1 thread, not 2: results are those of neither
TABLE
  fails 1 'the run to resume has the seed [0-9]*, not 88' train gpt --steps 5 --resume --out model --seed 88
  fails 1 'cannot write the metrics to none/m' train gpt --steps 5 --resume --out model --metrics none/m
  diff -r before model || die "a run that was refused has changed the folder"
  refuse 2 'model/run.json: model is gpt, but the command is for mlp' train mlp --resume --out model
  train --steps 3 --resume --out model --dropout 0.1 --lr 0.5 >/dev/null # what may change
  said 'going on after step 2'
}
