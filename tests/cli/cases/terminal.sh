# How the program behaves on a terminal, and how it answers to words from other programs.

# on_terminal COLUMNS COMMAND: its output as a terminal of that width got it.
on_terminal() {
  script -qec "stty cols $1; exec $2" /dev/null </dev/null
}

# Lines that are drawn again are never wider than the terminal, which would wrap them and leave a line each time.
case_terminal() {
  text
  command -v script >/dev/null || exit 77
  local columns train="$ACCRUE train gpt --data text ${tiny[*]} --steps 60"
  for columns in 24 40 80 200; do
    TERM=xterm on_terminal $columns "$train --out w$columns" >screen
    grep -q $'\033\[K' screen || die "no bar at $columns columns: $(cat screen)"
    # Each redrawn line begins with a carriage return and the code that erases it.
    tr '\r' '\n' <screen | grep $'^\033\[K' | grep -v 'validation loss' | sed $'s/\033\\[K//g' >bars
    ! grep -qE "^.{$columns,}" bars || die "wider than $columns columns: $(grep -E "^.{$columns,}" bars | head -n 1)"
    grep -q '60/60' bars || die "the bar never ends at $columns columns: $(tail -n 2 bars)"
  done
  # A terminal that cannot move its cursor gets plain lines, as a file does.
  TERM=dumb on_terminal 80 "$train --out dumb" >screen
  ! grep -q $'\033' screen || die "escape codes for a dumb terminal"
  grep -q '^step 60/60' screen || die "no plain lines: $(cat screen)"
  # The last validation shows that it goes on, and so does eval.
  mkdir pair
  "$FIXTURE" images pair train 64
  "$FIXTURE" images pair t10k 60000
  TERM=xterm on_terminal 80 "$ACCRUE train mlp --data pair --device cpu --threads 1 --hidden 512,512 --batch 16 --micro-batch 16 \
    --steps 2 --eval-every 0 --out mlp" >screen
  grep -q 'validating [0-9]*/60000' screen || die "nothing is seen of the last validation"
  TERM=xterm on_terminal 80 "$ACCRUE eval --model mlp --data pair --device cpu --threads 1 --batch 16" >screen
  grep -q 'validating [0-9]*/60000' screen || die "nothing is seen of an evaluation"
}

case_quiet() {
  text
  run train gpt --data text "${tiny[@]}" --steps 20 --quiet --out quiet >out
  [[ ! -s out && ! -s run.err && -s quiet/model.safetensors ]] || die "not quiet: $(cat out run.err)"
  refuse 1 'cannot read nowhere' train gpt --data nowhere --quiet
  # It is of the command, not of the run.
  run train --resume --steps 21 --out quiet >out
  [[ -s out && -s run.err ]] || die "a run that goes on is quiet unasked"
  run pilot gpt --data text "${tiny[@]}" --steps 2 --grid lr=1e-3,1e-2 --quiet --out pilot >out
  [[ -s out && ! -s run.err ]] || die "the pilot is not quiet: $(cat run.err)"
}

case_words() {
  text
  local data=(--data text "${tiny[@]}")
  refuse 2 'unknown flag --learning-rate; did you mean --lr?' train gpt "${data[@]}" --learning-rate 1
  refuse 2 'did you mean --batch?' train gpt "${data[@]}" --batch-size=3
  refuse 2 'did you mean --recompute?' plan gpt "${data[@]}" --gradient-checkpointing
  refuse 2 '; did you mean adamw?' train gpt "${data[@]}" --optimizer adam
  refuse 2 '--precision fp16 is unknown: it must be one of f32, f16 or bf16; did you mean f16?' train gpt "${data[@]}" --precision fp16
  refuse 2 '--precision foo is unknown: it must be one of' train gpt "${data[@]}" --precision foo
  refuse 2 'reaches GPUs through OpenCL; use --device opencl' train gpt --data text --device cuda
  refuse 2 'reaches GPUs through OpenCL; use --device opencl' bench gemm --device cpu --device cuda:0
  refuse 2 'unknown command trian; did you mean train?' trian gpt
  refuse 2 'unknown command generate; did you mean sample?' generate
  refuse 2 'did you mean --batch?' train gpt "${data[@]}" --bs 3
  refuse 2 'did you mean --precision?' train gpt "${data[@]}" --fp16
  refuse 2 'takes flags only: did you mean --data text?' train gpt text
  refuse 2 'takes flags only: did you mean --model text?' sample text
  refuse 2 'unexpected argument more; accrue train gpt takes flags only' train gpt --data text more
  refuse 2 'has no such flag for a grid; did you mean lr?' pilot gpt "${data[@]}" --grid learning-rate=1,2
  refuse 2 'what to measure is missing' bench --quick
  refuse 2 '--help yaml: there is no such group or flag' train gpt --help=yaml
  refuse 2 '--help=json is unknown: use --help' --help=json
  local words
  for words in help 'help train gpt' version; do
    # shellcheck disable=SC2086
    run $words >"$(tr ' ' - <<<"$words")"
  done
  run train gpt --help | cmp - help-train-gpt
  run --version | cmp - version
  run --help | cmp - help
  # Sizes in the short form of many programs.
  local short long
  while read -r short long; do
    cmp <(run plan gpt "${data[@]}" --memory "$short" --json) <(run plan gpt "${data[@]}" --memory "$long" --json) ||
      die "$short is not $long"
  done <<<'64M 64MiB
2G 2GiB
8192K 8192KiB
1T 1TiB'
  refuse 2 'unknown unit MB; use K, M, G or T' train gpt --data text --memory 64MB
}

# If a bench is stopped, its results so far are not lost. If a filter leaves nothing, nothing is measured.
case_bench_stopped() {
  local kind status=0
  for kind in ops step; do
    refuse 2 '--filter zzz: no row contains that' bench $kind --model gpt-small --device cpu --filter zzz
  done
  refuse 2 '--filter zzz: no row contains that' bench gemm --device cpu --filter zzz
  set -m
  "$ACCRUE" bench ops --model gpt-small --device cpu --precision f32 --json stopped.json >out 2>err &
  local pid=$! i
  for ((i = 0; i < 1200; i++)); do
    grep -qs '^launch' out && break
    sleep 0.05
  done
  sleep 1
  kill -INT $pid
  wait $pid || status=$?
  ((status == 130)) || die "status $status after SIGINT: $(cat err)"
  grep -q ' f32 ' out || die "no row is printed: $(cat out)"
  grep -q '"gpt-small"' stopped.json || die "nothing is saved: $(cat out err)"
  # The first look is one that people wait for.
  "$ACCRUE" bench gemm --quick --device cpu --precision f32 >out || die "bench --quick"
  (($(grep -c ' 512x512' out) >= 1)) || die "not what --quick measures: $(cat out)"
}
