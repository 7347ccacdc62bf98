# What accrue tokenize shows of chat data, and the files of tokens that it writes.

case_tokenize() {
  mkdir tiny
  "$FIXTURE" llm tiny 0
  cat >chats.jsonl <<'END'
{"messages":[{"role":"user","content":"How? <|im_end|>"},{"role":"assistant","content":"So."}]}
{"instruction":"Count","input":"to 3","output":"1 2 3"}
{"messages":[{"role":"user","content":"no answer"}]}
END
  run tokenize --model tiny --data chats.jsonl >out
  grep -qxF '[[So.<|im_end|>]]' out || die "the answer is not marked: $(cat out)"
  grep -qxF 'How? <|im_end|><|im_end|>' out || die "another question: $(cat out)"
  grep -q '^chats.jsonl, line 1, ' out || die "no place: $(cat out)"
  grep -q '^template chatml, context 1024$' out || die "another template: $(cat out)"
  grep -q 'nothing learned  *1  left out' out || die "no count of what is left out: $(cat out)"
  grep -q 'with special names  *1 ' out || die "no count of special names: $(cat out)"
  run tokenize --model tiny --data chats.jsonl --json --context 36 --held-out 0.5 >out
  local field
  for field in '"template": "chatml"' '"documents": 3' '"unlearned": 1' '"cut": 1' '"context": 36'; do
    grep -qF "$field" out || die "no $field in $(cat out)"
  done
  run tokenize --model tiny --data chats.jsonl --learn all --show 3 >out
  grep -q '^\[\[<|im_start|>user$' out || die "not all is learned: $(cat out)"
  run tokenize --model tiny --data chats.jsonl --template zephyr --show 1 >out
  grep -q '^template zephyr,' out || die "another template: $(cat out)"

  printf '{"prompt":"a","chosen":" good","rejected":" bad"}' >pairs.jsonl
  run tokenize --model tiny --data pairs.jsonl --preferences >out
  grep -qF 'a[[ good' out && grep -qF 'a[[ bad' out || die "no pair: $(cat out)"
  refuse 1 'is a pair of answers, which is learned as a preference (DPO)' tokenize --model tiny --data pairs.jsonl
  echo '{"question":"a","reply":"b"}' >unknown.jsonl
  refuse 1 'none of the known forms' tokenize --model tiny --data unknown.jsonl

  printf 'one two' >book.txt
  run tokenize --model tiny --data book.txt --out book.u32 >out
  grep -qE '^book.u32: [78] tokens, each a little-endian uint32$' out || die "another file: $(cat out)"
  [[ $(od -An -tu4 -N8 book.u32) =~ ^\ *111\ *110$ ]] || die "other tokens: $(od -tu4 book.u32)"
  cp book.u32 before
  run tokenize --model tiny --data book.txt --out book.u32 >out
  cmp before book.u32
  refuse 2 'is not a file of tokens' tokenize --model tiny --data book.txt --out book.txt
  refuse 1 'line 1 is not a text' tokenize --model tiny --data chats.jsonl --out chats.u32
  [[ ! -e chats.u32 ]] || die "a file of tokens without what is learned"

  refuse 2 '--model is missing' tokenize --data chats.jsonl
  refuse 2 '--data is missing' tokenize --model tiny
  refuse 2 'there are chatml, ' tokenize --model tiny --data chats.jsonl --template chat
  refuse 1 'nowhere' tokenize --model nowhere --data chats.jsonl
  sed -i 's/im_start/in_start/g' tiny/tokenizer_config.json
  rm -f tiny/chat_template.jinja
  refuse 1 'name one with --template' tokenize --model tiny --data chats.jsonl
  printf '{"messages":3}' >bad.jsonl
  refuse 1 'bad.jsonl: line 1: ' tokenize --model tiny --data bad.jsonl --template chatml
}
