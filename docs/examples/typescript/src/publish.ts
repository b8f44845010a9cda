import { JetStreamApiError, jetstream, jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import { setTimeout as sleep } from "node:timers/promises";
import { type Event, type Outcome, apply, date } from "./apply.js";
import { type Document, readDocument, writeDocument } from "./document.js";
import { ConflictError, InvalidError } from "./errors.js";
import { scopeKey } from "./names.js";
import { now } from "./time.js";

export interface Options {
  bucket?: string; // default "desired"
}

export interface Result {
  outcome: Outcome;
  revision: number; // under which the scope stands now
}

const maxAttempts = 32; // how often other writers may be faster
const wrongLastSequence = [10071, 10164]; // error codes of JetStream

/**
 * Sets one entry in the scope's document: reads it, changes it, and stores it
 * only if nobody else has written in between; else it begins anew. It returns
 * once JetStream has stored the document.
 *
 * It throws an InvalidError if the event breaks a rule, and a ConflictError if
 * what stands does not go with it, is no document, or others were faster again
 * and again. After any other error, a timeout for one, it is not known whether
 * the event was stored; to publish it again does no harm.
 */
export async function publish(nc: NatsConnection, scope: string, ev: Event, options: Options = {}): Promise<Result> {
  const bucket = options.bucket ?? "desired";
  const subject = `$KV.${bucket}.${scopeKey(scope)}`;
  const { direct } = await jetstreamManager(nc, { checkAPI: false });
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const message = await direct.getMessage(`KV_${bucket}`, { last_by_subj: subject });
    const doc = message ? standing(scope, message) : { entries: new Map(), removed: new Map() };
    const revision = message?.seq ?? 0;
    const outcome = apply(doc, ev, now());
    if (outcome !== "changed") return { outcome, revision };
    try {
      const ack = await jetstream(nc).publish(subject, writeDocument(doc), { expect: { lastSubjectSequence: revision } });
      return { outcome, revision: ack.seq };
    } catch (err) {
      if (!(err instanceof JetStreamApiError && wrongLastSequence.includes(err.code))) throw err;
    }
    await sleep(Math.random() * Math.min(10 * 2 ** attempt, 500));
  }
  throw new ConflictError(`scope ${scope}: other writers were faster ${maxAttempts} times`);
}

type Message = NonNullable<Awaited<ReturnType<Awaited<ReturnType<typeof jetstreamManager>>["direct"]["getMessage"]>>>;

/** The document that a message leaves its scope with. */
function standing(scope: string, message: Message): Document {
  const operation = message.header.get("KV-Operation");
  if (operation === "DEL" || operation === "PURGE" || message.header.has("Nats-Marker-Reason")) {
    return { entries: new Map(), removed: new Map(), superseded_before: message.timestamp };
  }
  try {
    return date(readDocument(message.data), message.timestamp);
  } catch (err) {
    if (!(err instanceof InvalidError)) throw err;
    throw new ConflictError(
      `what stands in scope ${scope} at revision ${message.seq} is no document: ${err.message}; ` +
        `take an earlier revision N from \`bellpull history ${scope}\` and run \`bellpull rollback ${scope} --to N\``,
    );
  }
}
