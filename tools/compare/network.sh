#!/usr/bin/env bash
# What the exchange between two ranks costs on a limited network, against what `accrue plan` predicts.
#
#   sudo tools/compare/network.sh PROGRAM [GBIT [MICRO_BATCHES [UPDATES]]]    (1 Gbit/s, 2 micro-batches a rank, 6 updates)
#
# Two network namespaces of this machine are joined by a pair of interfaces; each direction is limited by the queue `tbf` of the
# kernel. mpirun of Open MPI starts a rank of one thread in each, as on two machines: TCP alone, no shared memory. The model has
# the shape of GPT-2 124M with a context of 64 tokens, its data are random tokens. Needs root, 2 cores, 4 GiB of memory,
# iproute2 and Open MPI.
#
#   exposed    seconds of an update, less those of one rank that computes the same samples alone, while another one does as well
#   waited     seconds for which the rank that waits least waited for the other one, each update
#   ratio      of an update with two ranks to one alone
#
# Nothing else should run on the two cores: ranks then also wait for each other, which counts as `waited`.
set -euo pipefail
if (($# < 1 || $# > 4)) || [[ ! -x $1 ]]; then
  sed -n '2,5p' "$0" >&2
  exit 2
fi
program=$(realpath "$1") gbit=${2:-1} micro_batches=${3:-2} updates=${4:-6}
for tool in ip tc mpirun.openmpi unshare; do
  command -v $tool >/dev/null || { echo "network: there is no $tool here" >&2; exit 77; }
done
((EUID == 0)) || { echo "network: namespaces need root" >&2; exit 77; }
work=$(mktemp -d)
first=accrue-$$-1 second=accrue-$$-2
finish() {
  ip netns del $first 2>/dev/null || true
  ip netns del $second 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

# The network: addresses 10.77.0.1 and 10.77.0.2. A burst is what 2 ms carry, and at least two packets of 64 KiB.
ip netns add $first
ip netns add $second
ip link add accrue0 netns $first type veth peer name accrue0 netns $second
burst=$(awk -v g="$gbit" 'BEGIN { b = g * 1.25e8 * 0.002; printf "%d", b < 131072 ? 131072 : b }')
for n in 1 2; do
  space=accrue-$$-$n
  ip -n $space addr add 10.77.0.$n/24 dev accrue0
  ip -n $space link set lo up
  ip -n $space link set accrue0 up
  tc -n $space qdisc add dev accrue0 root tbf rate "${gbit}gbit" burst "$burst" latency 50ms
done

# What mpirun calls in the place of ssh: HOST COMMAND...
cat >"$work/agent" <<AGENT
#!/bin/sh
case \$1 in 10.77.0.1) n=1 ;; *) n=2 ;; esac
shift
exec ip netns exec accrue-$$-\$n unshare --uts sh -c "hostname accrue\$n; \$*"
AGENT
chmod +x "$work/agent"
printf '10.77.0.1 slots=1\n10.77.0.2 slots=1\n' >"$work/hosts"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ranks() {
  ip netns exec $first unshare --uts sh -c 'hostname accrue1; exec "$@"' - mpirun.openmpi --hostfile "$work/hosts" -n 2 \
    --map-by ppr:1:node --bind-to none --wdir "$work" --mca plm_rsh_agent "$work/agent" --mca oob_tcp_if_include 10.77.0.0/24 \
    --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 "$program" "$@" </dev/null
}

awk 'BEGIN { srand(1); for (i = 0; i < 8000; i++) printf "%c%c", 1 + int(rand() * 127), int(rand() * 100) }' >"$work/tokens"
model=(gpt --preset gpt2-124m --vocab 50257 --data "$work/tokens" --context 64 --micro-batch 1 --threads 1)
cd "$work"

# Seconds of an update without what a run has once: of a run of one more than there are updates, less one of a single one.
# Validations are at the end alone, because they wait for weights.
measured() { # NAME BATCH COMMAND...
  local name=$1 batch=$2 steps
  for steps in 1 $((updates + 1)); do
    "${@:3}" train "${model[@]}" --batch "$batch" --steps $steps --eval-every $steps --eval-samples 1 --keep 0 \
      --out "$name$steps" >"$work/$name.out" 2>&1 || { cat "$work/$name.out" >&2; exit 1; }
    sed -n '/"event":"end"/s/.*"seconds":\([^,}]*\).*/\1/p' "$name$steps/metrics.jsonl"
  done | awk -v n="$updates" 'NR == 1 { first = $1 } END { print ($1 - first) / n }'
}
# Seconds for which the rank that waits least waits for the other one, in all.
waited() { # STEPS
  sed -nE '/"event":"ranks"/s/.*"waited":\[([^,]*),([^]]*)\].*/\1 \2/p' "two$1/metrics.jsonl" |
    awk '{ w = $1 < $2 ? $1 : $2 } END { print w }'
}
predicted() { sed -n "/\"ranks\": 2,/,/}/s/.*\"$1\": \([^,]*\),*/\1/p" "$work/plan.json" | tail -n 1; }

ranks plan "${model[@]}" --batch $((2 * micro_batches)) >"$work/measured" 2>&1
network=$(sed -n 's/^network *//p' "$work/measured")
"$program" plan "${model[@]}" --batch $((2 * micro_batches)) --ranks 2 --bandwidth "$gbit" --latency 20 --json >"$work/plan.json"
two=$(measured two $((2 * micro_batches)) ranks)
# Alone, while another one computes as well.
measured beside "$micro_batches" "$program" >/dev/null 2>&1 &
alone=$(measured alone "$micro_batches" "$program")
wait
waited=$(awk -v all="$(waited $((updates + 1)))" -v first="$(waited 1)" -v n="$updates" 'BEGIN { print (all - first) / n }')
echo "network      $gbit Gbit/s each way; ranks measure $network"
awk -v p="$(predicted exposed_seconds)" -v e="$(predicted exchange_seconds)" -v w="$waited" -v t="$two" -v a="$alone" '
  function share(x) { return p > 0 ? sprintf("%.2f", x / p) : "-" }
  BEGIN {
  printf "predicted    exchange %.3f s, exposed %.3f s an update\n", e, p
  printf "measured     exposed %.3f s (%s of the prediction), waited %.3f s (%s)\n", t - a, share(t - a), w, share(w)
  printf "update       %.3f s with two ranks, %.3f s alone: ratio %.2f\n", t, a, t / a }'
