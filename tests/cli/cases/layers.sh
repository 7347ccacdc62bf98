# Norms by layer, and what a run prints at its end about dead layers.

case_layers() {
  text
  train --layers-every 4 --steps 10 --metrics m.jsonl --tensorboard events --out model >/dev/null
  "$METRICS" check m.jsonl
  (($(grep -c '"event":"layers"' m.jsonl) == 3)) || die "another number of measurements: $(cut -c -60 m.jsonl)"
  grep -q '"event":"layers","step":9,.*"update_ratio":{.*"transformer.wte.weight":0.0' m.jsonl ||
    die "no ratios in $(grep layers m.jsonl)"
  [[ $("$METRICS" field m.jsonl end layer_hints) == '[]' ]] || die "hints on a healthy model: $(tail -n 1 m.jsonl)"
  ! grep -E 'dead|vanishing' run.err || die "hints on a healthy model"
  cp m.jsonl model/metrics.jsonl
  run report model --out page.html
  grep -q '<h2>Layers at step 9, ' page.html || die "the report has no table of layers"
  grep -q 'transformer.wte.weight</bdi></th><td class="n">[0-9]' page.html || die "the table has no norms"

  # After a few steps at such a rate little is left of two units of a ReLU.
  mkdir pair
  "$FIXTURE" images pair train 60
  "$FIXTURE" images pair t10k 20
  local seed same=(train mlp --device cpu --threads 1 --data pair --hidden 2 --batch 12 --optimizer sgd --schedule constant --warmup 0)
  for seed in {1..12}; do
    run "${same[@]}" --lr 300 --clip 0 --steps 3 --seed "$seed" --out wild >/dev/null
    run "${same[@]}" --lr 1e-3 --steps 40 --init wild/model.safetensors --layers-every 5 --metrics m.jsonl --out dead >/dev/null
    "$METRICS" field m.jsonl end layer_hints >hints
    mv run.err words
    cp m.jsonl dead/metrics.jsonl
    run report dead --out page.html
    if grep -q '"dead"' hints; then
      grep -q '^dead layers: no gradient in any of 8 updates reached layers.0.weight, layers.0.bias, layers.1.weight;' words ||
        die "other words: $(cat words)"
      grep -q '<td><bdi>dead</bdi></td>' page.html || die "the report knows of no dead layer"
      touch layer
    elif grep -q '"dead units"' hints; then
      grep -q '^dead units: .* these outputs of layers.0.weight (1 of 2);' words || die "other words: $(cat words)"
      grep -q '<td><bdi>dead units</bdi>: 1 of 2</td>' page.html || die "the report knows of no dead unit"
      touch unit
    fi
  done
  [[ -e layer && -e unit ]] || die "not both a dead layer and a dead unit"

  refuse 2 '--layers-every' train gpt --data text --layers-every 0
}
