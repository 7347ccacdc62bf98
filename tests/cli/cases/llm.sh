# Language models of others: adapters and whole models that are trained, plans, evaluation, refusals. Sourced by cases.sh.

# tiny_llm: a model in the folder `base`, and chats in chats.jsonl.
tiny_llm() {
  mkdir -p base
  "$FIXTURE" llm base 1
  "$FIXTURE" chats 120 >chats.jsonl
}

llm=(llm --model base --data chats.jsonl --device cpu --context 64 --batch 4 --lora 4 --lr 0.01)

# field FILE KEY: a number of a JSON object that is printed over several lines.
field_of() { sed -n "s/^ *\"$2\": \([^,]*\),\{0,1\}$/\1/p" "$1" | head -n 1; }

case_llm() {
  tiny_llm
  run train "${llm[@]}" --epochs 4 --save-every 3 --out whole >said
  grep -q 'base: llama, 90,624 weights, frozen; adapters of rank 4 with 8,192 more are trained' run.err ||
    die "not said what is trained: $(cat run.err)"
  grep -q 'chats.jsonl: 120 documents, [0-9,]* tokens, [0-9,]* of them learned; [0-9]* samples of 64 train and [0-9]* validate' run.err ||
    die "not said what is learned: $(cat run.err)"
  grep -q 'model in whole/adapter_model.safetensors' said || die "said: $(cat said)"
  [[ ! -e whole/model.safetensors && ! -e whole/config.json ]] || die "a model where an adapter is expected"
  grep -q '"peft_type": "LORA"' whole/adapter_config.json || die "no configuration of PEFT's form"
  grep -q '"base_model_name_or_path": "/.*/base"' whole/adapter_config.json || die "the base is not named by its whole path"
  # States are without the base, which is larger than they are.
  local state
  state=$(printf '%s\n' whole/state-*.safetensors | tail -n 1)
  grep -q 'lora_A' "$state" || die "a state without the adapter"
  ! grep -q 'embed_tokens' "$state" || die "a state with the base"
  (($(stat -c %s "$state") < $(stat -c %s base/model.safetensors))) || die "a state as large as the base"
  # The same run, stopped and resumed: bit for bit.
  run train "${llm[@]}" --epochs 4 --save-every 3 --max-minutes 0.002 --out parts >/dev/null
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
    run train llm --resume --out parts --max-minutes 0.004 >said
    ! grep -q '^done' said || break
  done
  run train llm --resume --out parts --max-minutes 5 >said
  cmp whole/adapter_model.safetensors parts/adapter_model.safetensors || die "another adapter after going on"
  # What was learned shows, and the adapter is what eval takes: the loss is that of training.
  run eval --model base --data chats.jsonl --context 64 --device cpu --json >base.json
  run eval --model whole --data chats.jsonl --context 64 --device cpu --split validation --json >tuned.json
  awk -v a="$(field_of base.json loss)" -v b="$(field_of tuned.json loss)" 'BEGIN { exit !(b < a - 1) }' ||
    die "nothing is learned: $(cat base.json tuned.json)"
  awk -v a="$("$METRICS" field whole/metrics.jsonl end val_loss)" -v b="$(field_of tuned.json loss)" \
    'BEGIN { exit !(a - b < 1e-4 && b - a < 1e-4) }' || die "eval has another loss than training"
  awk -v p="$(field_of tuned.json perplexity)" -v l="$(field_of tuned.json loss)" \
    'BEGIN { x = p / exp(l); exit !(x > 0.999 && x < 1.001) }' || die "the perplexity is not exp(loss)"
  run eval --model whole --data chats.jsonl --context 64 --device cpu >said
  grep -q '^data  *120 documents' said || die "eval does not take all documents: $(cat said)"
  "$METRICS" check whole/metrics.jsonl
  # Another base with the same configuration is noticed.
  mkdir other
  cp base/* other/
  "$FIXTURE" llm other 2
  refuse_resume 'what --model names has changed' train llm --resume --model other --epochs 5 --out whole
  run sample --model other --adapter whole --device cpu --prompt a --tokens 1 >/dev/null
  grep -q '^whole was trained on other weights than those of .*/other$' run.err || die "another base is not noticed: $(cat run.err)"
  run sample --model base --adapter whole --device cpu --prompt a --tokens 1 >/dev/null
  ! grep -q 'other weights' run.err || die "its own base is taken for another: $(cat run.err)"
}

# refuse_resume TEXT ARGUMENT...: as refuse, where a sentence about each state comes first.
refuse_resume() {
  local text=$1
  shift
  ! "$ACCRUE" "$@" >/dev/null 2>refuse.err || die "not refused: accrue $*"
  grep -qF -- "$text" refuse.err || die "no '$text' in: $(cat refuse.err)"
  grep -q 'no state in .* can be resumed' refuse.err || die "a state is resumed: $(cat refuse.err)"
}

# All weights, with each way to save memory; the folder is one that the program, and others, can open.
case_llm_full() {
  tiny_llm
  run train "${llm[@]}" --lora 0 --lr 0.003 --epochs 6 --out full >/dev/null
  for file in config.json model.safetensors tokenizer.json tokenizer_config.json; do
    [[ -s full/$file ]] || die "no full/$file"
  done
  grep -q '"torch_dtype": "float32"' full/config.json || die "another type: $(cat full/config.json)"
  run train "${llm[@]}" --lora 0 --lr 0.003 --epochs 6 --weights bf16 --optimizer-state 8bit --gradients fused-local \
    --out small >/dev/null
  grep -q '"torch_dtype": "bfloat16"' small/config.json || die "another type: $(cat small/config.json)"
  local full small model
  full=$(stat -c %s full/model.safetensors) small=$(stat -c %s small/model.safetensors)
  ((small < full * 6 / 10)) || die "bf16 is written as floats: $small of $full"
  (($("$METRICS" field small/metrics.jsonl end planned_bytes) < $("$METRICS" field full/metrics.jsonl end planned_bytes))) ||
    die "as much memory as without savings"
  run eval --model base --data chats.jsonl --device cpu --json >base.json
  for model in full small; do
    run eval --model $model --data chats.jsonl --device cpu --json >tuned.json
    awk -v a="$(field_of base.json loss)" -v b="$(field_of tuned.json loss)" 'BEGIN { exit !(b < a - 1) }' ||
      die "$model has learned nothing: $(cat base.json tuned.json)"
  done
  # And a base for another run.
  run train "${llm[@]}" --model small --epochs 1 --out on >/dev/null
  # Of a run with --lora 0 states have the weights.
  grep -q embed_tokens "$(printf '%s\n' full/state-*.safetensors | tail -n 1)" || die "a state without weights"
}

# Of a GGUF file as well: the folder gets its configuration and its tokenizer.
case_llm_gguf() {
  tiny_llm
  run export --model base --to gguf --out base.gguf --device cpu >/dev/null
  local from
  for from in base base.gguf; do
    run train "${llm[@]}" --model $from --lora 0 --lr 0.003 --epochs 2 --precision f32 --out of_$from >/dev/null
    run eval --model of_$from --data chats.jsonl --device cpu --json >of_$from.json
  done
  for file in config.json model.safetensors tokenizer.json tokenizer_config.json generation_config.json; do
    [[ -s of_base.gguf/$file ]] || die "no of_base.gguf/$file"
  done
  awk -v a="$(field_of of_base.json loss)" -v b="$(field_of of_base.gguf.json loss)" 'BEGIN { exit !(a - b < 1e-5 && b - a < 1e-5) }' ||
    die "a GGUF file of the same model is trained to another loss: $(cat of_*.json)"
  run train "${llm[@]}" --model base.gguf --lora 0 --epochs 1 --weights bf16 --out half >/dev/null
  grep -q '"torch_dtype": "bfloat16"\|"dtype": "bfloat16"' half/config.json || die "another type: $(cat half/config.json)"
  run train "${llm[@]}" --model half --epochs 1 --out on >/dev/null
}

# An adapter is trained further: it begins where it ended, in its own layers and ranks.
case_llm_further() {
  tiny_llm
  run train "${llm[@]}" --precision f32 --lora-targets q_proj,down_proj --epochs 3 --out first >/dev/null
  run train "${llm[@]:0:9}" --precision f32 --lr 1e-9 --steps 1 --adapter first --out same >/dev/null
  grep -q 'adapters of rank 4 of first with' run.err || die "not said what goes on: $(cat run.err)"
  run eval --model first --data chats.jsonl --context 64 --device cpu --precision f32 --json >first.json
  run eval --model same --data chats.jsonl --context 64 --device cpu --precision f32 --json >same.json
  awk -v a="$(field_of first.json loss)" -v b="$(field_of same.json loss)" 'BEGIN { exit !(a - b < 1e-5 && b - a < 1e-5) }' ||
    die "it begins elsewhere: $(cat first.json same.json)"
  diff <(grep -A5 target_modules first/adapter_config.json) <(grep -A5 target_modules same/adapter_config.json) || die "other layers"
  # The folder of the adapter itself names its base.
  run train llm --model first --data chats.jsonl --device cpu --context 64 --batch 4 --lr 0.01 --epochs 3 --save-every 3 --out on >/dev/null
  run eval --model on --data chats.jsonl --context 64 --device cpu --json >on.json
  awk -v a="$(field_of first.json loss)" -v b="$(field_of on.json loss)" 'BEGIN { exit !(b < a) }' || die "nothing more is learned"
  run train llm --model first --data chats.jsonl --device cpu --context 64 --batch 4 --lr 0.01 --epochs 3 --save-every 3 --max-minutes 0.002 \
    --out parts >/dev/null
  run train llm --resume --out parts --max-minutes 5 >/dev/null
  cmp on/adapter_model.safetensors parts/adapter_model.safetensors || die "another adapter after going on"
  run plan llm --model base --adapter first --device dry --context 64 --names >out
  (($(grep -c 'lora_A' out) == 4)) || die "not its layers: $(cat out)"
  refuse 2 '--lora' train "${llm[@]}" --adapter first --out never
  refuse 2 '--lora-alpha has no meaning with first' train llm --model first --data chats.jsonl --lora-alpha 3 --device cpu
  refuse 2 'is an adapter already' train "${llm[@]:0:9}" --model first --adapter first --out never
  refuse 1 'nothing/adapter_config.json' train "${llm[@]:0:9}" --adapter nothing --out never
}

# Preferences: the adapter learns which answers are chosen. The model without it is the reference.
case_llm_dpo() {
  tiny_llm
  local i
  for i in $(seq 0 79); do
    printf '{"prompt": [{"role": "user", "content": "%d+%d?"}], "chosen": [{"role": "assistant", "content": "%d."}], "rejected": [{"role": "assistant", "content": "no, %d"}]}\n' \
      $((i % 10)) $((i / 10)) $((i % 10 + i / 10)) $((i % 7))
  done >pairs.jsonl
  local dpo=(llm --model base --data pairs.jsonl --objective dpo --device cpu --context 64 --batch 4 --lora 4 --lr 0.01)
  run train "${dpo[@]}" --epochs 2 --save-every 3 --out whole >said
  grep -q 'pairs.jsonl: 80 pairs of answers, [0-9,]* tokens of them learned; [0-9]* train and [0-9]* validate' run.err || die "said: $(cat run.err)"
  grep -q '^step .* validation loss [0-9.]*  accuracy 100.00 %' run.err || die "another accuracy on the way: $(cat run.err)"
  grep -q 'validation loss [0-9.]* nats per pair, accuracy 100.00 %' said || die "it has learned nothing: $(cat said)"
  awk -v a="$("$METRICS" field whole/metrics.jsonl end val_loss)" 'BEGIN { exit !(a < 0.3) }' || die "the loss stays: $(cat said)"
  "$METRICS" check whole/metrics.jsonl
  run train "${dpo[@]}" --epochs 2 --save-every 3 --max-minutes 0.002 --out parts >/dev/null
  run train llm --resume --out parts --max-minutes 5 >/dev/null
  cmp whole/adapter_model.safetensors parts/adapter_model.safetensors || die "another adapter after going on"
  refuse_resume 'accrue.beta' train llm --resume --beta 0.5 --epochs 3 --out parts
  # Before the first update both models are the same: the loss is log 2, and with smoothing as well.
  run train "${dpo[@]}" --lr 1e-12 --steps 1 --precision f32 --out same >/dev/null
  run eval --model same --data pairs.jsonl --objective dpo --context 64 --device cpu --precision f32 --json >same.json
  awk -v a="$(field_of same.json loss)" 'BEGIN { exit !(a - log(2) < 1e-5 && log(2) - a < 1e-5) }' || die "not log 2: $(cat same.json)"
  ! grep -q perplexity same.json || die "a perplexity of pairs"
  run eval --model whole --data pairs.jsonl --objective dpo --context 64 --device cpu --split validation --json >tuned.json
  awk -v a="$("$METRICS" field whole/metrics.jsonl end val_loss)" -v b="$(field_of tuned.json loss)" \
    'BEGIN { exit !(a - b < 1e-4 && b - a < 1e-4) }' || die "eval has another loss than training: $(cat tuned.json)"
  [[ $(field_of tuned.json accuracy) == 1.0 ]] || die "eval has another accuracy than training: $(cat tuned.json)"
  run eval --model whole --data pairs.jsonl --objective dpo --context 64 --device cpu >said
  grep -q '^accuracy  *[1-9][0-9.]* % of the pairs' said || die "said: $(cat said)"
  grep -q '^data  *80 pairs of answers' said || die "said: $(cat said)"
  # A larger beta makes the same difference count more, and smoothing bounds what it is worth.
  run eval --model whole --data pairs.jsonl --objective dpo --beta 0.4 --context 64 --device cpu --json >beta.json
  run eval --model whole --data pairs.jsonl --objective dpo --label-smoothing 0.3 --context 64 --device cpu --json >smooth.json
  awk -v a="$(field_of tuned.json loss)" -v b="$(field_of beta.json loss)" -v c="$(field_of smooth.json loss)" \
    'BEGIN { exit !(b < a && a < c) }' || die "beta and smoothing: $(cat tuned.json beta.json smooth.json)"
  run verify "${dpo[@]}" --micro-batch 2 --precision f32 >verified
  grep -q 'same' verified || die "accumulation is not equivalent: $(cat verified)"
  run plan llm --model base/config.json --objective dpo --device dry --lora 4 --context 64 >out
  run plan llm --model base/config.json --device dry --lora 4 --context 64 >plain
  ! cmp -s out plain || die "the plan is that of next tokens"
  refuse 2 '--lora 0 makes none' train "${dpo[@]}" --lora 0
  refuse 2 '--no-pack has no meaning with --objective dpo' train "${dpo[@]}" --no-pack
  refuse 2 '--beta' train "${llm[@]}" --beta 0.2
  refuse 2 'base has none' eval --model base --data pairs.jsonl --objective dpo --device cpu
  refuse 1 'it has no "chosen" and "rejected"' train "${dpo[@]}" --data chats.jsonl --out never
  refuse 1 'is a pair of answers' train "${llm[@]}" --data pairs.jsonl --out never
}

case_llm_plan() {
  mkdir base
  "$FIXTURE" llm base 0
  rm base/tokenizer*
  run plan llm --model base/config.json --device dry --lora 4 --context 64 >out
  grep -q '^model  *8,192 parameters' out || die "plan of a configuration alone: $(cat out)"
  run plan llm --model base --device dry --lora 4 --context 64 | cmp - out
  run plan llm --model base --device dry --lora 4 --context 64 --json >out
  grep -q '"frozen_count"' out || die "no JSON: $(cat out)"
  run plan llm --model base --device dry --lora 4 --context 64 --names >out
  grep -q 'embed_tokens.weight.*frozen' out || die "the base is not frozen: $(cat out)"
  grep -q 'layers.1.mlp.down_proj.lora_B.weight.*adamw' out || die "no adapter: $(cat out)"
  ! grep -q 'embed_tokens.lora' out || die "the embedding has an adapter"
  run plan llm --model base --device dry --context 64 --names --lora 4 --lora-targets q_proj,v_proj >out
  (($(grep -c 'lora_A' out) == 4)) || die "not the two layers of two blocks: $(cat out)"
  # The context is at most 1,024, and what the model has.
  run plan llm --model base --device dry --json >out
  run plan llm --model base --device dry --json --context 256 | cmp - out
  refuse 1 'a configuration and no weights, which is enough for accrue plan alone' train llm --model base --data text --device cpu
  check_llm_budgets
}

# Within what is asked for, and the peak is the plan.
check_llm_budgets() {
  local least
  "$FIXTURE" llm base 1
  "$FIXTURE" chats 120 >chats.jsonl
  least=$({ "$ACCRUE" plan "${llm[@]}" --memory 1KiB 2>&1 || true; } | sed -n 's/.*needs at least \([0-9.]*\) KiB.*/\1/p' | head -n 1)
  [[ $least ]] || die "no word of the least budget"
  least=$((${least%.*} + 1))KiB
  local memory
  for memory in $least 1MiB 8MiB; do
    run train "${llm[@]}" --steps 2 --memory "$memory" --metrics m --out within >/dev/null
    "$METRICS" check m
    (($("$METRICS" field m end peak_bytes) == $("$METRICS" field m end planned_bytes))) || die "--memory $memory: the peak is not the plan"
  done
}

case_llm_data() {
  tiny_llm
  {
    cat chats.jsonl
    printf '{"messages": [{"role": "user", "content": "only a question"}]}\n'
    printf '{"messages": [{"role": "user", "content": "long?"}, {"role": "assistant", "content": "%s"}]}\n' "$(seq -s ' ' 60)"
  } >mixed.jsonl
  run train "${llm[@]}" --data mixed.jsonl --steps 1 --out run >/dev/null
  grep -q '1 document is left out, as nothing in it is learned' run.err || die "nothing is said of it: $(cat run.err)"
  grep -q '1 document is cut at a context of 64, and [0-9]* tokens with that; the longest has [0-9]*' run.err ||
    die "nothing is said of what is cut: $(cat run.err)"
  run train "${llm[@]}" --data mixed.jsonl --drop-long --steps 1 --out run >/dev/null
  grep -q '1 document is left out, as longer than a context of 64' run.err || die "it is not dropped: $(cat run.err)"
  # Alone or packed, each document has the same loss.
  run eval --model base --data chats.jsonl --context 128 --device cpu --precision f32 --json >packed
  run eval --model base --data chats.jsonl --context 128 --device cpu --precision f32 --no-pack --json >alone
  awk -v a="$(field_of packed loss)" -v b="$(field_of alone loss)" 'BEGIN { exit !(a - b < 1e-5 && b - a < 1e-5) }' ||
    die "packing changes the loss: $(cat packed alone)"
  (($(field_of packed samples) < $(field_of alone samples) / 2)) || die "nothing is packed"
  # All of a chat, or what the assistant says.
  run eval --model base --data chats.jsonl --context 128 --device cpu --learn all --json >all
  awk -v a="$(field_of packed predicted)" -v b="$(field_of all predicted)" 'BEGIN { exit !(b > 2 * a) }' || die "--learn all learns less"
  # A text, and a model without a template.
  seq 1 600 >text
  run train "${llm[@]}" --data text --steps 2 --out run >/dev/null
  cp -r base bare
  sed -i 's/, "chat_template.*}$/}/' bare/tokenizer_config.json
  run train "${llm[@]}" --model bare --data text --steps 1 --out run >/dev/null
  run train "${llm[@]}" --model bare --template chatml --steps 1 --out run >/dev/null
  "$ACCRUE" train "${llm[@]}" --model bare --steps 1 --out never >/dev/null 2>err && die "chats without a template"
  grep -q 'chats.jsonl' err || die "which data: $(cat err)"
  run train "${llm[@]}" --fold 1/3 --steps 1 --out run >/dev/null
  run eval --model run --data chats.jsonl --context 64 --fold 1/3 --device cpu >/dev/null
  run train "${llm[@]}" --held-out 0 --steps 1 --out run >said
  ! grep -q validation said || die "something validates: $(cat said)"
}

case_llm_refused() {
  tiny_llm
  refuse 2 '--model is missing' train llm --data chats.jsonl
  refuse 2 '--data is missing' train llm --model base --device cpu
  refuse 1 'cannot read nothing' train llm --model nothing --data chats.jsonl
  mkdir empty
  refuse 1 'empty holds no model' train llm --model empty --data chats.jsonl
  refuse 2 'is more than the 256 positions of base' train "${llm[@]}" --context 512
  refuse 2 '--dora has no meaning with --lora 0' train "${llm[@]}" --lora 0 --dora
  refuse 2 '--lora-alpha has no meaning with --lora 0' train "${llm[@]}" --lora 0 --lora-alpha 3
  refuse 2 '--base is how weights are kept that do not change' train "${llm[@]}" --lora 0 --base q8_0
  refuse 2 '--base f32 needs --precision f32' train "${llm[@]}" --base f32
  refuse 2 '--base bf16 needs --precision bf16' train "${llm[@]}" --base bf16 --precision f32
  refuse 2 'nonsense' train "${llm[@]}" --template nonsense
  refuse 2 '--lora-targets nonsense: no linear layer' train "${llm[@]}" --lora-targets nonsense
  refuse 2 'unknown flag --init' train "${llm[@]}" --init base
  refuse 2 'is a shape of the model gpt, not of llm' train "${llm[@]}" --preset gpt2-124m
  printf '{"messages": [{"role": "user", "content": "only a question"}]}\n' >questions.jsonl
  "$ACCRUE" train "${llm[@]}" --data questions.jsonl >/dev/null 2>err && die "data with nothing to learn"
  grep -q questions.jsonl err || die "which data: $(cat err)"
  # Configurations that are not understood name their keys.
  sed 's/"llama"/"unheard"/' base/config.json >unheard.json
  refuse 1 'unheard' plan llm --model unheard.json --device dry
  sed 's/"silu"/"sine"/' base/config.json >sine.json
  refuse 1 'hidden_act' plan llm --model sine.json --device dry
  # An adapter without its base, and one that is to be trained on.
  run train "${llm[@]}" --steps 1 --out tuned >/dev/null
  mv base moved
  refuse 1 'is an adapter of' eval --model tuned --data chats.jsonl --device cpu
  refuse 1 'cannot read base' train llm --resume --out tuned
}

# Questions with choices: a model that has learned answers finds each of them the likeliest, in every form of the answers.
case_llm_choices() {
  tiny_llm
  local i forms=('"answer": 1' '"answer": "B"' '"answer": "no, %d"' '"answerKey": "x"')
  for i in 0 1 2 3 4 5 6 7; do
    printf '{"prompt": "is it %d?", "completion": " no, %d"}\n' $i $((9 - i))
  done >learned.jsonl
  for i in 0 1 2 3 4 5 6 7; do
    # shellcheck disable=SC2059
    local answer choices='["yes, 4", "no, %d", "no, %d"]'
    ((i % 4 != 3)) || choices='{"text": ["yes, 4", "no, %d", "no, %d"], "label": ["z", "x", "y"]}'
    # shellcheck disable=SC2059
    answer=$(printf "${forms[i % 4]}" $((9 - i)))
    # shellcheck disable=SC2059
    printf "{\"question\": \"is it %d?\", \"choices\": $choices, %s}\n" $i $((9 - i)) $(((10 - i) % 8)) "$answer"
  done >questions.jsonl
  run train llm --model base --data learned.jsonl --held-out 0 --lora 0 --lr 0.003 --warmup 0 --context 64 --batch 1 \
    --epochs 200 --precision f32 --device cpu --out tuned >/dev/null
  run eval --model base --data questions.jsonl --device cpu --json >base.json
  run eval --model tuned --data questions.jsonl --device cpu --json >tuned.json
  awk -v a="$(field_of tuned.json accuracy)" -v p="$(field_of tuned.json plain_accuracy)" 'BEGIN { exit !(a == 1 && p == 1) }' ||
    die "what was learned is not the likeliest: $(cat tuned.json)"
  awk -v a="$(field_of base.json accuracy)" 'BEGIN { exit !(a < 0.9) }' || die "nothing was to be learned: $(cat base.json)"
  awk -v a="$(field_of base.json loss)" -v b="$(field_of tuned.json loss)" 'BEGIN { exit !(b < 0.3 * a) }' || die "the loss is not of the right answers"
  run eval --model tuned --data questions.jsonl --device cpu >said
  grep -q '^data  *8 questions with 24 answers' said || die "said: $(cat said)"
  grep -q '^accuracy  *100.00 % of the questions, by log-likelihood for each byte' said || die "said: $(cat said)"
  gzip -k questions.jsonl
  run eval --model tuned --data questions.jsonl.gz --device cpu --json >packed.json
  cmp tuned.json packed.json || die "other results of the same questions in gzip: $(cat packed.json)"
  head -c 60 questions.jsonl.gz >damaged.jsonl.gz
  refuse 1 'damaged.jsonl.gz' eval --model tuned --data damaged.jsonl.gz --device cpu
  printf '%s\n\000\n' "$(head -n 1 questions.jsonl)" >zero.jsonl
  refuse 1 'zero.jsonl: line 2 has a zero byte' eval --model tuned --data zero.jsonl --device cpu
  { printf '\n%s\n\n' "$(head -n 1 questions.jsonl)" && printf %s "$(sed -n 2p questions.jsonl)"; } >blank.jsonl
  run eval --model tuned --data blank.jsonl --device cpu >said
  grep -q '^data  *2 questions' said || die "empty lines, and a last one without an end: $(cat said)"
  echo '{"question": "a", "choices": ["b"], "answer": 0}' >bad.jsonl
  refuse 1 'bad.jsonl: line 1: choices must be two or more texts' eval --model base --data bad.jsonl --device cpu
  echo '{"question": "a", "choices": ["b", "c"], "answer": 2}' >bad.jsonl
  refuse 1 'bad.jsonl: line 1: answer must be the place of a choice' eval --model base --data bad.jsonl --device cpu
  echo '{"choices": ["b", "c"], "answer": 1}' >bad.jsonl
  refuse 1 'bad.jsonl: line 1: question must be a text' eval --model base --data bad.jsonl --device cpu
  refuse 2 'tokens with its question, and --context is 4' eval --model base --data questions.jsonl --context 4 --device cpu
}

# Frozen weights in blocks take fewer bytes, and the adapter learns as well; a run that goes on rounds them as it did before.
case_llm_base() {
  tiny_llm
  local base bytes last=999999999
  for base in bf16 q8_0 q4_0; do
    run train "${llm[@]}" --base $base --epochs 4 --out $base >/dev/null
    bytes=$("$ACCRUE" plan "${llm[@]}" --base $base --json | sed -n 's/.*"parameters": \([0-9]*\),.*/\1/p' | head -n 1)
    ((bytes < last)) || die "--base $base takes $bytes bytes, and more bits took $last"
    last=$bytes
  done
  for base in q4_1 nf4; do run train "${llm[@]}" --base $base --epochs 4 --out $base >/dev/null; done
  for base in q8_0 q4_0 q4_1 nf4; do
    awk -v a="$("$METRICS" field bf16/metrics.jsonl end val_loss)" -v b="$("$METRICS" field $base/metrics.jsonl end val_loss)" \
      'BEGIN { exit !(b - a < 0.3) }' || die "--base $base learns less: $(tail -n 1 bf16/metrics.jsonl $base/metrics.jsonl)"
    ! grep -q embed_tokens "$(printf '%s\n' $base/state-*.safetensors | tail -n 1)" || die "a state with the base"
  done
  run train "${llm[@]}" --base q4_0 --epochs 4 --save-every 3 --max-minutes 0.003 --out parts >/dev/null
  run train llm --resume --out parts --max-minutes 5 >/dev/null
  cmp q4_0/adapter_model.safetensors parts/adapter_model.safetensors || die "another adapter after going on"
  refuse_resume 'accrue.base_storage' train llm --resume --base q8_0 --epochs 5 --out parts
  run eval --model q4_0 --base q4_0 --data chats.jsonl --context 64 --device cpu >/dev/null
}
