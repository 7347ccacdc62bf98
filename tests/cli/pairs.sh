#!/usr/bin/env bash
# tests/cli/pairs.sh PROGRAM FIXTURE PAIRS [SEED]: draws pairs of commands over one folder and one set of paths, named crosswise
# (a model as metrics, data as a picture, another run's folder as --out), and shows that nothing that was there before is
# lost without having been asked for. A failure names the commands and the file; the same SEED draws them again.
#
# These are asked for: --overwrite replaces the run in --out, --resume changes the run that is resumed, a pilot changes its
# own folder, and an output replaces a file of its own kind. A command that is refused (status 2) changes nothing at all.
set -euo pipefail
program=$(realpath "$1") fixture=$(realpath "$2") pairs=$3 seed=${4:-$RANDOM}
RANDOM=$seed
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OMP_WAIT_POLICY=passive ACCRUE_CACHE_DIR="$work/cache"

pick() { # NAME CHOICE...: one of them
  local -n into=$1
  shift
  # shellcheck disable=SC2034
  into=${@:1 + RANDOM % $#:1}
}

# ---- the scene: what people have ----------------------------------------------------------------------

small=(--device cpu --threads 1)
gpt=(gpt --layers 1 --heads 1 --width 8 --context 8 --batch 2 --micro-batch 2 --recompute none "${small[@]}")
mlp=(mlp --hidden 4 --batch 4 --micro-batch 4 --recompute none "${small[@]}")
quietly() { "$program" "$@" >"$work/out" 2>&1 || { echo "the scene cannot be made: accrue $*: $(cat "$work/out")" >&2; exit 1; }; }

mkdir scene
cd scene
seq 1 400 >book.txt
mkdir imgs
"$fixture" images imgs train 40
"$fixture" images imgs t10k 10
echo '{"version": 1, "max_lr": 0.5}' >policy.json
quietly train "${gpt[@]}" --data book.txt --steps 4 --save-every 2 --out g
quietly train "${mlp[@]}" --data imgs --steps 4 --keep-best --ema 0.9 --out m
quietly train "${gpt[@]}" --data book.txt --steps 3 --out e --metrics ext.jsonl
quietly train "${mlp[@]}" --data imgs --steps 1000000 --max-minutes 0.002 --out u # not at its end
quietly pilot "${gpt[@]}" --data book.txt --steps 2 --grid lr=1e-3,1e-2 --out p
quietly plan "${gpt[@]}" --data book.txt --svg picture.svg
quietly report g --out page.html
cp g/model.safetensors g/state-0000000099.safetensors # somebody's own copies
cp m/model.safetensors g/other.safetensors
echo 'what I tried' >g/notes.md
echo 'mine' >m/config.json.orig
cd ..

# ---- commands -----------------------------------------------------------------------------------------

files=(book.txt imgs/train-images-idx3-ubyte policy.json g/model.safetensors m/model.safetensors g/run.json m/run.json
  g/config.json g/notes.md g/state-0000000004.safetensors g/state-0000000099.safetensors g/metrics.jsonl m/metrics.jsonl ext.jsonl picture.svg page.html
  p/pilot.json p/run-0001/metrics.jsonl)
folders=(g m e u p p/run-0001 imgs .)
fresh=(new new/deep g/new imgs/new)

# draw: sets `command` (words), and what it asks for: `asked` (a pattern of paths that it may change).
draw() {
  local verb out metrics data init extra where
  command=() asked='^$'
  pick verb train-gpt train-gpt train-mlp train-mlp resume resume pilot eval report sample plan lr-find config
  pick out "${folders[@]}" "${fresh[@]}" "${files[@]}"
  pick metrics "${files[@]}" fresh.jsonl new/fresh.jsonl g
  case $verb in
    train-gpt | train-mlp)
      if [[ $verb == train-gpt ]]; then
        pick data book.txt book.txt book.txt . g/model.safetensors
        command=(train "${gpt[@]}" --data "$data" --steps 2)
      else
        command=(train "${mlp[@]}" --data imgs --steps 2)
      fi
      command+=(--out "$out")
      pick extra none none metrics tensorboard overwrite init policy
      case $extra in
        metrics) command+=(--metrics "$metrics") ;;
        tensorboard) pick where "${folders[@]}" "${fresh[@]}" "${files[@]}" && command+=(--tensorboard "$where") ;;
        overwrite) command+=(--overwrite) asked="^${out//./\\.}/" ;;
        init) pick init g/model.safetensors m/model.safetensors g && command+=(--init "$init" --metrics "$init") ;;
        policy) command+=(--policy policy.json --metrics policy.json) ;;
      esac
      ;;
    resume)
      command=(train --resume --steps 6 --out "$out") asked="^${out//./\\.}/"
      [[ $out != e ]] || asked='^(e/|ext\.jsonl$)'
      pick extra none none metrics
      [[ $extra == none ]] || { command+=(--metrics "$metrics") && asked="^${out//./\\.}/"; }
      ;;
    config)
      pick data g/run.json m/run.json e/run.json
      command=(train --config "$data" --steps 2)
      pick extra none out
      [[ $extra == none ]] || command+=(--out "$out")
      ;;
    pilot)
      pick data 1e-3,1e-2 1e-3,1e-4
      command=(pilot "${gpt[@]}" --data book.txt --steps 2 --grid "lr=$data" --out "$out")
      [[ $out != p ]] || asked='^p/'
      ;;
    eval)
      pick data g/model.safetensors m/model.safetensors g m e u "$out"
      command=(eval --model "$data" --data imgs "${small[@]}")
      ;;
    report)
      pick data g m e u p "$out"
      pick where "${files[@]}" fresh.html new/fresh.html
      command=(report "$data" --out "$where")
      [[ $where != page.html ]] || asked='^page\.html$'
      ;;
    sample) command=(sample --model "$out" --bytes 3 "${small[@]}") ;;
    plan | lr-find)
      pick where "${files[@]}" fresh.svg new/fresh.svg
      command=($verb "${gpt[@]}" --data book.txt --svg "$where")
      [[ $verb == plan ]] || command+=(--updates 10)
      [[ $where != picture.svg ]] || asked='^picture\.svg$'
      ;;
  esac
}

# What somebody put there is nobody's to change, whatever a command asks for.
theirs='^(g/(notes\.md|other\.safetensors|state-0000000099\.safetensors)|m/config\.json\.orig|imgs/.*|book\.txt|policy\.json)$'

snapshot() { find . -type f -print0 | sort -z | xargs -0 sha256sum | sed 's/^\([0-9a-f]*\)  \.\//\1 /'; }

# lost BEFORE AFTER: files of BEFORE that AFTER has not, or that hold something else.
lost() { awk 'NR == FNR { now[$2] = $1; next } now[$2] != $1 { print $2 }' "$2" "$1"; }

failures=0 done_=0 refused=0 failed=0
for ((pair = 1; pair <= pairs; pair++)); do
  rm -rf stage && cp -a scene stage
  cd stage
  history=()
  for _ in 1 2; do
    draw
    history+=("accrue ${command[*]}")
    snapshot >../before
    status=0
    timeout 60 "$program" "${command[@]}" >../out 2>../err </dev/null || status=$?
    ((status < 3)) || { echo "status $status: ${history[*]}: $(tail -n 3 ../err)" && failures=$((failures + 1)); }
    case $status in 0) done_=$((done_ + 1)) ;; 2) refused=$((refused + 1)) ;; *) failed=$((failed + 1)) ;; esac
    snapshot >../after
    # Nor does it leave anything.
    if ((status == 2)) && ! cmp -s <(cut -d ' ' -f 2 ../before) <(cut -d ' ' -f 2 ../after); then
      echo "left by a refusal: $(comm -13 <(cut -d ' ' -f 2 ../before) <(cut -d ' ' -f 2 ../after) | tr '\n' ' '): ${history[*]}"
      failures=$((failures + 1))
    fi
    while read -r path; do
      if ((status != 2)) && [[ $path =~ $asked && ! $path =~ $theirs ]]; then continue; fi
      echo "lost: $path, by (status $status)"
      printf '  %s\n' "${history[@]}"
      sed 's/^/    /' ../err | tail -n 3
      failures=$((failures + 1))
    done < <(lost ../before ../after)
  done
  cd ..
done
echo "$pairs pairs of commands, seed $seed: $done_ done, $refused refused, $failed failed; $failures losses"
((!failures && done_ > pairs / 5)) # else the test has become empty
