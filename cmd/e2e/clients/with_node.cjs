// The openai package for Node: its parse and tool helpers, its streams, its errors.
"use strict";

const assert = require("node:assert/strict");
const openai = require("openai");
const { zodResponseFormat, zodFunction } = require("openai/helpers/zod");
const { LengthFinishReasonError } = require("openai/error");
const { z } = require("zod");
const { MODEL, ONE, TURNS, KEYED, EMBED, client, all, raises, inFlight, freed, run } = require("./checks.cjs");

const HELLO = [{ role: "user", content: "Say hi" }];
const SHORT = { model: MODEL, messages: HELLO, max_tokens: 12, temperature: 0 };
// An answer of a minute: the ends of a turn are kept out.
const ENDLESS = { ...SHORT, max_tokens: 3500, logit_bias: { 0: -100, 2: -100 } };
const create = (body, base, more) => client(base, more).chat.completions.create({ ...SHORT, ...body });

const Mood = z.object({ mood: z.enum(["calm", "angry"]), level: z.union([z.literal(1), z.literal(2)]) });
const Weather = z.object({ city: z.string().max(12), unit: z.enum(["C", "F"]) });

run({
  async chat() {
    assert.ok((await all(client().models.list())).some((m) => m.id === MODEL));
    assert.equal((await client().models.retrieve(MODEL)).id, MODEL);
    const r = await create({ n: 2 });
    assert.deepEqual(r.choices.map((c) => c.index), [0, 1]);
    assert.ok(r.choices[0].message.content);
  },

  async stream() {
    const whole = (await create({})).choices[0];
    const chunks = await all(await create({ stream: true }));
    assert.equal(chunks.map((c) => c.choices[0].delta.content ?? "").join(""), whole.message.content);
    assert.equal(chunks.at(-1).choices[0].finish_reason, whole.finish_reason);
  },

  async tools() {
    const tool = zodFunction({ name: "get_weather", parameters: Weather });
    const ask = { ...SHORT, tools: [tool], tool_choice: "required", parallel_tool_calls: false, max_tokens: 100, messages: [{ role: "user", content: "What is the weather in Oslo?" }] };
    const r = (await client().chat.completions.parse(ask)).choices[0];
    assert.equal(r.finish_reason, "tool_calls");
    const call = r.message.tool_calls[0];
    assert.equal(call.function.name, "get_weather");
    Weather.parse(call.function.parsed_arguments);

    const streamed = await client().chat.completions.stream({ ...ask, tool_choice: { type: "function", function: { name: "get_weather" } } }).finalMessage();
    assert.equal(streamed.tool_calls.length, 1);
    Weather.parse(streamed.tool_calls[0].function.parsed_arguments);

    const seen = [];
    const runner = client().chat.completions.runTools({
      ...ask,
      tool_choice: { type: "function", function: { name: "get_weather" } },
      tools: [zodFunction({ name: "get_weather", parameters: Weather, function: (a) => (seen.push(a), "12 degrees") })],
    });
    await runner.done();
    assert.equal(seen.length, 1);
    Weather.parse(seen[0]);

    const after = await create({ ...ask, tool_choice: "none", messages: [...ask.messages, { role: "assistant", tool_calls: [{ id: call.id, type: "function", function: { name: "get_weather", arguments: call.function.arguments } }] }, { role: "tool", tool_call_id: call.id, content: "12 degrees" }] });
    assert.ok(after.choices[0].message.content);
  },

  async structured() {
    const ask = { ...SHORT, max_tokens: 60, response_format: zodResponseFormat(Mood, "mood") };
    const r = (await client().chat.completions.parse(ask)).choices[0];
    assert.equal(r.finish_reason, "stop");
    Mood.parse(r.message.parsed);
    const streamed = await client().chat.completions.stream(ask).finalMessage();
    assert.deepEqual(streamed.parsed, r.message.parsed);
    await raises(LengthFinishReasonError, () => client().chat.completions.parse({ ...ask, max_tokens: 2 }));
  },

  async errors() {
    const e = await raises(openai.BadRequestError, () => create({ temperature: 3 }), { status: 400, param: "temperature", code: "invalid_value", type: "invalid_request_error" });
    assert.ok(e.requestID);
    await raises(openai.BadRequestError, () => create({ stream: true, top_p: 2 }), { param: "top_p" });
    await raises(openai.NotFoundError, () => create({ model: "unknown" }), { code: "model_not_found" });
    await raises(openai.AuthenticationError, () => create({}, KEYED, { apiKey: "wrong" }), { code: "invalid_api_key" });
    assert.ok((await create({}, KEYED, { apiKey: "secret" })).choices[0].message.content);
    await raises(openai.APIConnectionError, () => create({}, "http://127.0.0.1:9/v1"));
  },

  async retries() {
    assert.ok((await create({}, TURNS, { maxRetries: 2 })).choices[0].message.content);
    const e = await raises(openai.RateLimitError, () => create({}, TURNS), { status: 429, code: "overloaded" });
    assert.ok(Number(e.headers.get("retry-after")) > 0);
  },

  async cancellation() {
    let n = 0;
    for await (const _ of await create({ ...ENDLESS, stream: true }, ONE)) if (++n === 3) break; // leaving the loop aborts the request
    await freed();
    const abort = new AbortController();
    const pending = client(ONE).chat.completions.create({ ...ENDLESS, stream: true }, { signal: abort.signal });
    const stream = (await pending)[Symbol.asyncIterator]();
    await stream.next();
    assert.equal(await inFlight(), 1);
    abort.abort();
    await freed();
  },

  async timeouts() {
    await raises(openai.APIConnectionTimeoutError, () => create(ENDLESS, ONE, { timeout: 1000 }));
    await freed();
  },

  async usage() {
    const whole = (await create({})).usage;
    assert.ok(whole.prompt_tokens > 0 && whole.completion_tokens > 0 && whole.completion_tokens <= 12);
    assert.equal(whole.total_tokens, whole.prompt_tokens + whole.completion_tokens);
    const chunks = await all(await create({ stream: true, stream_options: { include_usage: true } }));
    assert.deepEqual(chunks.at(-1).choices, []);
    assert.equal(chunks.at(-1).usage.total_tokens, whole.total_tokens);
    assert.ok(chunks.slice(0, -1).every((c) => c.usage === null));
  },

  async embeddings() {
    const texts = ["a cat sits on the mat", "a kitten rests on a rug", "the price of copper fell"];
    const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
    const c = client(EMBED);
    const r = await c.embeddings.create({ model: MODEL, input: texts }); // asks for base64, and takes it apart
    const v = r.data.map((d) => d.embedding);
    assert.deepEqual(v.map((x) => x.length), [384, 384, 384]);
    assert.ok(dot(v[0], v[1]) > dot(v[0], v[2]) + 0.2);
    const [floats] = (await c.embeddings.create({ model: MODEL, input: texts[0], encoding_format: "float" })).data;
    assert.ok(floats.embedding.every((x, i) => Math.abs(x - v[0][i]) < 1e-6));
    await raises(openai.BadRequestError, () => c.embeddings.create({ model: MODEL, input: "x", dimensions: 385 }), { param: "dimensions" });
  },

  async completions() {
    const { messages, ...short } = SHORT;
    const ask = { ...short, prompt: "Once upon a time" };
    const whole = await client().completions.create(ask);
    assert.ok(whole.choices[0].text);
    const chunks = await all(await client().completions.create({ ...ask, stream: true }));
    assert.equal(chunks.map((c) => c.choices[0].text).join(""), whole.choices[0].text);
    await raises(openai.BadRequestError, () => client().completions.create({ ...ask, logprobs: 99 }), { param: "logprobs" });
  },
});
