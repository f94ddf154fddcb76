// Vercel's AI SDK, which speaks responses: a turn after the first names by reference what the server keeps.
"use strict";

const assert = require("node:assert/strict");
const { createOpenAI } = require("@ai-sdk/openai");
const { APICallError, Output, generateText, stepCountIs, streamText, tool } = require("ai");
const { z } = require("zod");
const { MODEL, OPEN, ONE, TURNS, KEYED, freed, taken, run } = require("./checks.cjs");

const sent = []; // bodies of requests
const model = (base = OPEN, { name = MODEL, apiKey = "none", fields = {} } = {}) =>
  createOpenAI({
    baseURL: base,
    apiKey,
    fetch(url, init) {
      sent.push({ ...JSON.parse(init.body), ...fields });
      return fetch(url, { ...init, body: JSON.stringify(sent.at(-1)) });
    },
  }).responses(name);

const SHORT = { prompt: "Say hi", maxOutputTokens: 16, temperature: 0, maxRetries: 0 };
const ask = (more, base, how) => generateText({ model: model(base, how), ...SHORT, ...more });
// An answer of a minute: the ends of a turn are kept out, by a parameter beyond the reference.
const endless = () => ({ ...SHORT, model: model(ONE, { fields: { logit_bias: { 0: -100, 2: -100 } } }), maxOutputTokens: 3500 });

async function refused(call, status, code, param) {
  const e = await call().then(() => assert.fail("no error"), (e) => e);
  assert.ok(APICallError.isInstance(e), String(e));
  assert.deepEqual([e.statusCode, e.data.error.code], [status, code]);
  if (param) assert.equal(e.data.error.param, param);
}

const weather = tool({ description: "The weather", inputSchema: z.object({ city: z.string().max(12) }), execute: async ({ city }) => `rain in ${city}` });

run({
  async chat() {
    const r = await ask({ system: "Be short." });
    assert.ok(r.text);
    assert.ok(r.response.id.startsWith("resp_"));
  },

  async stream() {
    let text = "";
    for await (const piece of streamText({ model: model(), ...SHORT }).textStream) text += piece;
    assert.equal(text, (await ask()).text);
  },

  async tools() {
    const r = await ask({
      prompt: "What is the weather in Oslo?", maxOutputTokens: 100, tools: { weather }, stopWhen: stepCountIs(2), providerOptions: { openai: { parallelToolCalls: false } },
      prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "none" }),
    });
    assert.equal(r.steps.length, 2);
    const [result] = r.steps[0].toolResults;
    assert.equal(result.output, `rain in ${result.input.city}`);
    assert.ok(sent.at(-1).input.some((i) => i.type === "function_call_output"));
  },

  async structured() {
    const schema = z.object({ mood: z.enum(["calm", "angry"]), level: z.union([z.literal(1), z.literal(2)]) });
    schema.parse((await ask({ maxOutputTokens: 60, output: Output.object({ schema }) })).output);
  },

  async errors() {
    await refused(() => ask({ temperature: 3 }), 400, "invalid_value", "temperature");
    await refused(() => ask({}, OPEN, { name: "unknown" }), 404, "model_not_found");
    await refused(() => ask({}, KEYED, { apiKey: "wrong" }), 401, "invalid_api_key");
    assert.ok((await ask({}, KEYED, { apiKey: "secret" })).text);
  },

  async retries() {
    assert.ok((await ask({ maxRetries: 2 }, TURNS)).text);
    await refused(() => ask({}, TURNS), 429, "overloaded");
  },

  async cancellation() {
    const gone = new AbortController();
    const answer = streamText({ ...endless(), abortSignal: gone.signal, onError() {} });
    for await (const piece of answer.textStream) {
      if (!piece) continue;
      await taken();
      gone.abort();
      break;
    }
    await freed();
  },

  async timeouts() {
    await assert.rejects(generateText({ ...endless(), abortSignal: AbortSignal.timeout(1000) }));
    await freed();
  },

  async usage() {
    const { usage } = await ask();
    assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0 && usage.outputTokens <= 16);
    assert.equal(usage.totalTokens, usage.inputTokens + usage.outputTokens);
  },

  async turns() {
    const said = [{ role: "user", content: "My name is Ann." }];
    const first = await ask({ prompt: undefined, messages: said });
    const again = [...said, ...first.response.messages, { role: "user", content: "Say hi" }];
    const kept = await ask({ prompt: undefined, messages: again });
    assert.deepEqual(sent.at(-1).input.map((i) => i.type), [undefined, "item_reference", undefined]);
    assert.ok(kept.usage.inputTokens > first.usage.totalTokens);
    const whole = await ask({ prompt: undefined, messages: again, providerOptions: { openai: { store: false, include: ["reasoning.encrypted_content"] } } });
    assert.equal(sent.at(-1).input[1].role, "assistant");
    assert.deepEqual([whole.text, whole.usage.inputTokens], [kept.text, kept.usage.inputTokens]);
    await refused(() => ask({}, OPEN, { fields: { input: [{ type: "item_reference", id: "msg_unknown_0" }] } }), 404, "not_found", "input[0].id");
  },
});
