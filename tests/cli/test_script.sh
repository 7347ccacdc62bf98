#!/usr/bin/env bash
# tests/cli/test_script.sh SOURCE: tools/test.sh runs the tests of both builds, even if those of the first fail; then it ends in the
# closing line of a build that failed, and fails. It leaves out what is not in the sample of the commit or of ACCRUE_TEST_SEED,
# nothing with --all, and the command that it names gives the same sample. Small programs replace cmake and ctest.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{tools,tests,programs,build/ci,build/ci-sanitize}
cp "$source"/tools/{test.sh,packages.sh} "$work/tools"
cp "$source"/tests/sample.sh "$work/tests"
printf '%s 3 drawn_.*\n' ci ci-sanitize >"$work/tests/sampled.txt"
echo '#!/bin/sh' >"$work/programs/cmake"
cat >"$work/programs/ctest" <<'END'
#!/bin/sh
# ctest --preset NAME -N, or ctest --preset NAME --parallel N --exclude-regex OUT
if [ "$3" = -N ]; then
  printf '  Test  #%s\n' '8: drawn_a' '9: always' '10: drawn_b' '11: drawn_c'
  exit
fi
echo "$2" >>ran
echo "$6" >>left_out
case " $FAILING " in
*" $2 "*) echo "50% tests passed, 1 tests failed out of 2"; exit 8 ;;
esac
echo "100% tests passed, 0 tests failed out of 2"
END
chmod +x "$work"/programs/*
export ACCRUE_NO_INSTALL=1 PATH=$work/programs:$PATH
unset ACCRUE_TEST_SEED

cd "$work"
for FAILING in "" ci ci-sanitize "ci ci-sanitize"; do
  export FAILING
  : >ran
  status=0
  tools/test.sh >out 2>/dev/null || status=$?
  [[ $(tr '\n' ' ' <ran) == 'ci ci-sanitize ' ]] || { echo "FAILED: failing '$FAILING': ran $(<ran)" >&2; exit 1; }
  expected='100% tests passed, 0 tests failed out of 2' expected_status=0
  [[ ! $FAILING ]] || expected='50% tests passed, 1 tests failed out of 2' expected_status=1
  [[ $(tail -n 1 out) == "$expected" && $status == "$expected_status" ]] ||
    { echo "FAILED: failing '$FAILING': status $status, $(tail -n 1 out)" >&2; exit 1; }
done

# sample SEED [ARGUMENT...]: what the first build leaves out. A wrong call is one sentence, and runs nothing.
export FAILING=''
sample() {
  rm -f left_out
  if ACCRUE_TEST_SEED=$1 tools/test.sh "${@:2}" >out 2>&1; then head -n 1 left_out; else grep -c . out; fi
}
commit() { git -c user.name=a -c user.email=a@b -c commit.gpgsign=false commit -q --allow-empty -m "$1"; }
git init -q .
commit one
one=$(sample '')
commit two
two=$(sample '')
seed=$(sed -n 's/.* again: ACCRUE_TEST_SEED=\([0-9]*\) tools.test.sh$/\1/p' out | head -n 1)
got="$one $two $(sample "$seed") $(sample 3) $(sample 3 --all) $(sample x) $(sample 3 --most)"
[[ $got == '^(drawn_a|drawn_c)$ ^(drawn_b|drawn_c)$ ^(drawn_b|drawn_c)$ ^(drawn_a|drawn_b)$ ^()$ 1 1' ]] ||
  { echo "FAILED: left out: $got" >&2; exit 1; }
