# What is done with saved models: predictions, evaluation, and models of others that a run starts from.

# Probabilities are those of a softmax: their likeliest classes are the ones that eval counts, and all of them sum to 1.
case_predict() {
  mkdir pair
  "$FIXTURE" images pair train 200
  "$FIXTURE" images pair t10k 50
  run train mlp --data pair --device cpu --hidden 16 --batch 16 --steps 40 --out mlp >/dev/null
  run train resnet --data pair --device cpu --width 4 --batch 16 --steps 2 --out resnet >/dev/null
  local model images=pair/t10k-images-idx3-ubyte labels=pair/t10k-labels-idx1-ubyte
  for model in mlp resnet; do
    run eval --model $model --data pair --device cpu --json >eval.json
    run predict --model $model --data pair --device cpu --json --top 10 >predict.json
    (($(grep -c '"index"' predict.json) == 50)) || die "not one line an image"
    sed -n 's/.*"label": \([0-9]*\), "answers": \[{"class": \([0-9]*\).*/\1 \2/p' predict.json |
      awk '{ right += $1 == $2; n++ } END { printf "%.6f\n", right / n }' >share
    sed -n 's/.*"accuracy": \([0-9.e-]*\).*/\1/p' eval.json | awk '{ printf "%.6f\n", $1 }' | cmp - share ||
      die "another accuracy than eval: $(cat share eval.json)"
    grep '"index"' predict.json | grep -oE 'probability": [0-9.e-]+|"index": [0-9]+' |
      awk '$1 == "\"index\":" { if (n++ && (sum < 0.999999 || sum > 1.000001)) bad = 1; sum = 0; last = 2; next }
           { sum += $2; if ($2 > last) bad = 1; last = $2 } END { exit bad }' || die "no probabilities in order"
    # The table says the same, and labels are not needed.
    run predict --model $model --data pair --device cpu --top 1 | awk 'NR > 1 { print $2, $3 }' >table
    sed -n 's/.*"label": \([0-9]*\), "answers": \[{"class": \([0-9]*\).*/\1 \2/p' predict.json | cmp - table
    run predict --model $model/model.safetensors --images $images --device cpu --top 1 | awk 'NR > 1 { print $2 }' >unlabelled
    cut -d ' ' -f 2 table | cmp - unlabelled
    run predict --model $model --images $images --labels $labels --device cpu --batch 7 --top 1 | awk 'NR > 1 { print $2, $3 }' |
      cmp - table
  done
  mkdir one && "$FIXTURE" images one t10k 1
  run predict --model mlp --images one/t10k-images-idx3-ubyte --device cpu >out
  (($(wc -l <out) == 2)) || die "not one image: $(cat out)"
  run predict --model mlp --images $images --split train --device cpu | tail -n +2 | wc -l | grep -qx 45 || die "another split"
  # Of a file alone eval takes the last tenth, and all when it is asked for.
  run eval --model mlp --images $images --labels $labels --device cpu | grep -q '^data  *5 of .* --split all takes all 50$' ||
    die "eval does not say that it takes a part"
  run eval --model mlp --images $images --labels $labels --device cpu --split all --json >out
  grep -q '"split": "all"' out || die "not all: $(cat out)"
  grep -q '"samples": 50' out || die "not all: $(cat out)"
  refuse 2 '--split all is for one file' eval --model mlp --data pair --split all --device cpu
  refuse 1 'is an IDX file: give images with --images' eval --model mlp --data $images --device cpu
  mkdir nothing
  refuse 1 'nothing has no images that accrue reads' eval --model mlp --data nothing --device cpu
  text
  train --steps 1 --out gpt >/dev/null
  refuse 2 'is for models of images, and gpt/model.safetensors holds a gpt' predict --model gpt --data text
  refuse 2 '--split all is for one file' predict --model mlp --data pair --split all --device cpu
  refuse 2 '--model is missing' predict --data pair
  refuse 1 'does not hold a model of kind resnet' predict resnet --model mlp --data pair --device cpu
}

# A folder as other programs write it: its weights, what begins and ends a text, its tokenizer.
case_init_folder() {
  text
  train --steps 2 --out theirs >/dev/null
  rm theirs/run.json theirs/state-*
  sed -i 's/"bos_token_id": null/"bos_token_id": 250/; s/"eos_token_id": null/"eos_token_id": [251, 7]/' theirs/config.json
  echo '{"tokenizer": 1}' >theirs/tokenizer.json
  echo 'merges' >theirs/merges.txt
  echo 'no business of ours' >theirs/README.md
  train --init theirs --steps 2 --save-every 1 --out ours >/dev/null
  train --init theirs/model.safetensors --steps 2 --out same >/dev/null
  cmp ours/model.safetensors same/model.safetensors
  grep -q '"bos_token_id": 250' ours/config.json || die "bos is lost: $(cat ours/config.json)"
  grep -q '"eos_token_id": 251' ours/config.json || die "eos is lost: $(cat ours/config.json)"
  cmp theirs/tokenizer.json ours/tokenizer.json
  cmp theirs/merges.txt ours/merges.txt
  [[ ! -e ours/README.md && ! -e ours/vocab.json ]] || die "more is copied than the tokenizer: $(ls ours)"
  # One that is there already is someone's, until a run is replaced.
  mkdir mine && echo mine >mine/tokenizer.json
  "$ACCRUE" train gpt --data text "${tiny[@]}" --init theirs --steps 1 --out mine >/dev/null 2>err || die "$(cat err)"
  [[ $(cat mine/tokenizer.json) == mine ]] || die "a tokenizer was written over"
  grep -q 'mine/tokenizer.json stays as it is; theirs/tokenizer.json is different' err || die "$(cat err)"
  cmp theirs/merges.txt mine/merges.txt
  train --init theirs --steps 1 --out mine >/dev/null
  cmp theirs/tokenizer.json mine/tokenizer.json
  # A run that goes on knows them still, though the folder is gone.
  rm -r theirs
  run train --resume --steps 3 --out ours >/dev/null
  grep -q '"eos_token_id": 251' ours/config.json || die "eos is lost by going on: $(cat ours/config.json)"
  mkdir empty
  refuse 1 'empty/model.safetensors' train gpt --data text --init empty
}

# A model of other programs may be trained on shorter samples than it knows positions for.
case_shorter_context() {
  text
  train --steps 3 --out long >/dev/null
  train --init long --context 8 --steps 1 --lr 0 --weight-decay 0 --warmup 0 --out short >/dev/null
  grep -q '"n_positions": 8' short/config.json || die "another context: $(cat short/config.json)"
  # At a rate of 0 the weights are those of the file, and positions its first ones.
  run eval --model short --data text --device cpu --json | grep '"loss"' >short.loss
  run eval --model long --data text --context 8 --device cpu --json | grep '"loss"' >long.loss
  # To rounding: CPUs multiply matrices of few rows in other orders.
  paste short.loss long.loss | tr -dc '0-9. \t\n' | awk '{ d = $1 - $2; exit !($1 > 0 && d * d < 1e-12) }' ||
    die "another loss: $(cat short.loss long.loss)"
  refuse 2 '--context 32 is more than the 16 positions of long/model.safetensors' train gpt --data text --init long --context 32
  # What is resumed keeps its shape.
  run train --resume --steps 2 --out short >/dev/null
}

# An evaluation takes no more memory than training did, unless it may; many classes have no matrix.
case_eval_memory() {
  mkdir pair
  "$FIXTURE" images pair train 600
  "$FIXTURE" images pair t10k 300
  run train resnet --data pair --device cpu --width 16 --batch 4 --steps 1 --eval-samples 4 --memory 4MiB --out model >/dev/null
  planned() { sed -n 's/.*"planned_bytes": \([0-9]*\).*/\1/p' "$1"; }
  run eval --model model --data pair --device cpu --json >eval.json
  (($(planned eval.json) <= $(planned model/run.json))) ||
    die "$(planned eval.json) bytes to evaluate, $(planned model/run.json) to train"
  run eval --model model --data pair --device cpu --memory 64M --json >more.json
  (($(planned more.json) > $(planned eval.json))) || die "--memory makes no difference"
  run train mlp --data pair --device cpu --hidden 2 --classes 100000 --steps 1 --out many >/dev/null
  run eval --model many --data pair --device cpu --json >many.json # a matrix would take 80 GB
  grep -q '"confusion": \[\]' many.json || die "a matrix of 100,000 classes"
  local odd=$'o\xfft'
  mv many "$odd"
  run eval --model "$odd" --data pair --device cpu --json >odd.json
  grep -q $'"file": "o\xef\xbf\xbdt/model.safetensors"' odd.json || die "another name: $(head -n 4 odd.json)"
}
