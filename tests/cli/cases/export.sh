# What `accrue export` writes of language models, and that it keeps nothing that it cannot prove.

at_most() { # NUMBER NUMBER
  awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a + 0 <= b + 0) }'
}
tiny_run() { # FLAG...
  mkdir tiny
  "$FIXTURE" llm tiny 3
  for i in $(seq 1 40); do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"$i plus $i?\"}, {\"role\": \"assistant\", \"content\": \"$((i + i))\"}]}"
  done >chats.jsonl
  run train llm --model tiny --data chats.jsonl --lora 4 --context 64 --lr 0.02 --steps 10 --precision f32 \
    --device cpu --out run "$@" >/dev/null
}

# From a folder to a GGUF file and back: the same weights, bit for bit, and the same tokenizer.
case_export() {
  mkdir tiny
  "$FIXTURE" llm tiny 3
  run export --model tiny --to gguf --out tiny.gguf --device cpu >out
  grep -q '^tiny.gguf: [0-9.]* KiB of gguf$' out || die "$(cat out)"
  run export --model tiny.gguf --to folder --out back --device cpu --json >out.json
  [[ $(field out.json largest_difference) == 0.0 ]] || die "other logits: $(cat out.json)"
  tail -c 262144 tiny/model.safetensors >weights
  [[ $(stat -c %s back/model.safetensors) -ge 262144 ]] || die "too small"
  run export --model back --to gguf --out again.gguf --device cpu >/dev/null
  run export --model tiny.gguf --to gguf --out copy.gguf --device cpu >/dev/null
  cmp tiny.gguf copy.gguf || die "a GGUF file that is copied is another"
  # In blocks, the file is smaller, and the logits are others.
  run export --model tiny --to gguf --quantise q8_0 --out q8.gguf --device cpu --json >q8.json
  run export --model tiny --to gguf --quantise q4_0 --out q4.gguf --device cpu --json >q4.json
  local eight four
  eight=$(field q8.json largest_difference) four=$(field q4.json largest_difference)
  at_most "$eight" "$four" && ! at_most "$eight" 0 || die "differences of $eight and $four"
  for name in q8 q4; do
    at_most "$(field $name.json beyond_storage)" "$(field $name.json allowed)" || die "$(cat $name.json)"
  done
  (($(stat -c %s q4.gguf) < $(stat -c %s q8.gguf) && $(stat -c %s q8.gguf) < $(stat -c %s tiny.gguf))) || die "sizes"
  # bf16 is said in config.json, and in nothing else of it.
  run export --model tiny --to folder --quantise bf16 --out half --device cpu >/dev/null
  diff <(sed 's/float32/bfloat16/' tiny/config.json) half/config.json || die "config.json"
  cmp tiny/tokenizer.json half/tokenizer.json
  # Texts of one's own.
  seq 1 500 >numbers
  run export --model tiny --to gguf --data numbers --overwrite --out tiny.gguf --device cpu --json >out.json
  [[ $(field out.json positions) == 128 ]] || die "$(cat out.json)"
  [[ ! $(find . -name '*partial*') ]] || die "files that remain"
}

# An adapter alone is what was trained, to the bit; merged it is so but for rounding.
case_export_adapter() {
  tiny_run
  local form
  for form in adapter gguf-adapter; do
    run export --model run --to $form --out $form --device cpu --json >$form.json
    [[ $(field $form.json largest_difference) == 0.0 ]] || die "$form is another: $(cat $form.json)"
  done
  grep -q '"q_proj"' adapter/adapter_config.json || die "no targets"
  run export --model adapter --to folder --merge --out merged --device cpu --json >merged.json
  at_most "$(field merged.json largest_difference)" 1e-4 || die "$(cat merged.json)"
  [[ $(field merged.json merged) == true ]] || die "$(cat merged.json)"
  ! cmp -s merged/model.safetensors tiny/model.safetensors || die "nothing was merged"
  run export --model run --to gguf --merge --quantise q8_0 --out merged.gguf --device cpu --json >q8.json
  at_most "$(field q8.json beyond_storage)" "$(field q8.json allowed)" || die "$(cat q8.json)"
  ! at_most "$(field q8.json merging)" 0 || die "the adapter was not merged"
  # What was merged learned what was trained.
  local before after
  before=$(run eval --model tiny --data chats.jsonl --context 64 --device cpu | sed -n 's/^loss  *\([0-9.]*\).*/\1/p')
  after=$(run eval --model merged --data chats.jsonl --context 64 --device cpu | sed -n 's/^loss  *\([0-9.]*\).*/\1/p')
  at_most "$after" "$before" && [[ $after != "$before" ]] || die "losses $before and $after"
}

# Samples of the run's own data: those that validate are the same as in training, also where each text gets a token at
# its end. If a fold validated, or nothing did, nothing else is said.
case_export_samples() {
  local i
  mkdir tiny
  "$FIXTURE" llm tiny 3
  for i in $(seq 1 40); do
    echo "{\"text\": \"text $i: $(seq -s ' ' $i $((i + 60)))\"}"
  done >texts.jsonl
  local flags=(llm --model tiny --lora 4 --context 64 --steps 1 --precision f32 --device cpu)
  run train "${flags[@]}" --data texts.jsonl --out run >/dev/null
  run eval --model run --data texts.jsonl --context 64 --split validation --device cpu >said
  local validating
  validating=$(sed -n 's/^data  *\([0-9]*\) document.*/\1/p' said)
  ((validating < 4)) || die "a test for few documents: $(cat said)"
  run export --model run --to adapter --out one --device cpu >said
  grep -q "^logits at $((32 * validating)) positions of validation samples of texts.jsonl" said || die "$validating documents validate: $(cat said)"
  run train "${flags[@]}" --data texts.jsonl --fold 1/2 --out fold >/dev/null
  run export --model fold --to adapter --out two --device cpu >said
  grep -q ' positions of samples of texts.jsonl' said || die "a fold: $(cat said)"
  run train "${flags[@]}" --data texts.jsonl --held-out 0 --out all >/dev/null
  run export --model all --to adapter --out three --device cpu >said
  grep -q ' positions of samples of texts.jsonl' said || die "nothing validates: $(cat said)"
}

# What was learned next to a base in blocks is merged into these, and compared on the run's own validation samples.
case_export_blocks() {
  tiny_run --base q4_0
  run export --model run --to folder --merge --out merged --device cpu --json >merged.json
  [[ $(field merged.json base) == q4_0 && $(field merged.json data) == chats.jsonl ]] || die "$(cat merged.json)"
  at_most "$(field merged.json largest_difference)" 1e-4 || die "other logits than with its base in blocks: $(cat merged.json)"
  run export --model run --to gguf --merge --quantise q4_0 --out merged.gguf --device cpu >said
  grep -q '^merged into the base in q4_0' said || die "$(cat said)"
  grep -q 'of validation samples of chats.jsonl' said || die "$(cat said)"
  # An adapter that is exported knows its base.
  run export --model run --to adapter --out adapter --device cpu >/dev/null
  run export --model adapter --to folder --merge --out again --device cpu --json >again.json
  [[ $(field again.json base) == q4_0 && $(field again.json data) == null ]] || die "$(cat again.json)"
  cmp merged/model.safetensors again/model.safetensors || die "another merged model"
  cp -r tiny other
  "$FIXTURE" llm other 4
  run sample --model other --adapter adapter --device cpu --prompt a --tokens 1 >/dev/null
  grep -q '^adapter was trained on other weights' run.err || die "its base is forgotten: $(cat run.err)"
  mv chats.jsonl gone.jsonl
  run export --model run --to folder --merge --out third --device cpu >/dev/null
  grep -q 'cannot be read; logits are compared on a text that is built in' run.err || die "$(cat run.err)"
}

# Of DoRA, magnitudes are merged as well; llama.cpp has none.
case_export_dora() {
  tiny_run --dora
  run export --model run --to gguf --merge --out merged.gguf --device cpu --json >merged.json
  at_most "$(field merged.json merging)" "$(field merged.json allowed)" && ! at_most "$(field merged.json merging)" 0 ||
    die "$(cat merged.json)"
  run export --model run --to adapter --out adapter --device cpu --json >adapter.json
  at_most "$(field adapter.json largest_difference)" "$(field adapter.json allowed)" || die "$(cat adapter.json)"
  refuse 1 'magnitudes (DoRA), which llama.cpp does not have' export --model run --to gguf-adapter --out a.gguf --device cpu
}

# A bit that a disk changes is found, and what was there before stays.
case_export_damaged() {
  [[ ${FLIPPING-} ]] || exit 77
  tiny_run
  damaged() { # FILE PLACE ARGUMENT...
    LD_PRELOAD=$FLIPPING FLIP=$1:$2 refuse 1 "$3" export --model run --device cpu "${@:4}"
    [[ ! $(find . -name '*partial*') ]] || die "files that remain: $(find . -name '*partial*')"
  }
  run export --model run --to gguf --merge --out old.gguf --device cpu >/dev/null
  cp old.gguf kept.gguf
  damaged old.gguf 700 'more than rounding explains; nothing was kept' --to gguf --merge --overwrite --out old.gguf
  cmp old.gguf kept.gguf || die "the old file is another"
  damaged model.safetensors 600 'nothing was kept' --to folder --merge --out folder
  [[ ! -e folder ]] || die "a folder is there"
  damaged adapter.gguf 900 'nothing was kept' --to gguf-adapter --out adapter.gguf
  damaged adapter_model.safetensors 900 'nothing was kept' --to adapter --out peft
  [[ ! -e adapter.gguf && ! -e peft ]] || die "an adapter is there"
}

case_export_refused() {
  tiny_run
  refuse 2 '--model is missing' export --to gguf --out a.gguf
  refuse 2 '--to is missing' export --model tiny --out a.gguf
  refuse 2 '--out is missing' export --model tiny --to gguf
  refuse 2 '--to ggml' export --model tiny --to ggml --out a
  refuse 2 '--merge adds it to its base' export --model run --to gguf --out a.gguf
  refuse 2 'without an adapter' export --model tiny --to adapter --out a
  refuse 2 'without an adapter' export --model tiny --to gguf --merge --out a.gguf
  refuse 2 'writes it without that' export --model run --to adapter --merge --out a
  refuse 2 'only GGUF files hold such blocks' export --model tiny --to folder --quantise q8_0 --out a
  refuse 2 '--quantise has no meaning' export --model run --to adapter --quantise f16 --out a
  refuse 2 'is not a GGUF file' export --model tiny --to gguf --out chats.jsonl
  refuse 2 'is not a GGUF file' export --model tiny --to gguf --overwrite --out chats.jsonl
  refuse 2 'new or empty' export --model tiny --to folder --out tiny
  run export --model tiny --to gguf --out a.gguf --device cpu >/dev/null
  refuse 2 'is there already; replace it with --overwrite' export --model tiny --to gguf --out a.gguf
  refuse 2 'is the model itself' export --model a.gguf --to gguf --overwrite --out a.gguf
  refuse 1 'cannot read nothing' export --model nothing --to gguf --out b.gguf
  refuse 1 'cannot create a file next to' export --model tiny --to gguf --out no/such/folder.gguf --device cpu
  cp -r tiny other && sed -i 's/"use_regex": true}, "post/"use_regex": false}, "post/' other/tokenizer.json
  refuse 1 'llama.cpp has no name for its pre_tokenizer, "ByteLevel"' export --model other --to gguf --out b.gguf --device cpu
  rm other/tokenizer.json
  refuse 1 'a GGUF file needs the vocabulary' export --model other --to gguf --out b.gguf --device cpu
  rm other/model.safetensors
  refuse 1 'a configuration and no weights' export --model other --to gguf --out b.gguf --device cpu
  [[ ! -e b.gguf && ! $(find . -name '*partial*') ]] || die "something is left"
}
