# Limits of a run: --policy and --max-minutes. Sourced by cases.sh.

policy() { printf '{"version": 1, %s}\n' "$1" >policy.json; }

# refuse_policy TEXT RULES FLAG...: the run does not begin, and leaves nothing.
refuse_policy() {
  local text=$1
  policy "$2"
  refuse 2 "$text" train gpt --data text "${tiny[@]}" --steps 3 --out never --policy policy.json "${@:3}"
  [[ ! -e never ]] || die "a run that is refused left a folder: $*"
}

case_policy() {
  text
  refuse_policy "refuses --batch 6: its max_batch is 5" '"max_batch": 5'
  refuse_policy "refuses --batch 6: its min_batch is 7" '"min_batch": 7'
  refuse_policy "refuses --batch 8: its max_batch is 6" '"max_batch": 6' --batch 4@0,8@2
  refuse_policy "refuses --batch 4: its min_batch is 5" '"min_batch": 5' --batch 4@0,8@2
  refuse_policy "refuses --lr 0.01: its max_lr is 0.001" '"max_lr": 1e-3' --lr 0.01
  refuse_policy "refuses --clip 1: its max_clip is 0.5" '"max_clip": 0.5'
  refuse_policy "refuses --clip 0: its max_clip is 0.5" '"max_clip": 0.5' --clip 0
  refuse_policy "refuses --clip-by value: its max_clip limits norms" '"max_clip": 1' --clip-by value --clip 0.1
  refuse_policy "refuses --clip-by adaptive: its max_clip limits norms" '"max_clip": 1' --clip-by adaptive --clip 0.1
  refuse_policy "refuses --group *.bias:lr=20: its max_lr is 0.01" '"max_lr": 1e-2' --lr 1e-3 --group '*.bias:lr=20'
  refuse_policy "refuses --group *.bias:clip=2: its max_clip is 1" '"max_clip": 1' --group '*.bias:lr=1' --group '*.bias:clip=2'
  refuse_policy "refuses --group *:clip=0: its max_clip is 1" '"max_clip": 1' --group '*:clip=0'
  refuse_policy "refuses --gradients folded" '"max_gradient_norm": 1' --gradients folded --clip 0
  refuse_policy "refuses a run of 3 steps: its max_steps is 2" '"max_steps": 2'
  refuse_policy "its require_validation needs" '"require_validation": true'
  refuse_policy "its max_eval_every needs" '"max_eval_every": 2'
  refuse_policy "refuses --eval-every 3: its max_eval_every is 2" '"max_eval_every": 2' --eval-every 3
  refuse_policy "refuses --seed 3: its seeds do not include it" '"seeds": [1, 2]' --seed 3
  refuse_policy "its max_memory is 4.0 KiB; give --memory" '"max_memory": "4KiB"'
  refuse_policy "its max_memory is 4.0 KiB" '"max_memory": 4096'

  policy '"max_memory": "64MiB", "max_host_memory": "1MiB", "max_lr": 1, "min_batch": 6, "max_batch": 6, "max_clip": 1,
    "max_gradient_norm": 1e9, "max_steps": 3, "max_minutes": 1000, "require_validation": true, "max_eval_every": 2, "seeds": [1]'
  train --steps 3 --eval-every 2 --out kept --policy policy.json --metrics kept.jsonl
  train --steps 3 --eval-every 2 --out free --metrics free.jsonl
  cmp kept/model.safetensors free/model.safetensors || die "a policy that is kept changes the model"
  policy '"$schema": "policy.schema.json", "max_clip": 1'
  train --steps 1 --clip-by each --out kept --policy policy.json
  policy '"require_validation": false'
  train --steps 1 --out kept --policy policy.json

  policy '"max_steps": 2'
  refuse 2 'a run of ' train gpt --data text "${tiny[@]}" --epochs 1 --out never --policy policy.json

  # What training shows ends the run, with what it has saved; it goes on where that is allowed.
  policy '"max_gradient_norm": 1e-6'
  refuse_running "step 1: the policy policy.json ends the run: a gradient norm of" max_gradient_norm
  policy '"max_minutes": 1e-7'
  refuse_running "ends the run: a time in minutes of" max_minutes
  ! "$ACCRUE" train --out broken --resume >out 2>err || die "time that was used up is given again"
  grep -q '^stopped after 2 updates' out || die "$(cat out)"
  policy '"max_minutes": 1000'
  run train --out broken --policy policy.json --resume
  train --steps 3 --out whole
  cmp broken/model.safetensors whole/model.safetensors || die "a run that its policy ended goes on otherwise"

  # Rates that rise above --lr later, and those of parameters that muon leaves to adamw.
  refuse_policy 'refuses the schedule: its highest rate is 0.024, and max_lr is 0.01' '"max_lr": 0.01' --lr 0.001 --warmup 0 \
    --schedule step --lr-period 1 --lr-factor 24 --steps 2
  refuse_policy 'refuses the schedule: its highest rate is 0.27' '"max_lr": 0.01' --lr 0.01 --warmup 0 --schedule exponential \
    --lr-factor 3 --steps 4
  refuse_policy 'refuses the schedule: its highest rate is 1' '"max_lr": 0.01' --lr 0.01 --warmup 0 --schedule multistep \
    --lr-factor 10 --lr-milestones 1,2
  refuse_policy 'refuses the schedule' '"max_lr": 0.01' --lr 0.01 --warmup 0 --schedule cyclic --lr-period 2 --lr-cycle exp-range \
    --lr-factor 5 --steps 9
  refuse_policy 'refuses --adamw-rate 1000: with it the highest rate is 10, and its max_lr is 0.01' '"max_lr": 0.01' --optimizer muon \
    --lr 0.01 --adamw-rate 1000
  refuse_policy 'refuses --group *.bias:lr=2' '"max_lr": 0.01' --lr 0.002 --warmup 0 --schedule step --lr-period 2 --lr-factor 3 \
    --group '*.bias:lr=2' --optimizer muon --adamw-rate 1.5
  policy '"max_lr": 0.27'
  train --lr 0.01 --warmup 0 --schedule exponential --lr-factor 3 --steps 4 --out risen --policy policy.json

  # A rate that a scaling raises above what --lr says.
  policy '"max_lr": 0.01'
  local scaled=(train gpt --data text "${tiny[@]}" --steps 3 --lr 0.01 --warmup 0 --lr-base-batch 3 --out never
    --policy policy.json)
  refuse 2 '--lr 0.01, which --lr-scaling makes 0.02 for a batch of 6: its max_lr is 0.01' "${scaled[@]}" --lr-scaling linear
  refuse 2 'makes 0.0141421 for a batch of 6' "${scaled[@]}" --lr-scaling sqrt
  refuse 2 'refuses --group *.bias:lr=3' "${scaled[@]}" --lr 0.002 --lr-scaling linear --group '*.bias:lr=3'
  [[ ! -e never ]] || die "a run that was refused has begun"
  # No batch is smaller than the smallest, which is all that is known before: larger ones end the run when they come.
  scaled=(train gpt --data text "${tiny[@]}" --steps 3 --lr 0.01 --warmup 0 --lr-base-batch 3 --lr-scaling linear
    --policy policy.json)
  "$ACCRUE" "${scaled[@]}" --batch 3@0,6@1 --out ended >/dev/null 2>err && die "a rate above the limit"
  grep -q 'step 2: the policy policy.json ends the run: a rate of' err || die "$(cat err)"
  run "${scaled[@]}" --batch 3@0,6@500 --out never_larger >/dev/null
  "$ACCRUE" train gpt --data text "${tiny[@]}" --steps 3 --lr 0.01 --warmup 0 --lr-scaling linear --lr-base-batch 6 \
    --group '*.bias:lr=0.5' --out scaled --policy policy.json >/dev/null 2>err || die "a group below the limit: $(cat err)"

  # What overflows at a loss scale that was too high says nothing of gradients.
  policy '"max_gradient_norm": 1000'
  train --steps 5 --precision f16 --loss-scale-init 16777216 --out overflows --policy policy.json >out
  grep -q '^done after [0-9]* updates\{0,1\}, [1-9][0-9]* windows\{0,1\} overflowed' out || die "$(cat out)"
  policy '"max_batch": 5'
  refuse 2 'its max_batch is 5' lr-find gpt --data text "${tiny[@]}" --policy policy.json
}
refuse_running() { # TEXT RULE
  local status=0
  rm -rf broken
  "$ACCRUE" train gpt --data text "${tiny[@]}" --steps 3 --out broken --policy policy.json >out 2>err || status=$?
  ((status == 1)) || die "status $status where $2 is broken"
  grep '^accrue: ' err | grep -qF "$1" && grep -q "its $2, " err || die "no '$1' in: $(cat err)"
  grep -q '^stopped after 1 update' out || die "$(cat out)"
  [[ -s broken/model.safetensors && -s broken/state-0000000001.safetensors ]] || die "$2 costs the model"
}

case_policy_refused() {
  text
  refuse_policy 'has the unknown rule "max_rate"' '"max_rate": 1'
  local rule
  for rule in max_lr max_clip max_gradient_norm max_minutes; do
    refuse_policy "wrong value for $rule: it must be a number above 0" "\"$rule\": \"1\""
    refuse_policy "wrong value for $rule" "\"$rule\": 0"
  done
  for rule in min_batch max_batch max_steps max_eval_every; do
    refuse_policy "wrong value for $rule: it must be a whole number" "\"$rule\": 1.5"
    refuse_policy "wrong value for $rule" "\"$rule\": 0"
  done
  for rule in max_memory max_host_memory; do
    refuse_policy "wrong value for $rule: it must be a size" "\"$rule\": \"64MB\""
    refuse_policy "wrong value for $rule" "\"$rule\": true"
  done
  refuse_policy 'wrong value for require_validation: it must be true or false' '"require_validation": 1'
  refuse_policy 'wrong value for seeds: it must be a list' '"seeds": 1'
  refuse_policy 'wrong value for seeds' '"seeds": []'
  refuse_policy 'wrong value for seeds' '"seeds": [1.5]'
  refuse_policy 'wrong value for seeds' "\"seeds\": [$(seq -s, 65)]"
  refuse_policy 'duplicate' '"max_lr": 1, "max_lr": 2'
  local begin=(train gpt --data text "${tiny[@]}" --out never --policy policy.json)
  echo '{"max_lr": 1}' >policy.json
  refuse 2 'needs "version": 1' "${begin[@]}"
  echo '{"version": 2}' >policy.json
  refuse 2 'needs "version": 1' "${begin[@]}"
  echo '[1]' >policy.json
  refuse 2 'not an object of JSON' "${begin[@]}"
  echo '{"version": 1,' >policy.json
  refuse 2 'policy.json is not a policy' "${begin[@]}"
  rm policy.json
  refuse 1 'policy.json' "${begin[@]}"
  # docs/reference/files.md names each rule that the program knows.
  for rule in $(sed -n 's/^    \[POLICY_.*{"\([a-z_]*\)".*/\1/p' "$here/../../tools/program/policy.c"); do
    grep -q "^| .*\`$rule\`.* | .* | .* |\$" "$here/../../docs/reference/files.md" || die "docs/reference/files.md lacks the rule $rule"
  done
}

# A run that pauses and is resumed has the bits of one that never paused.
case_minutes() {
  text
  refuse 2 'out of range' train gpt --data text --max-minutes 0
  train --steps 4 --eval-every 2 --out whole --metrics whole.jsonl
  train --steps 4 --eval-every 2 --out parts --metrics parts.jsonl --max-minutes 1e-7 >out
  grep -q '^paused after 1 update, validation loss' out || die "$(cat out)"
  [[ -s parts/model.safetensors ]] || die "a pause leaves no model"
  grep -q '"outcome": "stopped"' parts/run.json || die "a paused run is not to be told from one that is done"
  [[ $("$METRICS" field parts.jsonl end stopped) == true ]] || die "the metrics do not tell of the pause"
  run train --resume --out parts >out
  grep -q '^paused after 2 updates' out || die "the flag does not hold for the next start: $(cat out)"
  run train --resume --out parts --max-minutes 60 >out
  grep -q '^done after 4 updates' out || die "$(cat out)"
  cmp whole/model.safetensors parts/model.safetensors || die "a pause changes the model"
  cmp <(without_seconds whole.jsonl) <(without_seconds parts.jsonl) || die "a pause changes the metrics"
}

# A number of tokens ends a run as minutes do, but counts from its beginning.
case_tokens() {
  text # spans of 16 bytes; a batch of 6 has 96
  local bad
  for bad in 0 0.5 -5 5x 5m 5kk 1e3 k 1.2.3 0x10 inf 9999999999G; do
    refuse 2 "--max-tokens $bad is not a number of tokens such as" train gpt --data text "${tiny[@]}" "--max-tokens=$bad"
  done
  "$FIXTURE" images . train 50
  refuse 2 'counts tokens, but the data have none' train mlp --data . --max-tokens 5k
  train --steps 6 --eval-every 2 --out whole --metrics whole.jsonl
  train --steps 6 --eval-every 2 --out parts --metrics parts.jsonl --max-tokens 0.1k >out
  grep -q '^out of tokens after 2 updates, validation loss' out || die "$(cat out)"
  [[ -s parts/model.safetensors ]] || die "no model is left"
  [[ $("$METRICS" field parts.jsonl end stopped) == true ]] || die "the metrics do not tell of it"
  grep -q '"outcome": "stopped"' parts/run.json || die "a run that may go on is not to be told from one that is done"
  run train --resume --out parts >out
  grep -q '^out of tokens after 2 updates' out || die "tokens begin anew: $(cat out)"
  run train --resume --out parts --max-tokens 480 >out
  grep -q '^out of tokens after 5 updates' out || die "$(cat out)"
  run train --resume --out parts --max-tokens 1M >out
  grep -q '^done after 6 updates' out || die "$(cat out)"
  cmp whole/model.safetensors parts/model.safetensors || die "a budget changes the model"
  cmp <(without_seconds whole.jsonl) <(without_seconds parts.jsonl) || die "a budget changes the metrics"
  # Each run of a pilot has as many.
  run pilot gpt --data text "${tiny[@]}" --steps 50 --grid lr=1e-3,1e-2 --max-tokens 300 --out pilot >out
  [[ $(grep -h '"event":"end"' pilot/run-*/metrics.jsonl | grep -o '"steps":[0-9]*' | tr '\n' ' ') == '"steps":4 "steps":4 ' ]] ||
    die "runs of a pilot: $(grep -h '"event":"end"' pilot/run-*/metrics.jsonl)"
}
without_seconds() { sed -E 's/"(run|seconds|data_wait_s|samples_per_s|tokens_per_s)":[^,}]*//g' "$1"; }
