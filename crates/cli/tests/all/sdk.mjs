// Uses OpenCode's SDK as a program would, and prints what it got as JSON. Arguments: the SDK's file, the server's
// address, the authorization header, the project's folder.
const [sdk, baseUrl, authorization, directory] = process.argv.slice(2);
const { createOpencodeClient } = await import(sdk);
const client = createOpencodeClient({ baseUrl, directory, headers: { authorization }, throwOnError: true });

const events = [];
const waiting = [];
const controller = new AbortController();
const subscription = await client.event.subscribe({ signal: controller.signal });
const reading = (async () => {
  for await (const event of subscription.stream) {
    events.push(event);
    for (const look of [...waiting]) look();
  }
})().catch((cause) => {
  if (!controller.signal.aborted) throw cause;
});

// Resolves with the first event behind `from` that fulfils `wanted`.
function eventually(wanted, from = 0) {
  return new Promise((resolve) => {
    const look = () => {
      const found = events.slice(from).find(wanted);
      if (!found) return;
      waiting.splice(waiting.indexOf(look), 1);
      resolve(found);
    };
    waiting.push(look);
    look();
  });
}

const model = { providerID: "fake", modelID: "fake-1" };
const body = (text) => ({ model, parts: [{ type: "text", text }] });
await eventually((event) => event.type === "server.connected");

const created = (await client.session.create({ body: { title: "by the SDK" } })).data;
const path = { id: created.id };
const answered = (await client.session.prompt({ path, body: body("TOOL:bash:echo hi\nSAY:all done") })).data;
await eventually((event) => event.type === "session.idle" && event.properties.sessionID === created.id);
const firstTurn = events.length;

await client.session.promptAsync({ path, body: body("HOLD:forever SAY:one two") });
await eventually((event) => event.type === "message.part.delta" && event.properties.delta === "one ", firstTurn);
const status = (await client.session.status()).data[created.id];
const aborted = (await client.session.abort({ path })).data;
await eventually((event) => event.type === "session.error", firstTurn);
await eventually((event) => event.type === "session.idle", firstTurn);

const messages = (await client.session.messages({ path })).data;
const second = messages.filter((message) => message.info.role === "user")[1].info.id;
const forked = (await client.session.fork({ path, body: { messageID: second } })).data;
const forkedMessages = (await client.session.messages({ path: { id: forked.id } })).data;
const listed = (await client.session.list()).data;
const updated = (await client.session.update({ path, body: { title: "renamed" } })).data;
await eventually((event) => event.type === "session.updated" && event.properties.info.title === "renamed");
const deleted = (await client.session.delete({ path: { id: forked.id } })).data;
const left = (await client.session.list()).data;
const missing = await client.session
  .get({ path: { id: forked.id } })
  .then(() => null)
  .catch((cause) => cause?.cause?.body?.name ?? cause?.name ?? String(cause));
const ran = (await client.session.shell({ path, body: { agent: "build", command: "echo by the person" } })).data;

controller.abort();
await reading;
console.log(
  JSON.stringify({
    created, answered, status, aborted, messages, forked, forkedMessages, listed, updated, deleted, left, missing, ran, events,
  }),
);
