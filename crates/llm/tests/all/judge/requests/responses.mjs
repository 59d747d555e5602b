// The conversation as the parameters of `responses.create`.
import * as said from "./conversation.mjs";

/**
 * @typedef {import("openai/resources/responses/responses").ResponseCreateParamsStreaming} Params
 * @returns {Record<string, Params>}
 */
export function requests(_require, { pixel, document }) {
  /** @type {import("openai/resources/responses/responses").ResponseInputImage} */
  const image = { type: "input_image", image_url: pixel, detail: "auto" };
  const text = (text) => ({ type: /** @type {const} */ ("input_text"), text });

  /** @type {Pick<Params, "input" | "tools" | "max_output_tokens" | "prompt_cache_key" | "store" | "stream">} */
  const conversation = {
    input: [
      { type: "message", role: "system", content: said.SYSTEM.join("\n\n") },
      {
        type: "message",
        role: "user",
        content: [text(said.QUESTION), image, { type: "input_file", filename: "notes.pdf", file_data: document }],
      },
      {
        type: "reasoning",
        id: "rs_1",
        summary: [{ type: "summary_text", text: said.THOUGHT }],
        encrypted_content: "gAAA",
      },
      {
        type: "message",
        role: "assistant",
        id: "msg_1",
        status: "completed",
        content: [{ type: "output_text", text: said.ANSWER, annotations: [] }],
      },
      {
        type: "function_call",
        id: "fc_1",
        status: "completed",
        call_id: "call_1",
        name: "read",
        arguments: '{ "filePath": "a.rs" }',
      },
      { type: "function_call", call_id: "call_2", name: "look", arguments: '{"file":"dot.png"}' },
      { type: "function_call_output", call_id: "call_1", output: said.RESULT },
      { type: "function_call_output", call_id: "call_2", output: [text(said.SHOWN), image] },
      { type: "message", role: "system", content: said.CHANGED },
      { type: "message", role: "assistant", content: said.CONCLUSION },
      { type: "message", role: "user", content: [text(said.THANKS)] },
    ],
    tools: [
      { type: "function", name: "read", description: said.READ, parameters: said.readSchema(), strict: false },
      { type: "function", name: "look", description: said.LOOK, parameters: said.lookSchema(), strict: false },
    ],
    max_output_tokens: 4000,
    prompt_cache_key: "ses_1",
    store: false,
    stream: true,
  };

  return {
    reasoning: {
      ...conversation,
      model: "gpt-5.1",
      tool_choice: "auto",
      reasoning: { effort: "high", summary: "auto" },
      text: { format: { type: "json_schema", name: "summary", schema: said.summarySchema(), strict: false } },
      include: ["reasoning.encrypted_content"],
    },
    forced: {
      ...conversation,
      model: "gpt-4.1",
      tool_choice: { type: "function", name: "read" },
      temperature: 0.5,
    },
  };
}
