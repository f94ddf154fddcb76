"""The Agents SDK: a run that calls a function tool. It speaks chat completions, or with
the argument responses those, which are its default."""

import asyncio

import openai
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled

from checks import *

set_tracing_disabled(True)
RESPONSES = sys.argv[1:] == ["responses"]
Model = OpenAIResponsesModel if RESPONSES else OpenAIChatCompletionsModel
SHORTEST = 60 if RESPONSES else SHORT["max_tokens"]  # it takes no response that is cut off
called = []


@function_tool
def get_weather(city: str, unit: Literal["C", "F"]) -> str:
    """The weather."""
    called.append((city, unit))
    return "12 degrees"


def agent(base=OPEN, model=MODEL, client={}, settings={}, **more):
    made = openai.AsyncOpenAI(**{"base_url": base, "api_key": "none", "max_retries": 0, "timeout": 60, **client})
    return Agent(name="A", model=Model(model=model, openai_client=made),
                 model_settings=ModelSettings(**{"temperature": 0, "max_tokens": SHORTEST, **settings}), **more)


def ask(text="Say hi", **more):
    return asyncio.run(Runner.run(agent(**more), text))


def endless(**more):
    return {"base": ONE, "settings": {"max_tokens": ENDLESS["max_tokens"], "extra_body": {"logit_bias": ENDLESS["logit_bias"]}}, **more}


async def follow(a, text):
    r = Runner.run_streamed(a, text)
    deltas = [e.data.delta async for e in r.stream_events() if e.type == "raw_response_event" and e.data.type == "response.output_text.delta"]
    return r, "".join(deltas)


def chat():
    assert ask().final_output


def stream():
    r, text = asyncio.run(follow(agent(), "Say hi"))
    assert text, "no text came"
    equal(text, r.final_output)
    equal(text, ask().final_output)


def tools():
    required = {"tool_choice": "required", "max_tokens": 100, "parallel_tool_calls": False}
    r = ask("What is the weather in Oslo?", tools=[get_weather], settings=required)
    equal(len(called), 1)
    assert called[0][1] in ("C", "F"), called
    kinds = [i.type for i in r.new_items]
    equal(kinds[:2], ["tool_call_item", "tool_call_output_item"])
    assert r.final_output, "no answer after the result"
    r, _ = asyncio.run(follow(agent(tools=[get_weather], settings=required, tool_use_behavior="stop_on_first_tool"), "What is the weather in Oslo?"))
    equal((len(called), r.final_output), (2, "12 degrees"))


def structured():
    equal(type(ask(output_type=Mood, settings={"max_tokens": 60}).final_output), Mood)
    r, text = asyncio.run(follow(agent(output_type=Mood, settings={"max_tokens": 60}), "Say hi"))
    equal(Mood.model_validate_json(text), r.final_output)


def errors():
    raises(openai.BadRequestError, lambda: ask(settings={"temperature": 3}), param="temperature", code="invalid_value")
    raises(openai.NotFoundError, lambda: ask(model="unknown"), code="model_not_found")
    raises(openai.AuthenticationError, lambda: ask(base=KEYED, client={"api_key": "wrong"}), code="invalid_api_key")
    assert ask(base=KEYED, client={"api_key": KEY}).final_output


def retries():
    assert ask(base=TURNS, client={"max_retries": 2}).final_output
    raises(openai.RateLimitError, lambda: ask(base=TURNS), code="overloaded")


def cancellation():
    async def leave():
        r = Runner.run_streamed(agent(**endless()), "Say hi")
        seen = 0
        async for e in r.stream_events():
            seen += e.type == "raw_response_event" and e.data.type == "response.output_text.delta"
            if seen == 3:
                taken()
                r.cancel()
        await asyncio.to_thread(freed)

    asyncio.run(leave())


def timeouts():
    raises(openai.APITimeoutError, lambda: ask(**endless(client={"timeout": 1})))
    freed()


def usage():
    u = ask().context_wrapper.usage
    assert u.input_tokens > 0 and 0 < u.output_tokens <= SHORTEST, u
    equal(u.total_tokens, u.input_tokens + u.output_tokens)
    equal(u.requests, 1)
    r, _ = asyncio.run(follow(agent(settings={"include_usage": True}), "Say hi"))
    equal(r.context_wrapper.usage.total_tokens, u.total_tokens)


def turns():
    async def talk():
        first = await Runner.run(agent(), "Say hi")
        second = await Runner.run(agent(), "Say hi", previous_response_id=first.last_response_id)
        r = Runner.run_streamed(agent(), "Say hi", previous_response_id=first.last_response_id)
        async for _ in r.stream_events():
            pass
        equal(r.final_output, second.final_output)
        assert second.context_wrapper.usage.input_tokens > first.context_wrapper.usage.total_tokens, "the first turn is not there"
        # A run of two turns whose second sends the call's result alone.
        settings = {"tool_choice": "required", "max_tokens": 100, "parallel_tool_calls": False}
        r = await Runner.run(agent(tools=[get_weather], settings=settings), "What is the weather in Oslo?", auto_previous_response_id=True)
        assert r.final_output and len(r.raw_responses) == 2, r

    asyncio.run(talk())


run(chat, stream, tools, structured, errors, retries, cancellation, timeouts, usage, *[turns] * RESPONSES)
