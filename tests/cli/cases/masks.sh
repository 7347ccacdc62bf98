# Pictures with masks.

case_masks() {
  local model=(--data set/images --masks set/masks --size 24 --depth 2 --width 8 --batch 8 --device cpu --threads 1)
  "$FIXTURE" masks set 40 1
  local changes=(--crop-area 0.5 --flip --jitter 0.3 --rand-augment 2 --rotation 20 --scaling 0.1)
  run train unet "${model[@]}" "${changes[@]}" --steps 12 --eval-every 6 --metrics m.jsonl --out whole >out
  grep -qE 'validation loss [0-9.]+ nats per pixel, accuracy [0-9.]+ %, mean IoU [0-9.]+ %' out || die "no mean IoU: $(cat out)"
  (($(grep -c '"event":"eval".*"mean_iou":0[.0-9]*,"metrics":{"iou_0":0.*"iou_3":' m.jsonl) == 2)) || die "metrics: $(cat m.jsonl)"
  grep -q '"event":"end".*"val_mean_iou":0' m.jsonl || die "end: $(cat m.jsonl)"

  # The table of accrue eval and the metrics of training count the same pixels.
  run eval --model whole --device cpu --data set/images --masks set/masks --json >result
  local in_training
  in_training=$(grep '"event":"eval"' m.jsonl | tail -n 1 | sed 's/.*"iou_0":\([0-9.]\{8\}\).*/\1/')
  tr -d '\n ' <result | grep -q "\"iou\":\[$in_training" || die "IoU is $in_training in training, but: $(cat result)"
  grep -q '"samples": 4,' result || die "not a tenth validates: $(cat result)"
  run eval --model whole --device cpu --data set/images --masks set/masks --fold 1/5 >result
  grep -qE '^mean IoU +[0-9.]+ %' result || die "$(cat result)"
  mv result whole/eval.txt
  run eval --model whole --device cpu --data set/images --masks set/masks --json >whole/eval.json
  run report whole --out page.html >out
  grep -q 'Validation mean IoU' page.html || die 'no curve of the mean IoU'
  grep -q 'They count pixels. The mean IoU is' page.html || die 'no IoU of classes'

  # Stopped and continued, with other threads that decode and another micro-batch, the weights have the same bits.
  local same=("${model[@]}" "${changes[@]}" --eval-every 0 --schedule constant --warmup 0)
  run train unet "${same[@]}" --steps 5 --out part >out
  run train unet "${same[@]}" --steps 12 --out once >out
  run train --resume --out part --steps 12 --loader-threads 3 >out
  cmp part/model.safetensors once/model.safetensors || die 'a run that was continued has other weights'

  # Decoded pictures in a file are the same pictures.
  run train unet "${same[@]}" --steps 12 --image-cache set.cache --out cached >out
  cmp cached/model.safetensors once/model.safetensors || die 'a cache gives other weights'

  # A mask of each picture, as large as the picture, and a mask again.
  run predict --model whole --device cpu --data set/images --out found >rows
  (($(grep -c 'found/[0-9]*.png   set/images/' rows) == 40)) || die "rows: $(cat rows)"
  run eval --model whole --device cpu --data set/images --masks found --split all >result
  grep -q '^mean IoU' result || die "what it writes cannot be read: $(cat result)"
  grep -qE '^accuracy +(9[5-9]|100)' result || die "it does not agree with itself: $(cat result)"
  run predict --model whole --device cpu --data set/images/0001.png --out one --json >result
  cmp one/0001.png found/0001.png || die 'one picture has another mask'
  # Shares are of the picture's pixels, without what is black on both sides of it: whole numbers of them.
  local area=$(($(od -An -tu1 -j19 -N1 one/0001.png) * $(od -An -tu1 -j23 -N1 one/0001.png)))
  sed -n 's/.*"shares":\[\([^]]*\)\].*/\1/p' result | tr , '\n' | awk -v area=$area '{sum += $1; n = $1 * area; off += (n - int(n + 0.5)) ^ 2}
    END {exit !(NR == 4 && sum > 0.999999 && sum < 1.000001 && off < 1e-9)}' || die "shares of $area pixels: $(cat result)"
  grep -q '"mask":"one/0001.png"' result || die "$(cat result)"
  run plan unet --preset unet >out
  grep -qE '^model +31,037,698 parameters' out || die "the published shape: $(cat out)"
  run verify unet "${model[@]}" --loss both --micro-batch 3 >out || die "$(cat out)"

  # Weights go on; another number of classes replaces the last layer.
  run train unet --init whole --data set/images --masks set/masks --classes 6 --size 24 --batch 4 --steps 1 --device cpu --out six >out
  grep -q 'the head, outc.conv, has 4 classes in the file and 6 here' run.err || die "$(cat run.err)"
}

case_masks_refused() {
  "$FIXTURE" masks set 12 1
  local model=(--size 16 --depth 2 --width 8 --batch 4 --steps 1 --device cpu) i
  refuse 2 '--masks is missing: a folder with a mask for each picture of --data' train unet --data set/images "${model[@]}"
  refuse 1 'nowhere is not a folder of masks' train unet --data set/images --masks nowhere "${model[@]}"
  refuse 2 'masks have classes up to 3, and the model has 2 classes' train unet --data set/images --masks set/masks --classes 2 "${model[@]}"
  # Masks without a second class, here black ones; others have 255 for it. The same of folders of classes.
  mkdir -p black/only
  base64 -d >black/only/0.png <<<iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAAAAAA6mKC9AAAADUlEQVR42mNgGAXIAAABEAABf80DtQAAAABJRU5ErkJggg==
  for i in 1 2 3; do cp black/only/0.png black/only/$i.png; done
  refuse 1 'no pixel of a mask in black has another class than 0 (255 is ignored); number the classes 0, 1 and so on, or give --classes' \
    train unet --data black --masks black "${model[@]}"
  run train unet --data black --masks black --classes 2 "${model[@]}" --out two >out
  refuse 1 'black has 1 class, and a classifier needs two' train resnet --data black --size 16 --batch 2 --steps 1 --device cpu --out one
  refuse 2 'masks have at most 255 classes, not 256' train unet --data set/images --masks set/masks --loss dice --classes 256 "${model[@]}"
  refuse 2 '--depth 5 halves images of 16 x 16 until nothing is left' train unet --data set/images --masks set/masks "${model[@]}" --depth 5
  refuse 2 'unknown flag --balanced' train unet --data set/images --masks set/masks "${model[@]}" --balanced
  mkdir idx
  "$FIXTURE" images idx train 20
  "$FIXTURE" images idx t10k 10
  refuse 2 'images have masks if they are pictures in files' train unet --data idx --masks set/masks "${model[@]}"
  rm set/masks/0003.png
  head -c 200 set/masks/0002.png >cut && mv cut set/masks/0005.png
  cp set/images/0006.png set/masks/0006.png
  refuse 1 'set/images/0003.png has no mask: there is no set/masks/0003.png' train unet --data set/images --masks set/masks "${model[@]}"
  run train unet --data set/images --masks set/masks --bad-images skip "${model[@]}" --out m >out
  grep -q 'left out: set/images/0003.png has no mask' run.err || die "not named: $(cat run.err)"
  grep -q 'left out: set/masks/0005.png is a truncated PNG picture' run.err || die "not named: $(cat run.err)"
  grep -q 'left out: set/masks/0006.png has pixels of three colours' run.err || die "not named: $(cat run.err)"
  grep -q '3 pictures cannot be read and are left out' run.err || die "not counted: $(cat run.err)"
  refuse 2 '--out is missing: the folder to write the masks to' predict --model m --data set/images
  refuse 2 '--out set/images is the folder of the pictures' predict --model m --data set/images --out set/images
  # Nothing is lost: neither the picture nor a mask that is there.
  cp -r set/images kept
  refuse 2 'the mask of set/images/0001.png would be written over it; name another folder' predict --model m --data set/images/0001.png --out set/images --overwrite
  cmp set/images/0001.png kept/0001.png || die 'the picture is gone'
  run predict --model m --device cpu --data set/images/0001.png --out f >rows
  refuse 2 'f/0001.png is there already; replace it with --overwrite, or name another folder with --out' predict --model m --data set/images --out f
  [ "$(ls f)" = 0001.png ] || die "written in spite of that: $(ls f)"
  run predict --model m --device cpu --data set/images --out f --overwrite >rows
  rm -r f
  cp set/images/0001.png set/images/0001.webp
  refuse 1 'two pictures of set/images would have the mask f/0001.png' predict --model m --data set/images --out f
}
