# `accrue report`: a page about runs.

# steps FIRST LAST: lines of metrics with a loss that falls and a rate that rises.
steps() {
  awk -v first="$1" -v last="$2" 'BEGIN { for (i = first; i <= last; i++)
    printf "{\"event\":\"step\",\"step\":%d,\"loss\":%g,\"lr\":%g,\"grad_norm\":1,\"loss_scale\":1,\"samples_per_s\":10}\n",
      i, 5 / i, i / 100 }'
}

# folder NAME: a run's, made by hand, with metrics of 30 steps.
folder() {
  mkdir -p "$1"
  echo '{"model": "mlp", "flags": {"lr": 0.1, "metrics": null}, "given": ["lr"], "outcome": "done"}' >"$1/run.json"
  steps 1 30 >"$1/metrics.jsonl"
}

# picture TITLE: that part of the page.
picture() { sed -n "/<h3>$1/,/<\/figure>/p" page.html; }

# report RUN...: a page that is whole.
report() {
  run report "$@" --out page.html >result
  "$PAGE" page.html || die "a damaged page of $*"
}

# The pictures have curves of each run, with its name next to a piece of its line.
case_report() {
  need_gnuplot
  text
  train --steps 60 --eval-every 20 --metrics first.jsonl --out first >/dev/null
  train --steps 40 --eval-every 10 --lr 0.02 --precision f16 --loss-scale-interval 5 --group '*.bias:lr=1' --group '*wte*:lr=1' \
    --metrics second.jsonl --out second >/dev/null
  report first second/
  grep -qx 'page.html: 2 runs, 7 pictures' result || die "another result: $(cat result)"
  local title
  for title in 'Training loss' 'Validation loss' 'Validation accuracy' 'Gradient norm' 'Learning rate' 'Loss scale' Throughput; do
    picture "$title" >figure
    grep -q "<path stroke='rgb( 76, 114, 176)'.*d='M" figure || die "$title: no curve of the first run"
    grep -q "<path stroke='rgb(196,  78,  82)'.*stroke-dasharray='9.0,4.0'.*d='M" figure || die "$title: no curve of the second run"
    grep -q 'stroke="#4c72b0"[^>]*"none"/></svg><bdi>first</bdi>.*stroke="#c44e52"[^>]*"9,4"/></svg><bdi>second</bdi>' figure ||
      die "$title: no legend"
  done
  (($(picture 'Training loss' | grep -c gnuplot_plot_) == 4)) || die "losses are not both measured and smoothed"
  # Settings that differ, and no others.
  grep -qF '<tr><th scope="row"><bdi>lr</bdi></th><td>0.001</td><td>0.02</td></tr>' page.html || die "no learning rates"
  grep -qF '<td><bdi>f32</bdi></td><td><bdi>f16</bdi></td>' page.html || die "no precisions"
  grep -qF '<bdi>group</bdi></th><td>-</td><td><bdi>*.bias:lr=1</bdi> <bdi>*wte*:lr=1</bdi></td></tr>' page.html || die "no groups"
  ! grep -qE '<bdi>(width|metrics|out)</bdi></th>' page.html || die "settings that do not differ, or places"
  grep -q 'gpt</bdi> on <bdi>cpu</bdi>.*batches of 6 at once.*KiB planned' page.html || die "no plan in words"
  grep -q 'Ended as planned at <bdi>20.*, after step 60\.' page.html || die "no end"
  grep -qE 'Activations</th><td[^>]*>[0-9.]+ KiB<span class="bar"' page.html || die "no memory"
  # The same runs give the same page.
  cp page.html before
  report first second
  cmp page.html before || die "another page"
  # Of one run those that were given. Losses on a logarithmic scale have a number below five.
  report second --log
  grep -qF '<bdi>loss-scale-interval</bdi></th><td>5</td>' page.html || die "no flag that was given"
  ! grep -qF '<bdi>beta2</bdi>' page.html || die "a flag that was not given"
  picture 'Training loss' >figure
  grep -q logarithmic figure || die "no logarithmic scale"
  # A classifier's confusion matrix.
  folder one
  "$FIXTURE" images . train 60
  run train mlp --data . --device cpu --hidden 8 --steps 2 --out classifier >/dev/null
  run eval --model classifier --data . --json >classifier/eval.json
  report classifier one 2>/dev/null
  grep -q 'Confusion matrix of <bdi>classifier' page.html || die "no confusion matrix"
  (($(grep -c '<td class="right"' page.html) == 10)) || die "not ten classes"
  # A logarithm needs numbers above 0, and a curve at least one number.
  sed -i 's/"loss":[^,]*/"loss":0/; s/"lr":[^,]*/"lr":null/' one/metrics.jsonl
  report one --log
  grep -q '1 run, 2 pictures' result || die "another result: $(cat result)"
}

# example_field KEY NUMBER: that field of the first example in examples.json under a key.
example_field() {
  awk -v list="\"$1\": [" -v key="\"$2\": " 'index($0, list) { within = 1 }
    within && index($0, key) { sub(/^[^:]*: "?/, ""); sub(/"?,?$/, ""); if (!found++) print }' images/examples.json
}

# The images that a classifier answered worst and best, and how images change.
case_report_images() {
  need_gnuplot
  "$FIXTURE" pictures shapes 90 1
  local model=(--size 24 --crop-share 1 --depth 8 --width 8 --batch 8 --device cpu --threads 1)
  run train resnet --data shapes "${model[@]}" --steps 60 --lr 1e-2 --flip --cutmix 1 --examples 3 --out images >out
  # The worst is the one that predict gives its class the least probability, and the best the most.
  run predict --model images --data shapes --split validation --device cpu --threads 1 --top 3 --json >answers
  tr -d '\n' <answers | sed 's/{"index"/\n&/g' | grep '^{"index"' |
    sed 's/.*"file": "\([^"]*\)", "label": \([0-9]*\),.*{"class": \2, "name": "[a-z]*", "probability": \([0-9.e-]*\)}.*/\3 \1/' | sort -g >sorted
  (($(wc -l <sorted) == 9)) || die "not nine validate: $(cat answers)"
  [[ $(example_field worst file) == $(head -1 sorted | cut -d' ' -f2) ]] || die "$(example_field worst file) is not the worst: $(cat sorted)"
  [[ $(example_field best file) == $(tail -1 sorted | cut -d' ' -f2) ]] || die "$(example_field best file) is not the best: $(cat sorted)"
  (($(grep -c '"png"' images/examples.json) == 6)) || die "not three of each"
  # An image is what the model saw.
  mkdir seen
  example_field worst png | base64 -d >seen/worst.png
  run predict --model images --data seen/worst.png --device cpu --threads 1 --top 3 --json >again
  grep -qF "$(head -1 sorted | cut -c1-7)" again || die "another picture than was validated: $(cat again)"
  report images
  (($(grep -o '<img alt="[a-z]* answer" src="data:image/png;base64,' page.html | wc -l) == 6)) || die 'not six images'
  grep -qE 'Worst validated images of|Best validated images of' page.html || die 'no headings'
  grep -q 'Confusion matrix of <bdi>images' page.html && grep -q '<bdi>circle</bdi> 0</th>' page.html || die 'no confusion matrix with names'
  grep -A4 'Classes of <bdi>images' page.html | grep -qE '<bdi>(circle|cross|square)</bdi></th><td class="n">3</td>' || die 'no accuracy of classes'
  (($(grep -c '<tr><td><img alt="image that trains"' page.html) == 4)) || die 'no changed images'
  # Those of eval come first. Its JSON has none unless it is asked for them.
  run eval --model images --data shapes --split train --device cpu --json >plain
  ! grep -qE '"worst"|class_names' plain || die 'images nobody asked for'
  run eval --model images --data shapes --split train --examples 1 --device cpu --json >images/eval.json
  report images
  (($(grep -o '<img alt="[a-z]* answer"' page.html | wc -l) == 2)) || die 'not those of eval'
  grep -q 'on the split <bdi>train' page.html || die 'not the confusion of eval'
  rm images/eval.json
  # A run that takes the place of another one has none of its images.
  run train resnet --data shapes "${model[@]}" --steps 2 --overwrite --out images >out
  report images
  ! grep -q '<img' page.html || die 'images of a run that was replaced'
  # Pixels that are none, and names that would be tags.
  sed -i 's/"png": "iV/"png": "x\\" onload=\\"/; s/"circle"/"<b>"/' images/examples.json
  sed -i "s/\"run\": \"[^\"]*\"/\"run\": \"$(sed -n 's/^  "id": "\(.*\)",$/\1/p' images/run.json)\"/" images/examples.json
  report images
  grep -q '&lt;b&gt;</bdi> 0</th>' page.html || die 'the name is not there'
  ! grep -qE 'onload|<img alt="[a-z]* answer"' page.html || die 'what is no picture is shown'
  # Samples of another shape, more images than there are, and balanced classes.
  mkdir idx
  "$FIXTURE" images idx train 60
  run train mlp --data idx --hidden 8 --steps 3 --batch 8 --device cpu --examples 64 --out grey >out
  report grey
  (($(grep -o '<img alt="[a-z]* answer"' page.html | wc -l) == 12)) || die 'six validate, and twelve images are expected'
  run train resnet --data shapes "${model[@]}" --steps 2 --balanced --examples 1 --out balanced >out
  report balanced
  grep -q 'another one each time' page.html || die 'it is not said that balanced samples change'
  refuse 2 '--examples has no meaning for eval without --json' eval --model grey --data idx --examples 2
  refuse 2 'examples' train mlp --data idx --examples 65
}

# What others have named does not become part of the page.
case_report_hostile() {
  need_gnuplot
  local name=$'x<script>alert(1)</script>&amp;"\' onload=\'\377\033\342\200\256\301\241\342\202z'
  folder "$name"
  sed -i 's/"mlp"/"<b>\&\\u0001\\"mlp"/; s/"lr": 0.1/"<i>": "<u>"/; s/"lr"/"<i>"/' "$name/run.json"
  folder other
  report "$name" other --title "$name"
  grep -qF '&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;&quot;&#39; onload=&#39;' page.html || die "the name is not there"
  grep -qF '&lt;b&gt;&amp;' page.html && grep -qF '<bdi>&lt;i&gt;</bdi></th><td><bdi>&lt;u&gt;</bdi>' page.html || die "no settings"
  # Numbers that are none, lie beyond all pictures, or are not those of a step.
  { steps 1 10; cat <<'LINES'; } >other/metrics.jsonl
{"event":"step","step":11,"loss":"0.1","lr":1e308,"grad_norm":[],"loss_scale":-1,"samples_per_s":{}}
{"event":"step","step":12,"loss":1e308,"lr":-1e308}
{"event":"eval","step":9223372036854775807,"loss":-1e99,"accuracy":1e99}
{"event":"plan","planned_bytes":{"total":-5,"io":"x"},"micro_batch":0,"budget_bytes":9223372036854775807}
{"event":"end","seconds":"long","peak_bytes":1e300,"samples_per_s":null}
{"event":"later"}
LINES
  report other --log
  [[ ! -s run.err ]] || die "a complaint: $(cat run.err)"
}

# Gaps stay gaps, what a run did again counts once, and damaged lines are named.
case_report_metrics() {
  need_gnuplot
  folder gap
  sed -i '10,14s/"lr":[^,]*/"lr":null/' gap/metrics.jsonl
  report gap
  picture 'Learning rate' | tr '\n' ' ' | grep -o "<path stroke='rgb( 76, 114, 176)'[^>]*>" >line
  (($(grep -o M line | wc -l) == 2)) || die "no gap: $(cat line)"

  folder again
  report again
  cp page.html whole
  { steps 1 20; echo '{"event":"end","steps":20,"seconds":99}'; steps 11 30; } >again/metrics.jsonl
  report again
  cmp whole page.html || die "a run that went on is another"
  { steps 1 30; echo '{"event":"step","step":31,"loss":9,"replayed":true}'; } >again/metrics.jsonl
  report again
  cmp whole page.html || die "a window that ran again counts"

  { steps 1 9; echo '{"event":"step","step":1'; echo nothing; steps 10 30; printf '{"event":"st'; } >again/metrics.jsonl
  report again
  grep -qx 'again/metrics.jsonl:10 is not a line of metrics and is left out, as are later ones' run.err || die "$(cat run.err)"
  grep -q 'metrics.jsonl</bdi> line 10 is damaged and left out, as are 2 later ones' page.html || die "the page does not say so"
  sed '/class="note"/d' page.html | cmp - whole || die "the other lines count differently"

  # A long run is drawn as a band, and takes no more room than a picture has.
  steps 1 30000 >again/metrics.jsonl
  report again
  picture 'Training loss' >figure
  grep -q 'fill-opacity' figure && grep -q 'step, in thousands' figure || die "no band"
  (($(wc -c <page.html) < 250000)) || die "the page of a long run has $(wc -c <page.html) bytes"

  # Where they are: as the flag says, else in the folder.
  sed -i 's/null/"away\/m.jsonl"/' again/run.json
  report again
  mv again/metrics.jsonl again/m.jsonl
  report again
  grep -q '4 pictures' result || die "the metrics in the folder are not found: $(cat result)"
  rm again/m.jsonl
  report again
  grep -qx 'again has no curves: its metrics away/m.jsonl are not there' run.err || die "$(cat run.err)"
  grep -q 'There are no curves of this run: <bdi>its metrics away/m.jsonl are not there' page.html || die "the page does not say so"
  rm gap/metrics.jsonl
  report gap
  grep -qx 'gap has no curves: there is no metrics.jsonl in its folder' run.err || die "$(cat run.err)"
  # Two runs have written the same file: the later one's are in it.
  mkdir away
  steps 1 30 >away/m.jsonl
  cp -r again later
  sed -i 's/{/{"started": "2026-01-02T00:00:00Z",/; s/"mlp"/"gpt"/' later/run.json
  report later again
  grep -qx 'again has no curves: its metrics away/m.jsonl were written over by the run later' run.err || die "$(cat run.err)"
  picture 'Learning rate' >figure
  grep -q '<bdi>later</bdi>' figure && ! grep -q '<bdi>again</bdi>' figure || die "the curve is not the later run's"
}

case_report_refused() {
  mkdir empty
  refuse 2 'a run is missing' report
  refuse 2 'unknown flag --colour' report empty --colour red
  refuse 1 'there is no run nowhere' report nowhere
  refuse 1 'empty is not the folder of a run: it has no run.json' report empty
  touch file
  refuse 1 'file is not the folder of a run' report file
  folder run
  refuse 2 'run and ./run are the same run' report run ./run
  echo '{"model": "mlp"' >empty/run.json
  refuse 1 'empty/run.json is damaged: ' report run empty
  echo '[]' >empty/run.json
  refuse 1 'empty/run.json is damaged: it is not a JSON object' report run empty
  echo '{}' >empty/run.json
  refuse 1 'empty/run.json is damaged: it has no flags' report run empty
  echo '{"confusion": [[1, 2], [3]]}' >run/eval.json
  refuse 1 'run/eval.json is not what accrue eval --json prints' report run
  rm run/eval.json
  refuse 1 'nowhere/page.html' report run --out nowhere/page.html
  [[ ! -e report.html ]] || die "a page of what was refused"
  echo 'keep, Written by accrue report, version 0' >page.html
  (PATH=/dev/null && refuse_report) || exit
  grep -q keep page.html || die "the old page is gone"
  (($(find . -name '*.html*' | wc -l) == 1)) || die "files that remain: $(ls)"
}

# Without gnuplot, and without other programs.
refuse_report() {
  local status=0
  "$ACCRUE" report run --out page.html >out 2>err || status=$?
  ((status == 1)) && [[ $(<err) == 'accrue: gnuplot did not draw page.html; '* && ! -s out ]] || die "status $status: $(<err)"
}

need_gnuplot() {
  command -v gnuplot >/dev/null && return
  echo "skipped: no gnuplot"
  exit 77
}
