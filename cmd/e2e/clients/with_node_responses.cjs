// The openai package for Node and its responses: parse helpers, streams, turns that the server keeps.
"use strict";

const assert = require("node:assert/strict");
const openai = require("openai");
const { zodTextFormat, zodResponsesFunction } = require("openai/helpers/zod");
const { z } = require("zod");
const { MODEL, ONE, TURNS, KEYED, client, all, raises, freed, taken, run } = require("./checks.cjs");

const SHORT = { model: MODEL, input: "Say hi", max_output_tokens: 16, temperature: 0 };
// An answer of a minute: the ends of a turn are kept out, by a parameter beyond the reference.
const ENDLESS = { ...SHORT, max_output_tokens: 3500, logit_bias: { 0: -100, 2: -100 } };
const create = (body, base, more, options) => client(base, more).responses.create({ ...SHORT, ...body }, options);

const Mood = z.object({ mood: z.enum(["calm", "angry"]), level: z.union([z.literal(1), z.literal(2)]) });
const Weather = z.object({ city: z.string().max(12), unit: z.enum(["C", "F"]) });

run({
  async chat() {
    const r = await create({ instructions: "Be short." });
    assert.ok(r.id.startsWith("resp_") && r.output_text);
    assert.deepEqual([r.object, r.model, r.instructions, r.output.map((o) => o.type)], ["response", MODEL, "Be short.", ["message"]]);
  },

  async stream() {
    const whole = await create({});
    const events = await all(await create({ stream: true }));
    assert.equal(events.filter((e) => e.type === "response.output_text.delta").map((e) => e.delta).join(""), whole.output_text);
    assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, i) => i));
    assert.equal(events.at(-1).type, "response." + whole.status);
    const ask = { ...SHORT, max_output_tokens: 60 };
    assert.equal((await client().responses.stream(ask).finalResponse()).output_text, (await create(ask)).output_text);
  },

  async tools() {
    const tool = zodResponsesFunction({ name: "get_weather", parameters: Weather });
    const ask = { ...SHORT, tools: [tool], tool_choice: "required", parallel_tool_calls: false, max_output_tokens: 100, input: [{ role: "user", content: "What is the weather in Oslo?" }] };
    const r = await client().responses.parse(ask);
    const [call] = r.output;
    assert.deepEqual([r.output.length, call.type, call.name], [1, "function_call", "get_weather"]);
    Weather.parse(call.parsed_arguments);
    const streamed = await client().responses.stream({ ...ask, tool_choice: { type: "function", name: "get_weather" } }).finalResponse();
    Weather.parse(JSON.parse(streamed.output[0].arguments));
    const result = { type: "function_call_output", call_id: call.call_id, output: "12 degrees" };
    const kept = await create({ ...ask, tool_choice: "none", input: [result], previous_response_id: r.id });
    const { parsed_arguments, ...said } = call;
    const replayed = await create({ ...ask, tool_choice: "none", input: [...ask.input, said, result] });
    assert.ok(kept.output_text);
    assert.equal(replayed.output_text, kept.output_text);
  },

  async structured() {
    const ask = { ...SHORT, max_output_tokens: 60, text: { format: zodTextFormat(Mood, "mood") } };
    const r = await client().responses.parse(ask);
    Mood.parse(r.output_parsed);
    assert.deepEqual((await client().responses.stream(ask).finalResponse()).output_parsed, r.output_parsed);
  },

  async errors() {
    const e = await raises(openai.BadRequestError, () => create({ temperature: 3 }), { status: 400, param: "temperature", code: "invalid_value", type: "invalid_request_error" });
    assert.ok(e.requestID);
    await raises(openai.BadRequestError, () => create({ stream: true, top_p: 2 }), { param: "top_p" });
    await raises(openai.BadRequestError, () => create({ previous_response_id: "resp_unknown" }), { code: "previous_response_not_found" });
    await raises(openai.NotFoundError, () => create({ model: "unknown" }), { code: "model_not_found" });
    await raises(openai.NotFoundError, () => client().responses.retrieve("resp_unknown"));
    await raises(openai.AuthenticationError, () => create({}, KEYED, { apiKey: "wrong" }), { code: "invalid_api_key" });
    assert.ok((await create({}, KEYED, { apiKey: "secret" })).output_text);
  },

  async retries() {
    assert.ok((await create({}, TURNS, { maxRetries: 2 })).output_text);
    await raises(openai.RateLimitError, () => create({}, TURNS), { status: 429, code: "overloaded" });
  },

  async cancellation() {
    for await (const e of await create({ ...ENDLESS, stream: true }, ONE)) {
      if (e.type !== "response.output_text.delta") continue;
      await taken();
      break; // leaving the loop aborts the request
    }
    await freed();
  },

  async timeouts() {
    await raises(openai.APIConnectionTimeoutError, () => create(ENDLESS, ONE, { timeout: 1000 }));
    await freed();
  },

  async usage() {
    const u = (await create({})).usage;
    assert.ok(u.input_tokens > 0 && u.output_tokens > 0 && u.output_tokens <= 16);
    assert.equal(u.total_tokens, u.input_tokens + u.output_tokens);
    assert.equal((await client().responses.inputTokens.count({ model: MODEL, input: "Say hi" })).input_tokens, u.input_tokens);
    assert.equal((await all(await create({ stream: true }))).at(-1).response.usage.total_tokens, u.total_tokens);
  },

  async turns() {
    const first = await create({ input: "My name is Ann." });
    const second = await create({ previous_response_id: first.id });
    assert.ok(second.usage.input_tokens > first.usage.total_tokens);
    assert.equal((await client().responses.retrieve(second.id)).output_text, second.output_text);
    assert.deepEqual((await all(client().responses.inputItems.list(second.id))).map((i) => i.type), ["message"]);
    await client().responses.delete(first.id);
    await raises(openai.NotFoundError, () => client().responses.retrieve(first.id));
  },

  async background() {
    let r = await create({ background: true });
    for (const end = Date.now() + 60000; ["queued", "in_progress"].includes(r.status) && Date.now() < end; ) {
      await new Promise((done) => setTimeout(done, 50));
      r = await client().responses.retrieve(r.id);
    }
    assert.equal(r.output_text, (await create({})).output_text);

    r = await create({ ...ENDLESS, background: true }, ONE);
    assert.ok(["queued", "in_progress"].includes(r.status), r.status);
    assert.equal((await client(ONE).responses.cancel(r.id)).status, "cancelled");
    await freed();
  },
});
