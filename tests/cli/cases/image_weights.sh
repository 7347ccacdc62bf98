# Weights of others: PyTorch's files as --init and as --model, heads that are replaced, rates that decay by layer. Sourced by
# cases.sh.

vectors=$here/../vectors

case_image_weights() {
  mkdir ten
  "$FIXTURE" images ten train 40
  "$FIXTURE" images ten t10k 16
  local net=(--data ten --device cpu --threads 1 --batch 16 --steps 2 --eval-every 0 --shift 0 --rotation 0 --scaling 0)
  local narrow=$vectors/narrow_resnet18.pth
  # The shape is told by the tensors, and the head has the classes of the data.
  run train resnet "${net[@]}" --init "$narrow" --batch-norm frozen --out tuned >/dev/null
  grep -q 'pixels are normalised as --pixels imagenet has it' run.err || die "not said: $(cat run.err)"
  run train resnet "${net[@]}" --init "$narrow" --classes 12 --out twelve >/dev/null
  grep -q 'the head, fc, has 10 classes in the file and 12 here; it begins anew' run.err || die "not said: $(cat run.err)"
  # What it writes says what it is: eval needs no kind, and goes on from there with other classes.
  run eval --model tuned --data ten --device cpu >/dev/null
  run eval resnet --model "$narrow" --data ten --device cpu >/dev/null
  run train resnet "${net[@]}" --init twelve --out again >/dev/null
  ! grep -q 'begins anew' run.err || die "a head of 12 classes was replaced: $(cat run.err)"
  # Frozen statistics stay, and a batch may be split.
  run verify resnet "${net[@]}" --init "$narrow" --batch-norm frozen --micro-batch 5 >/dev/null
  refuse 2 'cannot be split into micro-batches of 8' train resnet "${net[@]}" --init "$narrow" --micro-batch 8
  refuse 2 '--depth 34 contradicts' train resnet "${net[@]}" --init "$narrow" --depth 34
  refuse 2 '--norm group contradicts' train resnet "${net[@]}" --init "$narrow" --norm group
  refuse 2 '--stem small contradicts' train resnet "${net[@]}" --init tuned --stem small
  "$FIXTURE" model "$narrow" groups.safetensors -bn1.running_mean # whose groups it has is not known
  refuse 1 'does not hold a resnet: it has no batch norm' train resnet "${net[@]}" --init groups.safetensors
  refuse 1 'does not hold a vit: it does not have the tensors' train vit "${net[@]}" --init "$narrow"
  refuse 1 'does not hold a resnet: it has no tensor conv1.weight' train resnet "${net[@]}" --init "$vectors/tensors.pth"
  run train resnet "${net[@]}" --init "$narrow" --layer-decay 1e-6 --out slow >/dev/null
  # A tensor that the network lacks would make another model of it, wherever it is read.
  "$FIXTURE" model "$narrow" more.safetensors +layer1.0.gamma=layer1.0.bn1.weight
  refuse 1 'has a tensor layer1.0.gamma, which is not one of a resnet' train resnet "${net[@]}" --init more.safetensors
  refuse 1 'has a tensor layer1.0.gamma, which is not one of a resnet' eval resnet --model more.safetensors --data ten --device cpu
  refuse 2 '--layer-decay' train resnet "${net[@]}" --layer-decay 1.5
}

# Each kind trains, saves, and goes on from what it has saved.
case_image_kinds() {
  mkdir ten
  records 1 40 >ten/data_batch_1.bin
  records 1 16 >ten/test_batch.bin
  local net=(--data ten --device cpu --threads 1 --batch 16 --steps 2 --eval-every 0) words name
  local -A kinds=([vit]='--width 32 --heads 2 --depth 2' [convnext]='--width 8 --depth 1' [efficientnet]='--width 8'
    [mobilenet]='--variant v3-small --width 8' [resnet]='--stem large --depth 18 --width 4 --norm batch')
  for name in "${!kinds[@]}"; do
    read -ra words <<<"${kinds[$name]}"
    run train "$name" "${net[@]}" "${words[@]}" --out "$name" >/dev/null
    run train "$name" "${net[@]}" --init "$name" --layer-decay 0.7 --out "$name-2" >/dev/null
    run eval --model "$name-2" --data ten --device cpu >/dev/null
    run train "$name" --resume --steps 3 --out "$name" >/dev/null
  done
  refuse 2 '--width 100 is not a multiple of 64; give --heads' train vit "${net[@]}" --width 100
  refuse 2 '--patch 5 does not divide images of 32 x 32' train vit "${net[@]}" --patch 5
  refuse 2 '--depth is for --variant v1' train mobilenet "${net[@]}" --variant v2 --depth 3
  refuse 2 '--depth 20 is not a depth of a ResNet: give 18, 34, 50, 101 or 152' train resnet "${net[@]}" --stem large --depth 20
  run plan resnet --preset resnet50 --batch 2 --device dry >out
  run plan vit --preset vit-tiny --batch 2 --device dry >out
}

# Dropout and stochastic depth, in each kind.
case_image_drops() {
  mkdir ten
  records 1 40 >ten/data_batch_1.bin
  records 1 16 >ten/test_batch.bin
  local net=(--data ten --device cpu --threads 1 --batch 16 --eval-every 0) words name
  # What is dropped depends on the sample, not on the split, and not on where a run was stopped.
  local -A kinds=([vit]='--width 32 --heads 2 --depth 2' [convnext]='--width 8 --depth 1'
    [efficientnet]='--width 8 --variant b0 --batch-norm frozen' [mobilenet]='--variant v3-small --width 8 --batch-norm frozen'
    [resnet]='--depth 8 --width 8')
  local drops=(--dropout 0.2 --drop-path 0.3 --schedule constant)
  for name in "${!kinds[@]}"; do
    read -ra words <<<"${kinds[$name]}"
    run verify "$name" "${net[@]}" "${words[@]}" "${drops[@]}" --steps 2 --micro-batch 5 >/dev/null
    run train "$name" "${net[@]}" "${words[@]}" "${drops[@]}" --steps 2 --out "$name-part" >/dev/null
    run train --resume --steps 4 --out "$name-part" >/dev/null
    run train "$name" "${net[@]}" "${words[@]}" "${drops[@]}" --steps 4 --out "$name-whole" >/dev/null
    cmp "$name-part/model.safetensors" "$name-whole/model.safetensors" || die "$name drops something else after it was stopped"
    run train "$name" "${net[@]}" "${words[@]}" --schedule constant --steps 4 --out "$name-none" >/dev/null
    ! cmp -s "$name-none/model.safetensors" "$name-whole/model.safetensors" || die "$name drops nothing"
  done
  refuse 2 '--drop-path is for --variant v2, v3-small and v3-large' train mobilenet "${net[@]}" --drop-path 0.1
  refuse 2 'below 1' train vit "${net[@]}" --drop-path 1
}

# One tensor after the other, all zeros: `zeros FILE NAME SHAPE NAME SHAPE ...`, shapes as in 5000,3,7,7.
zeros() {
  local file=$1 header='' at=0 count size
  shift
  while (($#)); do
    count=1
    for size in ${2//,/ }; do ((count *= size)); done
    header+="${header:+,}\"$1\":{\"dtype\":\"F16\",\"shape\":[$2],\"data_offsets\":[$at,$((at + 2 * count))]}"
    ((at += 2 * count))
    shift 2
  done
  "$FIXTURE" safetensors "$file" 0 "{$header}" $at
}

# Files of others that are not as published: sizes beyond flags, networks that look alike.
case_foreign_weights() {
  mkdir ten folder grey
  records 1 40 >ten/data_batch_1.bin
  records 1 16 >ten/test_batch.bin
  local net=(--data ten --device cpu --threads 1 --batch 16 --steps 2 --eval-every 0) i blocks=()
  for i in 1 2 3 4; do blocks+=("layer$i.0.conv1.weight" 1 "layer$i.1.conv1.weight" 1); done
  zeros wide.safetensors conv1.weight 5000,3,7,7 bn1.running_mean 5000 "${blocks[@]}" fc.weight 10,8
  refuse 1 'wide.safetensors has a width of 5000, which is beyond the range of --width' train resnet "${net[@]}" --init wide.safetensors
  zeros one.safetensors conv1.weight 8,3,7,7 bn1.running_mean 8 "${blocks[@]}" fc.weight 1,8
  refuse 1 'one.safetensors has 1 class, and a classifier needs two' eval resnet --model one.safetensors --data ten --device cpu

  # What has the same tensors as another network is told by a config.json, or by the file's name.
  cp one.safetensors resnetaa50.safetensors
  refuse 1 "resnetaa50.safetensors is timm's resnetaa50, which has a filter without weights" train resnet "${net[@]}" --init resnetaa50.safetensors
  cp one.safetensors folder/model.safetensors
  echo '{"architecture": "resnetblur50", "pretrained_cfg": {}}' >folder/config.json
  refuse 1 "is timm's resnetblur50, which has a filter" train resnet "${net[@]}" --init folder
  cp "$vectors/narrow_resnet18.pth" folder/published.pth
  echo '{"architecture": "resnet18", "pretrained_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}' >folder/config.json
  "$FIXTURE" images grey train 40
  "$FIXTURE" images grey t10k 16
  run train resnet "${net[@]:2}" --data grey --init folder/published.pth --out half >/dev/null
  grep -q 'pixels are normalised as --pixels half has it' run.err || die "config.json is not read: $(cat run.err)"
}

# Positions of vision transformers for images of another size.
case_image_positions() {
  "$FIXTURE" pictures shapes 60 1
  local net=(--data shapes --device cpu --threads 1 --batch 8 --steps 2 --eval-every 0)
  run train vit "${net[@]}" --size 16 --patch 4 --width 32 --heads 2 --depth 1 --out small >/dev/null
  ! grep -q resampled run.err || die "positions are resampled without need: $(cat run.err)"
  run train vit "${net[@]}" --size 24 --init small --out large >/dev/null
  grep -q 'the positions of 4 x 4 patches in small/model.safetensors are resampled to 6 x 6' run.err || die "not said: $(cat run.err)"
  run train vit --resume --steps 3 --out large >/dev/null
  ! grep -q resampled run.err || die "positions of a state are resampled: $(cat run.err)"
  run eval --model large --data shapes --device cpu >/dev/null
  run eval --model small --size 32 --data shapes --device cpu >/dev/null
  grep -q 'resampled to 8 x 8' run.err || die "not said: $(cat run.err)"
  # A file of others, for a head of other classes at once.
  "$FIXTURE" model small/model.safetensors foreign.safetensors
  run train vit "${net[@]}" --size 20 --heads 2 --init foreign.safetensors --classes 7 --out seven >/dev/null
  grep -q 'resampled to 5 x 5' run.err || die "not said: $(cat run.err)"
  grep -q 'the head, head, has 3 classes in the file and 7 here' run.err || die "not said: $(cat run.err)"
  refuse 2 'convnext needs images of at least 32 x 32 pixels, and these have 24 x 24; of pictures, --size' train convnext "${net[@]}" --size 24
}

# Rates, frozen layers and frozen statistics, in each kind.
case_image_tuning() {
  mkdir ten
  records 1 40 >ten/data_batch_1.bin
  records 1 16 >ten/test_batch.bin
  local net=(--data ten --device cpu --threads 1 --batch 16 --steps 2 --eval-every 0) words name kind tensor
  local -A kinds=([vit]='vit --width 32 --heads 2 --depth 2' [convnext]='convnext --width 8 --depth 1'
    [lite0]='efficientnet --width 8' [b0]='efficientnet --variant b0 --width 8' [v1]='mobilenet --norm batch --depth 3 --width 8'
    [v2]='mobilenet --variant v2 --width 8' [v3]='mobilenet --variant v3-large --width 8'
    [resnet]='resnet --stem large --depth 18 --width 4 --norm batch')
  # What is after the last block learns at the whole rate.
  local -A heads=([vit]='(norm|head)' [convnext]=classifier [lite0]='(features.8|classifier)' [b0]='(features.8|classifier)' [v1]=fc
    [v2]='(features.18|classifier)' [v3]='(features.16|classifier)' [resnet]=fc)
  local -A firsts=([vit]='blocks.0.*' [convnext]='features.0.*' [lite0]='features.0.*' [b0]='features.0.*' [v1]='blocks.0.*'
    [v2]='features.0.*' [v3]='features.0.*' [resnet]='conv1.*')
  for name in "${!kinds[@]}"; do
    read -ra words <<<"${kinds[$name]}"
    kind=${words[0]}
    run train "${words[@]}" "${net[@]}" --out "$name" >/dev/null
    # With a rate of 1e-12 of the head's, nothing but the head moves; the statistics neither.
    run train "$kind" "${net[@]}" --init "$name" --layer-decay 1e-12 --batch-norm frozen --out "$name-decay" >/dev/null
    "$FIXTURE" moved "$name/model.safetensors" "$name-decay/model.safetensors" >moved
    (($(wc -l <moved) > 1)) || die "$name: the head is not trained"
    ! grep -vE "^${heads[$name]}\\." moved || die "$name: not the head alone: $(cat moved)"
    run train "$kind" "${net[@]}" --init "$name" --freeze "${firsts[$name]}" --batch-norm frozen --out "$name-frozen" >/dev/null
    "$FIXTURE" moved "$name/model.safetensors" "$name-frozen/model.safetensors" >moved
    # shellcheck disable=SC2053 # a pattern
    while read -r tensor; do [[ $tensor != ${firsts[$name]} ]] || die "$name: $tensor is frozen and moved"; done <moved
    (($(wc -l <moved) > 4)) || die "$name: hardly anything is trained: $(cat moved)"
    ! grep running_ moved || die "$name: statistics that are frozen moved"
    run verify "$kind" "${net[@]}" --init "$name" --batch-norm frozen --micro-batch 5 >/dev/null
  done
}
