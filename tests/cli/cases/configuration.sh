# Shapes by name, flags from a file, names of parameters, and results as JSON.

# bad TEXT JSON: a file of flags that is refused, with its name, the key and what is right.
bad() {
  echo "$2" >bad.json
  refuse 2 "bad.json: $1" train --config bad.json
}

case_presets() {
  local name count
  # The numbers of weights are those of the published models. No data is needed.
  while read -r name count; do
    run plan gpt --preset "$name" --batch 1 --device dry >out
    grep -q "^model  *$count parameters" out || die "$name: $(cat out)"
  done <<'SIZES'
gpt2-124m 124,439,808
gpt2-355m 354,823,168
gpt2-774m 774,030,080
gpt2-1.5b 1,557,611,200
SIZES
  run plan resnet --preset resnet18 --device dry >out
  grep -q '^model  *11,173,962 parameters' out || die "$(cat out)"
  run plan resnet --preset resnet18 --classes 100 --device dry >out
  grep -q '^model  *11,220,132 parameters' out || die "$(cat out)"
  run plan mobilenet --preset mobilenet --device dry >out
  run plan mlp --preset lenet-300-100 --device dry >out
  grep -q '^model  *266,610 parameters' out || die "$(cat out)"

  # What is given wins, and the run's record has what came of it. A text is learned as bytes.
  text
  run train gpt --preset gpt-tiny --layers 1 --data text --steps 2 --device cpu --out tiny >/dev/null
  grep -q '"layers": 1,' tiny/run.json && grep -q '"width": 64,' tiny/run.json || die "$(cat tiny/run.json)"
  run train --resume --steps 3 --out tiny >/dev/null
  run eval --model tiny --data text >out
  run plan gpt --preset gpt2-124m --layers 1 --width 48 --context 64 --data text --device dry --json >out
  grep -q 'text is text, so the model learns bytes' run.err || die "$(cat run.err)"
  grep -q '"parameter_count": 43728,' out || die "$(grep count out)" # 256 x 48 + 64 x 48 + a block + a norm
  "$FIXTURE" tokens tokens 4000 300
  run plan gpt --preset gpt2-124m --layers 1 --width 48 --context 64 --data tokens --device dry --json >out
  grep -q '"parameter_count": 2443776,' out || die "$(grep count out)"

  refuse 2 '--preset gpt2-124 is unknown; did you mean gpt2-124m? gpt has gpt2-124m, gpt2-355m' plan gpt --preset gpt2-124
  refuse 2 '--preset nothing is unknown; resnet has resnet18, resnet34' plan resnet --preset nothing
  refuse 2 '--preset resnet18 is a shape of the model resnet, not of gpt' plan gpt --preset resnet18
  refuse 2 '--data is missing' train gpt --preset gpt-tiny
  refuse 2 '--data is missing' train resnet --preset resnet18
  refuse 2 'did you mean gpt?' train GPT2
  refuse 2 'did you mean gpt?' train GPT
  refuse 2 'did you mean resnet?' train cnn
  refuse 2 'did you mean gpt --preset gpt2-124m?' train gpt2-124m
}

case_configuration() {
  text
  local model
  # What is printed gives the same run, and is printed again.
  local flags=(--data text "${tiny[@]}" --steps 4 --memory 1.5GiB --batch 6@0,8@2 --group '*.bias:decay=0' --schedule linear
    --lr 0.005 --precision bf16 --save-minutes 0 --seed 3)
  run train gpt "${flags[@]}" --print-config --out model >first.json
  [[ ! -e model && ! -s run.err ]] || die "printing has made something"
  grep -q '"memory": "1.5GiB"' first.json && grep -q '"batch": "6@0,8@2"' first.json || die "$(cat first.json)"
  grep -q '"save-minutes": 0' first.json && grep -q '"lr-rise": 0.3' first.json || die "$(cat first.json)"
  run train --config first.json --print-config >second.json
  cmp first.json second.json
  run train gpt "${flags[@]}" --out a >/dev/null
  run train --config first.json >/dev/null
  cmp a/model.safetensors model/model.safetensors
  for model in mlp resnet mobilenet; do
    run plan $model --epochs 2 --print-config >first.json
    run plan --config first.json --print-config | cmp first.json -
  done

  # Flags alone; those of the command line win, and a file's preset is only where they begin.
  cat >own.json <<'JSON'
{"model": "gpt", "data": "text", "preset": "gpt-tiny", "layers": 1, "steps": 2, "device": "cpu", "memory": "512MiB",
 "keep-best": false, "group": ["*.bias:decay=0", "*.ln_*:lr=0.5"], "out": "own"}
JSON
  run train --config own.json --steps 3 >out
  grep -q 'done after 3 updates' out || die "$(cat out)"
  run train gpt --config own.json --preset gpt-small --print-config >out
  grep -q '"layers": 4' out || die "a preset that is given does not win: $(cat out)"
  run train --config own.json --epochs 1 --print-config >out
  ! grep -q '"steps"' out || die "steps and epochs: $(cat out)"
  run lr-find --config own.json --updates 10 >out
  run verify --config own.json --batch 4 --updates 1 >out
  run pilot gpt --config own.json --grid lr=0.001,0.01 --out pilot >out
  (($(wc -l <out) >= 3)) || die "$(cat out)"
  run pilot --config own.json --grid lr=0.001,0.01 --out unnamed >again # the file names the model
  cmp <(sed 's/|.*//' out) <(sed 's/|.*//' again)

  # What is wrong is said with the file, the key, the value, and what is right.
  bad 'layrs is not a flag of accrue train gpt; did you mean layers?' '{"model": "gpt", "layrs": 1}'
  bad 'flags.weight_decay is not a flag of accrue train gpt; did you mean weight-decay?' '{"model": "gpt", "flags": {"weight_decay": 1}}'
  bad 'learning-rate is not a flag of accrue train gpt; did you mean lr?' '{"model": "gpt", "learning-rate": 1}'
  bad 'layers: "1" is not allowed: it must be a whole number' '{"model": "gpt", "layers": "1"}'
  bad 'layers: --layers 0 is out of range: it must be at least 1' '{"model": "gpt", "layers": 0}'
  bad 'seed: 1.5 is not allowed: it must be a whole number' '{"model": "gpt", "seed": 1.5}'
  bad 'flags.memory: --memory 64MB has the unknown unit MB' '{"model": "gpt", "flags": {"memory": "64MB"}}'
  bad 'defaults.keep: --keep 1001 is out of range' '{"model": "gpt", "defaults": {"keep": 1001}}'
  bad 'flip: 1 is not allowed: it must be true or false' '{"model": "resnet", "flip": 1}'
  bad 'group: "*:lr=1" is not allowed: it must be a list' '{"model": "gpt", "group": "*:lr=1"}'
  bad 'lr: "1e-3" is not allowed: it must be a number' '{"model": "gpt", "lr": "1e-3"}'
  bad 'lr: null is not allowed' '{"model": "gpt", "lr": null}'
  bad 'batch: "6" is not allowed: it must be a whole number, or a schedule such as "32@0,128@500"' '{"model": "gpt", "batch": "6"}'
  bad 'schedule: --schedule cosin is unknown: it must be one of constant, cosine' '{"model": "gpt", "schedule": "cosin"}'
  bad 'data: 5 is not allowed: it must be a text' '{"model": "gpt", "data": 5}'
  bad 'preset: --preset gpt3 is unknown' '{"model": "gpt", "preset": "gpt3"}'
  bad 'config belongs on the command line' '{"model": "gpt", "config": "other.json"}'
  bad 'flags.resume belongs on the command line' '{"model": "gpt", "flags": {"resume": true}}'
  bad 'model: unknown model gtp; did you mean gpt?' '{"model": "gtp"}'
  bad 'model must be the name of a model' '{"model": 5}'
  bad 'extra is unknown next to flags' '{"model": "gpt", "flags": {}, "extra": 1}'
  echo '{"model": "gpt",' >bad.json
  refuse 2 'bad.json is not a configuration or a record of a run: line 2' train --config bad.json
  echo '{"model": "mlp"}' >bad.json
  refuse 2 'bad.json: model is mlp, but the command is for gpt' train gpt --config bad.json
  echo '{"grid": ["lr=1,2"]}' >bad.json
  refuse 2 'bad.json: grid belongs on the command line' pilot gpt --config bad.json --data text
  echo '{"json": true}' >bad.json
  refuse 2 'bad.json: json belongs on the command line' pilot gpt --config bad.json --data text
  refuse 2 'a pilot goes on without --resume: repeat the whole command' pilot gpt --resume
  refuse 2 'without --resume: repeat the whole command' pilot --resume
}

# field FILE KEY: the number, text or word of a key, of the first line that has it.
field() { sed -n "s/^ *\"$2\": \"\\{0,1\\}\\([^\",]*\\)\"\\{0,1\\},\\{0,1\\}\$/\\1/p" "$1" | head -n 1; }

case_names() {
  local flags=(plan gpt --preset gpt-tiny --device dry --names)
  run "${flags[@]}" >out
  (($(wc -l <out) == 29)) || die "$(cat out)"
  grep -qE '^transformer.wte.weight +256 x 64 +16,384 +64.0 KiB +128.0 KiB +adamw$' out || die "$(cat out)"
  run "${flags[@]}" --freeze '*.wte.*' --group '*.bias:decay=0' --group 'nothing*:lr=1' --optimizer muon >out
  grep -qE '^transformer.wte.weight .* 0 B +frozen +-$' out || die "$(cat out)"
  grep -qE '^transformer.h.0.attn.c_attn.weight .* muon +-$' out || die "$(cat out)"
  grep -qE '^transformer.h.0.attn.c_attn.bias .* adamw +\*.bias:decay=0$' out || die "$(cat out)"
  grep -qF -- '--group nothing*:lr=1 matches no parameter' run.err || die "$(cat run.err)"
  run "${flags[@]}" --optimizer-state 8bit >out
  grep -qE '^transformer.h.0.mlp.c_fc.weight .* adamw, 8 bits$' out || die "$(cat out)"
  run "${flags[@]}" --precision bf16 --weights bf16 --json >out
  (($(grep -c '"name": "transformer' out) == 28 && $(grep -c '"dtype": "bf16"' out) > 8)) || die "$(cat out)"
  run "${flags[@]}" --group $'*.bias,\xff:decay=0' --json >out
  (($(grep -c '"name": "transformer' out) == 28)) || die "a group that is not UTF-8 loses parameters: $(cat out)"
}

case_json_results() {
  text
  train --steps 3 --json --out model >result.json
  [[ $(field result.json outcome) == done && $(field result.json weights) == model/model.safetensors ]] || die "$(cat result.json)"
  [[ $(field result.json updates) == 3 && $(field result.json run) == "$(field model/run.json id)" ]] || die "$(cat result.json)"
  [[ $(field result.json planned_bytes) == "$(field result.json peak_bytes)" ]] || die "$(cat result.json)"
  [[ $(head -n 1 result.json)$(tail -n 1 result.json) == '{}' ]] || die "more than an object: $(cat result.json)"
  ! grep -q '"json"' model/run.json || die "the record has --json"
  # Nothing is saved: still an object, and the exit status tells.
  local status=0
  "$ACCRUE" train gpt --data text "${tiny[@]}" --steps 3 --lr 1e30 --clip 0 --json --out lost >result.json 2>err || status=$?
  ((status == 1)) || die "status $status: $(cat err)"
  [[ $(field result.json outcome) == diverged && $(field result.json weights) == null && $(field result.json val_loss) == null ]] ||
    die "$(cat result.json)"
  status=0
  "$ACCRUE" train gpt --data nowhere "${tiny[@]}" --json >result.json 2>err || status=$?
  ((status == 1)) && [[ ! -s result.json ]] || die "status $status: $(cat result.json)"

  run verify gpt --data text "${tiny[@]}" --micro-batch 2 --json >result.json
  [[ $(field result.json same) == true && $(field result.json different_gradients) == 0 ]] || die "$(cat result.json)"
  (($(grep -c '"allowed": 1e-5' result.json) >= 16)) || die "$(cat result.json)"
  [[ $(head -n 1 result.json)$(tail -n 1 result.json) == '{}' ]] || die "more than an object: $(cat result.json)"
  mkdir pair
  "$FIXTURE" images pair train 60
  "$FIXTURE" images pair t10k 20
  status=0
  "$ACCRUE" verify resnet --data pair --batch 20 --width 8 --norm batch --micro-batch 5 --batch-norm micro --device cpu --json \
    >result.json 2>err || status=$?
  ((status == 1)) || die "status $status: $(cat err)"
  [[ $(field result.json same) == false ]] && grep -q '"op": "batch_norm"' result.json || die "$(cat result.json)"

  # A reader of a pipe sees what is planned while verify works.
  mkfifo pipe
  "$ACCRUE" verify gpt --data text "${tiny[@]}" --width 64 --context 64 --updates 100 --device cpu >pipe 2>/dev/null &
  local line pid=$!
  read -r line <pipe || true
  kill -0 $pid 2>/dev/null || die "nothing is seen before the end: $line"
  [[ $line == whole* ]] || die "another first line: $line"
  kill $pid 2>/dev/null || true
  wait $pid 2>/dev/null || true
}
