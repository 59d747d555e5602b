// OpenAI Responses through `openai`.
import { failure } from "./failure.mjs";

const FINISHES = { max_output_tokens: "length", content_filter: "content-filter" };

export function connect(require, root, apiKey) {
  const { OpenAI } = require("openai");
  const client = new OpenAI({ apiKey, baseURL: `${root}/v1`, maxRetries: 0 });

  async function read(prompt) {
    const pieces = [];
    const stream = client.responses.stream({ model: "fake-1", input: prompt });
    stream.on("response.reasoning_summary_text.delta", ({ delta }) => pieces.push(["reasoning", delta]));
    stream.on("response.output_text.delta", ({ delta }) => pieces.push(["text", delta]));
    stream.on("response.function_call_arguments.delta", ({ delta }) => pieces.push(["input", delta]));
    let response;
    try {
      response = await stream.finalResponse();
    } catch (error) {
      return { pieces, error: failure(error, error.error) };
    }
    return { pieces, answer: answer(response) };
  }

  async function send(request) {
    for await (const _ of await client.responses.create(request));
  }

  return { read, send };
}

function answer({ id, model, status, incomplete_details, output, usage }) {
  const called = output.some((item) => item.type === "function_call");
  const stop = incomplete_details?.reason ?? status;
  const { cached_tokens = 0, cache_write_tokens = 0 } = usage.input_tokens_details;
  const reasoning = usage.output_tokens_details.reasoning_tokens;
  return {
    id,
    model,
    stop,
    finish: FINISHES[stop] ?? (called ? "tool-calls" : "stop"),
    content: output.flatMap(item),
    usage: {
      input: usage.input_tokens - cached_tokens - cache_write_tokens,
      output: usage.output_tokens - reasoning,
      reasoning,
      cache_read: cached_tokens,
      cache_write: cache_write_tokens,
      total: usage.total_tokens,
    },
  };
}

function item(item) {
  switch (item.type) {
    case "reasoning": {
      const text = item.summary.map((part) => part.text).join("\n\n");
      return [{ kind: "reasoning", item: item.id, text, signature: item.encrypted_content }];
    }
    case "message":
      return item.content.map(({ text }) => ({ kind: "text", item: item.id, text }));
    case "function_call": {
      const input = JSON.parse(item.arguments);
      return [{ kind: "call", item: item.id, id: item.call_id, name: item.name, input }];
    }
    default:
      return [item];
  }
}
