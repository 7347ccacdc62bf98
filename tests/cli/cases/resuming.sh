# What stays in a run's folder, and what `accrue train` goes on with there.

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
  sed -E 's/"(seconds|data_wait_s|samples_per_s|tokens_per_s)":[^,}]*//g' "$1"
}

# Whoever forgets --resume in the folder of a run that has not ended loses nothing of it before there is a new state.
case_resume_unasked() {
  text
  train "${steady[@]}" --steps 3 --save-every 1 --out model >/dev/null
  unfinished model
  cp -r model before
  fails 1 'the last finite parameters' train gpt --data text "${tiny[@]}" --optimizer sgd --clip 0 --lr 1e30 --warmup 0 \
    --schedule constant --steps 50 --out model
  said 'model holds states of a run that has not come to its end'
  rm model/diverged.safetensors
  diff -r before model || die "the run that diverged has changed the folder"
  train "${steady[@]}" --steps 4 --resume --out model >/dev/null
  said 'going on after step 3'
  ! grep -q 'has not come to its end' run.err || die "whoever asks to go on is warned: $(cat run.err)"

  # The states go with the first of the new run, be they of later steps.
  rm -r model && cp -r before model
  train "${steady[@]}" --steps 1 --out model >/dev/null
  said 'model holds states of a run that has not come to its end'
  [[ $(steps_in model) == '1 ' ]] || die "states $(steps_in model)"
  train "${steady[@]}" --steps 2 --resume --out model >/dev/null
  said 'going on after step 1'
  train "${steady[@]}" --steps 1 --out model >/dev/null
  ! grep -q 'has not come to its end' run.err || die "a run that was done: $(cat run.err)"

  # A state of the same step, and the best model, stay until the folder is the new run's.
  rm -r model && train "${steady[@]}" --steps 3 --save-every 1 --keep 1 --out model --keep-best --eval-every 1 >/dev/null
  unfinished model
  cp -r model before-best
  train "${steady[@]}" --seed 9 --steps 4 --save-every 3 --keep 1 --out model --keep-best --eval-every 2 >/dev/null
  [[ $(steps_in model) == '4 ' ]] || die "states $(steps_in model)"

  # A record that cannot be read does not say that its run was done; while it stays, states stay too.
  rm -r model && cp -r before model
  echo '{' >model/run.json
  train "${steady[@]}" --steps 1 --keep 0 --out model >/dev/null
  said 'model holds states of a run that has not come to its end'
  rm model/run.json
  mkdir -p model/run.json/in-the-way
  train "${steady[@]}" --steps 1 --out model >/dev/null
  said 'cannot write model/run.json'
  [[ $(steps_in model) == '1 2 3 ' ]] || die "states $(steps_in model)"
}

# stop_first FLAG...: trains with a window of many micro-batches, and sends SIGTERM as soon as it is caught, or a little
# later.
stop_first() {
  local i caught status=0
  rm -f m
  "$ACCRUE" train mlp --data . "${long[@]}" "${@:2}" >out 2>run.err &
  local pid=$!
  for ((i = 0; i < 1500; i++)); do
    if grep -qs '"event":"plan"' m; then # from here on it is no shell any more
      caught=$(sed -n 's/^SigCgt:[^0-9a-f]*//p' /proc/$pid/status)
      ((16#${caught:-0} >> 14 & 1)) && break
    fi
    sleep 0.02
  done
  sleep "$1"
  kill -TERM $pid
  wait $pid || status=$?
  ((status == 143)) || die "status $status: $(cat run.err)"
  ! grep -q '"event":"step"' m || die "there was an update"
}

# A run that is stopped before its first update costs no older one anything, and can be gone on with.
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
    stop_first $when --out model
    said 'model holds states of a run that has not come to its end'
    grep -q '^stopped after 0 updates, .*; nothing is saved' out || die "another result: $(cat out)"
    diff -r before model || die "the folder was changed"
    rm -r before

    rm -r model && cp -r old model
    stop_first $when --out model
    cmp old/model.safetensors model/model.safetensors
    if [[ -e model/state-0000000000.safetensors ]]; then grep -q '; a state is in model' out
    else grep -q '; nothing is saved' out; fi || die "another result: $(cat out)"

    rm -r model
    stop_first $when --out model
    run train mlp --data . "${long[@]}" --out model --resume >/dev/null
    [[ $when == 0 ]] || said 'going on after step 0'
    cmp whole/model.safetensors model/model.safetensors
  done
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
    # What lies in a file that is whole but for its tensors is seen only when it is loaded.
    [[ $damage == data || $(steps_in model) == '2 5 ' ]] || die "states $(steps_in model) after damage to $damage"
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
  fails 1 'no state in model can be gone on with' train gpt --data text "${tiny[@]}" --steps 5 --resume --out model
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
  local own=(model.safetensors.backup state-0000000001.safetensors.old run.json.edited config.json.bak notes.partial-1)
  for name in "${own[@]}"; do echo mine >"model/$name"; done
  train --steps 2 --out model >/dev/null
  for name in "${own[@]}"; do grep -q mine "model/$name" || die "$name is gone"; done
  ! ls model/*.json.partial-* model/*.safetensors.partial-* 2>/dev/null || die "left behind"
  (($(find model -type f | wc -l) == 9)) || die "$(ls model)"
}

# The last state cannot take its place: the model is there, and the run has failed.
case_last_state() {
  text
  mkdir -p model/state-0000000003.safetensors/in-the-way
  fails 1 'no state could be saved at step 3: .*state-0000000003' train gpt --data text "${tiny[@]}" "${steady[@]}" --steps 3 \
    --save-every 2 --out model
  run sample --model model --device cpu --bytes 5 >/dev/null
  grep -q '"outcome": "failed"' model/run.json || die "$(tail -n 3 model/run.json)"
  rm -r model/state-0000000003.safetensors
  train "${steady[@]}" --steps 3 --resume --out model >/dev/null
  said 'going on after step 2'
}

# Metrics of which lines are lost keep the others whole.
case_lost_metrics() {
  text
  local flags=("${steady[@]}" --steps 3 --save-every 1 --out model --metrics m)
  train "${flags[@]}" >/dev/null
  cp m whole
  local lost
  for lost in part line all; do
    case $lost in
    part) head -c -20 <(head -n 3 whole) >m ;;
    line) head -n 2 whole >m ;;
    all) : >m ;;
    esac
    cp m before
    train "${flags[@]}" --steps 5 --resume >/dev/null
    said "m has lost some of the run's metrics; others stay"
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
  said 'm does not have the metrics of the run so far; it begins anew'
  "$METRICS" field m end steps >/dev/null
  # Another file of lines is not cut, and what is no file is written to.
  seq 1 9999 >own && cp own before
  fails 1 'own does not hold the metrics of the run that goes on' train gpt --steps 6 --resume --out model \
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
  run train --config a/run.json --epochs 1 --out b >out
  grep -q 'done after 60 updates' out || die "$(cat out)"
  run train --resume --epochs 2 --out b >out
  run train --resume --out b >out # by flags of then, of which steps were none
  grep -q 'done after 120 updates' out || die "$(cat out)"
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
  for edit in 'batch 0' 'batch 1.5' 'batch "6"' 'batch null' 'batch [6]' 'lr -1' 'lr "0.1"' 'min-lr -0.5' 'dropout 1' \
    'warmup -2' 'seed -1' 'keep 1001' 'threads -1' 'memory -1' 'memory 0.5' 'schedule "square"' 'schedule 1' 'schedule null' \
    'keep-best 1' 'keep-best null' 'out 5' 'out null' 'device null' 'init true' 'group 5' 'group null'; do
    bad "the run's record has no good value for --${edit%% *}" "${edit%% *}" "${edit#* }"
  done
  bad 'is no record of a run: too big integer' batch 99999999999999999999
  bad 'is no record of a run: real number overflow' lr 1e999
  bad '--micro-batch 7 is larger than the batch of 6' micro-batch 7
  bad '--min-lr 5 is larger than the learning rate' min-lr 5
  bad '--warmup 9 is longer than the run' warmup 9
  sed 's/"batch":/"bath":/' $record >edited.json
  refuse 2 "the run's record has the unknown flag --bath" train --config edited.json
  sed 's/"model": "gpt"/"model": "mlp"/' $record >edited.json
  refuse 2 'is of the model mlp, not gpt' train gpt --config edited.json
  sed 's/"model": "gpt"/"model": "tree"/' $record >edited.json
  refuse 2 'unknown model tree' train --config edited.json

  local text
  for text in '' '{' '[]' '5' 'null' '{"model": "gpt", "model": "gpt"}' '{"model": "gp' $'{"model": "\xff"}' '{} {}'; do
    printf '%s' "$text" >edited.json
    refuse 2 'edited.json is no record of a run: ' train gpt --config edited.json
    ! grep -q ': $' refuse.err || die "no reason: $(cat refuse.err)"
    cp edited.json model/run.json
    refuse 2 'model/run.json is no record of a run: ' train gpt --data text --out model --resume
  done
  for text in '{"model": "gpt"}' '{"model": "gpt", "flags": []}' '{"model": "gpt", "flags": null}'; do
    echo "$text" >edited.json
    refuse 2 "the run's record holds no flags" train --config edited.json
  done
  echo '{"flags": {}}' >edited.json
  refuse 2 'a model is missing' train --config edited.json
  refuse 2 'is of the model of no name' train gpt --config edited.json
  refuse 1 'nowhere.json' train gpt --config nowhere.json
  [[ $(echo *) == 'edited.json model refuse.err refuse.out run.err text' ]] || die "left behind: $(echo *)"
}

# Paths that are no UTF-8 work, but no record repeats them.
case_not_utf8() {
  text
  local out=$'o\xfft' data=$'d\xe4ta'
  mv text "$data"
  run train gpt --data "$data" "${tiny[@]}" "${steady[@]}" --steps 2 --metrics $'m\xff' --out "$out" >/dev/null
  local flag
  for flag in data metrics out; do said "--$flag is not UTF-8, so the run's record cannot repeat it"; done
  (($(wc -l < <(grep UTF-8 run.err)) == 3)) || die "it is said more than once: $(cat run.err)"
  "$METRICS" check $'m\xff'
  refuse 2 "no good value for --out" train --config "$out/run.json" --data "$data"
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
    fails 1 'no state in model can be gone on with' train gpt --steps 5 --resume --out model $flags
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
  fails 1 'the run to go on with has the seed [0-9]*, not 88' train gpt --steps 5 --resume --out model --seed 88
  fails 1 'cannot write the metrics to none/m' train gpt --steps 5 --resume --out model --metrics none/m
  diff -r before model || die "a run that was refused has changed the folder"
  refuse 2 'is of the model gpt, not mlp' train mlp --resume --out model
  train --steps 3 --resume --out model --dropout 0.1 --lr 0.5 >/dev/null # what may change
  said 'going on after step 2'
}
