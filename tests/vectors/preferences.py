#!/usr/bin/env python3
"""The loss and the gradients of direct preference optimisation of an adapter, by TRL (1.16; the tests do not need it).

    python preferences.py         writes preferences.safetensors next to this file

In the format of README.md: "dpo" and "smoothed" have `tokens` and `mask` [2, 3, 12] (chosen and rejected, pairs, positions; the
mask is 1 where a token belongs to the answer), the adapter (NAME) of the base in adapters.safetensors, `loss`, the mean over
pairs, and its gradients (grad.NAME). "smoothed" has label smoothing 0.2, by the loss "aot_unpaired" of single pairs, which is
the mean of the conservative losses of pairs; beta is 0.3 in both."""
import os
import tempfile

import torch
from datasets import Dataset
from peft import LoraConfig
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

from adapters import adapter_of, base, fill

HERE = os.path.dirname(os.path.abspath(__file__))


def words(count, generator):
    return " ".join(f"t{int(i)}" for i in torch.randint(4, 48, (count,), generator=generator))


def trainer_of(model, folder, **options):
    vocabulary = {f"t{i}": i for i in range(48)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="t0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="t1", eos_token="t2", unk_token="t0")
    g = torch.Generator().manual_seed(5)
    pairs = [{"prompt": words(3 + i, g), "chosen": " " + words(4 - i, g), "rejected": " " + words(2 + i, g)} for i in range(3)]
    args = DPOConfig(output_dir=folder, per_device_train_batch_size=3, beta=0.3, report_to=[], use_cpu=True, bf16=False,
                     max_length=12, gradient_checkpointing=False, seed=1, dataloader_pin_memory=False, **options)
    lora = LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"])
    return DPOTrainer(model=model, peft_config=lora, args=args, train_dataset=Dataset.from_list(pairs), processing_class=fast)


def write(out, name, single, **options):
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_of(base().float(), folder, **options)
        fill(trainer.model)
        batch = next(iter(trainer.get_train_dataloader()))
        trainer.model.train()
        ids, mask = batch["input_ids"], batch["completion_mask"]
        loss = 0
        for i in range(3) if single else [slice(None)]:
            pick = {k: v.reshape(2, 3, *v.shape[1:])[:, i].reshape(-1, *v.shape[1:]) for k, v in batch.items()}
            loss = loss + trainer.compute_loss(trainer.model, pick) / (3 if single else 1)
        loss.backward()
    length = 12 - ids.shape[1]
    pad = torch.nn.functional.pad
    out[f"{name}/tokens"] = pad(ids, (0, length)).reshape(2, 3, 12).float()
    out[f"{name}/mask"] = pad(mask, (0, length)).reshape(2, 3, 12).float()
    out[f"{name}/loss"] = loss.detach().double().reshape(1)
    for key, p in adapter_of(trainer.model).items():
        out[f"{name}/{key}"] = p.detach().clone()
        out[f"{name}/grad.{key}"] = p.grad.clone()


def main():
    out = {}
    write(out, "dpo", False)
    write(out, "smoothed", True, loss_type="aot_unpaired", label_smoothing=0.2)
    save_file({k: v.contiguous() for k, v in out.items()}, os.path.join(HERE, "preferences.safetensors"))


if __name__ == "__main__":
    main()
