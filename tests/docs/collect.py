"""Runs the program in small and collects the keys of all that it writes: metrics, records, states, models and JSON.

collect() returns {kind: {key}}. A key is a path: "planned_bytes.total"; "runs[].results[].loss" is in lists. Where names of
parameters, losses or flags are keys, the path has NAME.
"""

import json
import os
import random
import struct
import subprocess

# Objects with names of something as keys, by the last words of their paths.
NAMED = {"losses", "gradient_norm", "weight_norm", "update_ratio", "gradient_squares", "variance", "flags"}
NAMED_IN = {"noise_layers": {"noise_scale"}}


def add_keys(found, value, path=""):
    """Adds the paths of all keys in a JSON value."""
    if isinstance(value, dict):
        named = path.split(".")[-1] in NAMED
        for key, inner in value.items():
            at = f"{path}.{'NAME' if named else key}" if path else key
            found.add(at)
            add_keys(found, inner, at)
    elif isinstance(value, list):
        for inner in value:
            add_keys(found, inner, path + "[]")


class Collector:
    def __init__(self, program, fixture, folder):
        self.program, self.fixture, self.folder, self.found = program, fixture, folder, {}

    def add(self, kind, value):
        add_keys(self.found.setdefault(kind, set()), value)

    def run(self, *words, statuses=(0,)):
        result = subprocess.run([self.program, *words], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, check=False)
        if result.returncode not in statuses:
            raise SystemExit(f"accrue {' '.join(words)} exits with {result.returncode}: {result.stderr}")
        return result.stdout

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def read(self, *parts):
        with open(self.path(*parts), encoding="utf-8") as file:
            return file.read()

    def add_metrics(self, *parts):
        for line in self.read(*parts).splitlines():
            event = json.loads(line)
            if event["event"] == "noise_layers" and isinstance(event["noise_scale"], dict):
                event["noise_scale"] = {"NAME": 0}
            self.add("metrics " + event["event"], event)

    def add_metadata(self, kind, *parts):
        with open(self.path(*parts), "rb") as file:
            length = struct.unpack("<Q", file.read(8))[0]
            self.found.setdefault(kind, set()).update(json.loads(file.read(length))["__metadata__"])

    def add_run(self, out):
        """All files of the folder of a run."""
        for name in sorted(os.listdir(self.path(out))):
            if name == "metrics.jsonl":
                self.add_metrics(out, name)
            elif name in ("run.json", "config.json"):
                self.add(name, json.loads(self.read(out, name)))
            elif name.endswith(".safetensors"):
                self.add_metadata("state" if name.startswith(("state-", "good")) else "model", out, name)

    def add_json(self, kind, *words):
        self.add(kind, json.loads(self.run(*words)))

    def knows(self, flag, *words):
        """Whether a command has the flag."""
        return "unknown flag" not in subprocess.run([self.program, *words, flag, "--help"], capture_output=True, text=True,
                                                    check=False).stderr


def collect(program, fixture, folder):
    c = Collector(program, fixture, folder)

    def make(*words):
        subprocess.run([fixture, *words], check=True, cwd=folder)
    make("text", "book.txt", "6000")
    make("images", ".", "train", "200")
    make("images", ".", "t10k", "50")
    make("tokens", "tokens.bin", "4000", "300")
    os.mkdir(os.path.join(folder, "tiny"))
    make("llm", "tiny", "0")
    random_bytes = random.Random(1)
    with open(os.path.join(folder, "noise.txt"), "w", encoding="utf-8") as file:
        file.write("".join(random_bytes.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(6000)))
    small = ["--device", "cpu", "--threads", "1", "--quiet"]
    gpt = ["gpt", "--data", "book.txt", "--layers", "1", "--heads", "2", "--width", "16", "--context", "16", *small]
    mlp = ["mlp", "--data", ".", "--hidden", "8", *small]
    split = ["--batch", "8", "--micro-batch", "2"]

    # Runs that make each event and each part of a state.
    runs = [
        [*gpt, *split, "--steps", "24", "--eval-every", "8", "--ema", "0.9", "--layers-every", "4", "--noise-layers", "4",
         "--group", "*.wte.*:lr=0.5,clip=1", "--keep-best", "--patience", "9", "--save-every", "5"],
        [*gpt, "--batch", "2", "--steps", "60", "--on-spike", "back", "--spike-deviations", "1", "--good-every", "8",
         "--schedule", "plateau", "--eval-every", "20"],
        ["gpt", "--data", "noise.txt", *gpt[3:], "--micro-batch", "1", "--batch", "4..8@noise", "--steps", "1500",
         "--eval-every", "0"],
        [*gpt, "--batch", "4@0,8@4", "--steps", "8", "--precision", "f16", "--loss-scale-init", "67108864", "--replay"],
        ["gpt", "--data", "tokens.bin", "--vocab", "300", *gpt[3:], "--steps", "4"],
        [*mlp, "--steps", "8"],
        [*mlp, "--steps", "30", "--layers-every", "1", "--lr", "30", "--warmup", "0"],
        ["resnet", "--data", ".", "--width", "8", "--steps", "2", "--batch", "8", *small],
        ["mobilenet", "--data", ".", "--width", "8", "--steps", "2", "--batch", "8", *small],
    ]
    for i, words in enumerate(runs):
        c.run("train", *words, "--out", f"run{i}", statuses=(0, 1))
        c.add_run(f"run{i}")
    c.run("train", *mlp, "--steps", "8", "--max-tokens", "1", "--out", "stopped", statuses=(0, 2))
    c.run("train", *gpt, "--steps", "20", "--max-tokens", "500", "--out", "stopped2")
    c.run("train", "--resume", "--out", "stopped2", "--max-tokens", "1M", "--quiet")
    c.add_run("stopped2")

    c.run("pilot", *mlp, "--grid", "lr=1e-3,1e-2", "--seeds", "2", "--steps", "4", "--out", "pilot")
    c.add("pilot.json", json.loads(c.read("pilot", "pilot.json")))
    c.add_run("pilot/run-0001")
    c.add_json("accrue pilot --json", "pilot", *mlp, "--grid", "lr=1e-3,1e-2", "--steps", "4", "--eval-every", "2",
               "--target-loss", "9", "--out", "pilot2", "--json")
    c.add_json("accrue pilot --json", "pilot", *mlp, "--ablate", "dropout", "--folds", "2", "--steps", "4", "--out", "pilot3",
               "--json")
    c.add_json("accrue plan --json", "plan", *gpt, "--json")
    c.add_json("accrue plan --json", "plan", *gpt, "--precision", "bf16", "--weights", "bf16", "--memory", "4MiB", "--json")
    if c.knows("--names", "plan", "mlp"):
        c.add_json("accrue plan --json", "plan", *mlp, "--names", "--json")
    c.add_json("accrue eval --json", "eval", "--model", "run5", "--data", ".", "--json")
    c.add_json("accrue eval --json", "eval", "--model", "run0", "--data", "book.txt", "--json")
    c.add_json("accrue predict --json", "predict", "--model", "run5", "--data", ".", "--json")
    c.add_json("accrue lr-find --json", "lr-find", *mlp, "--updates", "20", "--json")
    c.add_json("accrue devices --json", "devices", "--json")
    c.add_json("accrue tokenize --json", "tokenize", "--model", "tiny", "--data", "book.txt", "--json")
    for verb, more in (("verify", ["--updates", "1"]), ("train", ["--steps", "2", "--out", "json"])):
        if c.knows("--json", verb, "mlp"):
            c.add_json(f"accrue {verb} --json", verb, *mlp, *more, "--json")
    for what, text in (("ops", "layer_norm"), ("step", "")):
        c.run("bench", what, "--quick", "--seconds", "0.1", "--threads", "1", "--device", "cpu", "--filter", text, "--model",
              "gpt-small", "--samples", "5", "--footprint", "1MiB", "--json", f"{what}.json")
        c.add("accrue bench --json", json.loads(c.read(f"{what}.json")))
    return c.found
