# What is at the path of an output: what may be replaced, what is refused, what is written straight into. And what text
# from files and paths does to gnuplot and to a terminal.

# special: a device, a pipe, a folder and links, all in the folder of the case. Without rights to make a node there is none.
special() {
  mkdir -p special/folder
  mkfifo special/pipe
  ln -s /proc/self/fd/1 special/stdout
  ln -s real special/link
  ln -s missing special/dangling
  mknod special/null c 1 3 2>/dev/null || rm -f special/null
}

case_outputs() {
  text
  special
  train --steps 3 --out run --metrics m >/dev/null
  local plan=(plan gpt "${tiny[@]}" --svg)
  run report run --out page.html >/dev/null

  if [[ -e special/null ]]; then
    run report run --out special/null >/dev/null
    run "${plan[@]}" special/null >/dev/null
    [[ -c special/null ]] || die "a file in the place of a device"
  fi
  run report run --out special/stdout >got
  cmp got page.html || die "not the page alone on the standard output"
  run report run --out special/stdout | cmp - page.html || die "not the page alone in a pipe"
  [[ -L special/stdout ]] || die "a file in the place of a link to a pipe"
  timeout 20 cat special/pipe >got &
  run report run --out special/pipe >/dev/null
  wait $!
  [[ -p special/pipe ]] || die "a file in the place of a pipe"
  cmp got page.html || die "another page through a pipe"

  # Links stay, and what they lead to is replaced, or made.
  : >special/real
  local link
  for link in link dangling; do
    run "${plan[@]}" special/$link >/dev/null
    [[ -L special/$link ]] || die "a file in the place of a link"
    tail -c 8 special/$link | grep -q '</svg>' || die "no picture through a link"
  done
  mkdir elsewhere linked
  for link in model.safetensors run.json config.json; do ln -s ../elsewhere/$link linked/$link; done
  train --steps 3 --out linked >/dev/null
  for link in model.safetensors run.json config.json; do
    [[ -L linked/$link && -f elsewhere/$link ]] || die "a file in the place of the link $link"
    cmp linked/$link elsewhere/$link
  done
  cmp run/model.safetensors elsewhere/model.safetensors || die "another model through a link"
  refuse 1 'special/folder: Is a directory' report run --out special/folder

  # What a run replaces in its folder has to be files, which is seen before it trains.
  mkdir odd
  mkfifo odd/model.safetensors
  refuse 1 'odd/model.safetensors is a pipe, a socket or a device' train gpt --data text "${tiny[@]}" --steps 3 --out odd
  [[ -p odd/model.safetensors && $(ls odd) == model.safetensors ]] || die "files that remain: $(ls odd)"
}

case_outputs_kept() {
  text
  train --steps 3 --out run --metrics m >/dev/null
  cp text book
  cp run/model.safetensors init
  ln book hard
  ln -s book soft
  echo '{"version": 1}' >policy.json
  local wrong=(train gpt "${tiny[@]}" --steps 3 --out new) file
  for file in book hard soft ./book; do
    refuse 2 "--metrics $file is what --data names" "${wrong[@]}" --data book --metrics $file
  done
  refuse 2 '--metrics init is what --init names' "${wrong[@]}" --data text --init init --metrics init
  refuse 2 '--metrics policy.json is what --policy names' "${wrong[@]}" --data text --policy policy.json --metrics policy.json
  refuse 2 '--metrics run/run.json is what --config names' "${wrong[@]}" --data text --config run/run.json --metrics run/run.json
  refuse 2 '--out book is what --data names' train gpt "${tiny[@]}" --data book --out book
  refuse 2 'does not hold metrics' "${wrong[@]}" --data text --metrics book
  { cat m; echo mine; } >mixed
  cp mixed before
  refuse 2 'does not hold metrics' "${wrong[@]}" --data text --metrics mixed
  cmp mixed before
  # Names of a run's files, some of them not there yet, in its folder or in that of another run.
  for file in new/model.safetensors new/state-0000000003.safetensors new/run.json run/best.safetensors run/config.json; do
    refuse 2 "--metrics $file is the name of a run's own file" "${wrong[@]}" --data text --metrics $file
    refuse 2 "--tensorboard $file is" "${wrong[@]}" --data text --tensorboard $file
  done
  refuse 2 '--svg text is what --data names' plan gpt "${tiny[@]}" --data text --svg text
  refuse 2 'does not hold a picture' plan gpt "${tiny[@]}" --svg book
  refuse 2 'own file' report run --out run/model.safetensors
  refuse 2 'does not hold a page' report run --out book
  refuse 2 'does not hold results of accrue bench' bench gemm --device cpu --json book
  [[ ! -e new ]] || die "a run that was refused has left $(ls new)"
  seq 1 1500 | cmp - text
  cmp book text
  cmp init run/model.safetensors

  # Of its own kind each is replaced; and other names in a run's folder are free.
  train --steps 3 --out new --metrics m >/dev/null
  train --steps 3 --out new --metrics new/curve >/dev/null
  local times
  for times in 1 2; do
    run plan gpt "${tiny[@]}" --svg p.svg >/dev/null
    run report run --out page.html >/dev/null
  done

  # A second run does not write into the metrics of one that goes on.
  "$ACCRUE" train gpt --data text "${tiny[@]}" --steps 1000000 --out long --metrics shared >/dev/null 2>&1 &
  local first=$!
  until [[ -s shared ]]; do sleep 0.05; done
  refuse 1 'another run writes its metrics to shared' "${wrong[@]}" --data text --metrics shared --overwrite
  kill $first
  wait $first || true
  train --steps 3 --out new --metrics shared >/dev/null
}

# A run with outputs in the folder of its data can be resumed, and the next one learns from the same text.
case_outputs_in_data() {
  mkdir texts clean
  seq 1 1500 >texts/book
  cp texts/book clean
  cd texts
  local same=(train gpt --data . "${tiny[@]}" --micro-batch 2 --recompute none --schedule constant --warmup 0) run=out
  run "${same[@]}" --steps 4 --metrics m --out $run >/dev/null
  ! grep -q 'left out' run.err || die "something left out of a clean folder: $(cat run.err)"
  rm run.err
  "$ACCRUE" "${same[@]}" --steps 7 --metrics m --out $run --resume >../result 2>../run.err || die "$(cat ../run.err)"
  grep -q 'going on after step 4' ../run.err || die "the run begins anew: $(cat ../run.err)"
  grep -q 'left out of the data in \.' ../run.err || die "nothing is said: $(cat ../run.err)"
  (($(grep -c '"event":"step"' m) == 7)) || die "not 7 steps in the metrics"
  "$ACCRUE" report out --out report.html >/dev/null
  # A second run in the same folder, and an evaluation without its own --out: the same data as in a clean folder.
  "$ACCRUE" "${same[@]}" --steps 7 --metrics other --out second >/dev/null 2>&1
  (cd ../clean && "$ACCRUE" "${same[@]}" --steps 7 --out ../whole >/dev/null 2>&1)
  cmp second/model.safetensors ../whole/model.safetensors || die "outputs of a run were learned"
  cmp out/model.safetensors ../whole/model.safetensors || die "the run that went on has learned other data"
  "$ACCRUE" eval --model out --data . --device cpu 2>/dev/null | grep '^loss' >../eval1
  "$ACCRUE" eval --model out --data ../clean --device cpu 2>/dev/null | grep '^loss' >../eval2
  cmp ../eval1 ../eval2 || die "an evaluation of other data"
  # A pilot makes runs below its own folder, with its record between them.
  "$ACCRUE" pilot gpt --data . "${tiny[@]}" --steps 2 --grid lr=1e-3,2e-3 --out pilot >/dev/null 2>../run.err || die "$(cat ../run.err)"
  local prints
  prints=$(grep -h fingerprint pilot/run-*/run.json out/run.json | sort -u | wc -l)
  ((prints == 1)) || die "$prints fingerprints of one text"
  cd ..
  # Where the folder of the text would be that of the run, nothing can be told apart.
  refuse 2 'the run would write its files into clean' train gpt --data clean "${tiny[@]}" --steps 2 --out clean
  refuse 1 'texts/out is the folder of a run' train gpt --data texts/out "${tiny[@]}" --steps 2 --out elsewhere
}

# Closed streams do not become files of the run.
case_closed_streams() {
  text
  "$ACCRUE" train gpt --data text "${tiny[@]}" --steps 6 --eval-every 2 --save-every 2 --out run --metrics m <&- >&- 2>&- ||
    die "status $? without standard streams"
  ! grep -v '^{.*}$' m || die "other lines among the metrics"
  "$ACCRUE" train gpt --data text "${tiny[@]}" --steps 8 --out run --metrics m --resume <&- >&- 2>&- || die "it does not go on"
  (($(grep -c '"event":"step"' m) == 8)) || die "not 8 steps"
}

# Whatever a path holds, gnuplot takes it for a path.
case_gnuplot_paths() {
  command -v gnuplot >/dev/null || exit 77
  text
  train --steps 3 --out run --metrics m >/dev/null
  local name
  mkdir home
  echo "!touch pwned" >home/.gnuplot
  export HOME=$PWD/home
  for name in $'a\n!touch pwned\n.svg' '|touch pwned' '~nobody' '`touch pwned`' "it's \"two\" \\ \$(touch pwned)" $'tab\there' 'Grüße'; do
    run plan gpt "${tiny[@]}" --svg "$name" >/dev/null
    grep -q '</svg>' "./$name" || die "no picture at $name"
    rm "./$name"
  done
  local odd=$'it\'s "`touch pwned`"\n!touch pwned\n'
  cp -r run "$odd"
  run report run --out "$odd/page.html" >/dev/null
  grep -q '<svg' "$odd/page.html" || die "no picture in $odd"
  run pilot gpt --data text "${tiny[@]}" --steps 1 --grid "init=$odd/model.safetensors;run/model.safetensors" --out pilot \
    --svg p.svg >/dev/null
  grep -q 'touch pwned' p.svg || die "the picture lacks the label"
  [[ ! -e pwned && ! -e pwned.svg ]] || die "a path or a label was run"
  # Where gnuplot draws nothing, that is an error, whatever its exit status.
  mkdir bin
  printf '#!/bin/sh\ncat >/dev/null\n' >bin/gnuplot
  chmod +x bin/gnuplot
  PATH=$PWD/bin:$PATH refuse 1 'gnuplot did not draw p2.svg' plan gpt "${tiny[@]}" --svg p2.svg
  [[ ! -e p2.svg ]] || die "an empty picture"
}

# What names in files and paths hold is shown, never obeyed.
case_shown_text() {
  text
  train --steps 3 --out run --metrics m >/dev/null
  local escape=$'\033]0;obeyed\007' turn=$'\u202e' eight=$'\xc2\x9b' status=0
  obeyed() { grep -qE $'\033|\xc2\x9b|\u202e' "$1"; }
  sed "s/\"model\": \"gpt\"/\"model\": \"gpt\\\\u001b]0;obeyed\\\\u0007\\\\u202e\"/" run/run.json >named.json
  grep -q 'u001b' named.json || die "the record has no such name"
  refuse 2 'gpt\x1b]0;obeyed\x07\xe2\x80\xae' train --config named.json
  ! obeyed refuse.err || die "a name in a record is obeyed"
  printf '{"version": 1, "a\\u001b[2J\\u009b": 1}' >policy.json
  refuse 2 'a\x1b[2J\xc2\x9b' train gpt --data text "${tiny[@]}" --policy policy.json
  ! obeyed refuse.err || die "a rule of a policy is obeyed"
  "$ACCRUE" eval --model "missing$escape$turn$eight" --data text 2>err >out || status=$?
  ((status == 1)) || die "status $status"
  ! obeyed err || die "a path is obeyed: $(cat -v err)"
  cp -r run "run$escape"
  run report "run$escape" --out "page$escape.html" >out
  ! obeyed out && ! obeyed run.err || die "a path in a result is obeyed"
  run eval --model "run$escape" --data text --device cpu >out
  ! obeyed out || die "a path in a table is obeyed"
  grep -qF '\x1b]0;obeyed\x07' out || die "the path is not shown: $(cat -v out)"
  # Letters beyond ASCII stay.
  refuse 1 'Grüße-日本' eval --model 'Grüße-日本' --data text

  # A sample has the model's bytes in a file or a pipe, and shows them on a terminal.
  command -v script >/dev/null || return 0
  local sample=(sample --model run --device cpu --bytes 400 --temperature 3)
  run "${sample[@]}" >bytes
  (($(wc -c <bytes) == 400)) || die "not 400 bytes"
  obeyed bytes || grep -qP '[\x00-\x08\x0b-\x1f]' bytes || die "the sample has no control bytes to look at"
  script -qec "$ACCRUE ${sample[*]}" typescript </dev/null >/dev/null
  sed '1d;$d' typescript | tr -d '\r\n\t' >shown
  ! LC_ALL=C grep -qP '[\x00-\x1f\x7f]' shown || die "control bytes on a terminal"
  grep -q '\\x' shown || die "nothing is escaped"
}

# Why a folder cannot be made, and where nothing keeps a second run away.
case_folders() {
  text
  mkdir closed
  : >closed/file
  refuse 1 'folder closed/file/a, in which closed/file/a/b would be: Not a directory' train gpt --data text "${tiny[@]}" --out closed/file/a/b
  if ((EUID == 0)) && command -v unshare >/dev/null && unshare -m true 2>/dev/null; then
    mkdir ro
    unshare -m sh -c 'mount -t tmpfs -o ro none ro && exec "$@"' sh "$ACCRUE" train gpt --data text "${tiny[@]}" --out ro/a/b \
      2>err >out && die "a folder on what is mounted read-only"
    grep -q 'cannot make the folder ro/a, in which ro/a/b would be: Read-only file system' err || die "$(cat err)"
  fi
  ((EUID == 0)) && command -v setpriv >/dev/null || return 0
  mkdir unread
  chmod 0333 unread
  chmod 0755 .
  setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/dev/null \
    "$ACCRUE" train gpt --data text "${tiny[@]}" --steps 2 --keep 0 --out unread >out 2>err || die "$(cat err)"
  (($(grep -c 'unread cannot be locked (Permission denied): a second run could write' err) == 1)) || die "$(cat err)"
}
