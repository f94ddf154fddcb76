"""The anthropic package, for which the same model answers at /v1/messages."""

import anthropic

from checks import *

WEATHER_TOOL = {"name": "get_weather", "description": "The weather.", "strict": True, "input_schema": WEATHER_TOOL["function"]["parameters"]}
# It has no parameter for the temperature any more.
GREEDY = {"temperature": 0}
SHORT = {"max_tokens": 12, "extra_body": GREEDY}
# It has none for a bias either: a schema keeps the end of the turn out for a minute.
LIST = {"type": "object", "additionalProperties": False, "required": ["all"],
        "properties": {"all": {"type": "array", "items": {"type": "string", "enum": ["river of stones"]}, "minItems": 600}}}
ENDLESS = {"max_tokens": 3500, "output_config": {"format": {"type": "json_schema", "schema": LIST}}}


def client(base=OPEN, **more):
    return anthropic.Anthropic(**{"base_url": base.removesuffix("/v1"), "api_key": "none", "max_retries": 0, "timeout": 60, **more})


def create(base=OPEN, client_settings={}, **more):
    return client(base, **client_settings).messages.create(**{"model": MODEL, "messages": HELLO, **SHORT, **more})


def text(message):
    return "".join(b.text for b in message.content if b.type == "text")


def chat():
    r = create(system="You are brief.")
    assert text(r) and r.stop_reason in ("end_turn", "max_tokens"), r
    equal((r.type, r.role, r.model), ("message", "assistant", MODEL))
    word = text(create()).split()[0]
    r = create(stop_sequences=[word])
    equal((r.stop_reason, r.stop_sequence), ("stop_sequence", word))


def stream():
    whole = create()
    events = list(create(stream=True))
    equal([e.type for e in events[:2] + events[-3:]], ["message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"])
    with client().messages.stream(model=MODEL, messages=HELLO, **SHORT) as s:
        equal("".join(s.text_stream), text(whole))
        equal(s.get_final_message().stop_reason, whole.stop_reason)


def tools():
    ask = dict(messages=WEATHER, tools=[WEATHER_TOOL], max_tokens=100, extra_body=GREEDY)
    r = create(**ask, tool_choice={"type": "any", "disable_parallel_tool_use": True})
    equal(r.stop_reason, "tool_use")
    [call] = [b for b in r.content if b.type == "tool_use"]
    equal(call.name, "get_weather")
    Weather.model_validate(call.input)
    with client().messages.stream(model=MODEL, **ask, tool_choice={"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}) as s:
        [streamed] = [b for b in s.get_final_message().content if b.type == "tool_use"]
    Weather.model_validate(streamed.input)
    history = WEATHER + [{"role": "assistant", "content": [call.model_dump(include={"type", "id", "name", "input"})]},
                         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "12 degrees"}]}]
    assert text(create(messages=history, tools=[WEATHER_TOOL], tool_choice={"type": "none"}))


def structured():
    r = client().messages.parse(model=MODEL, messages=HELLO, output_format=Mood, max_tokens=60, extra_body=GREEDY)
    equal(type(r.parsed_output), Mood)
    with client().messages.stream(model=MODEL, messages=HELLO, output_format=Mood, max_tokens=60, extra_body=GREEDY) as s:
        equal(s.get_final_message().parsed_output, r.parsed_output)


def errors():
    e = raises(anthropic.BadRequestError, lambda: create(max_tokens=0), status_code=400)
    equal((e.body["type"], e.body["error"]["type"]), ("error", "invalid_request_error"))
    assert "max_tokens" in e.body["error"]["message"] and e.request_id, e.body
    raises(anthropic.BadRequestError, lambda: create(stream=True, extra_body={"top_p": 2}), status_code=400)
    e = raises(anthropic.NotFoundError, lambda: create(model="unknown"), status_code=404)
    equal(e.body["error"]["type"], "not_found_error")
    e = raises(anthropic.AuthenticationError, lambda: create(KEYED, {"api_key": "wrong"}), status_code=401)
    equal(e.body["error"]["type"], "authentication_error")
    assert text(create(KEYED, {"api_key": KEY}))
    assert text(create(KEYED, {"api_key": None, "auth_token": KEY}))


def retries():
    assert text(create(TURNS, {"max_retries": 2}))
    e = raises(anthropic.OverloadedError, lambda: create(TURNS), status_code=529)
    equal(e.body["error"]["type"], "overloaded_error")
    assert int(e.response.headers["retry-after"]) > 0


def cancellation():
    with client(ONE).messages.stream(model=MODEL, messages=HELLO, **ENDLESS) as s:
        pieces = iter(s.text_stream)
        for _ in range(3):
            next(pieces)
        taken()
    freed()


def timeouts():
    raises(anthropic.APITimeoutError, lambda: client(ONE, timeout=1).messages.create(model=MODEL, messages=HELLO, **ENDLESS))
    freed()


def usage():
    u = create().usage
    before = u.input_tokens + u.cache_read_input_tokens + u.cache_creation_input_tokens
    counts(before, u.output_tokens, before + u.output_tokens)
    equal(client().messages.count_tokens(model=MODEL, messages=HELLO).input_tokens, before)
    with client().messages.stream(model=MODEL, messages=HELLO, **SHORT) as s:
        equal(s.get_final_message().usage.output_tokens, u.output_tokens)


run(chat, stream, tools, structured, errors, retries, cancellation, timeouts, usage)
