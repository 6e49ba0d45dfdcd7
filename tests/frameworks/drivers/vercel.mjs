// The Vercel AI SDK with its own telemetry, as the major version that VERSION names has it.

import { createOpenAI } from '@ai-sdk/openai';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { NodeSDK } from '@opentelemetry/sdk-node';
import * as ai from 'ai';
import { desk, model, openaiUrl, otlpUrl, play, policy, toolsOf, use } from './desk.mjs';

const version = Number(process.env.VERSION);
const sdk = new NodeSDK({ traceExporter: new OTLPTraceExporter({ url: `${otlpUrl}/v1/traces` }) });
sdk.start();
if (version >= 7) {
  const { OpenTelemetry } = await import('@ai-sdk/otel');
  ai.registerTelemetry(new OpenTelemetry({ runtimeContext: true }));
}

const chat = createOpenAI({ baseURL: openaiUrl, apiKey: 'none' }).chat(model);

/** How telemetry is asked for, with the session. */
function telemetry(session, functionId) {
  if (version >= 7)
    return {
      runtimeContext: { sessionId: session },
      telemetry: { functionId, includeRuntimeContext: { sessionId: true } },
    };
  return { experimental_telemetry: { isEnabled: true, functionId, metadata: { sessionId: session } } };
}

/** The tools of an agent, as the SDK takes them. */
function tools(agent, session) {
  const made = {};
  for (const { name, description, parameters } of toolsOf(agent))
    made[name] = ai.tool({
      description,
      inputSchema: ai.jsonSchema(parameters),
      execute: async (args) => {
        if (name !== 'ask_policy_agent') return use(name, args);
        const done = await ai.generateText(options('policy', session, [{ role: 'user', content: args.question }]));
        return done.text;
      },
    });
  return made;
}

/** What is asked of the SDK. */
function options(agent, session, messages) {
  const instructions = agent === 'desk' ? desk : policy;
  return {
    model: chat,
    ...(version >= 7 ? { instructions } : { system: instructions }),
    messages,
    tools: tools(agent, session),
    stopWhen: ai.stepCountIs ? ai.stepCountIs(8) : ai.isStepCount(8),
    ...telemetry(session, agent),
  };
}

const histories = new Map();

await play(async (session, turn) => {
  const messages = histories.get(session) ?? [];
  messages.push({ role: 'user', content: turn.user });
  let response;
  if (turn.stream) {
    const done = ai.streamText(options('desk', session, messages));
    for await (const _ of done.textStream);
    response = await done.response;
  } else {
    response = (await ai.generateText(options('desk', session, messages))).response;
  }
  histories.set(session, [...messages, ...response.messages]);
});
await sdk.shutdown();
