#!/usr/bin/env python3
"""Fine-tunes a language model by LoRA in PyTorch with PEFT and in Accrue, and prints tokens a second and peak memory.

    python3 tools/compare/fine_tune.py --model SmolLM2-135M-Instruct --context 512 --batch 4

MODEL is a folder as transformers writes it. Both train adapters of the same rank on all linear layers of the blocks, in bf16, on
the same text. Runs take turns. Needs torch, transformers and peft; see README.md in this folder.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from runs import LAUNCHER, tell

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WARM_UP = 2  # updates of each run that do not count


# ---- PyTorch's side: a process of its own --------------------------------------------------------------


def train_pytorch(a):
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM
    torch.set_num_threads(a.threads)
    model = AutoModelForCausalLM.from_pretrained(a.model, dtype=torch.bfloat16)
    if a.checkpoint:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    model.config.use_cache = False
    lora = LoraConfig(r=a.rank, lora_alpha=2 * a.rank, target_modules="all-linear")
    model = get_peft_model(model, lora, autocast_adapter_dtype=not a.adapters_bf16)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4, fused=True)
    ids = torch.frombuffer(bytearray(pathlib.Path(a.tokens).read_bytes()), dtype=torch.int32).long()
    model.train()
    seconds, losses = [], []
    for update in range(a.updates):
        first = update * a.batch * a.context % (len(ids) - a.batch * a.context)
        batch = ids[first:first + a.batch * a.context].view(a.batch, a.context)
        began = time.monotonic()
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.monotonic() - began)
        losses.append(loss.item())
    print(json.dumps({"seconds": seconds, "losses": losses}))


# ---- both ----------------------------------------------------------------------------------------------


def run(command, threads):
    """What the process prints, and its peak of resident bytes. A small process starts it, since Linux counts that one's."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run([sys.executable, "-c", LAUNCHER, *command], capture_output=True, text=True, errors="replace",
                          env=environment, check=True)
    code, kibibytes = map(int, done.stdout.split())
    lines = done.stderr.splitlines()
    if code != 0:
        sys.exit(f"fine_tune: {' '.join(command[:6])} ... failed:\n" + "\n".join(lines[-20:]))
    return lines, kibibytes * 1024


def run_pytorch(a, folder, extra):
    command = [sys.executable, __file__, "--pytorch", "--model", a.model, "--tokens", f"{folder}/tokens", *extra]
    for name in ("context", "batch", "rank", "threads", "updates"):
        command += [f"--{name}", str(getattr(a, name))]
    lines, resident = run(command, a.threads)
    result = json.loads(next(line for line in reversed(lines) if line.startswith('{"seconds"')))
    return result["seconds"], result["losses"], resident


def run_accrue(a, folder, extra):
    command = [a.accrue, "train", "llm", "--model", a.model, "--data", f"{folder}/text.txt", "--lora", str(a.rank), "--context",
               str(a.context), "--batch", str(a.batch), "--steps", str(a.updates), "--held-out", "0", "--device", "cpu", "--threads",
               str(a.threads), "--keep", "0", "--quiet", "--metrics", f"{folder}/metrics", "--out", f"{folder}/run", "--overwrite", *extra]
    _, resident = run(command, a.threads)
    steps = [json.loads(line) for line in open(f"{folder}/metrics") if '"event":"step"' in line.replace(" ", "")]
    return [s["seconds"] for s in steps], [s["loss"] for s in steps], resident


def make_text(folder):
    text = "".join(path.read_text(errors="ignore") for path in sorted((ROOT / "docs").rglob("*.md")))
    (pathlib.Path(folder) / "text.txt").write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--accrue", default=str(ROOT / "build/release/bin/accrue"))
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--updates", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", nargs="*", default=[], help="budgets of Accrue that are tried as well")
    parser.add_argument("--base", default="bf16")
    for hidden in ("--pytorch", "--checkpoint", "--adapters-bf16"):
        parser.add_argument(hidden, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--tokens", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.pytorch:
        return train_pytorch(a)
    variants = {"PEFT": (run_pytorch, []), "PEFT, adapters in bf16": (run_pytorch, ["--adapters-bf16"]),
                "PEFT, adapters in bf16, checkpointing": (run_pytorch, ["--adapters-bf16", "--checkpoint"]),
                "Accrue": (run_accrue, ["--base", a.base])}
    variants.update({f"Accrue in {m}": (run_accrue, ["--base", a.base, "--memory", m]) for m in a.memory})
    found = {name: [] for name in variants}
    with tempfile.TemporaryDirectory() as folder:
        make_text(folder)
        run([a.accrue, "tokenize", "--model", a.model, "--data", f"{folder}/text.txt", "--held-out", "0", "--out", f"{folder}/tokens"],
            a.threads)
        for i in range(a.rounds):
            for name, (what, extra) in variants.items():
                tell(f"round {i + 1}: {name}")
                found[name].append(what(a, folder, extra))
    print("| | tokens/s | rounds | peak resident, MiB | first loss | last loss |\n|---|---|---|---|---|---|")
    for name, runs in found.items():
        rates = [a.batch * a.context / statistics.median(seconds[WARM_UP:]) for seconds, _, _ in runs]
        print(f"| {name} | {statistics.median(rates):.0f} | {min(rates):.0f} to {max(rates):.0f} | "
              f"{max(resident for *_, resident in runs) / 2**20:.0f} | {runs[0][1][0]:.3f} | {runs[0][1][-1]:.3f} |")


if __name__ == "__main__":
    main()
