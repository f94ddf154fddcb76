"""The openai package and its responses: parse helpers, streams, turns that the server keeps."""

import openai

from checks import *

ASK = dict(model=MODEL, input="Say hi", instructions="Be short.", **SHORT_RESPONSE)


def client(base=OPEN, **more):
    return openai.OpenAI(**{"base_url": base, "api_key": "none", "max_retries": 0, "timeout": 60, **more})


def chat():
    r = client().responses.create(**ASK)
    assert r.id.startswith("resp_") and r.output_text and r.status in ("completed", "incomplete"), r
    equal((r.object, r.model, r.instructions, r.error), ("response", MODEL, "Be short.", None))
    equal([(o.type, o.role) for o in r.output], [("message", "assistant")])
    logged = client().responses.create(**ASK, include=["message.output_text.logprobs"], top_logprobs=2)
    said = logged.output[0].content[0].logprobs
    equal(("".join(t.token for t in said), {len(t.top_logprobs) for t in said}), (logged.output_text, {2}))
    assert client().responses.create(**{**ASK, "input": HELLO}).output_text == r.output_text


def stream():
    c = client()
    whole = c.responses.create(**ASK)
    events = list(c.responses.create(**ASK, stream=True))
    equal([e.sequence_number for e in events], list(range(len(events))))
    equal("".join(e.delta for e in events if e.type == "response.output_text.delta"), whole.output_text)
    equal([e.type for e in events if not e.type.endswith(".delta")], [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
        "response.output_text.done", "response.content_part.done", "response.output_item.done", f"response.{whole.status}"])
    equal(events[-1].response.output_text, whole.output_text)
    # Its helper takes none but a completed response.
    ask = dict(model=MODEL, input="Say hi", max_output_tokens=60, temperature=0)
    with c.responses.stream(**ask) as s:
        kinds = {e.type for e in s}
        done = s.get_final_response()
    assert "response.output_text.delta" in kinds, kinds
    equal((done.status, done.output_text), ("completed", c.responses.create(**ask).output_text))


def tools():
    c = client()
    tool = {"type": "function", **WEATHER_TOOL["function"]}
    ask = dict(model=MODEL, input=WEATHER, tools=[tool], parallel_tool_calls=False, max_output_tokens=100, temperature=0)
    r = c.responses.parse(**{**ask, "tools": [openai.pydantic_function_tool(Weather, name="get_weather")]}, tool_choice="required")
    call = r.output[0]
    equal((r.status, len(r.output), call.type, call.name, type(call.parsed_arguments)), ("completed", 1, "function_call", "get_weather", Weather))

    with c.responses.stream(**ask, tool_choice={"type": "function", "name": "get_weather"}) as s:
        kinds = {e.type for e in s}
        streamed = s.get_final_response().output
    assert {"response.function_call_arguments.delta", "response.function_call_arguments.done"} <= kinds, kinds
    equal(len(streamed), 1)
    Weather.model_validate_json(streamed[0].arguments)

    result = {"type": "function_call_output", "call_id": call.call_id, "output": "12 degrees"}
    sent = [{"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments}]
    replayed = c.responses.create(**{**ask, "input": WEATHER + sent + [result]}, tool_choice="none")
    kept = c.responses.create(**{**ask, "input": [result]}, tool_choice="none", previous_response_id=r.id)
    assert kept.output_text, kept
    equal(kept.output_text, replayed.output_text)


def structured():
    c = client()
    ask = dict(model=MODEL, input="Say hi", text_format=Mood, max_output_tokens=60, temperature=0)
    r = c.responses.parse(**ask)
    equal((r.status, type(r.output_parsed)), ("completed", Mood))
    with c.responses.stream(**ask) as s:
        s.until_done()
        equal(s.get_final_response().output_parsed, r.output_parsed)
    schema = {"type": "json_schema", "name": "mood", "schema": Mood.model_json_schema(), "strict": True}
    text = c.responses.create(model=MODEL, input="Say hi", text={"format": schema}, max_output_tokens=60, temperature=0).output_text
    equal(Mood.model_validate_json(text), r.output_parsed)


def errors():
    c = client()
    e = raises(openai.BadRequestError, lambda: c.responses.create(**{**ASK, "temperature": 3}), param="temperature", code="invalid_value", status_code=400)
    assert e.request_id, "no request id"
    raises(openai.BadRequestError, lambda: c.responses.create(**{**ASK, "input": [{"role": "nobody", "content": "x"}]}), param="input[0].role")
    raises(openai.BadRequestError, lambda: c.responses.create(**ASK, stream=True, top_p=2), param="top_p")
    raises(openai.BadRequestError, lambda: c.responses.create(**ASK, tools=[{"type": "web_search"}]), param="tools[0].type")
    raises(openai.NotFoundError, lambda: c.responses.create(**{**ASK, "model": "unknown"}), code="model_not_found")
    raises(openai.AuthenticationError, lambda: client(KEYED, api_key="wrong").responses.create(**ASK), code="invalid_api_key")
    assert client(KEYED, api_key=KEY).responses.create(**ASK).output_text
    raises(openai.NotFoundError, lambda: c.responses.retrieve("resp_unknown"))
    raises(openai.BadRequestError, lambda: c.responses.create(**ASK, previous_response_id="resp_unknown"), param="previous_response_id", code="previous_response_not_found")


def retries():
    assert client(TURNS, max_retries=2).responses.create(**ASK).output_text
    raises(openai.RateLimitError, lambda: client(TURNS).responses.create(**ASK), status_code=429, code="overloaded")


def cancellation():
    c = client(ONE)
    s = c.responses.create(model=MODEL, input="Say hi", stream=True, extra_body=ENDLESS_BIAS, **ENDLESS_RESPONSE)
    for e in s:
        if e.type == "response.output_text.delta":
            break
    taken()
    s.close()
    freed()


def timeouts():
    c = client(ONE).with_options(timeout=1)
    raises(openai.APITimeoutError, lambda: c.responses.create(model=MODEL, input="Say hi", extra_body=ENDLESS_BIAS, **ENDLESS_RESPONSE))
    freed()


def usage():
    c = client()
    r = c.responses.create(**ASK)
    used(r.usage)
    assert r.usage.input_tokens_details.cached_tokens >= 0 and r.usage.output_tokens_details.reasoning_tokens == 0, r.usage
    equal(c.responses.input_tokens.count(**{k: ASK[k] for k in ("model", "input", "instructions")}).input_tokens, r.usage.input_tokens)
    last = list(c.responses.create(**ASK, stream=True))[-1]
    equal(last.response.usage.total_tokens, r.usage.total_tokens)


def turns():
    c = client()
    first = c.responses.create(**{**ASK, "instructions": None, "input": "My name is Ann."})
    second = c.responses.create(**{**ASK, "instructions": None}, previous_response_id=first.id)
    equal(second.previous_response_id, first.id)
    assert second.usage.input_tokens > first.usage.total_tokens, (first.usage, second.usage)
    equal(c.responses.retrieve(second.id).output_text, second.output_text)
    equal([i.type for i in c.responses.input_items.list(second.id)], ["message"])
    c.responses.delete(first.id)
    raises(openai.NotFoundError, lambda: c.responses.retrieve(first.id))
    raises(openai.BadRequestError, lambda: c.responses.create(**ASK, previous_response_id=second.id), code="previous_response_not_found")
    unkept = c.responses.create(**ASK, store=False)
    raises(openai.NotFoundError, lambda: c.responses.retrieve(unkept.id))


def background():
    c = client()
    r = c.responses.create(**ASK, background=True)
    end = time.monotonic() + 60
    while r.status in ("queued", "in_progress") and time.monotonic() < end:
        time.sleep(0.05)
        r = c.responses.retrieve(r.id)
    equal(r.output_text, c.responses.create(**ASK).output_text)

    # A client that goes, and comes again for the rest.
    one = client(ONE)
    s = one.responses.create(model=MODEL, input="Say hi", background=True, stream=True, extra_body=ENDLESS_BIAS, **ENDLESS_RESPONSE)
    for e in s:
        id = e.response.id if e.type == "response.created" else id
        if e.type == "response.output_text.delta":
            break
    s.close()
    taken()
    rest = one.responses.retrieve(id, stream=True, starting_after=e.sequence_number)
    equal(next(rest).sequence_number, e.sequence_number + 1)
    equal(one.responses.cancel(id).status, "cancelled")
    for _ in rest:
        pass
    freed()
    equal(one.responses.retrieve(id).status, "cancelled")


run(chat, stream, tools, structured, errors, retries, cancellation, timeouts, usage, turns, background)
