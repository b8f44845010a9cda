// node many.mjs URL SCOPE PREFIX N: publishes N events, for an entry each.
import { connect } from "@nats-io/transport-node";
import { publish } from "./dist/publish.js";

const [url, scope, prefix, n] = process.argv.slice(2);
const nc = await connect({ servers: url });
for (let i = 0; i < Number(n); i++) {
  const event = { id: `${prefix}-${i}`, source: "many", time: new Date().toISOString(), entry: `${prefix}::${i}`, value: i };
  const { outcome } = await publish(nc, scope, event);
  if (outcome !== "changed") throw new Error(`event ${event.id}: ${outcome}`);
}
await nc.close();
