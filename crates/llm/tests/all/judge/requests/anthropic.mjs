// The conversation as the parameters of `messages.create`.
import * as said from "./conversation.mjs";

/**
 * @typedef {import("@anthropic-ai/sdk").Anthropic.MessageCreateParamsStreaming} Params
 * @returns {Record<string, Params>}
 */
export function requests(require, { pixel, document }) {
  const { jsonSchemaOutputFormat } = require("@anthropic-ai/sdk/helpers/json-schema");
  const format = jsonSchemaOutputFormat(said.summarySchema());

  const text = (text) => ({ type: /** @type {const} */ ("text"), text });
  const cached = (block) => ({ ...block, cache_control: { type: "ephemeral" } });
  /** @type {import("@anthropic-ai/sdk").Anthropic.ImageBlockParam} */
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: said.data(pixel) } };
  /** @type {import("@anthropic-ai/sdk").Anthropic.DocumentBlockParam} */
  const pdf = {
    type: "document",
    source: { type: "base64", media_type: "application/pdf", data: said.data(document) },
    title: "notes.pdf",
  };
  /** @type {import("@anthropic-ai/sdk").Anthropic.ContentBlockParam[]} */
  const results = [
    { type: "tool_result", tool_use_id: "call_1", content: [text(said.RESULT)] },
    { type: "tool_result", tool_use_id: "call_2", content: [text(said.SHOWN)], is_error: true },
  ];

  /**
   * `given` is what stands between the calls and the answer to them.
   * @param {import("@anthropic-ai/sdk").Anthropic.MessageParam[]} given
   * @returns {Pick<Params, "system" | "messages" | "tools" | "stream" | "max_tokens">}
   */
  const conversation = (given) => ({
    max_tokens: 4000,
    system: [text(said.SYSTEM[0]), cached(text(said.SYSTEM[1]))],
    messages: [
      { role: "user", content: [text(said.QUESTION), image, pdf] },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: said.THOUGHT, signature: "c2lnbmVk" },
          text(said.ANSWER),
          { type: "tool_use", id: "call_1", name: "read", input: { filePath: "a.rs" } },
          { type: "tool_use", id: "call_2", name: "look", input: { file: "dot.png" } },
        ],
      },
      ...given,
      { role: "assistant", content: [text(said.CONCLUSION)] },
      { role: "user", content: [cached(text(said.THANKS))] },
    ],
    tools: [
      { name: "read", description: said.READ, input_schema: said.readSchema() },
      cached({ name: "look", description: said.LOOK, input_schema: said.lookSchema() }),
    ],
    stream: true,
  });
  const wrapped = conversation([
    { role: "user", content: [...results, image, cached(text(said.CHANGED_WRAPPED))] },
  ]);
  const native = conversation([
    { role: "user", content: [...results, cached(image)] },
    { role: "system", content: [text(said.CHANGED)] },
  ]);

  return {
    budget: {
      ...wrapped,
      model: "claude-haiku-4-5",
      tool_choice: { type: "auto" },
      thinking: { type: "enabled", budget_tokens: 2000 },
      output_config: { format },
    },
    adaptive: {
      ...native,
      model: "claude-opus-4-8",
      tool_choice: { type: "auto" },
      thinking: { type: "adaptive", display: "summarized" },
      output_config: { effort: "high", format },
    },
    forced: {
      ...wrapped,
      model: "claude-haiku-4-5",
      tool_choice: { type: "tool", name: "read" },
    },
  };
}
