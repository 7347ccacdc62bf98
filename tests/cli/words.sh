#!/usr/bin/env bash
# tests/cli/words.sh SOURCE: the tree has at most as many hard words as tools/words.sh allows; and the script finds them in
# pages, comments and messages, with git and without, and not in code.
set -euo pipefail
"$1/tools/words.sh" --check

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() {
  echo "FAILED: $*" >&2
  exit 1
}
mkdir -p "$work/tools" "$work/build" "$work/src"
cp "$1/tools/words.sh" "$work/tools/"
cd "$work"
export GIT_CEILING_DIRECTORIES=$work GIT_CONFIG_GLOBAL=/dev/null
unset GIT_DIR GIT_WORK_TREE

cat >page.md <<'END'
The one behind it. There is no such thing, and it is no longer one.
It is no number, and goes by its name. Some 12 of these.

    code behind it

People who read it, and a program who does. Two parts, of which one stands. It is one, too.
END
cat >src/part.h <<'END'
/* A file beside it,
 * whose name is there. */
enum { behind, whose };
END
cat >src/part.c <<'END'
int behind; /* the sum of, which may cancel */
// whose
const char *beside = "%d is no number";
END
cat >script.sh <<'END'
# Whoever reads it.
behind=whose
END
echo 'behind' >build/page.md
cat >expected <<'END'
page.md:1: behind
page.md:2: goes by
page.md:2: is no
page.md:2: some (for about)
page.md:6: of which
page.md:6: stands
page.md:6: too
page.md:6: who (for a program)
script.sh:1: who (for a program)
src/part.c:2: whose
src/part.c:3: is no
src/part.h:1: beside
src/part.h:2: whose
END
tools/words.sh --list | LC_ALL=C sort | diff expected - || die "other words without git"
tools/words.sh --all >table
[[ $(tail -n 1 table) == '13 in all' ]] || die "another sum: $(cat table)"
[[ $(echo $(grep '^whose' table)) == 'whose 0 1 1 0' ]] || die "other columns: $(cat table)"

allow() { sed -i "s/^most=.*/most=$1/" tools/words.sh; }
allow 13
tools/words.sh --check >table || die "13 are too many"
! grep -q 'fewer' table || die "13 are fewer than 13"
allow 14
tools/words.sh --check | grep -q 'set most=13' || die "14 are not lowered"
allow 12
! tools/words.sh --check >table || die "13 are not too many"
grep -q 'more than the 12' table || die "no word of it: $(cat table)"

command -v git >/dev/null || exit 0
git init -q .
git add page.md script.sh src tools
git -c user.name=test -c user.email=test -c commit.gpgsign=false commit -qm begin
tools/words.sh --list | LC_ALL=C sort | diff expected - || die "other words with git"
tools/words.sh HEAD || die "words where nothing was added"
printf 'It stands here.\n' >>page.md
! tools/words.sh HEAD >added || die "no words in what was added"
[[ $(cat added) == 'page.md:7: stands' ]] || die "other words in what was added: $(cat added)"
