# Event files for TensorBoard, read by EVENTS, and the program that was built without.

case_tensorboard() {
  text
  local pinned=(--micro-batch 2 --recompute none --eval-every 3) status=0
  train "${pinned[@]}" --steps 7 --metrics m --out plain >/dev/null
  train "${pinned[@]}" --steps 7 --metrics m1 --tensorboard runs/a --histograms 3 --out model >/dev/null
  "$EVENTS" compare runs/a m1 3 >settings
  grep -qE '^ +--steps +7$' settings || die "the settings lack --steps: $(cat settings)"
  grep -qE '^ +--min-lr +lr / 10; 0 of' settings || die "the settings lack --min-lr: $(cat settings)"
  # The table of hyperparameters, with those that were given shown at once, and the layout with losses first.
  local line
  for line in 'hparam model gpt' 'hparam steps 7 *' 'hparam lr 0.001' 'hparam batch 6 *' 'metric validation/loss' \
    'metric validation/accuracy' 'end 1'; do
    grep -qxF "$line" settings || die "no '$line': $(cat settings)"
  done
  ! grep -qE '^hparam (out|metrics|tensorboard|keep|device|data) ' settings || die "more than settings: $(cat settings)"
  [[ $(grep -m1 '^chart' settings) == 'chart Loss: loss ^train/loss$ ^validation/loss$ ^average/loss$' ]] || die "$(grep chart settings)"
  for line in $(sed -n 's/^chart [^^]*//p' settings | tr -d '^$' | grep -v '^average'); do
    [[ $line == average/* ]] || grep -q "\"${line#*/}\":" m1 || die "the layout has $line, which no run has"
  done
  # A reader changes nothing.
  "$METRICS" compare 0 m m1
  cmp plain/model.safetensors model/model.safetensors

  # Gradients are what they are under any loss scale, also where a window begins again.
  train "${pinned[@]}" --steps 3 --metrics m --tensorboard scaled --histograms 1 --loss-scale 1024 --out model >/dev/null
  "$EVENTS" compare scaled m 1 >/dev/null
  local half=(--precision f16 --loss-scale-init 16777216 --steps 20 --histograms 2)
  train "${half[@]}" --metrics m --tensorboard half --out half >/dev/null
  "$EVENTS" compare half m 2 >/dev/null
  grep -q '"skipped":true' m || die "nothing overflows"
  train "${half[@]}" --metrics m --tensorboard replayed --replay --out half >/dev/null
  "$EVENTS" compare replayed m 2 >/dev/null
  grep -q '"replayed":true' m || die "nothing is replayed"

  # Without --metrics, into a folder that has a file; and the weights as the window used them.
  train --steps 1 --lr 0 --warmup 0 --weight-decay 0 --tensorboard weights --histograms 1 --out model >/dev/null
  "$EVENTS" weights weights model/model.safetensors
  train --steps 1 --tensorboard weights --out model >/dev/null
  (($(find weights -type f | wc -l) == 2)) || die "not one file a run: $(ls weights)"

  refuse 2 '--histograms has no meaning without --tensorboard' train gpt --data text --histograms 5
  refuse 2 '--gradients fused keeps none' train gpt --data text --tensorboard t --histograms 5 --gradients fused
  refuse 2 'whole gradients, and --gradients sharded keeps none of them' train gpt --data text --tensorboard t --histograms 5 --gradients sharded
  refuse 2 'out of range' train gpt --data text --tensorboard t --histograms 0
  refuse 2 'not a whole number' train gpt --data text --tensorboard t --histograms 5x
  : >file
  refuse 1 'file is not a folder' train gpt --data text "${tiny[@]}" --tensorboard file
  refuse 1 'cannot make the folder file/below' train gpt --data text "${tiny[@]}" --tensorboard file/below

  # A run that is refused leaves no file, and no folder.
  refuse 1 'cannot write the metrics to text/m' train gpt --data text "${tiny[@]}" --tensorboard weights \
    --metrics text/m --out none
  (($(find weights -type f | wc -l) == 2)) || die "a run that was refused has left events: $(ls weights)"
  refuse 1 'cannot write the metrics to text/m' train gpt --data text "${tiny[@]}" --tensorboard never \
    --metrics text/m --out none
  refuse 2 'of group 0' train gpt --data text "${tiny[@]}" --group 'nothing*:lr=1' --out none
  [[ ! -e never && ! -e none ]] || die "a run that was refused has left a folder: $(ls)"

  # A disk that fills disturbs nothing: the model is whole, and one sentence tells of it.
  "$FIXTURE" images . train 100
  local net=(train mlp --data . --device cpu --hidden none --batch 8 --steps 50 --tensorboard full --out mlp)
  (ulimit -f 8 && exec "$ACCRUE" "${net[@]}" --histograms 1 >out 2>err) || status=$?
  ((status == 1)) || die "status $status: $(cat err)"
  grep -q '^done after 50 updates' out || die "training ended: $(cat out)"
  (($(grep -c 'the events in full are incomplete' err) == 1)) || die "$(cat err)"
  run train mlp --data . --device cpu --hidden none --batch 8 --steps 1 --init mlp/model.safetensors --out mlp >/dev/null
}

case_without_tensorboard() {
  text
  refuse 2 '--tensorboard needs protobuf-c' train gpt --data text "${tiny[@]}" --tensorboard t
  [[ ! -e t ]] || die "there is a folder"
  train --steps 2 --metrics m --out model >/dev/null
  "$METRICS" check m
}
