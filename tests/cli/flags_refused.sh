#!/usr/bin/env bash
# tests/cli/flags_refused.sh SOURCE: the generator of the table of flags refuses files that are not as docs/contribute/add-a-flag.md
# says, and names the file; docs/flags/README.md is the index that it makes; and the choices of --optimizer are the optimizers.
set -euo pipefail
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() {
  echo "FAILED: $*" >&2
  exit 1
}

make() { cmake -DFLAGS="$work/flags" -DOUTPUT="$work/flags.c" -DINDEX="$work/index.md" -P tools/flags/generate.cmake; }

# refused SENTENCE EXPRESSION [FILE]: with a file changed by sed.
refused() {
  local file=${3:-patience-gain.md}
  rm -rf "$work/flags"
  cp -r docs/flags "$work/flags"
  sed -i "$2" "$work/flags/$file"
  ! cmp -s "$work/flags/$file" "docs/flags/$file" || die "'$2' changes nothing"
  ! make 2>"$work/err" || die "'$2' is accepted"
  tr -s ' \n' ' ' <"$work/err" | grep -qF -- "$file: $1" || die "not '$1' but $(cat "$work/err")"
}

cp -r docs/flags "$work/flags"
make
diff docs/flags/README.md "$work/index.md" || die "docs/flags/README.md is not what the files say. To renew it:
    cmake -DFLAGS=docs/flags -DINDEX=docs/flags/README.md -P tools/flags/generate.cmake"

# tools/common/storage.c takes the choices for the library's kinds, without that of a caller's own.
diff <(sed -n 's/^value: //p' docs/flags/optimizer.md | tr '|' '\n') \
  <(sed -n 's/^  X(AC_[A-Z_]*, \([a-z_]*\)).*/\1/p' src/optimizer/list.h | grep -vx callback | tr _ -) ||
  die "docs/flags/optimizer.md does not have the optimizers of src/optimizer/list.h"

refused 'the key colour is unknown' '2i colour: red'
refused 'the key name is there twice' '2i name: other'
refused 'the key short is missing' '/^short:/d'
refused "'group validation' is not of the form KEY: VALUE" 's/^group:/group/'
refused 'group: taste is not in groups.txt' 's/^group:.*/group: taste/'
refused 'commands names fly, which is not known' 's/^commands:/commands: fly/'
refused 'models names bert, which is not known' '2i models: bert'
refused 'ignored-by names sample, which is not known' 's/^ignored-by:/ignored-by: sample/'
refused 'it names the flag patients, which does not exist' 's/^see:.*/see: patients/'
refused 'it names the flag patients, which does not exist' 's/^needs:.*/needs: patients=3/'
refused 'it names the flag patients, which does not exist' '2i excludes: patients'
refused 'range: from 0 is not of the form' 's/^range:.*/range: from 0/'
refused 'record: sometimes is unknown' '2i record: sometimes'
refused 'common: no is unknown; it is yes' '2i common: no'
refused 'there is no text below the keys' '1!{/^---$/q}'
refused 'the text has a table or a heading' '$a # More'
refused "'é' is not ASCII" 's/^short: .*/short: é/'
refused 'the first line is not ---' 1d
refused 'no line --- ends the keys' '2,$s/^---$//'
refused 'name: other does not begin the name of the file' 's/^name:.*/name: other/'
refused "'data' is not of the form: name | title" 's/^data .*/data/' groups.txt
echo "the index is as it should be, and wrong files are refused"
