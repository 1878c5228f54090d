// The steps of the cross runs, taken by a client of the official TypeScript SDK.
//
//     client.mjs URL KEY
//
// Tasks come from the SDK's extension, which leaves the sending of its requests to the caller.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient, resultFromTaskOutcome } from "@modelcontextprotocol/ext-tasks/client";

const VERSION = "2026-07-28";
const [url, key] = process.argv.slice(2);
const authorization = `Bearer ${key}`;
const clientInfo = { name: "cross-typescript", version: "1" };
const capabilities = { elicitation: { form: {} }, extensions: { "io.modelcontextprotocol/tasks": {} } };

async function step(name, take) {
  try {
    console.log(JSON.stringify({ step: name, value: await take() }));
  } catch (error) {
    console.log(JSON.stringify({ step: name, failed: `${error.constructor.name}: ${error.message}` }));
  }
}

let sent = 1000;

/** Sends one request of the extension, and reads its reply from either framing. */
async function rawDispatch(request, options) {
  const body = { jsonrpc: "2.0", id: ++sent, ...request };
  const headers = {
    authorization,
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": VERSION,
    "mcp-method": body.method,
    "mcp-name": body.params?.name ?? body.params?.taskId,
  };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body), signal: options?.signal });
  let text = await response.text();
  if (response.headers.get("content-type")?.includes("event-stream")) {
    text = text.split("\n").findLast((line) => line.startsWith("data:")).slice("data:".length);
  }
  const reply = JSON.parse(text);
  return "error" in reply ? { kind: "error", error: reply.error } : { kind: "result", result: reply.result };
}

const client = new Client(clientInfo, { versionNegotiation: { mode: { pin: VERSION } }, capabilities });
const requestInit = { headers: { authorization } };
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));

await step("list", async () => (await client.listTools()).tools.map((tool) => tool.name).sort());
await step("call", async () => (await client.callTool({ name: "echo", arguments: { text: "hello" } })).content[0].text);
await step("prompt", async () => {
  const got = await client.getPrompt({ name: "greet", arguments: { name: "Ann" } });
  return got.messages[0].content.text;
});
await step("resource", async () => (await client.readResource({ uri: "memo://today" })).contents[0].text);
await step("progress", async () => {
  const seen = [];
  const onprogress = ({ progress }) => seen.push(progress);
  await client.callTool({ name: "count", arguments: {} }, { onprogress });
  return seen;
});
await step("error", async () => {
  const failed = await client.callTool({ name: "fail", arguments: {} });
  return failed.isError === true && failed.content[0].text.includes("it failed");
});
await step("task", async () => {
  const session = createTaskSessionFromClient(client, {
    endpointId: "cross",
    rawDispatch,
    v2RequestFraming: { protocolVersion: VERSION, clientInfo, clientCapabilities: capabilities },
    onInputRequest: async () => ({ action: "accept", content: { name: "Ann" } }),
  });
  const execution = await session.callTool("ask", {});
  const { outcome } = await execution.settle();
  return resultFromTaskOutcome(outcome).content[0].text;
});
process.exit(0);
