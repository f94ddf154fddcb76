"""The openai package: its parse helpers, its streams, its errors."""

import json

import openai

from checks import *


def client(base=OPEN, **more):
    return openai.OpenAI(**{"base_url": base, "api_key": "none", "max_retries": 0, "timeout": 60, **more})


def chat():
    c = client()
    assert MODEL in [m.id for m in c.models.list()]
    equal(c.models.retrieve(MODEL).id, MODEL)
    r = c.chat.completions.create(model=MODEL, messages=HELLO, n=2, **SHORT)
    equal([x.index for x in r.choices], [0, 1])
    assert r.choices[0].message.content and r.choices[0].finish_reason in ("stop", "length"), r
    equal((r.object, r.model, r.choices[0].message.role), ("chat.completion", MODEL, "assistant"))


def stream():
    c = client()
    whole = c.chat.completions.create(model=MODEL, messages=HELLO, **SHORT).choices[0]
    chunks = list(c.chat.completions.create(model=MODEL, messages=HELLO, stream=True, **SHORT))
    equal("".join(x.choices[0].delta.content or "" for x in chunks), whole.message.content)
    equal([x.choices[0].finish_reason for x in chunks if x.choices[0].finish_reason], [whole.finish_reason])
    equal({x.id for x in chunks}, {chunks[0].id})


def tools():
    c = client()
    ask = dict(model=MODEL, messages=WEATHER, tools=[openai.pydantic_function_tool(Weather, name="get_weather")],
               parallel_tool_calls=False, max_tokens=100, temperature=0)
    r = c.chat.completions.parse(**ask, tool_choice="required").choices[0]
    equal(r.finish_reason, "tool_calls")
    call = r.message.tool_calls[0]
    equal((call.type, call.function.name, type(call.function.parsed_arguments)), ("function", "get_weather", Weather))

    named = {"type": "function", "function": {"name": "get_weather"}}
    with c.chat.completions.stream(**ask, tool_choice=named) as s:
        kinds = {e.type for e in s}
        done = s.get_final_completion().choices[0]
    assert {"tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= kinds, kinds
    equal(type(done.message.tool_calls[0].function.parsed_arguments), Weather)
    equal(len(done.message.tool_calls), 1)

    history = WEATHER + [{"role": "assistant", "tool_calls": [call.model_dump(exclude={"function": {"parsed_arguments"}})]},
                         {"role": "tool", "tool_call_id": call.id, "content": "12 degrees"}]
    r = c.chat.completions.create(**{**ask, "messages": history}, tool_choice="none").choices[0]
    assert r.message.content and not r.message.tool_calls, r


def structured():
    c = client()
    ask = dict(model=MODEL, messages=HELLO, response_format=Mood, max_tokens=60, temperature=0)
    r = c.chat.completions.parse(**ask).choices[0]
    equal((r.finish_reason, type(r.message.parsed)), ("stop", Mood))
    with c.chat.completions.stream(**ask) as s:
        s.until_done()
        equal(s.get_final_completion().choices[0].message.parsed, r.message.parsed)
    raises(openai.LengthFinishReasonError, lambda: c.chat.completions.parse(**{**ask, "max_tokens": 2}))
    r = c.chat.completions.create(**{**ask, "response_format": {"type": "json_object"}, "max_tokens": 200}).choices[0]
    if r.finish_reason == "stop":
        equal(type(json.loads(r.message.content)), dict)


def errors():
    c = client()
    create = c.chat.completions.create
    e = raises(openai.BadRequestError, lambda: create(model=MODEL, messages=HELLO, temperature=3),
               status_code=400, param="temperature", code="invalid_value", type="invalid_request_error")
    equal(sorted(e.body), ["code", "message", "param", "type"])
    assert e.request_id, "no request id"
    raises(openai.BadRequestError, lambda: create(model=MODEL, messages=[{"role": "nobody", "content": "x"}]), param="messages[0].role")
    raises(openai.BadRequestError, lambda: create(model=MODEL, messages=HELLO, stream=True, top_p=2), param="top_p")
    raises(openai.NotFoundError, lambda: create(model="unknown", messages=HELLO), code="model_not_found", param="model")
    raises(openai.NotFoundError, lambda: c.models.retrieve("unknown"), code="model_not_found")
    raises(openai.AuthenticationError, lambda: client(KEYED, api_key="wrong").models.list(), code="invalid_api_key")
    assert client(KEYED, api_key=KEY).chat.completions.create(model=MODEL, messages=HELLO, **SHORT).choices[0].message.content
    raises(openai.APIConnectionError, lambda: client("http://127.0.0.1:9/v1").models.list())


def retries():
    r = client(TURNS, max_retries=2).chat.completions.create(model=MODEL, messages=HELLO, **SHORT)
    assert r.choices[0].message.content
    e = raises(openai.RateLimitError, lambda: client(TURNS).chat.completions.create(model=MODEL, messages=HELLO, **SHORT),
               status_code=429, code="overloaded")
    assert int(e.response.headers["retry-after"]) > 0


def cancellation():
    s = client(ONE).chat.completions.create(model=MODEL, messages=HELLO, stream=True, **ENDLESS)
    for _ in range(3):
        next(s)
    taken()
    s.close()
    freed()


def timeouts():
    c = client(ONE).with_options(timeout=1)
    raises(openai.APITimeoutError, lambda: c.chat.completions.create(model=MODEL, messages=HELLO, **ENDLESS))
    freed()


def usage():
    c = client()
    whole = c.chat.completions.create(model=MODEL, messages=HELLO, **SHORT).usage
    counts(whole.prompt_tokens, whole.completion_tokens, whole.total_tokens)
    assert whole.prompt_tokens_details.cached_tokens >= 0
    chunks = list(c.chat.completions.create(model=MODEL, messages=HELLO, stream=True, stream_options={"include_usage": True}, **SHORT))
    equal([x.usage for x in chunks[:-1]], [None] * (len(chunks) - 1))
    last = chunks[-1]
    equal((last.choices, last.usage.completion_tokens, last.usage.total_tokens), ([], whole.completion_tokens, whole.total_tokens))


def embeddings():
    c = client(EMBED)
    r = c.embeddings.create(model=MODEL, input=TEXTS)  # asks for base64, and takes it apart
    vectors([d.embedding for d in r.data])
    equal(([d.index for d in r.data], r.model, r.object), ([0, 1, 2], MODEL, "list"))
    assert r.usage.prompt_tokens == r.usage.total_tokens > 15, r.usage
    floats = c.embeddings.create(model=MODEL, input=TEXTS[0], encoding_format="float").data[0].embedding
    same(floats, r.data[0].embedding)
    equal(len(c.embeddings.create(model=MODEL, input="x", dimensions=64).data[0].embedding), 64)
    raises(openai.BadRequestError, lambda: c.embeddings.create(model=MODEL, input="x", dimensions=DIMENSIONS + 1), param="dimensions")
    raises(openai.BadRequestError, lambda: c.embeddings.create(model=MODEL, input=[]), param="input")
    raises(openai.BadRequestError, lambda: c.chat.completions.create(model=MODEL, messages=HELLO))


def completions():
    c = client()
    ask = dict(model=MODEL, prompt="Once upon a time", **SHORT)
    r = c.completions.create(**ask, logprobs=2, echo=True)
    whole = r.choices[0]
    assert whole.text.startswith(ask["prompt"]) and len(whole.text) > len(ask["prompt"]), whole
    equal("".join(whole.logprobs.tokens), whole.text)
    counts(r.usage.prompt_tokens, r.usage.completion_tokens, r.usage.total_tokens)
    chunks = list(c.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    equal(ask["prompt"] + "".join(x.choices[0].text for x in chunks if x.choices), whole.text)
    equal(chunks[-1].usage.total_tokens, r.usage.total_tokens)
    two = c.completions.create(**{**ask, "prompt": [ask["prompt"], "One, two,"]}).choices
    equal([x.index for x in two], [0, 1])
    equal(ask["prompt"] + two[0].text, whole.text)
    raises(openai.BadRequestError, lambda: c.completions.create(**ask, logprobs=99), param="logprobs")


run(chat, stream, tools, structured, errors, retries, cancellation, timeouts, usage, embeddings, completions)
