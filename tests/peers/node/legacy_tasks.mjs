// A server of MCP 2025-11-25 with tasks (SEP-1686), made with the official TypeScript SDK of that revision.
//
// Its store ties each task to the session that it was born in.

import http from "node:http";
import { InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import * as z from "zod";

const taskStore = new InMemoryTaskStore();
const sessions = new Map();
const text = (words) => [{ type: "text", text: words }];

/** How a task of this kind ends, or that it goes on. */
async function run(kind, store, taskId) {
  switch (kind) {
    case "done":
      return store.storeTaskResult(taskId, "completed", { content: text("slept well") });
    case "broken":
      return store.storeTaskResult(taskId, "failed", { content: text("it broke"), isError: true });
    case "asking":
      return store.updateTaskStatus(taskId, "input_required");
    default:
      return undefined;
  }
}

function mcp() {
  const capabilities = { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } };
  const server = new McpServer({ name: "legacy-tasks", version: "1" }, { capabilities, taskStore });
  server.registerTool("echo", { inputSchema: { text: z.string() } }, async (given) => ({ content: text(given.text) }));
  const config = { inputSchema: { kind: z.string() }, execution: { taskSupport: "required" } };
  server.experimental.tasks.registerToolTask("slow", config, {
    async createTask({ kind }, extra) {
      const task = await extra.taskStore.createTask({ ttl: extra.taskRequestedTtl, pollInterval: 50 });
      setImmediate(() => run(kind, extra.taskStore, task.taskId));
      return { task };
    },
    getTask: (_, extra) => extra.taskStore.getTask(extra.taskId),
    getTaskResult: (_, extra) => extra.taskStore.getTaskResult(extra.taskId),
  });
  return server;
}

async function open() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: () => crypto.randomUUID(),
    onsessioninitialized: (id) => void sessions.set(id, transport),
    onsessionclosed: (id) => void sessions.delete(id),
  });
  await mcp().connect(transport);
  return transport;
}

const listener = http.createServer(async (request, response) => {
  const id = request.headers["mcp-session-id"];
  if (id !== undefined && !sessions.has(id)) {
    response.writeHead(404).end();
    return;
  }
  const transport = sessions.get(id) ?? (await open());
  await transport.handleRequest(request, response);
});
listener.listen(0, "127.0.0.1", () => {
  const url = `http://127.0.0.1:${listener.address().port}/mcp`;
  console.log(JSON.stringify({ message: "listening", mcp: url }));
});
