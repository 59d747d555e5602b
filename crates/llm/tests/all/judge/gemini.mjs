// Gemini through `@google/genai`. This SDK gathers nothing: every piece of a stream is an answer of its own.
import { broken } from "./failure.mjs";

const FINISHES = { STOP: "stop", MAX_TOKENS: "length", SAFETY: "content-filter" };

const KINDS = { 400: "invalid-request", 401: "authentication", 403: "authentication", 404: "invalid-request", 429: "rate-limit" };

export function connect(require, root, apiKey) {
  const { GoogleGenAI, ApiError } = require("@google/genai");
  const client = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: root } });

  async function read(prompt) {
    const pieces = [];
    const chunks = [];
    try {
      for await (const chunk of await client.models.generateContentStream({ model: "fake-1", contents: prompt })) {
        chunks.push(chunk);
        for (const { text, thought } of parts(chunk)) {
          if (text) pieces.push([thought ? "reasoning" : "text", text]);
        }
      }
    } catch (error) {
      return { pieces, error: failure(error, ApiError, chunks.length > 0) };
    }
    return { pieces, answer: answer(chunks) };
  }

  async function send(request) {
    for await (const _ of await client.models.generateContentStream(request));
  }

  return { read, send };
}

const parts = (chunk) => chunk.candidates?.[0]?.content?.parts ?? [];

// There is one class for all statuses. Its message is the body, behind other words if it came in mid-stream.
function failure(error, ApiError, begun) {
  if (!(error instanceof ApiError)) {
    return { kind: broken(error) ? "connection" : error.constructor.name, status: null, type: null, message: null };
  }
  const told = JSON.parse(error.message.slice(error.message.indexOf("{"))).error;
  const kind = begun ? null : KINDS[error.status] ?? (error.status >= 500 ? "server" : "unknown");
  return { kind, status: error.status, type: told.status, message: told.message };
}

function answer(chunks) {
  const last = chunks.at(-1);
  const content = chunks.flatMap(parts).reduce(gather, []);
  const called = chunks.some((chunk) => chunk.functionCalls?.length);
  const stop = last.candidates[0].finishReason;
  const usage = last.usageMetadata;
  return {
    id: last.responseId,
    model: last.modelVersion,
    stop,
    finish: stop === "STOP" && called ? "tool-calls" : FINISHES[stop],
    content,
    usage: {
      input: usage.promptTokenCount - usage.cachedContentTokenCount,
      output: usage.candidatesTokenCount,
      reasoning: usage.thoughtsTokenCount,
      cache_read: usage.cachedContentTokenCount,
      cache_write: 0,
      total: usage.totalTokenCount,
    },
  };
}

function gather(content, part) {
  if (part.functionCall) {
    const { id, name, args } = part.functionCall;
    return [...content, { kind: "call", id, name, input: args, signature: part.thoughtSignature }];
  }
  if (!part.text) return content;
  const kind = part.thought ? "reasoning" : "text";
  const last = content.at(-1);
  if (last?.kind === kind) {
    last.text += part.text;
    return content;
  }
  const signature = kind === "reasoning" ? { signature: part.thoughtSignature ?? null } : {};
  return [...content, { kind, text: part.text, ...signature }];
}
