#!/usr/bin/env bash
# tests/faults/program.sh [--every N] [--kinds "file:EIO memory ..."] [--modes "new going best"]: runs accrue train with one
# call of the C library failing (faults.h), the first, the second, ... until there are no more; then lets the run go on
# without faults. A run that is disturbed ends by itself with a sentence, or goes on to its end; what it goes on to then is
# the undisturbed run: model, tensors of the last state, and metrics without their times, byte by byte.
#
# Runs are new, go on from a state (so that it and its model must survive), or keep the best model. Without --every about
# 12 of each kind, a minute in all; --every 1 is all of them. FAULTS is the module, PROGRAMS the folder of accrue. Prints
# what has failed.
set -euo pipefail
every='' kinds='file:EIO file:ENOSPC file:short file:EINTR file:crash file:power memory' modes='new going best'
while (($#)); do
  case $1 in
    --every) every=$2 && shift 2 ;;
    --kinds) kinds=$2 && shift 2 ;;
    --modes) modes=$2 && shift 2 ;;
    *) echo "usage: tests/faults/program.sh [--every N] [--kinds KINDS] [--modes MODES]" >&2 && exit 2 ;;
  esac
done
accrue=$(cd "${PROGRAMS:-build/ci/bin}" && pwd)/accrue
faults=$(realpath "${FAULTS:-build/ci/tests/faults/libfaults.so}")
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
seq 1 3000 >text
flags=(gpt --data text --layers 1 --heads 2 --width 16 --context 16 --batch 4 --schedule constant --device cpu
  --threads 1 --eval-every 2 --eval-samples 10 --read-ahead 0 --seed 3)

train() { # FOLDER STEPS FLAG...
  "$accrue" train "${flags[@]}" --save-every 1 --keep 2 --out "$1" --metrics "$1.jsonl" --steps "$2" --resume-or-start "${@:3}" >"$1.out" 2>"$1.err"
}
copy() { # FROM TO
  rm -rf "$2" "$2".*
  if [[ -d $1 ]]; then cp -r "$1" "$2" && cp "$1.jsonl" "$2.jsonl"; fi
}
without_times() {
  sed -E 's/"(run|seconds|data_wait_s|samples_per_s|tokens_per_s)":[^,}]*//g' "$1"
}
# The elements of a safetensors file: what follows its header.
tensors() {
  local header
  header=$(od -An -N8 -tu8 "$1")
  tail -c +$((header + 9)) "$1"
}
newest_state() {
  printf '%s\n' "$1"/state-*.safetensors | tail -n 1
}

failed=0 runs=0
wrong() { # WHAT
  echo "FAILED ${mode:-} $fault: $1"
  tail -n 2 run.err run.first.err 2>/dev/null || true
  failed=$((failed + 1))
}

check_end() { # STATUS: of the run with the fault
  case $1 in
    0) ;;
    1) grep -q '^accrue: ' run.err || { wrong 'no sentence' && return 1; } ;;
    137) [[ $fault == *crash || $fault == *power ]] || { wrong 'killed' && return 1; } ;;
    *) wrong "status $1" && return 1 ;;
  esac
  local left most=0
  left=$(find run -name '*.safetensors.*' -o -name '*.json.*' 2>/dev/null | wc -l)
  (($1 != 137)) || most=2 # the model, and its config.json
  ((left <= most)) || { wrong "files that remain: $(ls run)" && return 1; }
  [[ $mode != going ]] || cmp -s run/model.safetensors half/model.safetensors ||
    cmp -s run/model.safetensors ended/model.safetensors || { wrong 'the model is neither the old one nor the new' && return 1; }
}

# From a state before the second step, which half ended with, that is evaluated as in a new run.
same_metrics() { # RUN
  cmp -s <(without_times "$1.jsonl") <(without_times run.jsonl)
}

check_resumed() {
  [[ -z $(find run -name '*.partial-*') ]] || { wrong "files that remain: $(ls run)" && return; }
  if [[ $mode == going ]] && ! grep -qE 'going on after step [2345]' run.err; then
    wrong 'the state is lost' && return
  fi
  grep -q 'the best model, .* could not be saved' run.first.err && return # it is lost, as is said
  if ! cmp -s "$whole/model.safetensors" run/model.safetensors; then
    wrong 'another model' && return
  fi
  if ! cmp -s <(tensors "$(newest_state "$whole")") <(tensors "$(newest_state run)"); then
    wrong 'another state' && return
  fi
  same_metrics "$whole" || grep -qE 'metrics|begins anew' run.err run.first.err ||
    { grep -q 'an older state is tried' run.first.err && same_metrics whole; } || wrong 'other metrics'
}

disturb() { # sets calls
  local status=0
  runs=$((runs + 1))
  copy "$begin" run
  { LD_PRELOAD=$faults ACCRUE_FAULT=$fault ACCRUE_FAULT_REPORT=$work/report train run 5 "${more[@]}"; } 2>/dev/null ||
    status=$?
  cp run.err run.first.err
  check_end $status || return 0
  if train run 5 "${more[@]}"; then check_resumed
  else wrong 'it does not go on'
  fi
}

# The disk is full when states 2 to 4 are to be saved: each is refused when its file is made.
full_disk() {
  set_mode new
  fault=none
  local calls first
  LD_PRELOAD=$faults ACCRUE_FAULT=file:0:EIO ACCRUE_FAULT_PATH=/state- ACCRUE_FAULT_REPORT=$work/report train one 1 "${more[@]}"
  read -r calls _ <report
  first=$((calls + 1))
  fault=file:$first-$((first + 2)):ENOSPC
  LD_PRELOAD=$faults ACCRUE_FAULT=$fault ACCRUE_FAULT_PATH=/state- train run 5 "${more[@]}" || { wrong "status $?" && return; }
  cp run.err run.first.err
  (($(grep -c 'no state could be saved' run.err) == 1)) &&
    grep -q 'saved at step 2, and training goes on: .*/state-0000000002.safetensors: No space left' run.err ||
    wrong 'it is not said once'
  [[ $(echo $(cd run && ls state-*)) == 'state-0000000001.safetensors state-0000000005.safetensors' ]] ||
    wrong "the states are $(cd run && ls state-*)"
  check_resumed
}

# A new run that replaces one that has not ended is killed while it puts its record in the place of that one's: there is
# always a run to resume.
over_another() {
  local k status every
  set_mode new
  copy half stopped
  sed -i 's/"outcome": "done"/"outcome": "stopped"/' stopped/run.json
  for every in 1 2; do # with 2 its first state would have the name of one that is there
    for ((k = 1; ; k++)); do
      copy stopped run
      fault=file:$k:crash status=0 runs=$((runs + 1))
      { LD_PRELOAD=$faults ACCRUE_FAULT=$fault ACCRUE_FAULT_PATH=run.json \
        "$accrue" train "${flags[@]}" "${more[@]}" --out run --metrics run.jsonl --steps 5 --save-every $every --keep 1 --overwrite \
        >run.out 2>run.err; } 2>/dev/null || status=$?
      cp run.err run.first.err
      ((status == 137)) || break
      rm -f run.jsonl # metrics are replaced at once
      train run 5 "${more[@]}" || wrong 'it does not go on'
      grep -q 'going on after step' run.err || wrong 'the states are lost'
    done
    ((status == 0 && k > 5)) || wrong "status $status of call $k"
  done
}

named() { # KIND K
  case $1 in
    memory) fault=memory:$2 ;;
    *) fault=${1%%:*}:$2:${1#*:} ;;
  esac
}

set_mode() {
  mode=$1 begin=none whole=whole more=(--lr 0.01)
  case $mode in
    going) begin=half whole=ended ;;
    best) whole=best more=(--keep-best --lr 0.5) ;; # the best model is not the last
  esac
}

set_mode new
train whole 5 "${more[@]}"
train half 2 "${more[@]}"
copy half ended
train ended 5 "${more[@]}"
set_mode best
train best 5 "${more[@]}"
! cmp -s best/model.safetensors whole/model.safetensors

full_disk
over_another
for mode in $modes; do
  set_mode "$mode"
  for kind in $kinds; do
    named "$kind" 0
    disturb
    read -r calls _ <report
    step=${every:-$((calls / 12 + 1))}
    for ((k = 1 + (step > 1 ? runs % step : 0); k <= calls; k += step)); do
      named "$kind" $k
      disturb
    done
  done
done
echo "$runs runs, $failed went wrong"
((!failed))
