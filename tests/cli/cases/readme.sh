# The commands of the README and of docs/start, exactly as written there.

# page_commands FILE: the lines of its indented blocks without their comments, the commands of its consoles, and those within its
# sentences.
page_commands() {
  awk '/^```/ { fenced = !fenced }
    fenced && /^\$ accrue train / { print substr($0, 3) }
    !fenced && /^    [^ ]/ { sub(/^ +/, ""); sub(/ +# .*/, ""); print }' "$1"
  awk '/^```/ { fenced = !fenced; next } !fenced && !/^    /' "$1" | tr '\n' ' ' |
    grep -oE '`(accrue|cmake|tools/[a-z0-9-]+\.sh) [^`]*`' | tr -d '`' || true
}

# run_page FILE: runs its commands in a folder with what they read, for a few steps, and counts them in `count`. A command
# that is not known here fails the test: if a page gets a new command, say here what it needs.
run_page() {
  local line more source=$here/../..
  while read -r line; do
    more=''
    count=$((count + 1))
    case $line in
    'tools/'*)
      line=${line%% *}
      [[ -x $source/$line ]] || die "$1 names $line"
      continue # by hand: they install packages, build and test
      ;;
    'apt-get install '* | 'cmake '* | 'export PATH='*)
      continue # configure.sh and install.sh
      ;;
    'cc '* | './first_model mnist') continue ;; # tests/cli/readme.sh
    'accrue --help' | 'accrue help '* | 'accrue devices' | 'accrue devices --auto' | 'accrue train gpt --help' | 'accrue eval '* | 'accrue plan '* | 'accrue sample '* | 'accrue predict '* | 'accrue init '*) ;;
    'accrue train '*) more='--steps 2' ;;
    'accrue verify '*) more='--updates 1' ;;
    'accrue pilot mlp '*) more='--epochs 1 --hidden 8' ;;
    'accrue bench all') more='--device cpu --model gpt-small --batch 2 --context 16 --size 48 --visits 1 --samples 5
      --seconds 0.01 --footprint 1MiB' ;;
    'accrue report' | 'accrue init') continue ;; # named in a sentence
    'accrue report '*) command -v gnuplot >/dev/null || continue ;;
    *) die "$1 has a command that its test does not know: $line" ;;
    esac
    bash -c "$line ${more//$'\n'/ }" >out 2>err </dev/null || die "status $?: $line: $(cat err)"
    [[ -s out ]] || die "nothing on stdout: $line"
    # Typed once more it costs nothing.
    [[ $line != 'accrue train '* || $line == *--help* || $line == *--resume* ]] || refuse 2 'holds a run already' ${line#accrue } ${more//$'\n'/ }
  done < <(page_commands "$source/$1")
}

case_readme() {
  local bin=$work/bin page count=0
  mkdir "$bin"
  ln -s "$ACCRUE" "$bin/accrue"
  export PATH=$bin:$PATH
  for page in README.md docs/start/first-run.md docs/start/install.md docs/start/first-model.md; do
    mkdir -p "$work/${page//\//-}/mnist"
    cd "$work/${page//\//-}"
    "$FIXTURE" images mnist train 300
    "$FIXTURE" images mnist t10k 50
    cp mnist/t10k-images-idx3-ubyte digits-idx3-ubyte
    seq 1 3000 >book.txt
    head -c 100000 /dev/zero >tokens.bin # of two bytes each
    mkdir SmolLM2-135M-Instruct
    "$FIXTURE" llm SmolLM2-135M-Instruct 1
    "$FIXTURE" chats 120 >chats.jsonl
    run_page "$page"
  done
  ((count >= 20)) || die "only $count commands were found"
  cd "$work/README.md"
  "$METRICS" check model/metrics.jsonl
  grep -q 'total .* of 64.0 MiB' <(accrue plan gpt --data book.txt --memory 64MiB) || die "the plan is not for 64 MiB"
}
