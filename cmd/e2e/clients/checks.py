"""What the checks of all Python clients share: where the servers are, what is
asked of them, and the report, one line of JSON for each check on stdout.

A check is a function with the name of a feature. It raises when the client does
not see what it should. The test that runs a script knows which features there
must be, so none is left out silently.
"""

import json
import os
import sys
import time
import traceback
import urllib.request

from pydantic import BaseModel, ConfigDict, Field
from typing import Literal

MODEL = "test-model"
KEY = "secret"

# OPEN takes what comes, ONE has one place and no line, TURNS is ONE whose place is
# taken whenever a new request comes and free when it comes again, KEYED asks for KEY,
# EMBED has a model for vectors.
OPEN, ONE, TURNS, KEYED, EMBED = (os.environ[f"THOTH_CLIENTS_{n}"] for n in ("OPEN", "ONE", "TURNS", "KEYED", "EMBED"))

HELLO = [{"role": "user", "content": "Say hi"}]
WEATHER = [{"role": "user", "content": "What is the weather in Oslo?"}]
SHORT = {"max_tokens": 12, "temperature": 0}
# An answer of a minute: the ends of a turn are kept out.
ENDLESS = {"max_tokens": 3500, "temperature": 0, "logit_bias": {"0": -100, "2": -100}}
# The same of a response.
SHORT_RESPONSE = {"max_output_tokens": 16, "temperature": 0}
ENDLESS_RESPONSE = {"max_output_tokens": 3500, "temperature": 0}
ENDLESS_BIAS = {"logit_bias": ENDLESS["logit_bias"]}  # beyond the reference
# The first two are alike, and the vectors of all have so many numbers.
TEXTS = ["a cat sits on the mat", "a kitten rests on a rug", "the price of copper fell"]
DIMENSIONS = 384
# What a client that gives up early must have done within; ENDLESS takes far longer.
SOON = 8


class Mood(BaseModel):
    """A schema whose every instance is short."""

    model_config = ConfigDict(extra="forbid")
    mood: Literal["calm", "angry"]
    level: Literal[1, 2, 3]


class Weather(BaseModel):
    """The arguments of get_weather."""

    model_config = ConfigDict(extra="forbid")
    city: str = Field(max_length=12)
    unit: Literal["C", "F"]


WEATHER_TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": "The weather.", "strict": True, "parameters": {
        "type": "object", "additionalProperties": False, "required": ["city", "unit"],
        "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"type": "string", "enum": ["C", "F"]}}}},
}


def equal(saw, want):
    assert saw == want, f"saw {saw!r}, want {want!r}"


def raises(kind, call, **attributes):
    """The call fails with this kind of error, which has these attributes."""
    try:
        saw = call()
    except Exception as e:
        assert isinstance(e, kind), f"saw {type(e).__module__}.{type(e).__qualname__}: {e}, want {kind.__qualname__}"
        for name, want in attributes.items():
            equal((name, getattr(e, name, "no such attribute")), (name, want))
        return e
    raise AssertionError(f"saw no error but {saw!r}, want {kind.__qualname__}")


def in_flight():
    with urllib.request.urlopen(ONE.removesuffix("/v1") + "/stats", timeout=SOON) as r:
        return json.load(r)["host"]["in_flight"]


def taken():
    """The one place is taken."""
    equal(in_flight(), 1)


def freed():
    """The one place is given back long before the answer could have ended."""
    end = time.monotonic() + SOON
    while in_flight():
        assert time.monotonic() < end, f"the server still works {SOON} s after the client has left"
        time.sleep(0.02)


def counts(prompt, completion, total):
    """Usage that adds up."""
    assert prompt > 0 and 0 < completion <= SHORT["max_tokens"], f"saw {prompt} and {completion} tokens"
    equal(total, prompt + completion)


def used(usage, most=SHORT_RESPONSE["max_output_tokens"]):
    """Usage of a response that adds up."""
    assert usage.input_tokens > 0 and 0 < usage.output_tokens <= most, f"saw {usage}"
    equal(usage.total_tokens, usage.input_tokens + usage.output_tokens)


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def vectors(all):
    """The vectors of TEXTS."""
    equal([len(v) for v in all], [DIMENSIONS] * len(TEXTS))
    for v in all:
        assert abs(dot(v, v) - 1) < 1e-4, f"a vector of length {dot(v, v) ** 0.5}"
    assert dot(all[0], all[1]) > dot(all[0], all[2]) + 0.2, f"alike: {dot(all[0], all[1])}, not: {dot(all[0], all[2])}"


def same(a, b):
    """Two vectors of one text: exact but for how they are written."""
    assert max(abs(x - y) for x, y in zip(a, b, strict=True)) < 1e-6


def run(*checks):
    for check in checks:
        begin = time.monotonic()
        line = {"feature": check.__name__, "saw": ""}
        try:
            check()
        except Exception:
            line["saw"] = traceback.format_exc()
        line["seconds"] = round(time.monotonic() - begin, 3)
        print(json.dumps(line), flush=True)
    sys.stdout.flush()
    os._exit(0)  # threads of a client may hold on to what it gave up
