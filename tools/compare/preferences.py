#!/usr/bin/env python3
"""Compares `accrue train llm --objective dpo` with TRL: the loss of an adapter on the same pairs.

    python3 tools/compare/preferences.py --model FOLDER

FOLDER is a model as transformers writes it, with a tokenizer; without it a tiny one with random weights is made. Accrue trains an
adapter on pairs of texts, and both compute the mean loss of that adapter on these pairs in f32. Exits with 1 if the two differ by
more than 1e-5. Needs torch, transformers, peft, trl and datasets.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MOST = 1e-5


def make_pairs(path, count):
    """Pairs of texts. Words begin with a blank, so that the tokens of a prompt and of its answer are those of the whole text."""
    rng = random.Random(3)
    words = "red green blue one two three four stone river light under over never always".split()

    def text(least, most):
        return "".join(" " + rng.choice(words) for _ in range(rng.randint(least, most)))
    pairs = [{"prompt": "say" + text(2, 6), "chosen": text(1, 5), "rejected": text(1, 5)} for _ in range(count)]
    path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return pairs


def loss_of_trl(folder, model, pairs, beta, smoothing):
    import torch
    from datasets import Dataset
    from peft import LoraConfig, set_peft_model_state_dict
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import DPOConfig, DPOTrainer
    tokenizer = AutoTokenizer.from_pretrained(model)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    # Smoothing of single pairs is TRL's "aot_unpaired", the mean of the conservative losses of pairs.
    kind = {"loss_type": "aot_unpaired", "label_smoothing": smoothing} if smoothing else {}
    batch = 1 if smoothing else 8
    args = DPOConfig(output_dir=str(folder / "trl"), per_device_train_batch_size=batch, beta=beta, report_to=[], use_cpu=True, bf16=False,
                     max_length=128, gradient_checkpointing=False, dataloader_pin_memory=False, **kind)
    # An adapter that is given would be its own reference; one that is made, and filled, has the base.
    trainer = DPOTrainer(model=base, peft_config=LoraConfig.from_pretrained(folder / "run"), args=args,
                         train_dataset=Dataset.from_list(pairs), processing_class=tokenizer)
    missing = set_peft_model_state_dict(trainer.model, load_file(folder / "run" / "adapter_model.safetensors"))
    assert not missing.unexpected_keys, missing.unexpected_keys
    trainer.model.eval()
    total = count = 0
    with torch.no_grad():
        for batch in trainer.get_train_dataloader():
            pairs_here = batch["input_ids"].shape[0] // 2
            total += trainer.compute_loss(trainer.model, batch).item() * pairs_here
            count += pairs_here
    return total / count, count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--build", default=str(ROOT / "build/ci/bin"))
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--beta", type=float, default=0.3)
    a = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = a.model or str(folder / "tiny")
        if not a.model:
            os.mkdir(model)
            subprocess.run([f"{a.build}/cli_fixture", "llm", model, "1"], check=True)
        pairs = make_pairs(folder / "pairs.jsonl", a.pairs)
        common = ["--data", str(folder / "pairs.jsonl"), "--objective", "dpo", "--context", "127", "--precision", "f32", "--device", "cpu",
                  "--beta", str(a.beta)]
        subprocess.run([f"{a.build}/accrue", "train", "llm", "--model", model, *common, "--lora", "4", "--lr", "0.01", "--epochs", "2",
                        "--held-out", "0", "--quiet", "--out", str(folder / "run")], check=True, stdout=subprocess.DEVNULL)
        for smoothing in (0, 0.2):
            ours = json.loads(subprocess.run([f"{a.build}/accrue", "eval", "--model", str(folder / "run"), *common, "--label-smoothing",
                                              str(smoothing), "--json"], check=True, capture_output=True, text=True).stdout)
            theirs, count = loss_of_trl(folder, model, pairs, a.beta, smoothing)
            print(f"smoothing {smoothing}: Accrue {ours['loss']:.7f} of {ours['samples']} pairs, TRL {theirs:.7f} of {count}")
            worst = max(worst, abs(ours["loss"] - theirs), abs(ours["samples"] - count))
    sys.exit(worst > MOST)


if __name__ == "__main__":
    main()
