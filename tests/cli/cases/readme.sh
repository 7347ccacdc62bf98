# The README's commands, as they stand there.

# readme_commands FILE: the lines of its indented blocks without their comments, and the commands within its sentences.
readme_commands() {
  awk '/^```/ { fenced = !fenced } !fenced && /^    [^ ]/ { sub(/^ +/, ""); sub(/ +# .*/, ""); print }' "$1"
  tr '\n' ' ' <"$1" | grep -oE '`(accrue|cmake|tools/[a-z-]+\.sh) [^`]*`' | tr -d '`'
}

# Each runs in a folder with what it reads, for a few steps. A command that is not known here fails the test: whoever
# writes it there says here what it takes.
case_readme() {
  local source=$here/../.. bin=$work/bin line count=0
  mkdir "$bin" mnist
  ln -s "$ACCRUE" "$bin/accrue"
  "$FIXTURE" images mnist train 300
  "$FIXTURE" images mnist t10k 50
  cp mnist/t10k-images-idx3-ubyte digits-idx3-ubyte
  seq 1 3000 >book.txt
  export PATH=$bin:$PATH
  while read -r line; do
    local more=''
    count=$((count + 1))
    case $line in
    'tools/quickstart.sh' | 'tools/test.sh' | 'tools/gpu-check.sh' | 'tools/gpu-check.sh --kit DIR')
      [[ -x $source/${line%% *} ]] || die "the README names $line"
      continue # by hand: they install packages, build and test
      ;;
    'cmake --preset release && cmake --build --preset release' | 'cmake --install build/release --prefix DIR' | \
      'cmake -S . -B build -DCMAKE_PREFIX_PATH=DIR && cmake --build build')
      continue # configure.sh and install.sh
      ;;
    'accrue bench gemm|ops|step|all' | 'accrue train' | 'accrue train gpt' | 'accrue pilot MODEL' | 'accrue verify' | 'accrue lr-find') continue ;; # named in a sentence, run below or above
    'accrue report RUN...' | 'accrue eval --model RUN '* | 'accrue train --resume --out DIR') continue ;; # likewise
    'accrue train gpt --help' | 'accrue devices' | 'accrue eval '* | 'accrue plan '* | 'accrue predict '* | 'accrue sample '*) ;;
    'accrue train '*) more='--steps 2' ;;
    'accrue verify '*) more='--updates 1' ;;
    'accrue pilot gpt '*) more='--steps 2 --layers 1 --heads 2 --width 16 --context 16' ;;
    'accrue pilot mlp '*) more='--epochs 1 --hidden 8' ;;
    'accrue lr-find '*) more='--updates 10 --hidden 8' ;;
    'accrue bench all') more='--device cpu --model gpt-small --batch 2 --context 16 --size 48 --visits 1 --samples 5
      --seconds 0.01 --footprint 1MiB' ;;
    'accrue report '*) command -v gnuplot >/dev/null || continue ;;
    *) die "the README has a command that its test does not know: $line" ;;
    esac
    bash -c "$line ${more//$'\n'/ }" >out 2>err </dev/null || die "status $?: $line: $(cat err)"
    [[ -s out ]] || die "nothing on stdout: $line"
    # Typed once more it costs nothing.
    [[ $line != 'accrue train '* || $line == *--help ]] || refuse 2 'holds a run already' ${line#accrue } ${more//$'\n'/ }
  done < <(readme_commands "$source/README.md")
  ((count >= 15)) || die "only $count commands were found"
  "$METRICS" check model/metrics.jsonl
  grep -q 'total .* of 64.0 MiB' <(accrue plan gpt --data book.txt --memory 64MiB) || die "the plan is not for 64 MiB"
}
