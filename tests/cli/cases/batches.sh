# Schedules of the effective batch: what windows have, what a run is made of, and what is refused.

# batches LIST FLAG...: the samples of the run's windows.
batches() {
  local want=$1 got
  shift
  train --lr 0.01 --schedule constant --warmup 0 --metrics m --out model "$@" >/dev/null
  got=$(grep '"event":"step"' m | grep -o '"batch":[0-9]*' | cut -d: -f2 | tr '\n' ' ')
  [[ $got == "$want " ]] || die "$*: windows of $got, not $want"
}

case_batches() {
  text # 6393 bytes; nine tenths of them are 358 spans of 16
  batches '6 6 6' --steps 3
  batches '2 2 5 5 5' --batch 2@0,5@2 --steps 5
  batches '2 2 5 5 5' --batch 2,5@2 --steps 5
  batches '200 158 70 70 70' --batch 200@0,70@1ep --steps 5
  batches '200 200 70 70 70' --batch 200@0,70@1ep --steps 5 --last-window carry
  batches '200 70 70 70 70' --batch 200@0,70@1ep --steps 5 --last-window drop
  batches '4 4 7 7' --batch 4@0,7@6samples --steps 4
  batches '4 4 7 7' --batch 4@0,7@100tok --steps 4
  batches '100 100 150 8 150 150 58' --batch 100@0,150@3ktok --epochs 2
  batches '3 3 8 8 4 4' --batch 3@0,8@2,4@20samples --steps 6 --read-ahead 2
  local rates
  batches '2 2 8 8' --batch 2@0,8@2 --steps 4 --lr-scaling sqrt --lr-base-batch 2
  rates=$(grep '"event":"step"' m | grep -o '"lr":[^,]*' | cut -d: -f2 | awk '{ printf "%g ", $1 }')
  [[ $rates == '0.01 0.01 0.02 0.02 ' ]] || die "rates $rates"

  # A run by a schedule is the runs that it is made of, and goes on anywhere.
  local times='s/"(run|seconds|data_wait_s|samples_per_s|tokens_per_s|peak_bytes)":[^,}]*//g'
  local same=(--schedule constant --warmup 0 --threads 1 --micro-batch 2 --recompute none --dropout 0.1)
  train "${same[@]}" --batch 2@0,5@3,8@100samples --steps 25 --metrics whole.jsonl --out whole >/dev/null
  train "${same[@]}" --batch 2 --steps 3 --metrics m --out model >/dev/null
  train "${same[@]}" --batch 5 --steps 22 --resume --metrics m --out model >/dev/null
  train "${same[@]}" --batch 8 --steps 25 --resume --metrics m --out model >/dev/null
  cmp whole/model.safetensors model/model.safetensors || die "not the runs that it is made of"
  [[ $("$METRICS" field whole.jsonl end samples) == 125 ]] || die "not 3 x 2 + 19 x 5 + 3 x 8 samples"
  train "${same[@]}" --batch 2@0,5@3,8@100samples --steps 11 --metrics m.jsonl --out again >/dev/null
  run train --resume --steps 25 --out again >/dev/null
  cmp whole/model.safetensors again/model.safetensors || die "another model after it went on"
  cmp <(sed -E "$times" whole.jsonl) <(sed -E "$times" m.jsonl) || die "other metrics after it went on"

  # A plan is for the largest.
  run plan gpt "${tiny[@]}" --data text --batch 2@0,50@3,40@6 >plan
  grep -q 'batch *50 samples' plan || die "not planned for the largest: $(cat plan)"

  local bad
  for bad in 2@0,@3 2@0,5 2@0,5@ 2@0,5@x 2@0,5@3eq 2@0,5@3, ,5@3 0@0,5@3 2@0,-5@3 2@0,5@-3 2.5@0,3@4 5@3ep2; do
    refuse 2 'is not a schedule such as' train gpt --data text "${tiny[@]}" --batch "$bad"
  done
  refuse 2 'says no batch for the beginning' train gpt --data text "${tiny[@]}" --batch 5@3
  refuse 2 'does not rise: 7 begins no later than 5' train gpt --data text "${tiny[@]}" --batch 2,5@3,7@3
  refuse 2 'does not rise: 7 begins no later than 2' train gpt --data text "${tiny[@]}" --batch 2,7@0ep
  refuse 2 'is larger than the batch of 5' train gpt --data text "${tiny[@]}" --batch 2,5@3 --micro-batch 6
  refuse 2 'more than 32 stages' train gpt --data text "${tiny[@]}" --batch "1$(printf ',2@%d' {1..40})"
  refuse 2 'when counted in samples of 16 tokens: 7 begins no later than 5' train gpt --data text "${tiny[@]}" --batch 2,5@33tok,7@48tok
  refuse 2 'when counted in samples of 16 tokens: 7 begins no later than 5' train gpt --data text "${tiny[@]}" --batch 2,5@3samples,7@48tok
  "$FIXTURE" images . train 50
  refuse 2 'counts tokens, but the data have none' train mlp --data . --batch 2,5@3tok
}

# Batches that grow by the noise scale: a run that has its schedule by hand is the same, killed or not, read ahead or not.
case_growth() {
  text
  local times='s/"(run|seconds|data_wait_s|samples_per_s|tokens_per_s|peak_bytes)":[^,}]*//g' ahead grown
  local same=(--schedule constant --warmup 0 --lr 3e-3 --threads 1 --micro-batch 2 --recompute none --dropout 0.1 --lr-scaling sqrt
    --lr-base-batch 8)
  steps_of() { grep '"event":"step"' "$1" | sed -E "$times"; }
  for ahead in 0 2; do
    train "${same[@]}" --read-ahead $ahead --batch 8..20@noise --steps 1400 --metrics whole.jsonl --out whole >/dev/null
    grown=$(sed -n 's/^batches have grown as with --batch //p' run.err)
    [[ $grown =~ ^8@0,16@[0-9]+,20@[0-9]+$ ]] || die "grown to '$grown': $(cat run.err)"
    [[ $("$METRICS" field whole.jsonl end batches) == "\"$grown\"" ]] || die "another schedule at the end of metrics"
    [[ $(grep '"event":"growth"' whole.jsonl | grep -o '"batch":[0-9]*' | cut -d: -f2 | tr '\n' ' ') == '16 20 ' ]] ||
      die "metrics of growth: $(grep growth whole.jsonl)"
    grep -q '^step [0-9]*  batches of 16 from here on; the gradient noise scale is ' run.err || die "not told: $(cat run.err)"
    train "${same[@]}" --read-ahead $ahead --batch "$grown" --steps 1400 --metrics hand.jsonl --out hand >/dev/null
    cmp whole/model.safetensors hand/model.safetensors || die "by hand another model"
    cmp <(steps_of whole.jsonl) <(steps_of hand.jsonl) || die "by hand other metrics"
    train "${same[@]}" --read-ahead $ahead --batch 8..20@noise --steps 437 --metrics m.jsonl --out model >/dev/null
    grep -q '^critical batch about .*; yours is 8: ' run.err || die "another batch with it: $(cat run.err)"
    run train --resume --steps 991 --out model >/dev/null
    run train --resume --steps 1400 --out model >/dev/null
    cmp whole/model.safetensors model/model.safetensors || die "another model after it went on"
    cmp <(sed -E "$times" whole.jsonl) <(sed -E "$times" m.jsonl) || die "other metrics after it went on"
    rm -r model
  done
  cp whole.jsonl whole/metrics.jsonl
  run report whole --out page.html
  grep -q 'Effective batch' page.html || die "no curve of batches"
  grep -q "Batches have grown by the gradients' noise: .*$grown" page.html || die "no schedule in the report"
  train "${same[@]}" --batch 8..20@noise --epochs 30 --metrics epochs.jsonl --out epochs >/dev/null
  grown=$(sed -n 's/^batches have grown as with --batch //p' run.err)
  [[ $grown == 8@0,16@* ]] || die "by epochs grown to '$grown'"
  train "${same[@]}" --batch "$grown" --epochs 30 --metrics hand.jsonl --out hand >/dev/null
  cmp epochs/model.safetensors hand/model.safetensors || die "by epochs another model"
  cmp <(steps_of epochs.jsonl) <(steps_of hand.jsonl) || die "by epochs other metrics"

  train "${same[@]}" --batch 8..20@noise --steps 3 --metrics few.jsonl --out few >/dev/null
  grep -q '^batches have not grown: --batch 8@0$' run.err || die "grown in 3 updates: $(cat run.err)"
  cp few.jsonl few/metrics.jsonl
  run report few --out page.html
  grep -q "Batches have not grown by the gradients' noise: .*8@0" page.html || die "grown in the report"

  # Of several ranks each has a micro-batch of its own.
  run train gpt --data text "${tiny[@]}" "${same[@]}" --micro-batch 20 --batch 8..20@noise --device cpu,cpu --steps 1400 --out ranks >/dev/null
  grown=$(sed -n 's/^batches have grown as with --batch //p' run.err)
  [[ $grown =~ ^8@0,16@[0-9]+(,20@[0-9]+)?$ ]] || die "two ranks have grown to '$grown': $(cat run.err)"

  # A plan is for the largest batch, and the smallest batch has several micro-batches.
  run plan gpt "${tiny[@]}" --data text --batch 6..50@noise >plan
  grep -q 'batch *50 samples' plan || die "not planned for the largest: $(cat plan)"
  run plan gpt "${tiny[@]}" --data text --batch 6..50@noise --json >plan
  grep -A1 '"effective_batch": 50' plan | grep -q '"micro_batch": 3,' || die "not half of the smallest: $(cat plan)"

  local bad
  for bad in 4..@noise ..8@noise 4..8 4...8@noise 4..8@3 4..8@noise,9@3 0..8@noise 4..8@nois 4.5..8@noise; do
    [[ $bad != 4..8 ]] || continue
    refuse 2 'is not a growth such as' train gpt --data text "${tiny[@]}" --batch "$bad"
  done
  refuse 2 'not a whole number' train gpt --data text "${tiny[@]}" --batch 4..8
  refuse 2 'does not grow: 8 is not above 8' train gpt --data text "${tiny[@]}" --batch 8..8@noise
  refuse 2 'and --noise-scale is off' train gpt --data text "${tiny[@]}" --batch 4..8@noise --noise-scale off
  for bad in fused fused-local; do
    refuse 2 'needs gradients that are kept' train gpt --data text "${tiny[@]}" --batch 4..8@noise --gradients $bad
  done
  refuse 2 'needs gradients that are kept' train gpt --data text "${tiny[@]}" --batch 4..8@noise --gradients folded --clip 0
  refuse 2 'begins with one micro-batch' train gpt --data text "${tiny[@]}" --batch 4..8@noise --micro-batch 4
  refuse 2 'begins with one sample' train gpt --data text "${tiny[@]}" --batch 1..8@noise
  refuse 2 'begins with one sample' train gpt --data text "${tiny[@]}" --batch 1..8@noise --device cpu,cpu
  refuse 2 'how many updates --epochs 3 are' train gpt --data text "${tiny[@]}" --batch 4..8@noise --epochs 3
}
