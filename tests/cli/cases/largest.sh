# accrue plan --largest: the largest images, and the longest context, that a budget has room for.

case_largest() {
  local net=(plan resnet --preset resnet50 --batch 8 --batch-norm frozen --device dry) size next bytes
  run "${net[@]}" --memory 2GiB --largest resolution --json >sizes
  size=$(sed -n 's/^  "size": \([0-9]*\).*/\1/p' sizes)
  ((size >= 2048 && size % 32 == 0)) || die "2 GiB are for $size x $size: $(cat sizes)"
  # What it says is so: this size fits, and the next one does not.
  run "${net[@]}" --memory 2GiB --size "$size" --json >plan
  bytes=$(sed -n 's/.*"total": \([0-9]*\).*/\1/p' plan | head -n 1)
  grep -q "\"total_bytes\": $bytes" sizes || die "other bytes than $bytes: $(cat sizes)"
  refuse 1 'needs at least' "${net[@]}" --memory 2GiB --size $((size + 32))
  run "${net[@]}" --memory 2GiB --largest resolution >rows
  grep -q 'beyond the budget' rows || die "no size that does not fit: $(cat rows)"

  # Each kind that reads images.
  local kind
  for kind in 'mobilenet --preset mobilenet-v2' 'efficientnet --preset efficientnet-b0' 'vit --preset vit-tiny' 'convnext --preset convnext-tiny' \
    'mlp --preset lenet-300-100'; do
    # shellcheck disable=SC2086
    run plan $kind --batch 4 --batch-norm frozen --device dry --memory 600MiB --largest resolution >rows
    grep -qE '^largest +[0-9,]+ x [0-9,]+ pixels' rows || die "no size for $kind: $(cat rows)"
  done

  # Contexts.
  run plan gpt --layers 1 --heads 2 --width 16 --batch 2 --device dry --memory 3MiB --largest context --json >sizes
  next=$(($(sed -n 's/^  "size": \([0-9]*\).*/\1/p' sizes) + 1))
  run plan gpt --layers 1 --heads 2 --width 16 --batch 2 --device dry --memory 3MiB --context $((next - 1)) >fits
  refuse 1 'needs at least' plan gpt --layers 1 --heads 2 --width 16 --batch 2 --device dry --memory 3MiB --context $next

  refuse 2 '--largest has no meaning without --memory' "${net[@]}" --largest resolution
  refuse 2 '--largest context has no meaning for resnet; give --largest resolution' "${net[@]}" --memory 2GiB --largest context
  refuse 2 '--largest resolution and --size contradict each other' "${net[@]}" --memory 2GiB --size 64 --largest resolution
  refuse 2 '--largest and --names contradict each other' "${net[@]}" --memory 2GiB --names --largest resolution
  refuse 1 '32 x 32 pixels are too many' "${net[@]}" --memory 1MiB --largest resolution
}
