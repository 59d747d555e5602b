// OpenAI Chat Completions through `openai`.
import { failure } from "./failure.mjs";

const FINISHES = { stop: "stop", length: "length", tool_calls: "tool-calls", content_filter: "content-filter" };

export function connect(require, root, apiKey) {
  const { OpenAI } = require("openai");
  const client = new OpenAI({ apiKey, baseURL: `${root}/v1`, maxRetries: 0 });

  async function read(prompt) {
    const pieces = [];
    const messages = [{ role: "user", content: prompt }];
    const stream = client.chat.completions.stream({ model: "fake-1", messages });
    // OpenAI itself shows no reasoning here. The field is that of other makers, so the SDK only hands it on.
    let thoughts = "";
    stream.on("chunk", ({ choices }) => {
      const more = choices[0]?.delta.reasoning_content;
      if (more === undefined) return;
      thoughts += more;
      pieces.push(["reasoning", more]);
    });
    stream.on("content", (more) => pieces.push(["text", more]));
    stream.on("tool_calls.function.arguments.delta", ({ arguments_delta }) => pieces.push(["input", arguments_delta]));
    let completion;
    try {
      completion = await stream.finalChatCompletion();
    } catch (error) {
      return { pieces: pieces.filter(said), error: failure(error, error.error) };
    }
    return { pieces: pieces.filter(said), answer: answer(completion, thoughts) };
  }

  async function send(request) {
    for await (const _ of await client.chat.completions.create(request));
  }

  return { read, send };
}

// The first chunk has an empty content, and the first piece of a call has empty arguments.
const said = ([, more]) => more !== "";

function answer({ id, model, choices: [{ message, finish_reason }], usage }, thoughts) {
  const content = [];
  if (thoughts) content.push({ kind: "reasoning", text: thoughts, signature: null });
  if (message.content) content.push({ kind: "text", text: message.content });
  for (const { id, function: called } of message.tool_calls ?? []) {
    content.push({ kind: "call", id, name: called.name, input: JSON.parse(called.arguments) });
  }
  const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
  const reasoning = usage.completion_tokens_details?.reasoning_tokens ?? 0;
  return {
    id,
    model,
    stop: finish_reason,
    finish: FINISHES[finish_reason],
    content,
    usage: {
      input: usage.prompt_tokens - cached,
      output: usage.completion_tokens - reasoning,
      reasoning,
      cache_read: cached,
      cache_write: 0,
      total: usage.total_tokens,
    },
  };
}
