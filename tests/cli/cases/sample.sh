# Texts of language models: prompts, ends, chats, adapters, refusals. Sourced by cases.sh.

# written FLAG...: the text that the model in `base` writes, always the likeliest.
written() { run sample --model base --device cpu --temperature 0 "$@"; }

case_sample_text() {
  tiny_llm
  written --prompt 'The capital' --tokens 40 --json >text
  [[ -s text ]] || die "nothing is written"
  grep -q '"prompt_tokens":1[0-9],"tokens":40,' run.err || die "not counted: $(cat run.err)"
  grep -q '"ended":"tokens"' run.err || die "not said why it ends: $(cat run.err)"
  # What was planned is what was reached.
  local total peak
  total=$(sed -E 's/.*"total":([0-9]+).*/\1/' run.err) peak=$(sed -E 's/.*"peak_bytes":([0-9]+).*/\1/' run.err)
  [[ $total == "$peak" ]] || die "planned $total, reached $peak"
  # The same again, by smaller parts of the prompt, and in a longer context.
  written --prompt 'The capital' --tokens 40 >again
  cmp text again || die "another text"
  written --prompt 'The capital' --tokens 40 --context 200 >again
  cmp text again || die "another text in a longer context"
  written --prompt 'The capital' --tokens 40 --memory "$((total - 1))" >again
  cmp text again || die "another text with less memory"
  refuse 1 'needs at least' sample --model base --device cpu --prompt a --memory 1KiB
  # A stop ends the text before it.
  local stop
  stop=$(head -c 12 text | tail -c 3)
  written --prompt 'The capital' --tokens 40 --stop "$stop" --json >cut
  grep -q '"ended":"stop"' run.err || die "not stopped: $(cat run.err)"
  head -c "$(stat -c %s cut)" text | cmp - cut || die "another text before the stop"
  ! grep -qF -- "$stop" cut || die "the stop is written"
  # Draws repeat by the seed; each way to choose gives something.
  run sample --model base --device cpu --prompt a --tokens 30 --seed 5 >one
  run sample --model base --device cpu --prompt a --tokens 30 --seed 5 >two
  cmp one two || die "the same seed, another text"
  run sample --model base --device cpu --prompt a --tokens 30 --seed 6 >two
  ! cmp -s one two || die "another seed, the same text"
  run sample --model base --device cpu --prompt a --tokens 30 --top-k 5 --top-p 0.5 --min-p 0.1 --repetition-penalty 1.3 >two
  run sample --model base --device cpu --prompt a --tokens 30 --precision bf16 --base q8_0 >two
  # The context is full.
  run sample --model base --device cpu --prompt aaaa --tokens 100 --context 20 --temperature 0 --json >two
  grep -q '"ended":"\(context\|end\)"' run.err || die "longer than the context: $(cat run.err)"
  refuse 1 'tokens, and the context is 4' sample --model base --device cpu --prompt aaaabbbb --context 4
}

case_sample_chat() {
  tiny_llm
  run train "${llm[@]}" --epochs 4 --out tuned >/dev/null
  printf 'hello there\n\nanother one\n/reset\nhello there\n/quit\nnever read\n' >lines
  run sample --model tuned --device cpu --temperature 0 --tokens 12 --chat <lines >said
  [[ $(grep -c '' said) -ge 3 ]] || die "not three answers: $(cat said)"
  # After /reset the conversation is a new one: the same answer as to the first message.
  run sample --model tuned --device cpu --temperature 0 --tokens 12 --chat --prompt 'hello there' </dev/null >first
  head -c "$(stat -c %s first)" said | cmp - first || die "another first answer: $(cat said first)"
  tail -c "$(stat -c %s first)" said | cmp - first || die "/reset has not begun anew: $(cat said first)"
  # An adapter by name is the run itself; the base alone says something else.
  run sample --model base --adapter tuned --device cpu --temperature 0 --tokens 12 --chat --prompt 'hello there' </dev/null >again
  cmp first again || die "--adapter is not the run"
  run sample --model base --device cpu --temperature 0 --tokens 12 --chat --prompt 'hello there' </dev/null >again
  ! cmp -s first again || die "the adapter changes nothing"
  run sample --model tuned --device cpu --temperature 0 --tokens 12 --chat --system 'Be short.' --template chatml \
    --prompt 'hello there' </dev/null >again
  # A conversation that is longer than the context loses its oldest messages.
  for _ in 1 2 3 4 5 6; do echo 'hello there my friend'; done >lines
  run sample --model tuned --device cpu --temperature 0 --tokens 12 --context 160 --chat <lines >said
  grep -q 'the oldest 2 messages do not fit' run.err || die "nothing is forgotten: $(cat run.err)"
  refuse 1 'and the context is 20' sample --model tuned --device cpu --chat --context 20 --prompt 'hello there'
  refuse 2 'chatml' sample --model tuned --device cpu --chat --template nonsense
}

case_sample_refused() {
  tiny_llm
  refuse 2 '--bytes is for a gpt that learned bytes' sample --model base --bytes 5
  refuse 2 '--system is for --chat' sample --model base --system x
  refuse 2 'more than the 256 positions' sample --model base --prompt a --context 300
  refuse 1 'cannot read nowhere' sample --model nowhere
  run train gpt --data chats.jsonl --device cpu --width 16 --heads 2 --layers 1 --context 8 --batch 2 --steps 1 --out gpt >/dev/null
  refuse 2 '--tokens is for models with a tokenizer' sample --model gpt --tokens 5
  refuse 2 '--chat is for models with a tokenizer' sample --model gpt --chat
  mkdir bare
  cp base/config.json base/tokenizer.json bare/
  refuse 1 'has no weights' sample --model bare --prompt a
}
