# Early stopping: training ends where validations get no better, and a run that goes on has not lost count.

case_patience() {
  text
  local same=(--schedule constant --warmup 0 --lr 1e-12 --threads 1 --eval-every 2 --patience 3)
  train "${same[@]}" --steps 40 --metrics whole.jsonl --out whole >out
  grep -q '^out of patience after 8 updates, validation loss' out || die "no early end: $(cat out)"
  [[ $("$METRICS" field whole.jsonl end steps) == 8 ]] || die "other steps in $(tail -n 1 whole.jsonl)"
  tail -n 1 whole.jsonl | grep -q '"ended_early":true' || die "no early end in $(tail -n 1 whole.jsonl)"
  (($(grep -c '"event":"eval"' whole.jsonl) == 4)) || die "other evaluations: $(cat whole.jsonl)"
  cp whole.jsonl whole/metrics.jsonl
  run report whole --out page.html
  grep -q 'Ended early, out of patience at .*, after step 8\.' page.html || die "the report knows of no early end"
  train "${same[@]}" --steps 6 --metrics m.jsonl --out model >out
  grep -q '^done after 6 updates' out || die "another end: $(cat out)"
  train "${same[@]}" --steps 40 --metrics m.jsonl --out model --resume >out
  grep -q '^out of patience after 8 updates, validation loss' out || die "another end after it went on: $(cat out)"
  cmp whole/model.safetensors model/model.safetensors
  run train --resume --out model >out
  (($(grep -c '"event":"eval"' m.jsonl) == 4)) || die "what had ended has other evaluations: $(grep eval m.jsonl)"
  train "${same[@]}" --patience-gain 1e-9 --eval-samples 1 --steps 40 --out part >out
  grep -q '^out of patience after 8 updates, validation loss' out || die "no early end: $(cat out)"
  refuse 2 '--patience counts validations: give --eval-every' train gpt --data text --patience 2 --eval-every 0
  refuse 2 '--patience-gain has no meaning without --patience' train gpt --data text --patience-gain 0.1
}
