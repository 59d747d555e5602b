// Anthropic Messages through `@anthropic-ai/sdk`.
import { failure } from "./failure.mjs";

const FINISHES = {
  end_turn: "stop",
  stop_sequence: "stop",
  tool_use: "tool-calls",
  max_tokens: "length",
  refusal: "content-filter",
};

export function connect(require, root, apiKey) {
  const { Anthropic } = require("@anthropic-ai/sdk");
  const client = new Anthropic({ apiKey, baseURL: root, maxRetries: 0 });

  async function read(prompt) {
    const pieces = [];
    const messages = [{ role: "user", content: prompt }];
    const stream = client.messages.stream({ model: "fake-1", max_tokens: 1000, messages });
    stream.on("thinking", (more) => pieces.push(["reasoning", more]));
    stream.on("text", (more) => pieces.push(["text", more]));
    stream.on("inputJson", (more) => pieces.push(["input", more]));
    let message;
    try {
      message = await stream.finalMessage();
    } catch (error) {
      return { pieces, error: failure(error, error.error?.error) };
    }
    return { pieces, answer: answer(message) };
  }

  async function send(request) {
    for await (const _ of await client.messages.create(request));
  }

  return { read, send };
}

function answer({ id, model, content, stop_reason, usage }) {
  const reasoning = usage.output_tokens_details?.thinking_tokens ?? 0;
  return {
    id,
    model,
    stop: stop_reason,
    finish: FINISHES[stop_reason],
    content: content.map(block),
    usage: {
      input: usage.input_tokens,
      output: usage.output_tokens - reasoning,
      reasoning,
      cache_read: usage.cache_read_input_tokens,
      cache_write: usage.cache_creation_input_tokens,
      total: null,
    },
  };
}

function block(block) {
  switch (block.type) {
    case "thinking":
      return { kind: "reasoning", text: block.thinking, signature: block.signature };
    case "text":
      return { kind: "text", text: block.text };
    case "tool_use":
      return { kind: "call", id: block.id, name: block.name, input: block.input };
    default:
      return block;
  }
}
