#!/usr/bin/env bash
# tests/docs_examples.sh SOURCE: the examples and what pages say of them.
# - Each public function is in an example, or in a page of docs/cookbook or docs/start.
# - A page of docs/cookbook or docs/start leads to each example.
# - A block "```c examples/NAME.c" is quoted from that file: its pieces, between lines "/* ... */", are there in that order.
set -euo pipefail
cd "$1"
wrong=0
say() {
  echo "$*" >&2
  wrong=1
}

# The word before the first "(" of each declaration with AC_API.
functions=$(cat include/accrue/*.h | tr '\n' ' ' | grep -oE '\bAC_API [^;{]*' | grep -oE '\bac_[a-z0-9_]+ ?\(' | tr -d ' (' | sort -u)
(($(wc -w <<<"$functions") > 150)) || say "only $(wc -w <<<"$functions") public functions were found"
used=$(grep -rhoE '\bac_[a-z0-9_]+' examples docs/cookbook docs/start | sort -u)
for name in $(comm -23 <(printf '%s\n' $functions) <(printf '%s\n' "$used")); do
  say "no example and no page of docs/cookbook or docs/start uses $name"
done

for file in examples/*.c examples/*.cpp; do
  grep -rqF "($(printf '../../%s' "$file"))" docs/cookbook docs/start || say "no page leads to $file"
done

quotes=$(cat docs/cookbook/*.md docs/start/*.md | grep -c '^```c examples/' || true)
((quotes >= 20)) || say "only $quotes blocks are quoted"
awk '
  function whole(path,  text, line) {
    while ((getline line <path) > 0) text = text line "\n"
    close(path)
    return text
  }
  function check_piece(  at) {
    if (piece ~ /^\n*$/) return
    at = index(rest, piece)
    if (at) rest = substr(rest, at + length(piece))
    else {
      printf "%s:%d: this is not in %s, or not at this place:\n%s", FILENAME, first, path, piece
      wrong = 1
    }
  }
  /^```c(pp)? examples\// { path = $2; rest = "\n" whole(path); inside = 1; piece = "\n"; first = FNR + 1; next }
  inside && /^```$/ { check_piece(); inside = 0; next }
  inside && /^ *\/\* \.\.\. \*\/$/ { check_piece(); rest = "\n" rest; piece = "\n"; first = FNR + 1; next }
  inside { piece = piece $0 "\n" }
  END { exit wrong }' docs/cookbook/*.md docs/start/*.md >&2 || wrong=1
exit $wrong
