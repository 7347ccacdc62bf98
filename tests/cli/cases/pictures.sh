# Folders and lists of pictures.

case_pictures() {
  local model=(--size 16 --depth 8 --width 8 --batch 8 --device cpu --threads 1)
  "$FIXTURE" pictures shapes 60 1
  local changes=(--crop-area 0.5 --flip --jitter 0.3 --hue 0.1 --rand-augment 2 --erase 0.2)
  run train resnet --data shapes "${model[@]}" "${changes[@]}" --steps 12 --eval-every 0 --out whole >out
  # What decoding takes on the host is said beforehand.
  grep -qE 'besides +[0-9.]+ [KM]iB at most, on the host, to decode pictures' run.err || die "memory to decode is not said: $(cat run.err)"
  run plan resnet --data shapes "${model[@]}" --json >plan
  grep -q '"picture_bytes": [1-9]' plan || die "memory to decode is not in the plan: $(cat plan)"

  # Folds are stratified: two of each class validate.
  run eval --model whole --device cpu --data shapes --json >result
  grep -q '"samples": 6' result || die "not a tenth validates: $(cat result)"

  # Stopped and continued, with other threads that decode, the weights have the same bits.
  run train resnet --data shapes "${model[@]}" "${changes[@]}" --steps 5 --eval-every 0 --schedule constant --warmup 0 --out part >out
  run train resnet --data shapes "${model[@]}" "${changes[@]}" --steps 12 --eval-every 0 --schedule constant --warmup 0 --out once >out
  run train --resume --out part --steps 12 --loader-threads 3 >out
  cmp part/model.safetensors once/model.safetensors || die 'a run that was continued has other weights'

  # The file says how pictures became samples, and names the classes.
  run predict --model whole --device cpu --data shapes/cross/0001.png --top 3 >row
  grep -q 'cross.*shapes/cross/0001.png$' row || die "no class or file: $(cat row)"
  run predict --model whole --device cpu --data shapes/cross --json >rows
  (($(grep -c '"file": "shapes/cross' rows) == 20)) || die "a folder without classes: $(cat rows)"
  run predict --model whole --device cpu --data shapes --split train --top 1 >rows
  (($(grep -c shapes/ rows) == 54)) || die "not all that trains: $(cat rows)"

  # The model's classes have the numbers that they had, whichever of them the data has.
  mkdir some dates
  cp -r shapes/circle shapes/square some
  cp -r shapes/circle dates/2024
  run predict --model whole --device cpu --data some --top 1 >rows
  grep -q '^ *0 circle ' rows || die "the first class has another name: $(cat rows)"
  grep -q '^ *39 square ' rows || die "the third class has the name of the second: $(cat rows)"
  refuse 1 'dates: class 2024 is none of the 3 that are expected, circle to square' eval --model whole --data dates
  run predict --model whole --device cpu --data dates --top 1 >rows
  (($(grep -c 'dates/2024/' rows) == 20)) || die "folders of other names hold no pictures: $(cat rows)"

  run train resnet --init whole --data some --size 16 --steps 1 --batch 8 --device cpu --out next >out
  run predict --model next --device cpu --data shapes/square/0002.png --top 3 --json >answers
  grep -q '"class": 2, "name": "square"' answers || die "training on two classes renumbers them: $(cat answers)"
  run train resnet --init whole --data dates --size 16 --steps 1 --batch 8 --device cpu --out other >out
  run predict --model other --device cpu --data shapes/square/0002.png --top 3 --json >answers
  grep -q '"class": 0, "name": "2024"' answers || die "other classes have the names of the old ones: $(cat answers)"

  # train/ and val/, and a list.
  mkdir both
  cp -r shapes both/train
  mkdir -p both/val/square
  cp shapes/square/0002.png both/val/square
  run train mlp --data both --size 8 --hidden 8 --steps 2 --batch 4 --device cpu --out mlp >out
  run eval --model mlp --device cpu --data both --json >result
  grep -q '"samples": 1' result || die "val has one picture: $(cat result)"
  local i
  for i in 0000 0003 0006 0009; do echo "shapes/circle/$i.png,round"; done >list.csv
  for i in 0002 0005 0008; do echo "shapes/square/$i.png,\"with, corners\""; done >>list.csv
  run train mlp --data list.csv --size 8 --hidden 8 --steps 2 --batch 4 --device cpu --fold 1/3 --out listed >out
  run predict --model listed --device cpu --data shapes/square/0002.png --top 1 >row
  grep -qE 'round|with, corners' row || die "a list names no classes: $(cat row)"
}

# Mixed samples and weights of classes: with other micro-batches the same to rounding, continued the same bits.
case_pictures_mixed() {
  "$FIXTURE" pictures shapes 60 1
  rm shapes/cross/00[0-4]*.png
  mkdir idx
  "$FIXTURE" images idx train 80
  "$FIXTURE" images idx t10k 20
  local model=(--depth 8 --width 8 --batch 8 --device cpu --threads 1 --schedule constant --warmup 0 --quiet)
  local data mix i=0
  for mix in '--data shapes --size 16 --mixup 0.4 --cutmix 1 --label-smoothing 0.1' '--data shapes --size 16 --class-weights' \
    '--data idx --cutmix 1'; do
    i=$((i + 1))
    run train resnet $mix "${model[@]}" --steps 8 --metrics m$i --out whole$i
    run train resnet $mix "${model[@]}" --steps 3 --eval-every 0 --out part$i
    run train --resume --out part$i --steps 8 --loader-threads 3
    cmp whole$i/model.safetensors part$i/model.safetensors || die "$mix: a run that was continued has other weights"
    run train resnet $mix "${model[@]}" --steps 1 --micro-batch 3 --metrics s$i --out split$i
    # The samples of an update are the same, so its loss is, but for the order in which floats are added.
    local whole split
    whole=$(sed -n 's/.*"step","step":1,.*"loss":\([0-9.]*\).*/\1/p' m$i) split=$(sed -n 's/.*"step","step":1,.*"loss":\([0-9.]*\).*/\1/p' s$i)
    awk -v a="$whole" -v b="$split" 'BEGIN { exit !(a > 0 && (a - b) / a < 1e-6 && (b - a) / a < 1e-6) }' ||
      die "$mix: a first loss of $whole, in micro-batches of 3 $split"
    run verify resnet $mix "${model[@]:0:8}" --micro-batch 3 --updates 2 >out
    grep -q '^verdict  *the same up to rounding' out || die "$mix: $(cat out)"
    # What validates is neither mixed nor weighted: eval, which knows nothing of that, finds the same.
    data=$(sed -n 's/.*"val_loss":\([0-9.]*\),"val_accuracy":\([0-9.]*\).*/\1 \2/p' m$i)
    run eval --model whole$i ${mix%% --[mc][iul]*} --device cpu --threads 1 --json >result
    awk -v a="$data" -v b="$(sed -n 's/.*"loss": \([0-9.]*\).*/\1/p' result) $(sed -n 's/.*"accuracy": \([0-9.]*\).*/\1/p' result)" \
      'BEGIN { split(a, x); split(b, y); exit !(x[1] > 0 && (x[1] - y[1]) ^ 2 < 1e-10 * x[1] ^ 2 && (x[2] - y[2]) ^ 2 < 1e-12) }' ||
      die "$mix: validated at $data, and eval says $(cat result)"
  done
  # Without them other weights come out.
  run train resnet --data shapes --size 16 "${model[@]}" --steps 8 --out plain
  ! cmp -s plain/model.safetensors whole1/model.safetensors && ! cmp -s plain/model.safetensors whole2/model.safetensors ||
    die 'flags of mixing or weights change nothing'
  # More classes than the data has.
  run train resnet --data shapes --size 16 --classes 5 --mixup 1 "${model[@]}" --steps 1 --out five
  refuse 2 'class-weights and --mixup contradict each other' train resnet --data shapes --class-weights --mixup 1
  refuse 2 'class-weights and --cutmix contradict each other' train resnet --data shapes --class-weights --cutmix 1
  refuse 2 'mixup 1e-09 is neither 0 nor at least 1e-6' train resnet --data shapes --mixup 1e-9
  refuse 2 'class-weights is for folders and lists of pictures' train resnet --data idx --class-weights
}

# Decoded pictures in a file: the same weights, without decoding; refused if they are not those of the data.
case_pictures_cached() {
  "$FIXTURE" pictures shapes 60 1
  local model=(--size 16 --depth 8 --width 8 --batch 8 --device cpu --threads 1 --flip --jitter 0.2 --quiet)
  run train resnet --data shapes "${model[@]}" --steps 8 --out plain
  run train resnet --data shapes "${model[@]}" --steps 8 --image-cache c.cache --out made
  grep -qE '^decoding 60 pictures into c.cache, [0-9.]+ [KM]iB$' run.err || die "nothing is said: $(cat run.err)"
  run train resnet --data shapes "${model[@]}" --steps 8 --image-cache c.cache --loader-threads 3 --out read
  [[ ! -s run.err ]] || die "decoded again: $(cat run.err)"
  cmp plain/model.safetensors made/model.safetensors && cmp plain/model.safetensors read/model.safetensors || die 'other weights with a cache'
  run eval --model plain --device cpu --data shapes --device cpu --json >whole
  run eval --model plain --device cpu --data shapes --image-cache c.cache --device cpu --json >cached
  cmp whole cached || die 'another loss with a cache'
  # A plan makes none, and needs no more memory.
  run plan resnet --data shapes "${model[@]}" --json >whole
  run plan resnet --data shapes "${model[@]}" --image-cache new.cache --json >cached
  cmp whole cached && [[ ! -e new.cache ]] || die 'a plan uses a cache'
  cp -r shapes other
  rm other/square/00[0-2]*
  run train resnet --data other "${model[@]}" --steps 2 --image-cache c.cache --out fewer
  cp other/circle/0000.png other/circle/new.png
  refuse 1 'c.cache does not have other/circle/new.png as it is now' train resnet --data other "${model[@]}" --image-cache c.cache --out no
  refuse 1 'c.cache has pictures in colours, and they are wanted in grey' train resnet --data shapes --grey "${model[@]}" --image-cache c.cache --out no
  refuse 1 'whole is not a cache of images; name another file' train resnet --data shapes "${model[@]}" --image-cache whole --out no
  ! "$ACCRUE" train resnet --data shapes "${model[@]}" --image-cache nowhere/c.cache --out no 2>err || die 'a cache in no folder'
  grep -q 'cannot create a file next to nowhere/c.cache' err || die "$(cat err)"
  refuse 2 'contradict' train resnet --data shapes "${model[@]}" --image-cache c.cache --scaled-decoding --out no
  mkdir idx
  "$FIXTURE" images idx train 20
  refuse 2 'image-cache is for folders and lists of pictures' train mlp --data idx --image-cache c.cache
}

# As many classes as ImageNet has, and a name as long as a file system lets it be.
case_pictures_of_many_classes() {
  "$FIXTURE" pictures shapes 3 1
  local i long
  long=$(printf 'n%.0s' {1..240})
  for i in {001..999} "$long"; do
    printf 'shapes/square/0002.png,class number %s\nshapes/cross/0001.png,class number %s\n' "$i" "$i"
  done >many.csv
  run train mlp --data many.csv --size 4 --hidden 4 --steps 1 --batch 4 --eval-every 0 --device cpu --out m >out
  run predict --model m --device cpu --data shapes/square/0002.png --top 1000 --json >answers
  (($(grep -oE '"name": "class number [0-9]+"' answers | sort -u | wc -l) == 999)) || die "classes have no names: $(head -c 500 answers)"
  grep -q "\"name\": \"class number $long\"" answers || die 'a long name is cut'
}

case_pictures_refused() {
  "$FIXTURE" pictures shapes 12 1
  local model=(--size 8 --hidden 8 --steps 1 --batch 4 --device cpu --out m)
  head -c 200 shapes/cross/0001.png >shapes/cross/cut.png
  refuse 1 'shapes/cross/cut.png is a truncated PNG picture' train mlp --data shapes --batch 11 "${model[@]}"
  printf 'GIF89a123456' >shapes/cross/old.gif
  refuse 1 'shapes/cross/old.gif is a GIF picture, not a picture that is JPEG, PNG or WebP' train mlp --data shapes "${model[@]}"
  run train mlp --data shapes --bad-images skip "${model[@]}" >out
  grep -q 'left out: shapes/cross/cut.png is a truncated PNG picture' run.err || die "not named: $(cat run.err)"
  grep -q '2 pictures cannot be read and are left out' run.err || die "not counted: $(cat run.err)"
  rm shapes/cross/*.png
  rm shapes/cross/old.gif
  refuse 1 'the folder of class cross has no pictures' train mlp --data shapes --bad-images skip --overwrite "${model[@]}"
  mkdir flat
  cp shapes/square/0002.png flat
  refuse 1 'flat has no images that accrue reads: a folder must hold a folder of pictures' train mlp --data flat --overwrite "${model[@]}"
  mkdir idx
  "$FIXTURE" images idx train 20
  "$FIXTURE" images idx t10k 10
  refuse 2 '--size is for folders and lists of pictures' train mlp --data idx "${model[@]}" --overwrite
  refuse 2 '--jitter is for folders and lists of pictures' train resnet --data idx --jitter 0.4
  refuse 2 '--hue is for folders and lists of pictures' show --data idx --hue 0.4 --out a.png
  refuse 2 '--coarse is for CIFAR-100' train mlp --data shapes --coarse --overwrite "${model[@]}"
  refuse 2 'magnitude has no meaning without --rand-augment' train resnet --data shapes --magnitude 3
  refuse 2 'rand-augment' train resnet --data shapes --rand-augment 2 --trivial-augment
  refuse 2 'size' train mlp --data shapes --size 0
  refuse 1 'list.csv: No such file' train mlp --data list.csv --overwrite "${model[@]}"
}

# A picture of images and their changes: the same one for the same flags.
case_show() {
  "$FIXTURE" pictures shapes 12 1
  mkdir idx
  "$FIXTURE" images idx train 20
  "$FIXTURE" images idx t10k 10
  local changes=(--size 16 --flip --rand-augment 2 --jitter 0.3)
  run show --data shapes "${changes[@]}" --rows 3 --columns 4 --out a.png >out
  grep -q '^a.png has 70 x 52 pixels: each image as it is, then as it changes in 3 epochs$' out || die "$(cat out)"
  (($(grep -cE '^row [1-3] +(circle|cross|square)  shapes/' out) == 3)) || die "rows have no names: $(cat out)"
  run show --data shapes "${changes[@]}" --rows 3 --columns 4 --out b.png >out
  cmp a.png b.png || die 'the same flags give another picture'
  run show --data shapes "${changes[@]}" --rows 3 --columns 4 --seed 2 --out b.png >out
  ! cmp -s a.png b.png || die 'another seed gives the same picture'
  # Without changes all of a row are equal: it compresses better.
  run show --data shapes --size 16 --crop-area 0 --rows 3 --columns 4 --out c.png >out
  (($(wc -c <c.png) < $(wc -c <a.png))) || die 'pictures change without a flag'
  run show --data idx --rows 2 --columns 2 --out d.png >out
  grep -q '^d.png has 14 x 14 pixels' out || die "$(cat out)"
  # What it has written is a picture.
  mkdir -p written/a written/b
  cp a.png written/a && cp b.png written/b
  run show --data written --size 8 --rows 1 --columns 1 --out e.png >out
  refuse 2 '--out is missing: the PNG file to write' show --data shapes
  refuse 1 'cannot create a file next to nowhere/a.png' show --data shapes --size 8 --out nowhere/a.png
  refuse 2 'are too large for a picture' show --data shapes --size 8192 --rows 12 --columns 20 --out f.png
}
