// The conversation as the parameters of `chat.completions.create`.
import * as said from "./conversation.mjs";

/**
 * @typedef {import("openai/resources/chat/completions").ChatCompletionCreateParamsStreaming} Params
 * @returns {Record<string, Params>}
 */
export function requests(_require, { pixel, document }) {
  /** @type {import("openai/resources/chat/completions").ChatCompletionContentPart} */
  const image = { type: "image_url", image_url: { url: pixel } };
  /** @returns {import("openai/resources/chat/completions").ChatCompletionMessageToolCall} */
  const call = (id, name, input) => ({
    id,
    type: "function",
    function: { name, arguments: JSON.stringify(input) },
  });

  /** @type {Pick<Params, "messages" | "tools" | "stream" | "stream_options">} */
  const conversation = {
    messages: [
      { role: "system", content: said.SYSTEM.join("\n\n") },
      {
        role: "user",
        content: [
          { type: "text", text: said.QUESTION },
          image,
          { type: "file", file: { filename: "notes.pdf", file_data: document } },
        ],
      },
      {
        role: "assistant",
        content: said.ANSWER,
        tool_calls: [call("call_1", "read", { filePath: "a.rs" }), call("call_2", "look", { file: "dot.png" })],
      },
      { role: "tool", tool_call_id: "call_1", content: said.RESULT },
      // A result takes only text here, so the picture follows in the person's name.
      { role: "tool", tool_call_id: "call_2", content: said.SHOWN },
      { role: "user", content: [image, { type: "text", text: said.CHANGED_WRAPPED }] },
      { role: "assistant", content: said.CONCLUSION },
      { role: "user", content: said.THANKS },
    ],
    tools: [
      { type: "function", function: { name: "read", description: said.READ, parameters: said.readSchema() } },
      { type: "function", function: { name: "look", description: said.LOOK, parameters: said.lookSchema() } },
    ],
    stream: true,
    stream_options: { include_usage: true },
  };
  /** @type {Params} */
  const reasoning = {
    ...conversation,
    model: "gpt-5.1",
    tool_choice: "auto",
    max_completion_tokens: 4000,
    reasoning_effort: "high",
    response_format: { type: "json_schema", json_schema: { name: "summary", schema: said.summarySchema() } },
    prompt_cache_key: "ses_1",
  };

  return {
    reasoning,
    forced: {
      ...conversation,
      model: "gpt-4.1",
      tool_choice: { type: "function", function: { name: "read" } },
      max_completion_tokens: 4000,
      temperature: 0.5,
      prompt_cache_key: "ses_1",
    },
    // The same as the first one: what differs is how we write it to a server that is not OpenAI's own.
    compatible: reasoning,
  };
}
