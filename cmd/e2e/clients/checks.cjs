// What the checks of the Node clients share: where the servers are (see checks.py), and the
// report, one line of JSON for each check on stdout.
"use strict";

const assert = require("node:assert/strict");
const { OpenAI } = require("openai");

const MODEL = "test-model";
const [OPEN, ONE, TURNS, KEYED, EMBED] = ["OPEN", "ONE", "TURNS", "KEYED", "EMBED"].map((n) => process.env["THOTH_CLIENTS_" + n]);
const SOON = 8000; // ms

const client = (base = OPEN, more = {}) => new OpenAI({ baseURL: base, apiKey: "none", maxRetries: 0, timeout: 60000, ...more });

async function all(stream) {
  const out = [];
  for await (const x of stream) out.push(x);
  return out;
}

// The call fails with exactly this kind of error, which has these attributes.
async function raises(kind, call, attributes = {}) {
  let e;
  try {
    await call();
  } catch (caught) {
    e = caught;
  }
  assert.ok(e, `no error, want ${kind.name}`);
  assert.equal(e.constructor, kind, `saw ${e}`);
  for (const [name, want] of Object.entries(attributes)) assert.equal(e[name], want, name);
  return e;
}

async function inFlight() {
  const r = await fetch(ONE.replace(/\/v1$/, "/stats"));
  return (await r.json()).host.in_flight;
}

const taken = async () => assert.equal(await inFlight(), 1);

// The one place is given back long before the answer could have ended.
async function freed() {
  for (const end = Date.now() + SOON; await inFlight(); ) {
    assert.ok(Date.now() < end, "the server still works after the client has left");
    await new Promise((r) => setTimeout(r, 20));
  }
}

async function run(checks) {
  for (const [feature, check] of Object.entries(checks)) {
    const begin = Date.now();
    let saw = "";
    try {
      await check();
    } catch (e) {
      saw = e.stack ?? String(e);
    }
    console.log(JSON.stringify({ feature, saw, seconds: (Date.now() - begin) / 1000 }));
  }
  process.exit(0); // sockets of what was given up may still be open
}

module.exports = { MODEL, OPEN, ONE, TURNS, KEYED, EMBED, client, all, raises, inFlight, taken, freed, run };
