// Lets an official SDK talk to the scripted model, and prints what came of it as JSON. Arguments: the folder with the
// npm packages, and the job as JSON:
//
//   protocol  the module beside this one that knows the SDK
//   root      the server's address
//   prompts   what to ask; for each one a reading is printed, in the shape of `reading.rs`
//   requests  the requests to send, by their names in the folder beside this file; their answers are not looked at
//   media     the attachments in these requests
import { createRequire } from "node:module";
import { join } from "node:path";

const [folder, given] = process.argv.slice(2);
const { protocol, root, prompts = [], requests = [], media } = JSON.parse(given);

// What an SDK complains about is part of its judgement.
const complaints = [];
for (const level of ["log", "info", "warn", "error"]) {
  console[level] = (...words) => complaints.push([level, ...words].join(" "));
}

const { connect } = await import(`./${protocol}.mjs`);
const written = await import(`./requests/${protocol}.mjs`);
const require = createRequire(join(folder, "package.json"));
const sdk = connect(require, root, "key-of-the-judge");

const readings = [];
for (const prompt of prompts) readings.push(await sdk.read(prompt));
for (const name of requests) await sdk.send(written.requests(require, media)[name]);
process.stdout.write(JSON.stringify({ readings, complaints }));
