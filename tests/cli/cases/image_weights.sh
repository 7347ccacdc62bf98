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
