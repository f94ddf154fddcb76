"""llm with its OpenAI plugin, told of the server by extra-openai-models.yaml."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

# Read when llm is imported.
home = tempfile.TemporaryDirectory()
os.environ["LLM_USER_PATH"] = home.name

import yaml
import openai

from checks import *

os.environ["OPENAI_BASE_URL"] = EMBED  # of its embedding models
servers = {"open": OPEN, "one": ONE, "turns": TURNS, "keyless": KEYED, "keyed": KEYED, "unknown": OPEN, "plain": OPEN, "kept": OPEN}
Path(home.name, "extra-openai-models.yaml").write_text(yaml.safe_dump([
    {"model_id": name, "model_name": name if name == "unknown" else MODEL, "api_base": base, "supports_tools": True, "supports_schema": True,
     **{"keyed": {"api_key_name": "thoth"}, "plain": {"completion": True}, "kept": {"responses": True}}.get(name, {})}
    for name, base in servers.items()]))
Path(home.name, "keys.json").write_text(json.dumps({"thoth": KEY}))

import llm

# It has no tool_choice, so the model is shown what to write.
PARROT = ('Repeat this line:\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>\n' * 6)


def ask(name="open", text="Say hi", stream=False, **more):
    return llm.get_model(name).prompt(text, stream=stream, **{**SHORT, **more})


def command(name, *args, **more):
    return subprocess.Popen([sys.executable, "-m", "llm", "-m", name, *args, "Say hi"], **more)


def options(**more):
    return [w for k, v in more.items() for w in ("-o", k, json.dumps(v))]


def get_weather(city: str) -> str:
    """The weather."""
    return "12 degrees in " + city


def chat():
    assert ask().text()
    with command("open", "--no-stream", *options(**SHORT), stdout=subprocess.PIPE, text=True) as p:
        said, _ = p.communicate(timeout=60)
    equal((p.returncode, said.strip()), (0, ask().text().strip()))


def stream():
    pieces = list(ask(stream=True))
    assert len(pieces) > 2, pieces
    equal("".join(pieces), ask().text())


def call_and_answer(name):
    """A call, its result and an answer, whole and streamed."""
    for stream in (False, True):
        chain = llm.get_model(name).chain(PARROT, tools=[get_weather], stream=stream, options={"max_tokens": 60, "temperature": 0})
        first = next(iter(chain.responses()))
        calls = first.tool_calls()
        assert calls, first.text()
        equal([(c.name, c.arguments) for c in calls], [("get_weather", {"city": "Oslo"})] * len(calls))
        results = first.execute_tool_calls()
        equal(results[0].output, "12 degrees in Oslo")
        after = llm.get_model(name).conversation()
        after.responses.append(first)
        assert after.prompt("Say hi", tool_results=results, tools=[get_weather], stream=stream, **SHORT).text()


def tools():
    call_and_answer("open")


def structured():
    Mood.model_validate_json(ask(schema=Mood, max_tokens=60).text())
    Mood.model_validate_json("".join(ask(schema=Mood, max_tokens=60, stream=True)))


def errors():
    raises(openai.BadRequestError, lambda: ask(top_p=0.5, logit_bias={"9999999": 1}).text(), code="invalid_value", param="logit_bias")
    raises(openai.NotFoundError, lambda: ask("unknown").text(), code="model_not_found")
    raises(openai.AuthenticationError, lambda: ask("keyless").text(), code="invalid_api_key")
    assert ask("keyed").text()


def retries():
    assert ask("turns").text()


def cancellation():
    # As its users do: the command is interrupted.
    with command("one", *options(**ENDLESS), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
        assert p.stdout.read(20)
        taken()
        p.send_signal(signal.SIGINT)
        freed()


def usage():
    u = ask()
    u.text()
    u = u.usage()
    counts(u.input, u.output, u.input + u.output)
    s = ask(stream=True)
    s.text()
    equal((s.usage().input, s.usage().output), (u.input, u.output))


def embeddings():
    m = llm.get_embedding_model("3-small")
    m.key = "none"
    all = list(m.embed_multi(TEXTS))
    vectors(all)
    same(m.embed(TEXTS[0]), all[0])


def completions():
    whole = ask("plain", "Once upon a time").text()
    assert whole
    equal("".join(ask("plain", "Once upon a time", stream=True)), whole)


def responses():
    whole = ask("kept").text()
    assert whole
    equal("".join(ask("kept", stream=True)), whole)
    Mood.model_validate_json(ask("kept", schema=Mood, max_tokens=60).text())
    call_and_answer("kept")


run(chat, stream, tools, structured, errors, retries, cancellation, usage, embeddings, completions, responses)
