# Spikes: batches far beyond those before them are told, skipped, or left out by going back to a good state.

# A line in the text that is like no other makes a spike of each batch that holds a piece of it. The data decides, and
# not how a machine rounds: with any number of deviations from 4 to 7 these are the same five steps.
case_spikes() {
  { seq 1 600 && echo 'QWERTYUIOPASDFGHJKLZXCVBNMqwertyuiopasdfghjklzxcvbnm,.;:!?' && seq 601 1500; } >text
  local wild=(--lr 0.01 --warmup 0 --schedule constant --threads 1 --steps 120 --spike-deviations 5 --metrics m.jsonl)
  local spikes skipped
  train "${wild[@]}" --on-spike tell --out model >/dev/null
  "$METRICS" check m.jsonl
  spikes=$(grep -c '"event":"spike"' m.jsonl) || die "no spike"
  ((spikes == 5)) || die "spikes elsewhere than at the five batches with the foreign line: $(grep '"spike"' m.jsonl)"
  grep -q '"outcome":"tell","back_to":null' m.jsonl || die "another outcome: $(grep spike m.jsonl)"
  (($(grep -c ': a spike: the ' run.err) == spikes)) || die "other words: $(cat run.err)"
  (($("$METRICS" field m.jsonl end spikes) == spikes)) || die "another number at the end: $(tail -n 1 m.jsonl)"

  train "${wild[@]}" --on-spike skip --out model >out
  skipped=$(grep -c '"outcome":"skip"' m.jsonl) || die "none skipped"
  (($(grep -c '"skipped":true' m.jsonl) == skipped)) || die "others skipped, too"
  grep -q "^done after $((120 - skipped)) updates" out || die "another number of updates: $(cat out)"
  cp m.jsonl model/metrics.jsonl
  run report model --out page.html
  grep -qE " $skipped steps? (was a spike|were spikes) \(.*; $skipped skipped\." page.html || die "the report knows of none"

  train "${wild[@]}" --on-spike back --good-every 10 --spike-rate 0.25 --save-every 20 --out back >out
  grep -q '"outcome":"back","back_to":[0-9]' m.jsonl || die "never back: $(grep spike m.jsonl)"
  grep -qE 'the (loss|gradient.s norm) .* is above .*; back to the state of step [0-9]+, at 0.25 of the rate' run.err ||
    die "other words: $(cat run.err)"
  [[ -s back/good.safetensors && -s back/good-0000000120.safetensors ]] || die "no good state: $(ls back)"
  (($(find back -name 'good-*' | wc -l) == 2)) || die "not the good states of the states: $(ls back)"
  # A good state without its state, as a kill may leave it, is removed at the next start.
  cp back/good.safetensors back/good-0000000119.safetensors
  run train --resume --out back >/dev/null
  [[ ! -e back/good-0000000119.safetensors && -s back/good-0000000120.safetensors ]] || die "left over: $(ls back)"
  rm back/good*
  ! "$ACCRUE" train --resume --steps 125 --out back >/dev/null 2>refused.err || die "goes on without a good state"
  grep -q 'without the good state of step [0-9]* the run continues only with another policy' refused.err || die "$(cat refused.err)"
  run train --resume --steps 125 --on-spike tell --out back >/dev/null
  run train --resume --steps 130 --on-spike back --good-every 50 --out back >/dev/null
  [[ -s back/good-0000000130.safetensors ]] || die "no new good state: $(ls back)"
  cp m.jsonl back/metrics.jsonl
  run report back --out page.html
  grep -q 'training went back to a good state' page.html || die "the report does not know that it went back"

  # A policy's limit does not hold for a batch that training goes back from, though its update was made.
  local local_wild=("${wild[@]}" --gradients fused-local --on-spike back --good-every 10) spike step norm
  train "${local_wild[@]}" --out none >/dev/null
  spike=$(grep -m 1 '"outcome":"back"' m.jsonl) || die "never back: $(grep spike m.jsonl)"
  step=$(grep -o '"step":[0-9]*' <<<"$spike" | cut -d: -f2)
  norm=$(grep -o '"grad_norm":[0-9.]*' <<<"$spike" | cut -d: -f2)
  train "${local_wild[@]}" --steps $((step - 1)) --out limited >/dev/null
  awk -v x="$norm" 'BEGIN { printf "{\"version\": 1, \"max_gradient_norm\": %.6f}", 0.99 * x }' >limit.json
  run train --resume --steps "$step" --policy limit.json --out limited >/dev/null
  grep -q "^step $step: a spike: .*; back to the state" run.err || die "no spike within the policy: $(cat run.err)"

  refuse 2 '--spike-deviations has no meaning with --on-spike off; it is for tell, skip or back' train gpt --data text --spike-deviations 3
  refuse 2 '--good-every has no meaning without --on-spike back' train gpt --data text --good-every 3 --on-spike skip
  refuse 2 '--spike-rate has no meaning without --on-spike back' train gpt --data text --spike-rate 0.3
  refuse 2 '--on-spike skip has nothing to skip with --gradients folded' train gpt --data text --on-spike skip \
    --gradients folded --clip 0
  refuse 2 '--on-spike skip has nothing to skip with --gradients fused-local' train gpt --data text --on-spike skip \
    --gradients fused-local
  refuse 2 '--spike-rate' train gpt --data text --on-spike back --spike-rate 1.5
}
