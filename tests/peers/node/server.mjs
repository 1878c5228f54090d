// What every server of the cross runs serves, made with the official TypeScript SDK.
//
// The SDK has no tasks: the three methods are registered by hand, and so is what they keep.

import http from "node:http";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { toNodeHandler } from "@modelcontextprotocol/node";
import * as z from "zod";

const TASKS = "io.modelcontextprotocol/tasks";
const QUESTION = {
  method: "elicitation/create",
  params: {
    mode: "form",
    message: "What is your name?",
    requestedSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
  },
};
// Handlers live for one request; tasks outlive it.
const tasks = new Map();

const text = (words) => [{ type: "text", text: words }];
const now = () => new Date().toISOString();

function show(task, members) {
  Object.assign(task, members, { lastUpdatedAt: now() });
}

function ask() {
  const task = {
    taskId: crypto.randomUUID(),
    status: "input_required",
    createdAt: now(),
    lastUpdatedAt: now(),
    ttlMs: 600_000,
    pollIntervalMs: 50,
  };
  tasks.set(task.taskId, { ...task, inputRequests: { name: QUESTION } });
  return { resultType: "task", ...task };
}

function find(taskId) {
  const task = tasks.get(taskId);
  if (task === undefined) {
    throw Object.assign(new Error("Task not found"), { code: -32602 });
  }
  return task;
}

// The SDK takes answers out of every request's parameters, as if each could be a second round.
function update({ taskId }, ctx) {
  const task = find(taskId);
  const answer = ctx.mcpReq.inputResponses?.name;
  if (task.status === "input_required" && answer !== undefined) {
    delete task.inputRequests;
    const result = { resultType: "complete", content: text(`Hello ${answer.content?.name}`) };
    show(task, { status: "completed", result });
  }
  return {};
}

function cancel({ taskId }) {
  const task = find(taskId);
  if (task.status === "input_required") {
    delete task.inputRequests;
    show(task, { status: "cancelled" });
  }
  return {};
}

function mcp() {
  const capabilities = { tools: {}, prompts: {}, resources: {}, extensions: { [TASKS]: {} } };
  const server = new McpServer({ name: "cross-typescript", version: "1" }, { capabilities });
  const echo = { description: "Says it again.", inputSchema: z.object({ text: z.string() }) };
  server.registerTool("echo", echo, async (args) => ({ content: text(args.text) }));
  server.registerTool("count", { description: "Tells how far it is." }, async (ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (const progress of progressToken === undefined ? [] : [1, 2]) {
      const params = { progressToken, progress, total: 2 };
      await ctx.mcpReq.notify({ method: "notifications/progress", params });
    }
    return { content: text("counted") };
  });
  server.registerTool("fail", { description: "Fails." }, async () => {
    throw new Error("it failed");
  });
  server.registerTool("ask", { description: "Asks for a name." }, async () => ask());
  const greet = { description: "Greets.", argsSchema: z.object({ name: z.string() }) };
  server.registerPrompt("greet", greet, async ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Greet ${name}` } }],
  }));
  server.registerResource("today", "memo://today", { mimeType: "text/plain" }, async (uri) => ({
    contents: [{ uri: uri.href, mimeType: "text/plain", text: "nothing planned" }],
  }));
  const params = z.object({ taskId: z.string() }).loose();
  const methods = { "tasks/get": ({ taskId }) => ({ ...find(taskId) }), "tasks/update": update, "tasks/cancel": cancel };
  for (const [method, take] of Object.entries(methods)) {
    server.server.setRequestHandler(method, { params, result: z.object({}).loose() }, async (given, ctx) => take(given, ctx));
  }
  return server;
}

const listener = http.createServer(toNodeHandler(createMcpHandler(mcp)));
listener.listen(0, "127.0.0.1", () => {
  const url = `http://127.0.0.1:${listener.address().port}/mcp`;
  console.log(JSON.stringify({ message: "listening", mcp: url }));
});
