#!/usr/bin/env python3
"""Small models of SentencePiece of every kind, tests/vectors/sentencepiece/NAME.model, what SentencePiece makes of some
texts with them, NAME.cases.json, and GGUF files with vocabularies, NAME.gguf, with what `tokenizers` and SentencePiece make
of the texts. Needs the packages sentencepiece (made with 0.2.1; 0.2.3 chooses otherwise between ways of equal score),
protobuf, gguf (0.19.0) and tokenizers (0.23.3).

    python3 tests/vectors/sentencepiece_tokens.py
"""
import io
import json
import pathlib
import sys

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as messages
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "sentencepiece"
sys.path.insert(0, str(HERE))
import text_tokens  # noqa: E402

# What characters become: one to one, to several, from several, to none, and to a space.
RULES = [("ﬁ", "fi"), ("\u212b", "\u00e5"), ("e\u0301", "é"), ("e\u0300\u0323", "ẹ̀"), ("ß", "ss"), ("\u200b", ""), ("\u3000", " "),
         ("\t", " "), ("½", " 1/2 "), ("Ⅻ", "XII"), ("\u0085", "  "), ("X", "x")]  # fmt: skip
KINDS = {
    "bpe_bytes": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                      split_digits=True, vocab_size=430),
    "bpe_user": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                     add_dummy_prefix=False, vocab_size=440, user_defined_symbols=["▁▁", "▁▁▁", "\n\n", "<|im_start|>", "ob", "o▁w"]),
    "bpe_plain": dict(model_type="bpe", rules=True, vocab_size=220, character_coverage=0.98),
    "bpe_suffix": dict(model_type="bpe", rules=True, vocab_size=200, character_coverage=0.98, treat_whitespace_as_suffix=True),
    "unigram": dict(model_type="unigram", rules=True, vocab_size=240, character_coverage=0.98, user_defined_symbols=["<sep>", "ing"]),
    "unigram_bytes": dict(model_type="unigram", normalization_rule_name="identity", byte_fallback=True, vocab_size=440,
                          remove_extra_whitespaces=False),
}  # fmt: skip


def train(name, rules=False, **settings):
    path = OUT / "rules.tsv"
    if rules:
        lines = [" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) for a, b in RULES]
        path.write_text("\n".join(lines) + "\n")
        settings["normalization_rule_tsv"] = str(path)
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text_tokens.corpus()), model_writer=made, hard_vocab_limit=False, minloglevel=2, num_threads=1, **settings)  # fmt: skip
    path.unlink(missing_ok=True)
    model = messages.ModelProto.FromString(made.getvalue())
    model.trainer_spec.ClearField("input")
    model.normalizer_spec.ClearField("normalization_rule_tsv")
    if name in ("bpe_plain", "unigram"):  # some that are made on the way to others are unused
        normal = [p for p in model.pieces if p.type == 1 and len(p.piece) > 1]
        for piece in normal[5::7]:
            piece.type = messages.ModelProto.SentencePiece.UNUSED
    if name == "unigram_bytes":
        model.normalizer_spec.escape_whitespaces = False
        for piece in model.pieces:
            if piece.type == 1:
                piece.piece = piece.piece.replace("▁", " ")
    return model.SerializeToString()


def texts():
    for text in text_tokens.texts() + ["  ", " a", "ing<sep>ing  <sep>", "e\u0300\u0323e\u0301", "\ufffd \ufffdx", "a\u0085\u3000 b\t", "o wob"]:
        yield text.encode()
    for text in (b"a\xffb\x80c\xe4\xb8d", b"\xed\xa0\x80 \xf4\x90\x80\x80", b"\xf0\x9f\x98 \xef\xbf", b"nul\x00nul", b"\x00"):
        yield text


def cases(model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    for text in texts():
        ids = processor.encode(text)
        case = {"text": text.hex(), "ids": ids}
        if processor.unk_id() not in ids:
            case["decoded"] = processor.decode(ids)
        yield case


def write(name, content):
    (OUT / f"{name}.cases.json").write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n")


def new_gguf(name, model, tokens, kinds):
    writer = gguf.GGUFWriter(str(OUT / f"{name}.gguf"), "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    return writer


def close(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_of_pieces(name, model):
    """A vocabulary with scores, as llama.cpp has those of SentencePiece."""
    made = messages.ModelProto.FromString(model)
    writer = new_gguf(name, "llama", [p.piece for p in made.pieces], [p.type for p in made.pieces])
    writer.add_token_scores([p.score for p in made.pieces])
    writer.add_add_space_prefix(made.normalizer_spec.add_dummy_prefix)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    close(writer)


def gguf_of_merges(name, kind, pre):
    """A vocabulary with merges, and the ids of `tokenizers`."""
    made = text_tokens.KINDS[kind]()
    vocab = sorted(made["model"]["vocab"], key=made["model"]["vocab"].get)
    special = {token["content"] for token in made["added_tokens"] if token["special"]}
    writer = new_gguf(name, "gpt2", vocab, [3 if token in special else 1 for token in vocab])
    writer.add_tokenizer_pre(pre)
    writer.add_token_merges([" ".join(merge) for merge in made["model"]["merges"]])
    writer.add_add_bos_token(False)
    close(writer)
    made["added_tokens"] = [t for t in made["added_tokens"] if t["content"] in made["model"]["vocab"]]
    reference = Tokenizer.from_str(json.dumps(made))
    write(name, [{"text": t.encode().hex(), "ids": reference.encode(t, add_special_tokens=False).ids} for t in text_tokens.texts()])


def main():
    OUT.mkdir(exist_ok=True)
    for name, settings in KINDS.items():
        model = train(name, **settings)
        (OUT / f"{name}.model").write_bytes(model)
        write(name, list(cases(model)))
    gguf_of_pieces("bpe_bytes", (OUT / "bpe_bytes.model").read_bytes())
    gguf_of_merges("smollm", "smollm", "smollm")
    gguf_of_merges("qwen2", "qwen", "qwen2")
    gguf_of_merges("llama3", "llama3", "llama-bpe")


if __name__ == "__main__":
    main()
