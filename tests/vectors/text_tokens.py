#!/usr/bin/env python3
"""Small tokenizers of every kind, tests/vectors/tokenizers/NAME.json, and what Hugging Face's `tokenizers` makes of
some texts with them, NAME.cases.json. Needs the package tokenizers (made with 0.23.3).

    python3 tests/vectors/text_tokens.py
"""
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "tokenizers"

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

SENTENCES = [
    "The quick brown fox jumps over the lazy dog, and the dog doesn't mind.",
    "In 2024, 1234567 people said: it's 3.14 (or 22/7)!",
    "  two spaces, a tab\tand\r\nnew lines\n\n\nat the end   ",
    "Größe, façade, naïve, Ångström, e\u0301le\u0300ve, ﬁne, Ⅻ ½ ²",
    "Привет, мир! Ελλάδα και Ἀθῆναι. שָׁלוֹם עולם. مرحبا بالعالم",
    "中文和日本語のテキスト、한국어 각각 \u1112\u1161\u11ab",
    "emoji 👩\u200d👩\u200d👧 😀🇩🇪 and signs €£¥ ← → ≠",
    "def f(x):\n    return x**2 + y_1  # 0x1F",
    "<s>not a mark</s> <|im_start|>user\nhello<|im_end|> [CLS] word [MASK]",
    "I'LL we'Re ŁÓDŹ İstanbul ſtraſſe",
    "a\u00a0b\u3000c\u2028d\u0085e\u180ef\u200bg",
    "▁under▁score ▁ _ __",
]


def texts():
    """The sentences, and random ones of what is hard."""
    draw = random.Random(1)
    parts = ["a", "the", " ", "  ", "\n", "\r\n", "\t", "1", "42", ".", "'s", "é", "e\u0301", "\u0301", "ß", "中", "ん", "한",
             "😀", "▁", "<s>", "<|im_end|>", "[CLS]", "hello", "-", "_", "ﬃ", "Å", "\u1100\u1161", "X", "\u0323", "ing", "<0x41>"]
    drawn = ["".join(draw.choice(parts) for _ in range(draw.randrange(1, 25))) for _ in range(28)]
    return SENTENCES + [""] + drawn + ["x" * 150, "ab " * 40, "e" + "\u0301\u0323" * 40]


def corpus():
    draw = random.Random(2)
    return [" ".join(draw.sample(s.split(" "), len(s.split(" ")))) for s in SENTENCES for _ in range(8)]


def byte_level(steps, normalizer=None, **settings):
    tokenizer = Tokenizer(models.BPE(**settings))
    tokenizer.pre_tokenizer = steps
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return json.loads(tokenizer.to_str())


def split_by(pattern):
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )


def characters(normalizer, steps, across=False):
    """BPE of characters, with bytes for those that it lacks, as SentencePiece's models become."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    if not across:
        tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=520,
        special_tokens=special + [f"<0x{byte:02X}>" for byte in range(256)],
        limit_alphabet=90,
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    made = json.loads(tokenizer.to_str())
    made["added_tokens"] = [token for token in made["added_tokens"] if token["content"] in special]
    made["model"].update(byte_fallback=True, fuse_unk=True)
    shape = Tokenizer(models.BPE())
    if normalizer:
        shape.normalizer = normalizer
    if steps:
        shape.pre_tokenizer = steps
    shape.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    shape = json.loads(shape.to_str())
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        made[part] = shape[part]
    start = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    made["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [start, text],
        "pair": [start, text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }
    return made


def llama3():
    made = byte_level(split_by(LLAMA3), ignore_merges=True)
    shape = Tokenizer(models.BPE())
    shape.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<|im_start|> $A", special_tokens=[("<|im_start|>", 1)]),
        ]
    )
    made["post_processor"] = json.loads(shape.to_str())["post_processor"]
    return made


def qwen():
    tokenizer = Tokenizer.from_str(json.dumps(byte_level(split_by(QWEN), normalizers.NFC())))
    tokenizer.add_tokens(
        [
            AddedToken("<think>", normalized=False),
            AddedToken("hello", single_word=True),
            AddedToken("word", lstrip=True, rstrip=True),
        ]
    )
    return json.loads(tokenizer.to_str())


def roberta():
    made = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True))
    shape = Tokenizer(models.BPE())
    shape.post_processor = processors.RobertaProcessing(("<|im_end|>", 2), ("<|im_start|>", 1))
    made["post_processor"] = json.loads(shape.to_str())["post_processor"]
    return made


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=360, special_tokens=["<unk>", "</s>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return json.loads(tokenizer.to_str())


def bert():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=320, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return json.loads(tokenizer.to_str())


def word_level():
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents(), normalizers.Strip()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation()])
    tokenizer.train_from_iterator(corpus(), trainers.WordLevelTrainer(special_tokens=["[UNK]"], show_progress=False))
    return json.loads(tokenizer.to_str())


def clip():
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.BPEDecoder()
    trainer = trainers.BpeTrainer(
        vocab_size=380, special_tokens=["[UNK]"], end_of_word_suffix="</w>", show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return json.loads(tokenizer.to_str())


KINDS = {
    "gpt2": lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "roberta": roberta,
    "llama3": llama3,
    "qwen": qwen,
    "smollm": lambda: byte_level(
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    ),
    "deepseek": lambda: byte_level(
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
                pre_tokenizers.Split(Regex("[一-龥\u3040-ゟ゠-ヿ]+"), "isolated"),
                split_by(DEEPSEEK),
            ]
        )
    ),
    "llama2": lambda: characters(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None),
    "gemma": lambda: characters(
        normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"), across=True
    ),
    "mistral": lambda: characters(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
    "unigram": unigram,
    "bert": bert,
    "word_level": word_level,
    "clip": clip,
}


def cases(tokenizer):
    for text in texts():
        for special in (False, True):
            ids = tokenizer.encode(text, add_special_tokens=special).ids
            yield {"text": text, "special": special, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=True)}


def main():
    OUT.mkdir(exist_ok=True)
    for name, make in KINDS.items():
        made = make()
        tokenizer = Tokenizer.from_str(json.dumps(made))
        for file, content in ((f"{name}.json", made), (f"{name}.cases.json", list(cases(tokenizer)))):
            (OUT / file).write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
