"""langchain-openai: ChatOpenAI with tools, structured output and usage_metadata."""

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

from checks import *


def model(base=OPEN, **more):
    return ChatOpenAI(**{"base_url": base, "api_key": "none", "model": MODEL, "max_retries": 0, "timeout": 60,
                         "temperature": 0, "max_tokens": 12, **more})


def endless(**more):
    bias = {int(k): v for k, v in ENDLESS["logit_bias"].items()}
    return model(ONE, max_tokens=ENDLESS["max_tokens"], logit_bias=bias, **more)


@tool
def get_weather(city: str, unit: Literal["C", "F"]) -> str:
    """The weather."""
    return f"12 {unit} in {city}"


def chat():
    r = model().invoke("Say hi")
    assert r.content and r.response_metadata["finish_reason"] in ("stop", "length"), r
    equal(r.response_metadata["model_name"], MODEL)


def stream():
    whole = model().invoke("Say hi")
    chunks = list(model().stream("Say hi"))
    assert len(chunks) > 2, chunks
    equal("".join(c.content for c in chunks), whole.content)


def tools():
    m = model(max_tokens=100)
    r = m.bind_tools([get_weather], tool_choice="any", strict=True, parallel_tool_calls=False).invoke("What is the weather in Oslo?")
    equal(([c["name"] for c in r.tool_calls], r.invalid_tool_calls), (["get_weather"], []))
    result = get_weather.invoke(r.tool_calls[0])
    equal(type(result), ToolMessage)
    assert m.invoke([HumanMessage("What is the weather in Oslo?"), r, result]).content

    whole = None
    for chunk in m.bind_tools([get_weather], tool_choice="get_weather", parallel_tool_calls=False).stream("What is the weather in Oslo?"):
        whole = chunk if whole is None else whole + chunk
    equal([c["name"] for c in whole.tool_calls], ["get_weather"])
    assert whole.tool_calls[0]["args"]["unit"] in ("C", "F"), whole


def structured():
    m = model(max_tokens=100)
    equal(type(m.with_structured_output(Mood, method="json_schema").invoke("How are you?")), Mood)
    equal(type(m.with_structured_output(Mood, method="json_schema", strict=True).invoke("How are you?")), Mood)
    equal(type(m.with_structured_output(Mood, method="function_calling").invoke("How are you?")), Mood)
    r = m.with_structured_output(Mood, method="json_schema", include_raw=True).invoke("How are you?")
    equal((type(r["parsed"]), r["parsing_error"]), (Mood, None))


def errors():
    e = raises(openai.BadRequestError, lambda: model(top_p=2).invoke("Say hi"), param="top_p", code="invalid_value")
    equal(e.body["param"], "top_p")
    raises(openai.NotFoundError, lambda: model(model="unknown").invoke("Say hi"), code="model_not_found")
    raises(openai.AuthenticationError, lambda: model(KEYED, api_key="wrong").invoke("Say hi"), code="invalid_api_key")
    assert model(KEYED, api_key=KEY).invoke("Say hi").content


def retries():
    assert model(TURNS, max_retries=2).invoke("Say hi").content
    raises(openai.RateLimitError, lambda: model(TURNS).invoke("Say hi"), code="overloaded")


def cancellation():
    s = endless().stream("Say hi")
    for _ in range(3):
        next(s)
    taken()
    s.close()
    freed()


def timeouts():
    raises(openai.APITimeoutError, lambda: endless(timeout=1).invoke("Say hi"))
    freed()


def usage():
    u = model().invoke("Say hi").usage_metadata
    counts(u["input_tokens"], u["output_tokens"], u["total_tokens"])
    whole = None
    for chunk in model(stream_usage=True).stream("Say hi"):
        whole = chunk if whole is None else whole + chunk
    equal((whole.usage_metadata["output_tokens"], whole.usage_metadata["total_tokens"]), (u["output_tokens"], u["total_tokens"]))


def embeddings():
    # Its own tokens are those of OpenAI's models.
    e = OpenAIEmbeddings(base_url=EMBED, api_key="none", model=MODEL, max_retries=0, check_embedding_ctx_length=False)
    all = e.embed_documents(TEXTS)
    vectors(all)
    same(e.embed_query(TEXTS[0]), all[0])
    raises(openai.NotFoundError, lambda: OpenAIEmbeddings(base_url=EMBED, api_key="none", model="unknown", max_retries=0,
                                                          check_embedding_ctx_length=False).embed_query("x"), code="model_not_found")


def completions():
    m = OpenAI(base_url=OPEN, api_key="none", model=MODEL, max_retries=0, temperature=0, max_tokens=12)
    whole = m.invoke("Once upon a time")
    assert whole
    equal("".join(m.stream("Once upon a time")), whole)


def responses():
    def m(base=OPEN, **more):
        return model(base, use_responses_api=True, **{"max_tokens": 16, **more})

    whole = m().invoke("Say hi")
    assert whole.text and whole.response_metadata["id"].startswith("resp_"), whole
    equal("".join(c.text for c in m().stream("Say hi")), whole.text)
    u = whole.usage_metadata
    equal(u["total_tokens"], u["input_tokens"] + u["output_tokens"])

    ask = HumanMessage("What is the weather in Oslo?")
    bound = m(max_tokens=100).bind_tools([get_weather], tool_choice="any", strict=True, parallel_tool_calls=False)
    r = bound.invoke([ask])
    equal(([c["name"] for c in r.tool_calls], r.invalid_tool_calls), (["get_weather"], []))
    streamed = None
    for chunk in bound.stream([ask]):
        streamed = chunk if streamed is None else streamed + chunk
    equal([(c["name"], c["args"]) for c in streamed.tool_calls], [(c["name"], c["args"]) for c in r.tool_calls])
    after = m().invoke([ask, r, get_weather.invoke(r.tool_calls[0])])
    kept = m(use_previous_response_id=True).invoke([ask, r, get_weather.invoke(r.tool_calls[0])])
    assert after.text
    equal(kept.text, after.text)
    equal(type(m(max_tokens=100).with_structured_output(Mood, method="json_schema", strict=True).invoke("How are you?")), Mood)
    raises(openai.BadRequestError, lambda: m(top_p=2).invoke("Say hi"), param="top_p")


run(chat, stream, tools, structured, errors, retries, cancellation, timeouts, usage, embeddings, completions, responses)
