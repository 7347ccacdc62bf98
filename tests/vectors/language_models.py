#!/usr/bin/env python3
"""Writes models/: a random folder of each family of language models, the same as GGUF, and what transformers computes.

    python language_models.py [FOLDER [NAME...]]

Needs PyTorch, transformers, safetensors and gguf; made with transformers 5.24 and gguf 0.19. For each case NAME:

    NAME/config.json, NAME/model.safetensors    as transformers writes them, in 16 bits
    NAME.gguf                                   the same weights, as llama.cpp's converter names and arranges them
    NAME.results.safetensors                    tokens and targets [3, 12], logits [3, 12, V], the mean loss before each of
                                                ten updates by AdamW (rate 0.01, decay 0.1, not of vectors): `full` of all
                                                parameters, `lora` of adapters alone

Models compute in double, but for what transformers computes in float in any case (norms and rotary positions). Adapters are
of rank 2 and scale 2 on all linear layers of blocks: element (i, j) of A is ((7 i + 13 j) mod 11 - 5) / 32, and B is 0.
"""
import json
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import save_file

torch.set_num_threads(1)
SMALL = dict(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=31)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)

# Case: family's class, settings, dtype of the file, architecture of GGUF.
CASES = {
    "llama": ("Llama", dict(SMALL, rms_norm_eps=1e-5, rope_parameters=dict(rope_type="default", rope_theta=5000.0)),
              torch.bfloat16, "llama"),
    # As Llama 3.2 has it: head_dim 16, so that all three parts of the scaling are met; shards.
    "llama3": ("Llama", dict(SMALL, head_dim=16, tie_word_embeddings=True, rope_parameters=LLAMA3),
               torch.bfloat16, "llama"),
    "llama_linear": ("Llama", dict(SMALL, attention_bias=True, mlp_bias=True,
                                   rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)),
                     torch.float16, None),
    "mistral": ("Mistral", dict(SMALL, sliding_window=5, head_dim=8), torch.float16, None),
    "smollm3": ("SmolLM3", dict(SMALL, no_rope_layer_interval=2), torch.bfloat16, None),
    "qwen2": ("Qwen2", dict(SMALL, tie_word_embeddings=True), torch.bfloat16, "qwen2"),
    "qwen2_window": ("Qwen2", dict(SMALL, use_sliding_window=True, sliding_window=4, max_window_layers=1),
                     torch.float32, None),
    "qwen3": ("Qwen3", dict(SMALL, head_dim=8), torch.bfloat16, "qwen3"),
    "gemma": ("Gemma", dict(SMALL, head_dim=8), torch.bfloat16, "gemma"),
    "gemma2": ("Gemma2", dict(SMALL, head_dim=8, query_pre_attn_scalar=8, sliding_window=5,
                              attn_logit_softcapping=2.0, final_logit_softcapping=3.0), torch.bfloat16, "gemma2"),
    "gemma3": ("Gemma3", dict(SMALL, head_dim=8, query_pre_attn_scalar=8, sliding_window=5, num_hidden_layers=6,
                              intermediate_size=16), torch.bfloat16, "gemma3"),
    "phi3": ("Phi3", dict(SMALL, sliding_window=None), torch.bfloat16, "phi3"),
    "phi3_partial": ("Phi3", dict(SMALL, sliding_window=6,
                                  rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                       partial_rotary_factor=0.5)), torch.bfloat16, None),
    "olmo2": ("Olmo2", dict(SMALL), torch.bfloat16, "olmo2"),
    "gpt2": ("GPT2", dict(vocab_size=32, n_embd=16, n_inner=None, n_layer=2, n_head=4, n_positions=64, bos_token_id=1,
                          eos_token_id=2), torch.bfloat16, "gpt2"),
}
CLASSES = {"Gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM"), "GPT2": ("GPT2Config", "GPT2LMHeadModel")}


def make(name):
    family, settings, dtype, _ = CASES[name]
    config_class, model_class = CLASSES.get(family, (family + "Config", family + "ForCausalLM"))
    torch.manual_seed(sum(map(ord, name)))
    config = getattr(transformers, config_class)(**settings)
    model = getattr(transformers, model_class)(config).eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            plus_one = p.dim() == 1 and key.endswith("weight") and not family.startswith("Gemma")
            p.copy_((torch.randn_like(p) * (0.4 if p.dim() > 1 else 0.2) + plus_one).to(dtype))
    return model


# ---- what transformers computes -----------------------------------------------------------------------------------


class Adapted(torch.nn.Module):
    def __init__(self, base):
        super().__init__()
        in_out = type(base).__name__ == "Conv1D"
        out, inner = reversed(base.weight.shape) if in_out else base.weight.shape
        a = [[((7 * i + 13 * j) % 11 - 5) / 32 for j in range(inner)] for i in range(2)]
        self.base = base
        self.a = torch.nn.Parameter(torch.tensor(a, dtype=torch.float64))
        self.b = torch.nn.Parameter(torch.zeros(out, 2, dtype=torch.float64))

    def forward(self, x):
        return self.base(x) + 2 * (x @ self.a.T @ self.b.T)


def adapt(model):
    for p in model.parameters():
        p.requires_grad_(False)
    for key, module in list(model.named_modules()):
        if type(module).__name__ in ("Linear", "Conv1D") and "lm_head" not in key:
            parent, _, last = key.rpartition(".")
            setattr(model.get_submodule(parent), last, Adapted(module))


def loss_of(model, tokens, targets):
    logits = model(tokens).logits
    return torch.nn.functional.cross_entropy(logits.double().flatten(0, 1), targets.flatten())


def updates(model, tokens, targets):
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW([dict(params=[p for p in trained if p.dim() > 1], weight_decay=0.1),
                                   dict(params=[p for p in trained if p.dim() == 1], weight_decay=0.0)], lr=0.01)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = loss_of(model, tokens, targets)
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    return torch.tensor(losses, dtype=torch.float64)


def results(name):
    random = np.random.default_rng(7)
    ids = torch.tensor(random.integers(0, 31, (3, 13)))
    tokens, targets = ids[:, :-1], ids[:, 1:]
    model = make(name).double()
    with torch.no_grad():
        logits = model(tokens).logits.float()
    full = updates(make(name).double(), tokens, targets)
    adapt(model)
    return {"tokens": tokens.int().contiguous(), "targets": targets.int().contiguous(), "logits": logits.contiguous(),
            "full": full, "lora": updates(model, tokens, targets)}


# ---- GGUF ----------------------------------------------------------------------------------------------------------

NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
         "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down",
         "transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm",
         "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
         "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}


def gguf_name(name, arch):
    name, suffix = name.rsplit(".", 1)
    prefix = ""
    parts = name.split(".")
    if "layers" in parts or "h" in parts:
        prefix, name = f"blk.{parts[2]}.", ".".join(parts[3:])
    if name == "post_attention_layernorm":
        own = "post_attention_norm" if arch in ("gemma2", "gemma3", "olmo2") else "ffn_norm"
    else:
        own = NAMES[name]
    return f"{prefix}{own}.{suffix}"


def permuted(weight, heads):
    """Rows of queries and keys as llama.cpp's converter leaves them."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def gguf_values(writer, config, arch):
    c = config
    writer.add_block_count(c.num_hidden_layers)
    writer.add_context_length(c.max_position_embeddings)
    writer.add_embedding_length(c.hidden_size)
    writer.add_head_count(c.num_attention_heads)
    if arch == "gpt2":
        writer.add_feed_forward_length(4 * c.hidden_size)
        writer.add_layer_norm_eps(c.layer_norm_epsilon)
        return
    writer.add_feed_forward_length(c.intermediate_size)
    writer.add_head_count_kv(c.num_key_value_heads)
    writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    rope = c.rope_parameters
    rope = rope.get("full_attention", rope)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(head_dim)
    if arch == "gemma2":
        writer.add_attn_logit_softcapping(c.attn_logit_softcapping)
        writer.add_final_logit_softcapping(c.final_logit_softcapping)
    if arch in ("gemma2", "gemma3"):
        writer.add_sliding_window(c.sliding_window)
    if rope["rope_type"] == "llama3":
        base = rope["rope_theta"] ** (-np.arange(0, head_dim, 2) / head_dim)
        turns = 8192 * base / (2 * np.pi)
        smooth = np.clip((turns - 1.0) / (4.0 - 1.0), 0, 1)
        writer.add_tensor("rope_freqs.weight", (1 / ((1 - smooth) / 8.0 + smooth)).astype("f4"))


def write_gguf(path, model, arch):
    config = model.config
    writer = gguf.GGUFWriter(path, arch)
    gguf_values(writer, config, arch)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, p in model.named_parameters():
        x = p.detach().float().numpy()
        if arch == "llama" and ".q_proj" in name:
            x = permuted(x, config.num_attention_heads)
        if arch == "llama" and ".k_proj" in name:
            x = permuted(x, config.num_key_value_heads)
        if arch.startswith("gemma") and "norm" in name:
            x = x + 1
        if arch == "gpt2" and x.ndim == 2 and ".h." in name:
            x = x.T
        writer.add_tensor(gguf_name(name, arch), np.ascontiguousarray(x, "f4" if x.ndim == 1 else "f2"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---- files ---------------------------------------------------------------------------------------------------------

def as_before_5(path):
    """config.json in the form of transformers 4."""
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.45.0"
    path.write_text(json.dumps(config, indent=2) + "\n")


def case(folder, name):
    _, _, dtype, arch = CASES[name]
    model = make(name)
    where = folder / name
    shard = dict(max_shard_size="6KB") if name == "llama3" else {}
    model.to(dtype).save_pretrained(where, **shard)
    (where / "generation_config.json").unlink(missing_ok=True)
    for file in where.iterdir():
        file.chmod(0o644)
    if name in ("llama3", "llama_linear", "qwen2_window"):
        as_before_5(where / "config.json")
    if arch:
        write_gguf(folder / f"{name}.gguf", make(name), arch)
    file = folder / f"{name}.results.safetensors"
    save_file(results(name), file)
    file.chmod(0o644)


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "models")
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or CASES:
        case(folder, name)


main()
