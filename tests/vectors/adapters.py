#!/usr/bin/env python3
"""Trains adapters of a small random Llama by PEFT, and writes what tests/unit/adapter/ compares with (PEFT 0.21,
transformers 5.24, PyTorch 2.15; the tests need none of them).

    python adapters.py            writes adapters.safetensors and the folder adapter_of_peft/ next to this file

adapters.safetensors, in the format of README.md: the case "base" has the weights of the model; "lora", "rslora" and "dora"
have the adapter before (NAME) and after (after.NAME) ten updates by AdamW of `tokens` [10, 3, 9] (8 tokens, 8 targets),
`loss` [10] before each update, and `logits` [3, 8, 48] of the first tokens afterwards. adapter_of_peft/ is the folder that
PEFT saves of an adapter with rank_pattern, alpha_pattern and a regular expression, and "peft" its logits."""
import os
import shutil

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = dict(vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=32, rms_norm_eps=1e-5, tie_word_embeddings=True,
              attention_bias=True)
torch.set_num_threads(1)


def base():
    """Random, with biases that are not zero, in double."""
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(**CONFIG, attn_implementation="eager")).double()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_((torch.randn_like(p) * (0.1 if p.dim() == 1 else 0.3) + (1 if "norm" in name else 0)).float())
    return model


def fill(model):
    """A and B that are not zero, so that the first losses tell them too."""
    torch.manual_seed(2)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_A" in name or "lora_B" in name:
                p.copy_((torch.randn_like(p) * 0.2).float())


def adapter_of(model):
    return {name.replace("base_model.model.", "").replace(".default", "").replace("vector.weight", "vector"): p
            for name, p in model.named_parameters() if "lora_" in name}


def train(name, out, **options):
    model = get_peft_model(base(), LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"],
                                              **options)).double()
    fill(model)
    rows = torch.randint(0, 48, (10, 3, 9), generator=torch.Generator().manual_seed(3))
    out[f"{name}/tokens"] = rows.float()
    for key, p in adapter_of(model).items():
        out[f"{name}/{key}"] = p.detach().clone().float()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, weight_decay=0)
    losses = []
    for batch in rows:
        logits = model(input_ids=batch[:, :8]).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 48), batch[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for key, p in adapter_of(model).items():
        out[f"{name}/after.{key}"] = p.detach().float()
    out[f"{name}/loss"] = torch.tensor(losses, dtype=torch.float64)
    model.eval()
    out[f"{name}/logits"] = model(input_ids=rows[0, :, :8]).logits.detach().float()


def folder(out):
    """A folder as PEFT saves it, with patterns."""
    path = os.path.join(HERE, "adapter_of_peft")
    shutil.rmtree(path, ignore_errors=True)
    model = get_peft_model(base().float(), LoraConfig(
        r=2, lora_alpha=4, target_modules=r".*\.(q_proj|down_proj)", rank_pattern={r"layers.1.mlp.down_proj": 3},
        alpha_pattern={"down_proj": 5}, use_rslora=True, use_dora=True, lora_dropout=0.1))
    fill(model)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "magnitude" in name:
                p.mul_(1 + 0.1 * torch.randn_like(p))
    model.save_pretrained(path)
    for name in os.listdir(path):
        if not name.startswith("adapter_"):
            os.remove(os.path.join(path, name))
    again = PeftModel.from_pretrained(base(), path).double().eval()
    rows = torch.randint(0, 48, (3, 8), generator=torch.Generator().manual_seed(4))
    out["peft/tokens"] = rows.float()
    out["peft/logits"] = again(input_ids=rows).logits.detach().float()


def main():
    out = {f"base/{name}": p.detach().float() for name, p in base().named_parameters()}
    train("lora", out)
    train("rslora", out, use_rslora=True)
    train("dora", out, use_dora=True)
    folder(out)
    save_file({k: v.contiguous() for k, v in out.items()}, os.path.join(HERE, "adapters.safetensors"))


if __name__ == "__main__":
    main()
