# The gradient noise scale: in metrics, in words at the end, in reports, and the same in a run that goes on.

case_noise() {
  text
  local times='s/"(run|seconds|data_wait_s|samples_per_s|tokens_per_s|peak_bytes)":[^,}]*//g'
  local same=(--schedule constant --warmup 0 --lr 1e-3 --threads 1 --batch 32 --micro-batch 2 --recompute none)
  train "${same[@]}" --steps 60 --metrics whole.jsonl --out whole >/dev/null
  grep -qE '^critical batch about [0-9,]+ \+- [0-9,]+ samples \([0-9,]+ tokens\); yours is 32: ' run.err ||
    die "no words: $(cat run.err)"
  local scale
  scale=$("$METRICS" field whole.jsonl end noise_scale)
  awk -v x="$scale" 'BEGIN { exit !(x > 0) }' || die "a noise scale of $scale"
  grep '"event":"step"' whole.jsonl | tail -n 1 | grep -q "\"noise_scale\":$scale" || die "another one in the last step"
  "$METRICS" field whole.jsonl end noise_scale_deviation >/dev/null || die "no deviation"
  cp whole.jsonl whole/metrics.jsonl
  run report whole --out page.html
  grep -q "Critical batch, by the gradients' noise: about [0-9,]* ± " page.html || die "not in the report"

  # What is averaged is part of states.
  train "${same[@]}" --steps 23 --metrics m.jsonl --out model >/dev/null
  train "${same[@]}" --steps 60 --metrics m.jsonl --out model --resume >/dev/null
  cmp <(sed -E "$times" whole.jsonl) <(sed -E "$times" m.jsonl) || die "other metrics after it went on"

  # It changes nothing else, and goes without where it is unwanted or cannot be.
  train "${same[@]}" --steps 60 --metrics off.jsonl --out off --noise-scale off >/dev/null
  cmp whole/model.safetensors off/model.safetensors || die "measuring changes the model"
  ! grep -q critical run.err || die "words of what is off"
  ! grep '"noise_scale"' off.jsonl | grep -v '"noise_scale":null' || die "a number of what is off"
  train --steps 3 --micro-batch 6 --metrics one.jsonl --out one >/dev/null
  ! grep -q critical run.err || die "words of whole batches: $(cat run.err)"
  ! grep '"noise_scale"' one.jsonl | grep -v '"noise_scale":null' || die "a number of whole batches"
  train --steps 3 --micro-batch 6 --noise-scale on --out one >/dev/null
  grep -q '^critical batch not known: it takes batches of several micro-batches' run.err || die "no reason: $(cat run.err)"
  train --steps 3 --gradients fused --noise-scale on --out one >/dev/null
  grep -q '^critical batch not known: the plan keeps no gradients to measure' run.err || die "no reason: $(cat run.err)"
}

# The same of each parameter, which adds up to the whole and changes nothing.
case_noise_layers() {
  text
  local times='s/"(run|seconds|data_wait_s|samples_per_s|tokens_per_s|peak_bytes)":[^,}]*//g'
  local same=(--schedule constant --warmup 0 --lr 1e-3 --threads 1 --batch 32 --micro-batch 2 --recompute none)
  train "${same[@]}" --steps 60 --metrics off.jsonl --out off >/dev/null
  train "${same[@]}" --steps 60 --noise-layers 20 --metrics whole.jsonl --out whole >/dev/null
  "$METRICS" check whole.jsonl
  cmp off/model.safetensors whole/model.safetensors || die "measuring layers changes the model"
  cmp <(grep -v noise_layers whole.jsonl | sed -E "$times") <(sed -E "$times" off.jsonl) || die "it changes other metrics"
  [[ $(grep '"event":"noise_layers"' whole.jsonl | grep -o '"step":[0-9]*' | tr '\n' ' ') == '"step":20 "step":40 "step":60 ' ]] ||
    die "lines of layers: $(grep noise_layers whole.jsonl)"
  # The scale of all is the quotient of what layers add up to.
  sum() { "$METRICS" field whole.jsonl noise_layers "$1" | grep -o '":[^,}]*' | awk -F: '{ s += $2 } END { printf "%.17g", s }'; }
  awk -v s="$(sum variance)" -v g="$(sum gradient_squares)" -v all="$("$METRICS" field whole.jsonl end noise_scale)" \
    'BEGIN { x = s / g / all - 1; exit !(x < 1e-9 && x > -1e-9) }' || die "layers do not add up"
  train "${same[@]}" --steps 27 --noise-layers 20 --metrics m.jsonl --out model >/dev/null
  run train --steps 60 --out model --resume >/dev/null
  cmp <(sed -E "$times" whole.jsonl) <(sed -E "$times" m.jsonl) || die "other metrics after it went on"
  cp whole.jsonl whole/metrics.jsonl
  run report whole --out page.html
  "$PAGE" page.html
  grep -q 'Noise of gradients at step 60' page.html || die "not in the report"
  grep -q 'Noise scale, samples' page.html || die "no table"
  refuse 2 'has no meaning with --noise-scale off' train gpt --data text "${tiny[@]}" --noise-layers 5 --noise-scale off
  refuse 2 'needs gradients that are kept' train gpt --data text "${tiny[@]}" --noise-layers 5 --gradients fused
}
