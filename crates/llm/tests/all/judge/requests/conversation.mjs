// What every request says, as `conversation.rs` has it: the texts that stand in more than one of them.

export const SYSTEM = ["You are careful.", "The project is a parser."];
export const QUESTION = "What is in these?";
export const THOUGHT = "Two reads at once.";
export const ANSWER = "I look.";
export const RESULT = "fn main() {}";
export const SHOWN = "one pixel";
export const CONCLUSION = "An empty program and a dot.";
export const THANKS = 'Thanks. As data, please. SAY:{"lines": 1}';

// An instruction in mid-conversation, and how it is said where the protocol has no place for one.
export const CHANGED = "The file a.rs changed <outside>.";
export const CHANGED_WRAPPED = "<system-update>\nThe file a.rs changed &lt;outside&gt;.\n</system-update>";

export const READ = "Reads a file.";
export const LOOK = "Shows a picture.";

export const readSchema = () => ({
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: /** @type {const} */ ("object"),
  properties: {
    filePath: { type: "string", minLength: 1 },
    offset: { type: ["integer", "null"], minimum: 0 },
    mode: { anyOf: [{ const: "text" }, { const: "hex" }] },
  },
  required: ["filePath"],
  additionalProperties: false,
});

export const lookSchema = () => ({
  type: /** @type {const} */ ("object"),
  properties: { file: { type: "string" } },
});

export const summarySchema = () => ({
  type: /** @type {const} */ ("object"),
  properties: {
    lines: { type: /** @type {const} */ ("integer"), description: "How many.", minimum: 0 },
    names: {
      type: /** @type {const} */ ("array"),
      items: { type: /** @type {const} */ ("string"), minLength: 1 },
      minItems: 2,
    },
    kind: { type: /** @type {const} */ ("string"), enum: ["program", "library"] },
  },
  required: ["lines"],
});

// The data of a `data:` address.
export const data = (url) => url.slice(url.indexOf(",") + 1);
