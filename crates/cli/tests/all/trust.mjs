// Lists the requests for permission with OpenCode's SDK, answers each with `always`, and prints them as JSON. Arguments:
// the SDK's file, the server's address, the authorization header, the project's folder.
const [sdk, baseUrl, authorization, directory] = process.argv.slice(2);
const { createOpencodeClient } = await import(sdk);
const client = createOpencodeClient({ baseUrl, directory, headers: { authorization }, throwOnError: true });

const asked = (await client.permission.list()).data;
const answers = [];
for (const request of asked) {
  answers.push((await client.permission.reply({ requestID: request.id, reply: "always" })).data);
}
const left = (await client.permission.list()).data;
console.log(JSON.stringify({ asked, answers, left }));
