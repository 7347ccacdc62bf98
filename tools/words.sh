#!/bin/sh
# Finds hard words in what people read: pages, comments and messages. docs/contribute/style.md says
# what to write instead.
#
#   tools/words.sh BASE     prints file, line and word of each one in the lines that were added
#                           since BASE, a commit; exits with 1 if there are any. New files count
#                           once git knows them (git add)
#   tools/words.sh --all    counts them in the whole tree; exits with 0. Columns: pages (*.md),
#                           comments of headers (*.h), comments of other sources (C, kernels,
#                           scripts), and messages (texts in quotes in C)
#   tools/words.sh --list   prints file, line and word of each one in the whole tree; exits with 0
#   tools/words.sh --check  exits with 1 if the whole tree has more of them than `most` below
#
# In C only comments and texts in quotes are read, in scripts only lines of comments, in pages all
# but code. A word that a line break cuts in two is not found. "who" is fine after people, users and
# the like. Not read: the page that lists the words, this file and its test. Without git, as in a
# release, the files of the folder are read.
set -eu

# How many the tree may have. The count may only fall: if it has fallen, lower this number with it.
most=33

usage() {
  echo "usage: tools/words.sh BASE | --all | --list | --check" >&2
  exit 2
}
[ $# -eq 1 ] || usage
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

case $1 in
--all | --list | --check)
  if [ "$(git rev-parse --show-prefix 2>/dev/null || echo none)" = "" ]; then
    git -c core.quotePath=off ls-files
  else
    find . \( -name '.?*' -o -path './build*' -o -path ./shared \) -prune -o -type f -print |
      sed 's|^\./||' | LC_ALL=C sort
  fi | grep -E '\.(md|c|h|cl|cpp|sh|py|cmake)$|(^|/)CMakeLists\.txt$' >"$work/files"
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

case $1 in --*) all=1 ;; *) all=0 ;; esac
awk -F '\t' -v all=$all -v way="$1" -v most=$most '
# Counts or prints the hard words of a text that people read.
function look(file, number, text, kind,    words, i) {
  if (all + 0 == 0 && !((file, number) in added)) return
  text = tolower(text)
  if (text ~ /( |^)too[.;:,)]/ || text ~ /, too *$/) found(file, number, "too", kind)
  gsub(/[.,;:?!]/, " , ", text)
  gsub(/[^a-z0-9,]+/, " ", text)
  text = " " text " "
  gsub(/ there (is|are|was|were|will be) no /, " ", text)
  gsub(/ (is|are|was|were) no longer /, " ", text)
  gsub(/ (people|persons?|users?|readers?|authors?|those|(any|every|some|no)(one|body)) who /, " ", text)
  for (i = 1; i <= count; i++) if (text ~ pattern[i]) found(file, number, name[i], kind)
}

function found(file, number, word, kind) {
  if (way !~ /^--/ || way == "--list") print file ":" number ": " word
  sum[word, kind]++
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
  if (comment != "") look(file, number, comment, file ~ /\.h$/ ? "headers" : "comments")
}

function scan(file,    line, number, c, page, script, fence) {
  if (file ~ /^(tools\/words|tests\/cli\/words)\.sh$/ || file == "docs/contribute/style.md") return
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
  word("who (for a program)", " (who|whoever) ")
  word("whose", " whose ")
}

{
  if (!($1 in known)) { known[$1] = 1; file[++files] = $1 }
  added[$1, $2] = 1
}

END {
  for (i = 1; i <= files; i++) scan(file[i])
  if (!(all + 0)) exit total > 0
  if (way == "--list") exit 0
  name[++count] = "too"
  line = "%-20s %8s %8s %8s %8s\n"
  printf line, "word", "pages", "headers", "comments", "messages"
  for (i = 1; i <= count; i++)
    printf line, name[i], sum[name[i], "pages"] + 0, sum[name[i], "headers"] + 0,
      sum[name[i], "comments"] + 0, sum[name[i], "messages"] + 0
  print total + 0 " in all"
  if (way != "--check") exit 0
  if (total <= most) {
    if (total < most) print "fewer than the " most " of tools/words.sh: set most=" total " there"
    exit 0
  }
  print "more than the " most " that tools/words.sh allows: `tools/words.sh main` finds those that" \
    " you added since main, and docs/contribute/style.md says what to write instead"
  exit 1
}' "$work/files"
