import { type NodeConnectionOptions, connect, credsAuthenticator } from "@nats-io/transport-node";
import { randomUUID } from "node:crypto";
import { parseArgs } from "node:util";
import type { Event } from "./apply.js";
import { ConflictError, InvalidError } from "./errors.js";
import { parseJson } from "./json.js";
import { publish } from "./publish.js";

const usage = `usage: npm start -- SCOPE ENTRY VALUE [--kind K] [--ttl SECONDS] [--sensitive]
                 [--id ID] [--source SOURCE] [--time TIME]

VALUE is JSON. $NATS_URL is where NATS is, such as tls://nats.example.com:4222;
$NATS_CREDS holds the text of a credentials file; $BELLPULL_BUCKET names the
bucket.`;

class UsageError extends Error {}

/** The command line as an event. */
function parse(): { scope: string; ev: Event } {
  const { values, positionals } = args();
  const [scope, entry, value, ...more] = positionals;
  if (scope === undefined || entry === undefined || value === undefined || more.length > 0) throw new UsageError(usage);
  const ev: Event = {
    id: values.id ?? randomUUID(),
    source: values.source ?? "example/typescript",
    time: values.time ?? new Date().toISOString(),
    entry,
    value: parseJson(value),
  };
  if (values.kind !== undefined) ev.kind = values.kind;
  if (values.ttl !== undefined) ev.ttl = Number(values.ttl);
  if (values.sensitive) ev.sensitive = true;
  return { scope, ev };
}

function args() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        kind: { type: "string" },
        ttl: { type: "string" },
        sensitive: { type: "boolean" },
        id: { type: "string" },
        source: { type: "string" },
        time: { type: "string" },
      },
    });
  } catch (err) {
    throw new UsageError(`${(err as Error).message}\n${usage}`);
  }
}

async function main(): Promise<void> {
  const { scope, ev } = parse();
  const { NATS_URL, NATS_CREDS, BELLPULL_BUCKET } = process.env;
  const nc = await connect(server(NATS_URL ?? "nats://127.0.0.1:4222", NATS_CREDS));
  try {
    console.log(JSON.stringify(await publish(nc, scope, ev, BELLPULL_BUCKET ? { bucket: BELLPULL_BUCKET } : {})));
  } finally {
    await nc.close();
  }
}

/** The client takes neither TLS nor a user from a URL by itself. */
function server(url: string, creds?: string): NodeConnectionOptions {
  if (!URL.canParse(url)) throw new InvalidError("$NATS_URL is no URL such as tls://nats.example.com:4222");
  const { protocol, host, username, password } = new URL(url);
  return {
    servers: host,
    ...(protocol === "tls:" && { tls: {} }),
    ...(username && { user: decodeURIComponent(username), pass: decodeURIComponent(password) }),
    ...(creds && { authenticator: credsAuthenticator(new TextEncoder().encode(creds)) }),
  };
}

/** The exit codes are those of the command bellpull. */
function exitCode(err: Error): number {
  if (err instanceof UsageError) return 2;
  if (err instanceof InvalidError) return 4;
  return err instanceof ConflictError ? 5 : 6;
}

main().catch((err: Error) => {
  console.error(`error: ${err.message}`);
  process.exitCode = exitCode(err);
});
