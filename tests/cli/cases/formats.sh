# Reading files: each flag that names a file gets files of all formats, pipes, and files with various metadata.

quick=(--micro-batch 1 --recompute none --batch 1 --steps 1 --warmup 0)

# as_reader N FILE: the command that reads FILE as reader N of tests/support/formats.h. Models are read by their header alone.
as_reader() {
  local gpt=(plan gpt --device dry --layers 1 --heads 1 --width 8 --context 8 "${quick[@]}")
  local mlp=(plan mlp --device dry --hidden 4 --classes 100 "${quick[@]}")
  case $1 in
  1) command=("${gpt[@]}" --data "$2") ;;
  2) command=("${gpt[@]}" --vocab 65536 --data "$2") ;;
  4) command=("${mlp[@]}" --images "$2" --labels all/idx1) ;;
  8) command=("${mlp[@]}" --images all/idx3 --labels "$2") ;;
  16) command=("${mlp[@]}" --data "$2") ;;
  64) command=("${gpt[@]}" --data all/text --init "$2") ;;
  128) command=(train "${gpt[@]:1}" --data all/text --policy "$2" --out none) ;;
  esac
}

# Every reader reads its own format, also compressed by gzip, and names the other formats.
case_formats() {
  mkdir all packed
  "$FIXTURE" formats all
  local name called readers reader command file
  while IFS='|' read -r name called readers; do
    for reader in 1 2 4 8 16 64 128; do
      ((readers & reader || (reader == 16 && readers & 32))) && continue
      [[ $called == integers ]] && { ((reader == 2)) || continue; }
      as_reader $reader all/"$name"
      "$ACCRUE" "${command[@]}" >out 2>err && die "taken: accrue ${command[*]}"
      grep -q "^accrue: all/$name .*$called" err || die "not by its name: accrue ${command[*]}: $(cat err)"
    done
  done < <("$FIXTURE" list)
  for file in text:1 tokens:2 llmc16:2 idx3:4 idx1:8 cifar10:16 cifar100:16; do
    gzip -c all/"${file%:*}" >packed/file.gz
    as_reader "${file#*:}" all/"${file%:*}"
    run "${command[@]}" >plain
    as_reader "${file#*:}" packed/file.gz
    run "${command[@]}" >unzipped
    cmp plain unzipped || die "another plan for gzip data of ${file%:*}"
  done
  # A picture among texts is refused by name; --binary reads its bytes.
  mkdir mixed
  cp all/text all/png mixed
  as_reader 1 mixed
  refuse 1 'mixed/png is a PNG picture, not text' "${command[@]}"
  run "${command[@]}" --binary >/dev/null
  # Classifiers' data are not text.
  "$FIXTURE" images . train 30
  mkdir digits && mv train-* digits
  as_reader 1 digits
  refuse 1 'train-images-idx3-ubyte is an IDX file, not text' "${command[@]}"
}

# Data may come through pipes, and all of it does.
case_data_pipes() {
  { for ((i = 0; i < 100; i++)); do printf '\x60\xea'; done; } >bad # 60000
  "$FIXTURE" tokens good 19900 1000
  cat bad good >tokens
  quick+=(--device cpu --threads 1)
  local tiny=(--vocab 1000 --layers 1 --heads 1 --width 8 --context 8 "${quick[@]}")
  refuse 1 'token 60000 at position 0 is outside' plan gpt --data tokens "${tiny[@]}"
  refuse 1 'token 60000 at position 0 is outside' plan gpt --data <(cat tokens) "${tiny[@]}"
  mkfifo pipe
  cat tokens >pipe &
  refuse 1 'token 60000 at position 0 is outside' plan gpt --data pipe "${tiny[@]}"
  run train gpt --data good "${tiny[@]}" --out a >/dev/null
  run train gpt --data <(cat good) "${tiny[@]}" --out b >/dev/null
  cmp a/model.safetensors b/model.safetensors
  # CIFAR-100's records are looked at twice, but read once.
  mkdir all
  "$FIXTURE" formats all
  run train mlp --hidden 4 --classes 100 --data all/cifar100 "${quick[@]}" --out c >/dev/null
  run train mlp --hidden 4 --classes 100 --data <(cat all/cifar100) "${quick[@]}" --out d >/dev/null
  cmp c/model.safetensors d/model.safetensors
}

# A pipe in the place of any other file is refused at once; nobody ever writes to these.
case_file_pipes() {
  text
  train --steps 2 --save-every 1 --metrics model/metrics.jsonl --out model >/dev/null
  at_once() { # TEXT ARGUMENT...: the program ends within its time and says TEXT
    local text=$1
    shift
    timeout 60 "$ACCRUE" "$@" >out 2>err </dev/null && die "taken: accrue $*"
    grep -qF -- "$text" err || die "no '$text': accrue $*: $(cat err)"
  }
  pipe() { rm -f "$1" && mkfifo "$1"; }
  local what='it is a pipe, not a file'
  pipe fifo
  at_once "cannot read fifo: $what" sample --model fifo
  at_once "cannot read fifo: $what" eval --model fifo --data text
  at_once "cannot read fifo: $what" train gpt --data text --init fifo "${tiny[@]}"
  at_once "cannot read fifo: $what" train --config fifo --out other
  at_once "cannot read fifo: $what" train gpt --data text "${tiny[@]}" --policy fifo --out other
  cp -r model report
  pipe report/eval.json
  at_once 'report/eval.json' report report --out page.html
  rm report/eval.json
  pipe report/metrics.jsonl
  timeout 60 "$ACCRUE" report report --out page.html >out 2>err || die "no report: $(cat err)"
  pipe report/run.json
  at_once "report/run.json" report report --out page.html
  cp -r model resumed
  pipe resumed/state-0000000099.safetensors
  at_once "99.safetensors is a pipe" train --resume --steps 3 --out resumed
  mkdir bare
  "$FIXTURE" model model/model.safetensors bare/model.safetensors
  pipe bare/config.json
  at_once "bare/config.json: $what" sample --model bare
}

# What files say of themselves has the ranges of the flags, and is read as strictly.
case_described() {
  text
  train --steps 1 --out a >/dev/null
  mkdir b
  local value
  for value in 1e3 2x ' 2' '2 ' 0 -1 65537 9223372036854775808 ''; do
    "$FIXTURE" model a/model.safetensors b/model.safetensors "accrue.heads=$value"
    refuse 1 "is damaged: its heads is $value, not a whole number from 1 to 65536" sample --model b
  done
  "$FIXTURE" model a/model.safetensors b/model.safetensors accrue.heads=2 accrue.width=17
  refuse 1 'says that width is 17, but the tensors are those of 16' sample --model b
  "$FIXTURE" model a/model.safetensors b/model.safetensors
  for value in 2.0 '"2"' 0 70000 true; do
    sed "s/\"n_head\": 2/\"n_head\": $value/" a/config.json >b/config.json
    refuse 1 "config.json is damaged: its heads is $value, not a whole number" sample --model b
  done
  sed 's/"n_layer": 1/"n_layer": 2/' a/config.json >b/config.json
  refuse 1 'says that layers is 2, but the tensors are those of 1' sample --model b
  for value in '"1"' true 1e-6; do
    sed "s/\"layer_norm_epsilon\": [^,]*/\"layer_norm_epsilon\": $value/" a/config.json >b/config.json
    refuse 1 'sets layer_norm_epsilon' sample --model b
  done
  echo '{' >b/config.json
  refuse 1 'config.json is damaged' sample --model b
  cp a/config.json b
  run sample --model b --bytes 1 >/dev/null

  "$FIXTURE" images . train 30
  local net=(accrue.norm=group accrue.classes=10) data=(--images train-images-idx3-ubyte --labels train-labels-idx1-ubyte --device cpu)
  for value in 9000000000000 8x 8,8 0 1203 ''; do
    "$FIXTURE" model a/model.safetensors net accrue.model=mobilenet "${net[@]}" accrue.width=8 "accrue.depth=$value"
    refuse 1 'damaged description of its depth' eval --model net "${data[@]}"
    refuse 1 'damaged description of its depth' train mobilenet --init net "${data[@]}"
  done
  for value in 4611686018427387904 4097 1e1; do
    local kind
    for kind in resnet mobilenet; do
      "$FIXTURE" model a/model.safetensors net accrue.model=$kind "${net[@]}" "accrue.width=$value" accrue.depth=8
      refuse 1 'damaged description of its width' eval --model net "${data[@]}"
    done
  done
  # Sizes that --patch does not divide have no positions.
  for value in 8x3 3x8 x 8 0x8 99999x8; do
    "$FIXTURE" model a/model.safetensors net accrue.model=vit accrue.width=8 accrue.depth=1 accrue.heads=1 accrue.patch=4 \
      accrue.classes=10 "accrue.image=$value"
    refuse 1 'damaged description of its images' eval --model net "${data[@]}"
  done
  for value in '10 ' 1 1048577 x; do
    "$FIXTURE" model a/model.safetensors net accrue.model=mlp accrue.hidden=8 "accrue.classes=$value"
    refuse 1 'damaged description of its layers' eval --model net "${data[@]}"
  done
  for value in 8x 8, ' 8' 1048577 ''; do
    "$FIXTURE" model a/model.safetensors net accrue.model=mlp "accrue.hidden=$value" accrue.classes=10
    refuse 1 'damaged description of its layers' eval --model net "${data[@]}"
  done
}

# A file that lacks a tensor is not taken for a smaller model, nor a separate head for an embedding.
case_layers_missing() {
  text
  train --layers 3 --steps 1 --out a >/dev/null
  mkdir b
  local tensor=transformer.h.1.ln_1.weight
  "$FIXTURE" model a/model.safetensors b/model.safetensors -$tensor accrue.heads=2
  refuse 1 "holds no tensor \"$tensor\"" sample --model b
  refuse 1 "holds no tensor \"$tensor\"" eval gpt --model b --data text --device cpu
  refuse 1 "holds no tensor \"$tensor\"" train gpt --data text --init b/model.safetensors --device cpu
  refuse 2 '--layers 1 contradicts' train gpt --data text --init b/model.safetensors --layers 1
  # All of the last layer.
  local part last=()
  for part in ln_1 ln_2 attn.c_attn attn.c_proj mlp.c_fc mlp.c_proj; do
    last+=("-transformer.h.2.$part.weight" "-transformer.h.2.$part.bias")
  done
  "$FIXTURE" model a/model.safetensors b/model.safetensors "${last[@]}" accrue.heads=2 accrue.layers=3
  refuse 1 'says that layers is 3, but the tensors are those of 2' sample --model b
  "$FIXTURE" model a/model.safetensors b/model.safetensors "${last[@]}"
  cp a/config.json b
  refuse 1 'says that layers is 3, but the tensors are those of 2' sample --model b
  rm b/config.json
  # The head.
  "$FIXTURE" model a/model.safetensors b/model.safetensors accrue.heads=2 +lm_head.weight=transformer.wte.weight
  run sample --model b --seed 1 --bytes 20 >head
  run sample --model a --seed 1 --bytes 20 >whole
  cmp head whole
  "$FIXTURE" model a/model.safetensors b/model.safetensors accrue.heads=2 ~lm_head.weight=transformer.wte.weight
  refuse 1 'has an lm_head.weight that is not wte.weight' sample --model b
  "$FIXTURE" model a/model.safetensors b/model.safetensors accrue.heads=2 +lm_head.weight=transformer.wpe.weight
  refuse 1 'has an lm_head.weight that is not wte.weight' sample --model b
}

# A report reads as much as there is memory for, and no line without end. (The library's bounds are those of its tests.)
case_endless() {
  text
  train --steps 2 --metrics model/metrics.jsonl --out model >/dev/null
  cp -r model long
  truncate -s 80M long/metrics.jsonl
  refuse 1 'long/metrics.jsonl: it has a line of more than 64 MiB' report long --out page.html
  truncate -s 1T long/metrics.jsonl
  refuse 1 "long/metrics.jsonl is too large for this machine's memory" report long --out page.html
  truncate -s 1T long/run.json
  refuse 1 'long/run.json is damaged: it has more than 64 MiB' report long --out page.html
  printf '{"event":"step","step":%s,"loss":1}\n' 9223372036854775806 9223372036854775807 >>model/metrics.jsonl
  run report model --out page.html
  ! grep -q -- '-9,223,372' page.html || die "a step below zero"
}
