"""litellm with its openai provider: its own errors, its own accounting."""

import json

import litellm

from checks import *

litellm.telemetry = False
litellm.suppress_debug_info = True


def complete(base=OPEN, **more):
    return litellm.completion(**{"model": "openai/" + MODEL, "api_base": base, "api_key": "none", "messages": HELLO,
                                 "max_retries": 0, "timeout": 60, **SHORT, **more})


def chat():
    r = complete()
    assert r.choices[0].message.content and r.choices[0].finish_reason in ("stop", "length"), r


def stream():
    whole = complete()
    chunks = list(complete(stream=True))
    equal("".join(c.choices[0].delta.content or "" for c in chunks), whole.choices[0].message.content)
    equal(litellm.stream_chunk_builder(chunks).choices[0].message.content, whole.choices[0].message.content)


def tools():
    ask = dict(messages=WEATHER, tools=[WEATHER_TOOL], tool_choice="required", parallel_tool_calls=False, max_tokens=100)
    r = complete(**ask).choices[0]
    equal(r.finish_reason, "tool_calls")
    Weather.model_validate_json(r.message.tool_calls[0].function.arguments)
    built = litellm.stream_chunk_builder(list(complete(**ask, stream=True))).choices[0]
    equal(built.message.tool_calls[0].function.name, "get_weather")
    Weather.model_validate_json(built.message.tool_calls[0].function.arguments)
    call = r.message.tool_calls[0]
    history = WEATHER + [r.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "12 degrees"}]
    assert complete(messages=history, tools=[WEATHER_TOOL], tool_choice="none").choices[0].message.content


def structured():
    Mood.model_validate_json(complete(response_format=Mood, max_tokens=60).choices[0].message.content)
    r = complete(response_format={"type": "json_object"}, max_tokens=200).choices[0]
    if r.finish_reason == "stop":
        equal(type(json.loads(r.message.content)), dict)


def errors():
    e = raises(litellm.BadRequestError, lambda: complete(temperature=3), status_code=400)
    assert "temperature" in str(e), e
    equal(e.body["param"], "temperature")
    raises(litellm.NotFoundError, lambda: complete(model="openai/unknown"), status_code=404)
    raises(litellm.AuthenticationError, lambda: complete(KEYED, api_key="wrong"), status_code=401)
    assert complete(KEYED, api_key=KEY).choices[0].message.content


def retries():
    assert complete(TURNS, max_retries=2).choices[0].message.content
    raises(litellm.RateLimitError, lambda: complete(TURNS), status_code=429)


def cancellation():
    s = complete(ONE, stream=True, **ENDLESS)
    for _ in range(3):
        next(s)
    taken()
    s.completion_stream.close()
    freed()


def timeouts():
    raises(litellm.Timeout, lambda: complete(ONE, timeout=1, **ENDLESS))
    freed()


def usage():
    u = complete().usage
    counts(u.prompt_tokens, u.completion_tokens, u.total_tokens)
    last = list(complete(stream=True, stream_options={"include_usage": True}))[-1].usage
    equal((last.completion_tokens, last.total_tokens), (u.completion_tokens, u.total_tokens))


def embeddings():
    at = dict(model="openai/" + MODEL, api_base=EMBED, api_key="none", max_retries=0)
    r = litellm.embedding(input=TEXTS, **at)
    vectors([d["embedding"] for d in r.data])
    assert r.usage.prompt_tokens == r.usage.total_tokens > 15, r.usage
    same(litellm.embedding(input=TEXTS[:1], encoding_format="float", **at).data[0]["embedding"], r.data[0]["embedding"])
    raises(litellm.BadRequestError, lambda: litellm.embedding(input=["x"], dimensions=DIMENSIONS + 1, **at), status_code=400)


def completions():
    ask = dict(model="text-completion-openai/" + MODEL, api_base=OPEN, api_key="none", prompt="Once upon a time", max_retries=0, **SHORT)
    whole = litellm.text_completion(**ask)
    assert whole.choices[0].text, whole
    equal("".join(c.choices[0].text or "" for c in litellm.text_completion(**ask, stream=True)), whole.choices[0].text)


def responses():
    at = dict(api_base=OPEN, api_key="none", custom_llm_provider="openai")

    def ask(**more):
        return litellm.responses(**{"model": "openai/" + MODEL, "api_base": OPEN, "api_key": "none", "input": "Say hi", "max_retries": 0,
                                    "timeout": 60, **SHORT_RESPONSE, **more})

    def text(r):
        return "".join(c.text for o in r.output if o.type == "message" for c in o.content)

    r = ask()
    assert text(r), r
    used(r.usage)
    events = list(ask(stream=True))
    equal("".join(e.delta for e in events if e.type == "response.output_text.delta"), text(r))
    equal(text(events[-1].response), text(r))
    second = ask(previous_response_id=r.id)
    assert second.usage.input_tokens > r.usage.total_tokens, second.usage
    equal(text(litellm.get_responses(response_id=second.id, **at)), text(second))
    litellm.delete_responses(response_id=second.id, **at)
    raises(litellm.NotFoundError, lambda: litellm.get_responses(response_id=second.id, **at))

    tool = {"type": "function", **WEATHER_TOOL["function"]}
    called = ask(input=WEATHER, tools=[tool], tool_choice="required", parallel_tool_calls=False, max_output_tokens=100)
    Weather.model_validate_json(called.output[0].arguments)
    result = {"type": "function_call_output", "call_id": called.output[0].call_id, "output": "12 degrees"}
    assert text(ask(input=[result], tools=[tool], tool_choice="none", previous_response_id=called.id))
    Mood.model_validate_json(text(ask(text_format=Mood, max_output_tokens=60)))
    raises(litellm.BadRequestError, lambda: ask(temperature=3), status_code=400)


run(chat, stream, tools, structured, errors, retries, cancellation, timeouts, usage, embeddings, completions, responses)
