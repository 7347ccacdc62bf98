# What the machine and its limits allow: memory, and devices.

# limited KIB ARGUMENT...: the program's status and last line under a limit of its address space. It ends by itself.
limited() {
  local kib=$1 status=0
  shift
  rm -rf limited
  (ulimit -v "$kib" && timeout 30 "$ACCRUE" "$@" >limited.out 2>limited.err </dev/null) || status=$?
  ((status == 0 || status == 1)) || die "status $status with $kib KiB: accrue $*: $(cat limited.err)"
  ((status == 0)) || (($(wc -l <limited.err) == 1)) || die "not one line with $kib KiB: accrue $*: $(cat limited.err)"
  return $status
}

# OpenBLAS would wait for memory for ever.
case_limits() {
  text
  local kib threads brief=(train gpt --data text "${tiny[@]}" --steps 2 --out limited)
  for threads in 1 2 300; do
    for kib in 150000 300000 450000 1200000; do
      limited $kib "${brief[@]}" --threads $threads || grep -qE 'OpenBLAS|address space' limited.err ||
        die "$threads threads, $kib KiB: $(cat limited.err)"
    done
  done
  # The number of threads that is offered is one that runs.
  ! limited 2400000 "${brief[@]}" --threads 300 || die "300 threads in 2.3 GiB"
  threads=$(sed -n 's/.*take at most \([0-9]*\),.*/\1/p' limited.err)
  ((threads > 1 && threads < 300)) || die "nothing is offered: $(cat limited.err)"
  limited 2400000 "${brief[@]}" --threads "$threads" || die "$threads threads do not run: $(cat limited.err)"
  # Where there is just enough memory the result is the same.
  limited 450000 "${brief[@]}" --threads 1 || die "one thread needs more than 440 MiB: $(cat limited.err)"
  cp limited/model.safetensors tight
  run "${brief[@]}" --threads 1
  cmp tight limited/model.safetensors

  # The budget of a run without --memory keeps to it, and so does what `devices` lists.
  limited 3000000 devices --json || die "$(cat limited.err)"
  local memory
  memory=$(sed -n 's/.*"memory_bytes": \([0-9]*\).*/\1/p' limited.out | sort -n | tail -n 1)
  ((memory > 0 && memory < 3000000 * 1024)) || die "memory of $memory bytes within 3000000 KiB"
  ! limited 3000000 "${brief[@]}" --memory 4GiB || die "a budget of 4 GiB within 3000000 KiB"
  grep -q 'larger than the memory of cpu' limited.err || die "$(cat limited.err)"
}
