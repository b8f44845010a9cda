// A plain KV client: node kv.mjs URL BUCKET put|get|del|history KEY [BODY]
import { connect } from "@nats-io/transport-node";
import { Kvm } from "@nats-io/kv";

const [url, bucket, action, key, body] = process.argv.slice(2);
const nc = await connect({ servers: url, timeout: 10_000 });
const kv = await new Kvm(nc).open(bucket);
const show = (e) => ({ key: e.key, revision: e.revision, operation: e.operation, value: e.string() });
switch (action) {
  case "put":
    console.log(await kv.put(key, body));
    break;
  case "get": {
    const entry = await kv.get(key);
    console.log(JSON.stringify(entry && show(entry)));
    break;
  }
  case "del":
    await kv.delete(key);
    break;
  case "history":
    for await (const entry of await kv.history({ key })) console.log(JSON.stringify(show(entry)));
    break;
  default:
    throw new Error(`what is ${action}?`);
}
await nc.close();
