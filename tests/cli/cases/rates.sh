# Learning rates by flags: the rates of eight updates, runs that are resumed, and the range test.

# rates LIST FLAG...: the rates of the updates, to six digits.
rates() {
  local want=$1 got
  shift
  train --steps 8 --lr 0.01 --metrics m --out model "$@" >/dev/null
  got=$(grep '"event":"step"' m | grep -o '"lr":[^,]*' | cut -d: -f2 | awk '{ printf "%s%.6g", (NR > 1 ? " " : ""), $1 }')
  [[ $got == "$want" ]] || die "$*: the rates are $got, not $want"
}

case_rates() {
  text
  rates '0.01 0.01 0.01 0.01 0.01 0.01 0.01 0.01' --schedule constant
  rates '0.0025 0.005 0.0075 0.01 0.01 0.01 0.01 0.01' --schedule constant --warmup 3
  rates '0.01 0.008875 0.00775 0.006625 0.0055 0.004375 0.00325 0.002125' --schedule linear
  rates '0.01 0.01 0.01 0.005 0.005 0.005 0.0025 0.0025' --schedule step --lr-period 3 --lr-factor 0.5
  rates '0.01 0.01 0.001 0.001 0.0002 0.0002 0.0002 0.0002' --schedule step --min-lr 2e-4
  rates '0.01 0.01 0.01 0.01 0.001 0.001 0.0001 0.0001' --schedule multistep
  rates '0.01 0.005 0.005 0.0025 0.0025 0.0025 0.0025 0.0025' --schedule multistep --lr-milestones 1,3 --lr-factor 0.5
  rates '0.01 0.00562341 0.00316228 0.00177828 0.001 0.000562341 0.000316228 0.000177828' --schedule exponential
  rates '0.01 0.01 0.01 0.01 0.01 0.00775 0.0055 0.00325' --schedule wsd --lr-decay 4
  rates '0.005 0.01 0.00816497 0.00707107 0.00632456 0.0057735 0.00534522 0.005' --schedule inverse-sqrt --warmup 1
  rates '0.01 0.0055 0.01 0.0055 0.01 0.0055 0.01 0.0055' --schedule restarts
  rates '0.01 0.01 0.0055 0.01 0.00868198 0.0055 0.00231802 0.01' --schedule restarts --lr-period 1 --lr-period-factor 2 \
    --min-lr 1e-3
  rates '0.001 0.0055 0.01 0.007 0.004 0.001 0.0055 0.01' --schedule cyclic --lr-period 2 --lr-fall 3
  rates '0.03 0.03 0.03 0.03 0.03 0.03 0.03 0.03' --schedule constant --lr-scaling linear --lr-base-batch 2
  rates '0.02 0.02 0.02 0.02 0.02 0.02 0.02 0.02' --schedule constant --lr-scaling sqrt --lr-base-batch 24 --lr 0.04
}

# momenta LIST FLAG...: the same of momentum or beta1.
momenta() {
  local want=$1 got
  shift
  train --steps 8 --metrics m --out model "$@" >/dev/null
  got=$(grep '"event":"step"' m | grep -o '"momentum":[^,]*' | cut -d: -f2 | awk '{ printf "%s%.6g", (NR > 1 ? " " : ""), $1 }')
  [[ $got == "$want" ]] || die "$*: the momenta are $got, not $want"
}

case_momenta() {
  text
  momenta '0.9 0.9 0.9 0.9 0.9 0.9 0.9 0.9' --optimizer sgd
  momenta '0 0 0 0 0 0 0 0' --optimizer adafactor
  momenta '0.9 0.85 0.8 0.85 0.9 0.85 0.8 0.85' --schedule cyclic --lr-period 2
  momenta '0.9 0.7 0.5 0.7 0.9 0.7 0.5 0.7' --schedule cyclic --lr-period 2 --min-momentum 0.5 --optimizer sgd
  momenta '0.8 0.8 0.8 0.8 0.8 0.8 0.8 0.8' --schedule cyclic --cycle-momentum off --beta1 0.8
  momenta '0.95 0.916667 0.883333 0.85 0.875 0.9 0.925 0.95' --schedule one-cycle --lr-rise 0.5 --lr-anneal linear \
    --optimizer lion
}

# A rate that falls with nearly every validation: a run that goes on to more steps is the longer run.
case_rates_resumed() {
  text
  local times='s/"(run|seconds|data_wait_s|samples_per_s|tokens_per_s|peak_bytes)":[^,}]*//g'
  local same=(--schedule plateau --lr-patience 0 --lr-threshold 0.5 --lr-factor 0.5 --warmup 1 --eval-every 2
    --eval-samples 4 --threads 1 --micro-batch 3)
  train "${same[@]}" --steps 12 --metrics whole.jsonl --out whole >/dev/null
  train "${same[@]}" --steps 7 --metrics m.jsonl --out model >/dev/null
  train "${same[@]}" --steps 12 --metrics m.jsonl --out model --resume >/dev/null
  cmp whole/model.safetensors model/model.safetensors || die "another model"
  cmp <(sed -E "$times" whole.jsonl) <(sed -E "$times" m.jsonl) || die "other metrics"
  (($(grep -o '"lr":[^,]*' m.jsonl | sort -u | wc -l) >= 4)) || die "the rate was hardly reduced"
}

case_lr_find() {
  text
  mkdir pair empty
  "$FIXTURE" images pair train 300
  "$FIXTURE" images pair t10k 50
  cd empty
  local find=(lr-find mlp --data ../pair --device cpu --hidden 16 --batch 32 --threads 1)
  run "${find[@]}" >first
  grep -q '^suggested learning rate: ' first || die "no suggestion: $(cat first)"
  grep -q 'falls fastest' first || die "no rule: $(cat first)"
  grep -q 'nothing is saved$' first || die "no end: $(cat first)"
  grep -q 'total' run.err || die "no plan on stderr"
  run "${find[@]}" >second
  cmp first second || die "the same test says something else"
  # A run begins with its schedule's first batch, so that is tested.
  run "${find[@]}" --batch 8 --micro-batch 4 --updates 20 --json >first
  run "${find[@]}" --batch 8@0,32@9 --micro-batch 4 --updates 20 --json >second
  cmp first second || die "not the first batch of a schedule is tested"
  rm -f first second run.err
  [[ -z $(ls) ]] || die "it has written $(ls)"
  cd ..
  run lr-find mlp --data pair --device cpu --hidden 16 --batch 32 --most-lr 1e-6 --updates 20 >low
  grep -q '^no suggestion' low || die "a suggestion where nothing falls: $(cat low)"
  grep -q '^20 updates at rates from 1e-07 to 1e-06; nothing' low || die "not twenty updates: $(cat low)"
  run lr-find gpt --data text "${tiny[@]}" --precision f16 --loss-scale-init 1e30 --updates 60 --json >json
  grep -q '"suggestion": [0-9]' json || die "no suggestion in f16: $(cat json)"
  (($(grep -c '"smoothed"' json) > 30)) || die "hardly any point: $(cat json)"
  train --steps 2 --out model >/dev/null
  run lr-find gpt --data text --device cpu --batch 6 --init model/model.safetensors --updates 10 >init
  refuse 1 'cannot read' lr-find gpt --data nowhere --device cpu
  command -v gnuplot >/dev/null || return 0
  refuse 1 'cannot write no/curve.svg' lr-find gpt --data text "${tiny[@]}" --svg no/curve.svg
  run lr-find gpt --data text "${tiny[@]}" --updates 40 --svg curve.svg >/dev/null
  grep -q '<svg' curve.svg && grep -q 'smoothed' curve.svg && grep -q 'suggested' curve.svg || die "no picture of a curve"
}
