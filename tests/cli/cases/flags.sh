# Flags and their files in docs/flags, the screens of --help, and completion. Sourced by cases.sh.

flag_folder=$here/../../docs/flags

# list_flags: into the file `table` a line NAME;COMMANDS;MODELS for each file of a flag.
list_flags() {
  awk 'function put() { if (name) print name ";" commands ";" models; name = commands = models = "" }
    FNR == 1 { put(); keys = 2 } /^---$/ { keys-- }
    keys && /^name: / { name = substr($0, 7) } keys && /^commands: / { commands = substr($0, 11) }
    keys && /^models: / { models = substr($0, 9) } END { put() }' "$flag_folder"/[a-z]*.md >table
}

# filed COMMAND [MODEL]: the flags that the files give to a command, one a line.
filed() {
  awk -F ';' -v command="$1" -v model="${2:-}" 'index(" " $2 " ", " " command " ") &&
    ($3 == "" || model == "" || index(" " $3 " ", " " model " ")) { print $1 }' table | sort
}

# every_command: the words of each command that has flags.
every_command() {
  local verb model
  for verb in train eval plan lr-find pilot verify; do
    for model in gpt llm mlp resnet mobilenet efficientnet vit convnext unet; do echo "$verb $model"; done
  done
  printf '%s\n' 'predict mlp' 'predict resnet' 'predict mobilenet' 'predict efficientnet' 'predict vit' \
    'predict convnext' 'predict unet' devices report sample \
    'bench gemm' 'bench ops' 'bench step' 'bench all' 'bench memory'
}

# narrow WIDTH FILE: no line is longer, but for one that is a single word.
narrow() {
  awk -v width="$1" 'length($0) > width && NF > 1 { print; bad = 1 } END { exit bad }' "$2" || die "more than $1 columns"
}

# Each flag of each command has a file, and each file a flag.
case_flags() {
  local words command model name count=0
  list_flags
  while read -r words; do
    read -r command model <<<"$words"
    [[ $command != bench ]] || command=bench-$model model=
    # shellcheck disable=SC2086
    run $words --help all >help
    { offered; without_effect || true; } | sort >shown
    filed "$command" "$model" >files
    [[ ! $(comm -23 shown files) ]] || die "$words: a row without a file: $(comm -23 shown files)"
    [[ ! $(comm -13 shown files) ]] || die "$words: a file without a row: $(comm -13 shown files)"
    ! grep -q '^Other:' help || die "$words has flags without a file"
    narrow 80 help
    # shellcheck disable=SC2086
    run $words --help >help
    narrow 80 help
    (($(wc -l <help) <= 45)) || die "$words --help has $(wc -l <help) lines"
    count=$((count + $(wc -l <shown)))
  done < <(every_command)
  ((count > 1000)) || die "only $count flags"
  # Each has a page with what its file says.
  while read -r name; do
    "$PROGRAM" train gpt --help "--$name" >page
    head -n 1 page | grep -qx -- "--$name\( .*\)\?" || die "train gpt --help --$name: $(cat page)"
    (($(wc -l <page) >= 5)) || die "--$name has hardly a page: $(cat page)"
  done < <(filed train gpt)
  grep -q '^Default: 0.001' <(run train gpt --help --lr) || die "--lr does not tell its default"
  cmp <(run help train gpt --lr) <(run train gpt --help --lr)
  cmp <(run train gpt --help=lr) <(run train gpt --help lr)
  (($(run help json | grep -c '^--json') >= 2)) || die "not both meanings of --json"
  run help precision | grep -q '^--precision' || die "accrue help precision"
  # A command without its model: flags and groups of any model.
  cmp <(run help plan lr) <(run plan --help --lr)
  run plan --help=lr | grep -qx -- '--lr X' || die "plan --help=lr: $(run plan --help=lr)"
  (($(run help plan data | grep -c '^--data') >= 2)) || die "not both meanings of --data"
  run help plan model | grep '^  --hidden' >/dev/null || die "help plan model: $(run help plan model)"
  ! run help plan model | grep -q '^  --temperature' || die 'help plan has flags of other commands'
  run help bench visits | grep -q '^--visits' || die "help bench visits"
  cmp <(run plan --help gpt) <(run plan gpt --help)
  cmp <(run help plan all) <(run plan --help)
  refuse 2 '--help nonsense: there is no such model, group or flag; accrue plan --help lists the models' help plan nonsense
  refuse 2 'there is no such model, group or flag' help plan --temperature
  refuse 2 'there is no such measurement, group or flag' help bench nonsense
  # Pages that a text refers to.
  run help --lr | tr '\n' ' ' | grep -qF 'learning rates (docs/guide/learning-rates.md).' || die "--lr refers to no page"
  # A group, and one of flags without effect.
  run train gpt --help learning-rate >page
  grep -q '^  --lr-period N' page || die "--help learning-rate: $(cat page)"
  ! grep -q '^  --data' page || die "flags of other groups: $(cat page)"
  run plan gpt --help learning-rate | grep -q 'without effect' || die "plan gpt --help learning-rate"
  refuse 2 'did you mean learning-rate?' train gpt --help learning-rat
  refuse 2 'did you mean lr?' train gpt --help --learning-rate
  refuse 2 'no such group or flag; accrue train gpt --help lists' train gpt --help something-else
  COLUMNS=50 run train gpt --help all >help
  narrow 50 help
  for page in --help 'train --help' 'train gpt --help'; do
    # shellcheck disable=SC2086
    COLUMNS=50 run $page >help
    narrow 50 help
  done
  COLUMNS=200 run train gpt --help >wide
  awk 'length($0) > 80 { found = 1 } END { exit !found }' wide || die "COLUMNS is not heeded"
}

# What belongs together, by the files.
case_flag_rules() {
  text
  refuse 2 '--lr-period has no meaning with --schedule cosine; it is for restarts, cyclic or step' \
    train gpt --data text --lr-period 3
  refuse 2 '--beta1 has no meaning with --optimizer sgd' train gpt --data text --optimizer sgd --beta1 0.5
  refuse 2 '--state-f32 has no meaning without --optimizer-state 8bit' train gpt --data text --state-f32 x
  refuse 2 '--histograms has no meaning without --tensorboard' train gpt --data text --histograms 3
  refuse 2 '--replay has no meaning without --loss-scale dynamic' train gpt --data text --replay
  refuse 2 '--steps and --epochs contradict each other; give one of them' train gpt --data text --steps 3 --epochs 3
  refuse 2 '--vocab and --binary contradict each other' train gpt --data text --vocab 300 --binary
  refuse 2 '--auto and --json contradict each other' devices --auto --json
  run plan gpt --data text --precision f16 --replay >/dev/null # its scale is dynamic
  # A flag that only the recorded run gave is not refused: another flag made it useless.
  train --steps 2 --schedule step --lr-period 1 --out first >/dev/null
  run train --config first/run.json --schedule constant --out second >/dev/null
  run train --config first/run.json --epochs 1 --max-bytes 500 --out third >/dev/null
}

# complete WORD...: what bash completes the last word to, one a line.
complete_words() {
  bash -c 'source ./accrue.bash; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _accrue
    if ((${#COMPREPLY[@]})); then printf "%s\n" "${COMPREPLY[@]}"; fi' - - "$@" 2>err || die "bash: $(cat err)"
  [[ ! -s err ]] || die "bash: $(cat err)"
}

completes() { # EXPECTED WORD...
  local expected=$1
  shift
  [[ $(complete_words "$@" | tr '\n' ' ') == "$expected " ]] || die "$* is completed to: $(complete_words "$@" | tr '\n' ' ')"
}

case_completion() {
  run completion bash >accrue.bash
  run completion zsh >_accrue
  bash -n accrue.bash || die "the script for bash has errors"
  ! command -v zsh >/dev/null || zsh -n _accrue || die "the script for zsh has errors"
  completes train accrue tr
  completes 'gpt llm mlp resnet mobilenet efficientnet vit convnext unet' accrue train ''
  completes 'mlp resnet mobilenet efficientnet vit convnext unet' accrue predict ''
  completes 'gemm ops step all memory' accrue bench ''
  completes '--lr-factor --lr-fall' accrue train gpt --lr-fa
  completes --heads accrue train gpt --hea
  completes --labels accrue train mlp --lab
  completes 'sgd' accrue train gpt --optimizer s
  completes 'sgd' accrue train gpt --optimizer = s
  completes 'f32 8bit' accrue train gpt --optimizer-state ''
  completes 'resnet18 resnet110 resnet18-imagenet resnet101 resnet152' accrue train resnet --preset resnet1
  completes 'none dynamic' accrue verify gpt --loss-scale ''
  completes '--size' accrue bench gemm --siz
  completes 'learning-rate limits' accrue train gpt --help l
  mkdir folder
  touch folder/file
  completes folder accrue train gpt --data fol
  completes folder/file accrue train gpt --data folder/
  mkdir 'my data'
  touch 'my data/a book.txt'
  [[ $(complete_words accrue report my) == 'my data' ]] || die "a folder with a space is completed to two words"
  [[ $(complete_words accrue train gpt --data 'my data/') == 'my data/a book.txt' ]] || die "so is a file"
  completes 'bash zsh' accrue completion ''
  refuse 2 'unknown shell fish' completion fish
  # Every command is completed.
  run --help | sed -n 's/^  \([a-z-]*\) .*/\1/p' | sort >commands
  complete_words accrue '' | grep -v -e '^-' -e '^help$' | sort | cmp - commands
}
