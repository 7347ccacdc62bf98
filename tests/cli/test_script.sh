#!/usr/bin/env bash
# tests/cli/test_script.sh SOURCE: tools/test.sh runs the tests of both builds, even if those of the first fail; then it ends in the
# closing line of a build that failed, and fails. Small programs replace cmake and ctest.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{tools,programs,build/ci,build/ci-sanitize}
cp "$source"/tools/{test.sh,packages.sh} "$work/tools"
echo '#!/bin/sh' >"$work/programs/cmake"
cat >"$work/programs/ctest" <<'END'
#!/bin/sh
# ctest --preset NAME ...
echo "$2" >>ran
case " $FAILING " in
*" $2 "*) echo "50% tests passed, 1 tests failed out of 2"; exit 8 ;;
esac
echo "100% tests passed, 0 tests failed out of 2"
END
chmod +x "$work"/programs/*

cd "$work"
for FAILING in "" ci ci-sanitize "ci ci-sanitize"; do
  export FAILING
  : >ran
  status=0
  ACCRUE_NO_INSTALL=1 PATH=$work/programs:$PATH tools/test.sh >out 2>/dev/null || status=$?
  [[ $(tr '\n' ' ' <ran) == 'ci ci-sanitize ' ]] || { echo "FAILED: failing '$FAILING': ran $(<ran)" >&2; exit 1; }
  expected='100% tests passed, 0 tests failed out of 2' expected_status=0
  [[ ! $FAILING ]] || expected='50% tests passed, 1 tests failed out of 2' expected_status=1
  [[ $(tail -n 1 out) == "$expected" && $status == "$expected_status" ]] ||
    { echo "FAILED: failing '$FAILING': status $status, $(tail -n 1 out)" >&2; exit 1; }
done
