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


run(chat, stream, tools, structured, errors, retries, cancellation, timeouts, usage)
