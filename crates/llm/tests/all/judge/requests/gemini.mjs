// The conversation as the parameters of `models.generateContentStream`.
import * as said from "./conversation.mjs";

/**
 * @typedef {import("@google/genai").GenerateContentParameters} Params
 * @returns {Record<string, Params>}
 */
export function requests(require, { pixel, document }) {
  /** @type {typeof import("@google/genai")} */
  const { FunctionCallingConfigMode, ThinkingLevel } = require("@google/genai");
  const image = { inlineData: { mimeType: "image/png", data: said.data(pixel) } };
  const pdf = { inlineData: { mimeType: "application/pdf", data: said.data(document) } };
  // With its `$schema` the SDK would hand it on as it is. Without, it rewrites it in the words of the API, as we do.
  const { $schema: _, ...readSchema } = said.readSchema();

  /** @type {import("@google/genai").Content[]} */
  const contents = [
    { role: "user", parts: [{ text: said.QUESTION }, image, pdf] },
    {
      role: "model",
      parts: [
        { text: said.THOUGHT, thought: true, thoughtSignature: "c2lnLTE=" },
        { text: said.ANSWER },
        {
          functionCall: { id: "call_1", name: "read", args: { filePath: "a.rs" } },
          thoughtSignature: "c2lnLTI=",
        },
        { functionCall: { id: "call_2", name: "look", args: { file: "dot.png" } } },
      ],
    },
    {
      role: "user",
      parts: [
        { functionResponse: { id: "call_1", name: "read", response: { output: said.RESULT } } },
        { functionResponse: { id: "call_2", name: "look", response: { error: said.SHOWN } } },
        image,
        { text: said.CHANGED_WRAPPED },
      ],
    },
    { role: "model", parts: [{ text: said.CONCLUSION }] },
    { role: "user", parts: [{ text: said.THANKS }] },
  ];
  /** @returns {import("@google/genai").GenerateContentConfig} */
  const config = () => ({
    systemInstruction: said.SYSTEM,
    maxOutputTokens: 4000,
    tools: [
      {
        functionDeclarations: [
          // Schemas may be given as they are, although the type of the field does not know all of their words.
          { name: "read", description: said.READ, parameters: /** @type {any} */ (readSchema) },
          { name: "look", description: said.LOOK, parameters: /** @type {any} */ (said.lookSchema()) },
        ],
      },
    ],
  });
  const calling = (mode, names) => ({ functionCallingConfig: { mode, allowedFunctionNames: names } });

  return {
    budget: {
      model: "gemini-2.5-pro",
      contents,
      config: {
        ...config(),
        toolConfig: calling(FunctionCallingConfigMode.AUTO),
        thinkingConfig: { thinkingBudget: 2000, includeThoughts: true },
      },
    },
    level: {
      model: "gemini-3-pro-preview",
      contents,
      config: {
        ...config(),
        toolConfig: calling(FunctionCallingConfigMode.AUTO),
        thinkingConfig: { thinkingLevel: ThinkingLevel.HIGH, includeThoughts: true },
        responseMimeType: "application/json",
        responseSchema: said.summarySchema(),
      },
    },
    forced: {
      model: "gemini-2.0-flash",
      contents,
      config: {
        ...config(),
        toolConfig: calling(FunctionCallingConfigMode.ANY, ["read"]),
        temperature: 0.5,
      },
    },
  };
}
