# Changes of single parameters, of gradients and of weights around the update: --freeze, --group, --clip-by, --ema.

case_craft() {
  text
  local all some model="gpt --data text ${tiny[*]} --layers 2 --steps 4 --schedule constant --warmup 0"
  # shellcheck disable=SC2086
  run train $model --metrics all.jsonl --out all >/dev/null
  all=$("$METRICS" field all.jsonl end planned_bytes)

  # Frozen parameters take less, and stay.
  # shellcheck disable=SC2086
  run train $model --freeze '*.w?e.*,*.h.0.*' --metrics some.jsonl --out some >/dev/null
  "$METRICS" check some.jsonl
  grep -q '^model .*, and .* that are frozen' run.err || die "no word of what is frozen in: $(cat run.err)"
  some=$("$METRICS" field some.jsonl end planned_bytes)
  ((some < all)) || die "as many bytes with frozen parameters: $some"
  (($("$METRICS" field some.jsonl plan frozen_count) > 0)) || die "nothing is frozen"
  # shellcheck disable=SC2086
  ! "$ACCRUE" train $model --steps 6 --freeze '*.h.0.*' --out some --resume 2>err || die "a state of other frozen ones is taken"
  grep -q 'is of a run that had transformer.wte.weight frozen, which is trained here' err || die "no word of it in: $(cat err)"
  # shellcheck disable=SC2086
  refuse 2 'name matches "nothing", which is to be frozen' train $model --freeze nothing --out none
  # shellcheck disable=SC2086
  refuse 2 'the loss depends on no trainable parameter' train $model --freeze '*' --out none

  # Groups: with the settings of all others a group changes nothing but that its norm is known.
  # shellcheck disable=SC2086
  run train $model --group '*.bias,*.ln_*:lr=1' --metrics group.jsonl --out group >/dev/null
  "$METRICS" check group.jsonl
  grep -q '"group_norms":\[[0-9]' group.jsonl || die "no norms of groups: $(head -2 group.jsonl)"
  cmp all/model.safetensors group/model.safetensors
  # shellcheck disable=SC2086
  run train $model --group '*:lr=0' --out still >/dev/null
  # shellcheck disable=SC2086
  run train $model --lr 0 --out zero >/dev/null
  cmp still/model.safetensors zero/model.safetensors
  # shellcheck disable=SC2086
  run train $model --steps 2 --group '*.bias:lr=2' --group '*.ln_*:decay=0.5' --out two >/dev/null
  run train --resume --out two --steps 4 >/dev/null
  # shellcheck disable=SC2086
  run train $model --group '*.bias:lr=2' --group '*.ln_*:decay=0.5' --out four >/dev/null
  cmp two/model.safetensors four/model.safetensors
  local group
  for group in x '*:' ':lr=1' '*:lr=1,' '*:lr=-1' '*:lr=x' '*:rate=1'; do
    # shellcheck disable=SC2086
    refuse 2 'is not PATTERNS:SETTINGS' train $model --group "$group" --out none
  done

  # Each kind of clipping leaves other weights.
  local kind
  for kind in each value adaptive; do
    # shellcheck disable=SC2086
    run train $model --clip-by $kind --clip 0.01 --metrics $kind.jsonl --out $kind >/dev/null
    "$METRICS" check $kind.jsonl
    ! cmp -s all/model.safetensors $kind/model.safetensors || die "--clip-by $kind changes nothing"
  done
  ! cmp -s value/model.safetensors adaptive/model.safetensors || die "--clip-by value and adaptive are the same"
  # shellcheck disable=SC2086
  refuse 2 '--clip-by has no meaning without --clip' train $model --clip-by each --clip 0 --out none
  refuse 2 '--clip-by has no meaning without --clip, or a --group with clip' \
    train $model --clip-by value --clip 0 --group '*:decay=0' --out none
  run train $model --clip-by value --clip 0 --group '*:clip=0.01' --steps 1 --out grouped >/dev/null

  # An average that keeps nothing is the weights; it goes on with them.
  # shellcheck disable=SC2086
  run train $model --ema 0.9 --eval-every 2 --metrics ema.jsonl --out ema >/dev/null
  "$METRICS" check ema.jsonl
  (($(grep -c '"event":"average"' ema.jsonl) == 2)) || die "not as many validations of averages: $(cat ema.jsonl)"
  cmp all/model.safetensors ema/model.safetensors
  run report ema all --out page.html
  grep -q 'Validation loss of averaged weights' page.html || die "the report does not draw averages"
  run report all --out page.html
  ! grep -q 'averaged weights' page.html || die "the report draws averages that there are none of"
  ! cmp -s ema/model.safetensors ema/average.safetensors || die "the average is the weights"
  # shellcheck disable=SC2086
  run train $model --ema 0.9 --eval-every 2 --steps 2 --out parts >/dev/null
  # shellcheck disable=SC2086
  run train $model --ema 0.9 --eval-every 2 --out parts --resume >/dev/null
  cmp ema/average.safetensors parts/average.safetensors
}
