# If a plan is refused, offers say what other plans would need. Each offer, with its flags and its size, is a plan. With
# less memory than its rounded amount it is not, unless the offer says "at most".

# pick WORD...: one of them, drawn.
pick() {
  local words=("$@")
  drawn=${words[RANDOM % $#]}
}

# Flags for a tiny model, drawn, in `flags`. Some contradict each other.
draw_flags() {
  local choices
  pick 'gpt --layers 1 --heads 2 --width 32 --context 8' 'gpt --layers 3 --heads 3 --width 33 --context 16 --dropout 0.2' \
    'gpt --layers 2 --heads 4 --width 64 --context 16 --vocab 300' 'mlp --data pair --hidden 70,40' \
    'mlp --data pair --hidden 128 --dropout 0.3' 'mobilenet --data pair --width 8 --norm batch'
  read -ra flags <<<"$drawn"
  flags+=(--batch $((RANDOM % 7 + 2)))
  while read -r choices; do
    # shellcheck disable=SC2086
    pick $choices
    ((RANDOM % 100 >= share)) || read -ra flags <<<"${flags[*]} ${drawn//;/ }"
  done <<'TABLE'
--micro-batch=1 --micro-batch=2
--optimizer=sgd --optimizer=sgd;--momentum=0 --optimizer=lion --optimizer=adafactor --optimizer=muon --optimizer=adam-mini
--precision=f16 --precision=f16;--loss-scale-init=8 --precision=bf16 --precision=bf16;--loss-scale=8 --precision=bf16;--weights=bf16
--gradients=buffer --gradients=fused --gradients=fused-local --gradients=folded;--clip=0 --gradients=bf16
--recompute=none --recompute=all
--precision=bf16;--working-copies=keep --precision=f16;--working-copies=none
--optimizer-state=8bit --optimizer-state=8bit;--state-f32=*
--clip=0 --clip-by=each --clip-by=value --group=*:clip=0.3 --group=*.bias:decay=0
--read-ahead=0 --read-ahead=1 --read-ahead=2
--last-window=carry --last-window=drop
--on-spike=skip --on-spike=tell
--noise-layers=1 --noise-scale=off --histograms=1;--tensorboard=tb
--ema=0.9
--freeze=*.bias
--optimizer-state-in=device --optimizer-state-in=auto;--host-memory=1KiB
--batch-norm=micro --batch-norm=exact
TABLE
}

# plan_with BYTES: whether there is a plan of `flags`, and those of an offer, within so many. What is said is in `err`.
plan_with() {
  local status=0
  "$ACCRUE" plan "${flags[@]}" "${offered[@]}" "${device[@]}" --memory "$1" --json >/dev/null 2>err || status=$?
  return $status
}

# tenths AMOUNT UNIT LESS: the bytes of an amount, less so many tenths of its unit.
tenths() {
  awk -v amount="$1" -v unit="$2" -v less="$3" 'BEGIN {
    n = unit == "KiB" ? 1024 : unit == "MiB" ? 1048576 : 1073741824
    printf "%.0f", int((10 * amount - less) * n / 10)
  }'
}

# follow FILE: all that the table in it offers. Each row is checked by itself.
follow() {
  local least amount unit fits words row most said
  said="${flags[*]}: $(<"$1")"
  offered=()
  least=$(sed -n 's/.*needs at least [^(]*(\([0-9]*\) bytes.*/\1/p' "$1")
  plan_with "$least" || die "not the least: $said: $(<err)"
  ! plan_with $((least - 1)) || die "not the least: $said"
  # A row: an amount, whether it fits, flags, and after at least two spaces what they change.
  while read -r row; do
    read -r amount unit fits row <<<"${row#<= }"
    [[ $row == --*'  '* && $fits =~ ^(yes|no)$ ]] || die "no row: '$row': $said"
    [[ $fits == no ]] || die "'$row' fits one byte: $said"
    words=$(sed 's/^.*   *//' <<<"$row")
    read -ra offered <<<"${row%%  *}"
    offered=("${offered[@]/#\'\'/}")
    plan_with "$(tenths "$amount" "$unit" 0)" || die "'$row' is refused: $said: $(<err)"
    most=$(tenths "$amount" "$unit" 1)
    grep -qF "<= $amount $unit" "$1" || ! plan_with "$most" || die "'$row' needs less: $said"
    ((++followed))
    kinds+=" $words;"
  done < <(sed -n '/^ *needs  fits/,$ { /^ *needs  fits/d; /^None of these fits/d; s/^ *//; p }' "$1")
}

# follow_offers FLAG...: of a plan of these, if there is one.
follow_offers() {
  local flags=("$@") offered=()
  ! plan_with 1 || die "one byte is enough: ${flags[*]}"
  grep -q 'needs at least' err || return 0
  cp err table
  follow table
}

# draw_and_follow SEED COUNT SHARE: COUNT models, each with SHARE % of its flags.
draw_and_follow() {
  local flags drawn share=$3
  RANDOM=$1
  for ((draw = 0; draw < $2; draw++)); do
    draw_flags
    follow_offers "${flags[@]}"
  done
}

case_offers() {
  local followed=0 kinds='' kind device=(--device cpu --threads 1) small=(gpt --layers 1 --heads 4 --width 64 --context 16)
  mkdir pair
  "$FIXTURE" images pair train 60
  follow_offers "${small[@]}" --batch 6
  follow_offers "${small[@]}" --batch 4 --noise-layers 1
  follow_offers gpt --layers 2 --heads 3 --width 33 --context 8 --dropout 0.2 --optimizer adam-mini --batch 4 --micro-batch 4 \
    --gradients buffer
  follow_offers "${small[@]}" --batch 6 --optimizer muon --read-ahead 2
  draw_and_follow 2 6 8
  device=(--device dry)
  follow_offers "${small[@]}" --batch 4 --histograms 1 --tensorboard tb --last-window carry
  follow_offers "${small[@]}" --batch 4 --optimizer sgd
  follow_offers "${small[@]}" --batch 4 --optimizer muon --clip-by each
  follow_offers "${small[@]}" --batch 4 --precision f16 --loss-scale-init 8 --working-copies keep
  follow_offers "${small[@]}" --batch 4 --group '*:clip=0.3'
  follow_offers "${small[@]}" --batch 32 --gradients fused
  follow_offers mobilenet --data pair --width 8 --norm batch --batch 6 --recompute none
  draw_and_follow 1 18 12
  # What the states of a run that goes on cannot become is not offered.
  local run=(train "${small[@]}" --data text --device cpu --threads 1 --batch 4 --steps 1 --out going)
  seq 1 1500 >text
  "$ACCRUE" "${run[@]}" >/dev/null 2>err || die "$(cat err)"
  "$ACCRUE" "${run[@]}" --out fresh --memory 1KiB >/dev/null 2>err && die "a run within 1 KiB"
  grep -q ' optimizer state in 8 bits, weights in bf16$' err || die "$(cat err)"
  grep -q '^None of these fits.* --batch, --optimizer adafactor' err || die "no way out: $(cat err)"
  "$ACCRUE" "${run[@]}" --steps 2 --resume --memory 1KiB >/dev/null 2>err && die "a run within 1 KiB"
  grep -q '^ *needs  fits' err || die "nothing is offered: $(cat err)"
  ! grep -qE 'state in 8 bits|weights in bf16|adafactor' err || die "offered to a run that goes on: $(cat err)"
  # Where nothing is left to offer, it is still told what would help.
  refuse 1 'needs at least' plan "${small[@]}" --batch 1 --optimizer adafactor --precision bf16 --weights bf16 --gradients bf16 \
    --memory 1KiB
  ! grep -q '^Less would do' refuse.err || die "offers: $(cat refuse.err)"
  grep -qx 'What else needs less: a smaller model.' refuse.err || die "no way out: $(cat refuse.err)"
  # What fits is marked.
  local least
  offered=() flags=("${small[@]}" --batch 4)
  plan_with 1 && die "one byte is enough"
  least=$(sed -n 's/.*needs at least [^(]*(\([0-9]*\) bytes.*/\1/p' err)
  plan_with $((least - 1)) && die "less than the least is enough"
  grep -qE '^ *[0-9.]+ KiB +yes +--optimizer-state 8bit ' err || die "not marked: $(cat err)"
  ! grep -q '^None of these fits' err || die "some fit: $(cat err)"
  echo "$followed offers"
  ((followed > 120)) || die "no more than $followed offers"
  for kind in 'no buffer for gradients' 'gradients in micro-batches' 'no working copies' 'in host memory' 'one sample at a time' \
    'recomputation as needed' 'precision f16' "optimizer's state (AdamA" "optimizer's state;" 'state in 8 bits' 'weights in bf16' \
    'stepped alone' 'gradients in bf16' 'nothing read ahead' 'batch norm sees'; do
    [[ $kinds == *"$kind"* ]] || die "nothing is offered $kind"
  done
}
