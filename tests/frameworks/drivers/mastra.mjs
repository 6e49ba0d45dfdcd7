// An agent of Mastra with its own observability and its exporter for OpenTelemetry.

import { createOpenAI } from '@ai-sdk/openai';
import { Agent } from '@mastra/core/agent';
import { Mastra } from '@mastra/core/mastra';
import { createTool } from '@mastra/core/tools';
import { Observability } from '@mastra/observability';
import { OtelExporter } from '@mastra/otel-exporter';
import { z } from 'zod';
import { desk, model, openaiUrl, otlpUrl, play, policy, toolsOf, use } from './desk.mjs';

const chat = createOpenAI({ baseURL: openaiUrl, apiKey: 'none' }).chat(model);
const kinds = { string: z.string(), number: z.number() };

/** An agent with its tools. */
function agent(name, instructions) {
  const tools = {};
  for (const { name: id, description, parameters } of toolsOf(name))
    tools[id] = createTool({
      id,
      description,
      inputSchema: z.object(
        Object.fromEntries(Object.entries(parameters.properties).map(([field, { type }]) => [field, kinds[type]])),
      ),
      execute: async (input, options) => {
        if (id !== 'ask_policy_agent') return use(id, input);
        const done = await mastra.getAgent('policy').generate(input.question, {
          tracingContext: options?.tracingContext,
        });
        return done.text;
      },
    });
  return new Agent({ id: name, name, instructions, model: chat, tools, maxRetries: 2 });
}

const exporter = new OtelExporter({
  provider: { custom: { endpoint: `${otlpUrl}/v1/traces`, protocol: 'http/protobuf' } },
});
const mastra = new Mastra({
  agents: { desk: agent('desk', desk), policy: agent('policy', policy) },
  observability: new Observability({ configs: { otel: { serviceName: 'mastra', exporters: [exporter] } } }),
  logger: false,
});

const histories = new Map();

await play(async (session, turn) => {
  const messages = [...(histories.get(session) ?? []), { role: 'user', content: turn.user }];
  const options = { maxSteps: 8, modelSettings: { maxRetries: 2 }, tracingOptions: { metadata: { sessionId: session } } };
  let response;
  if (turn.stream) {
    const done = await mastra.getAgent('desk').stream(messages, options);
    for await (const _ of done.textStream);
    response = await done.response;
  } else {
    response = (await mastra.getAgent('desk').generate(messages, options)).response;
  }
  histories.set(session, [...messages, ...response.messages]);
});
await exporter.flush?.();
await mastra.shutdown?.();
await exporter.shutdown();
process.exit(0);
