#!/bin/sh
# Finds hard words in what people read: pages, comments and messages. docs/contribute/style.md says
# what to write instead.
#
#   tools/words.sh BASE    prints file, line and word of each one in the lines that were added since
#                          BASE, a commit; exits with 1 if there are any. New files count once git
#                          knows them (git add)
#   tools/words.sh --all   counts them in all pages (*.md), headers (comments and texts of *.h) and
#                          messages (texts of *.c in src and tools); exits with 0
#
# In C only comments and texts in quotes are read, in scripts only lines of comments, in pages all
# but code. A word that a line break cuts in two is not found, and "who" for a program is left to
# the reader. Not read: the page that lists the words, and this file.
set -eu

usage() {
  echo "usage: tools/words.sh BASE | --all" >&2
  exit 2
}
[ $# -eq 1 ] || usage
cd "$(git rev-parse --show-toplevel)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

case $1 in
--all)
  git -c core.quotePath=off ls-files -- '*.md' '*.h' 'src/*.c' 'tools/*.c' >"$work/files"
  ;;
-*) usage ;;
*)
  git -c core.quotePath=off diff -U0 --no-color --no-ext-diff --diff-filter=d --src-prefix=a/ \
    --dst-prefix=b/ "$1" -- >"$work/diff"
  # FILE <tab> LINE of each line that was added
  awk '/^\+\+\+ b\// { file = substr($0, 7); sub(/\t$/, "", file); next }
       /^@@ / { split($3, at, ","); line = substr(at[1], 2) + 0; next }
       /^\+/ { print file "\t" line++ }' "$work/diff" >"$work/files"
  ;;
esac

awk -F '\t' -v all="$([ "$1" = --all ] && echo 1 || echo 0)" '
# Counts or prints the hard words of a text that people read.
function look(file, number, text, kind,    words, i) {
  if (all + 0 == 0 && !((file, number) in added)) return
  text = tolower(text)
  if (text ~ /( |^)too[.;:,)]/ || text ~ /, too *$/) found(file, number, "too", kind)
  gsub(/[^a-z0-9]+/, " ", text)
  text = " " text " "
  gsub(/ there (is|are|was|were|will be) no /, " ", text)
  gsub(/ (is|are|was|were) no longer /, " ", text)
  for (i = 1; i <= count; i++) if (text ~ pattern[i]) found(file, number, name[i], kind)
}

function found(file, number, word, kind) {
  if (all + 0) sum[word, kind]++
  else print file ":" number ": " word
  total++
}

# A line of C: texts in quotes, and comments, which may go on in the next line.
function look_c(file, number, line,    at, end, text, comment) {
  if (!within && line ~ /^ *#/) return
  while (line != "") {
    if (within) {
      end = index(line, "*/")
      comment = comment " " (end ? substr(line, 1, end - 1) : line)
      line = end ? substr(line, end + 2) : ""
      if (end) within = 0
      continue
    }
    if (!match(line, /["\047]|\/\*|\/\//)) break
    at = substr(line, RSTART, RLENGTH)
    line = substr(line, RSTART + RLENGTH)
    if (at == "/*") { within = 1; continue }
    if (at == "//") { comment = comment " " line; break }
    text = ""
    while (line != "" && substr(line, 1, 1) != at) {
      end = substr(line, 1, 1) == "\\" ? 2 : 1
      text = text substr(line, 1, end)
      line = substr(line, end + 1)
    }
    line = substr(line, 2)
    if (at == "\"") look(file, number, text, "messages")
  }
  if (comment != "" && !(all + 0 && file ~ /\.c$/)) look(file, number, comment, "headers")
}

function scan(file,    line, number, c, page, script, fence) {
  if (file == "tools/words.sh" || file == "docs/contribute/style.md") return
  c = file ~ /\.(c|h|cl|cpp)$/
  page = file ~ /\.md$/
  script = file ~ /\.(sh|py|cmake)$/ || file ~ /CMakeLists.txt$/
  within = fence = number = 0
  while ((getline line < file) > 0) {
    number++
    if (c) look_c(file, number, line)
    else if (page && line ~ /^ *```/) fence = !fence
    else if (page && !fence && line !~ /^    /) look(file, number, line, "pages")
    else if (script && line ~ /^ *#/) look(file, number, line, "comments")
  }
  close(file)
}

function word(its_name, its_pattern) {
  name[++count] = its_name
  pattern[count] = its_pattern
}

BEGIN {
  word("behind", " behind ")
  word("beside", " beside ")
  word("goes by", " (go|goes|going|went|gone) by ")
  word("is no", " (is|are|was|were) no ")
  word("of which", " of which ")
  word("some (for about)", " some ([0-9]|ten|tens|twenty|fifty|dozen|hundred|thousand|half|twice)")
  word("stands", " (stand|stands|stood|standing) ")
}

{
  if (!($1 in known)) { known[$1] = 1; file[++files] = $1 }
  added[$1, $2] = 1
}

END {
  for (i = 1; i <= files; i++) scan(file[i])
  if (!(all + 0)) exit total > 0
  name[++count] = "too"
  printf "%-18s %8s %8s %8s\n", "word", "pages", "headers", "messages"
  for (i = 1; i <= count; i++)
    printf "%-18s %8d %8d %8d\n", name[i], sum[name[i], "pages"], sum[name[i], "headers"],
      sum[name[i], "messages"]
  print total + 0 " in all"
}' "$work/files"
