// What the drivers in Node share: the script's users and tools, and turns of several sessions at once.
// The harness sets MODEL_URL, OTLP_URL, SESSION_PREFIX and CONVERSATIONS, as for those in Python.

import { readFileSync } from 'node:fs';

export const script = JSON.parse(readFileSync(process.env.CONVERSATIONS, 'utf8'));
export const openaiUrl = `${process.env.MODEL_URL}/v1`;
export const otlpUrl = process.env.OTLP_URL;
export const prefix = process.env.SESSION_PREFIX;
export const model = 'gpt-4o-mini';
export const { desk, policy } = script.agents;

const calls = [];
for (const turns of Object.values(script.sessions))
  for (const turn of turns)
    for (const step of turn.steps)
      for (const call of step.calls ?? []) {
        calls.push(call);
        for (const inner of call.asks?.steps ?? []) calls.push(...(inner.calls ?? []));
      }

const asked = new Map();

/** Run a tool of the script: its result. Throws where the script has it fail. */
export function use(tool, args) {
  const key = tool + JSON.stringify(args);
  const found = calls.filter((call) => call.tool + JSON.stringify(call.args) === key);
  const count = asked.get(key) ?? 0;
  asked.set(key, count + 1);
  const call = found[Math.min(count, found.length - 1)];
  if (call.raises) throw new Error(call.raises);
  return call.result;
}

/** The tools of an agent: name, description, JSON Schema of the parameters. */
export function toolsOf(agent) {
  return Object.entries(script.tools)
    .filter(([, tool]) => tool.agent === agent)
    .map(([name, tool]) => ({
      name,
      description: tool.description,
      parameters: {
        type: 'object',
        properties: Object.fromEntries(Object.entries(tool.parameters).map(([field, type]) => [field, { type }])),
        required: Object.keys(tool.parameters),
        additionalProperties: false,
      },
    }));
}

/** Play all sessions: take(session id, turn), the turns of a round at the same time. */
export async function play(take) {
  const sessions = Object.entries(script.sessions);
  for (let place = 0; sessions.some(([, turns]) => place < turns.length); place++)
    await Promise.all(
      sessions
        .filter(([, turns]) => place < turns.length)
        .map(([name, turns]) => take(prefix + name, turns[place])),
    );
}
