import type { Document, Entry, Origin, Removal } from "./document.js";
import { ConflictError, InvalidError } from "./errors.js";
import { type Json, canonical, toJson } from "./json.js";
import { splitName } from "./names.js";
import { formatInstant, instant, second } from "./time.js";

/** A wish to set one entry. Its identity is (source, id), its order (time, source, id). */
export interface Event {
  id: string;
  source: string;
  time: string; // RFC 3339
  entry: string;
  value: unknown;
  kind?: string;
  ttl?: number; // seconds from time on, after which the entry is gone
  sensitive?: boolean;
}

/** What became of an event. */
export type Outcome = "changed" | "unchanged" | "superseded";

const maxFuture = 5n * 60n * second;
const maxAge = 7n * 24n * 3600n * second;
const maxRemoved = 1000;

/**
 * Brings the event into the document, which must be dated. Whatever the order in
 * which events arrive, and however often, the document ends the same.
 */
export function apply(doc: Document, ev: Event, now: bigint): Outcome {
  const at = instant(ev.time);
  if (ev.id === "") throw new InvalidError("the event has no id");
  if (ev.ttl !== undefined && !(ev.ttl >= 1)) throw new InvalidError("ttl must be at least 1 second");
  if (at > now + maxFuture) throw new InvalidError(`time ${ev.time} is more than 5 minutes ahead of this machine's clock`);

  const standing = stands(doc, ev.entry);
  if (standing && standing.event === ev.id && (standing.source ?? "") === ev.source) {
    if (!sameContent(standing, ev)) {
      throw new ConflictError(`event ${ev.id} of ${ev.source} stands already with other content; a changed event needs an id of its own`);
    }
    return "unchanged";
  }
  if (standing?.seen?.some((s) => s.event === ev.id && (s.source ?? "") === ev.source)) return "unchanged";
  if (at < now - maxAge) return "superseded";
  if (standing) {
    if (compare({ event: ev.id, source: ev.source, time: ev.time }, standing) < 0) return "superseded";
  } else if (doc.superseded_before !== undefined && at <= instant(doc.superseded_before)) {
    return "superseded";
  }

  const next = entryOf(ev, at);
  const seen = standing?.seen?.filter((s) => instant(s.time) > now - maxAge) ?? [];
  if (seen.length > 0) next.seen = seen;
  doc.removed.delete(ev.entry);
  doc.entries.set(ev.entry, next);
  expire(doc, now);
  checkMembers(doc, ev.entry);
  forget(doc, now);
  return "changed";
}

/** Gives what other clients wrote without a time the time of its message. */
export function date(doc: Document, message: string): Document {
  for (const origin of [...doc.entries.values(), ...doc.removed.values()]) origin.time ??= message;
  return doc;
}

function entryOf(ev: Event, at: bigint): Entry {
  const entry: Entry = { value: toJson(ev.value), event: ev.id, source: ev.source, time: ev.time };
  if (ev.kind !== undefined) entry.kind = ev.kind;
  if (ev.ttl !== undefined) entry.expires = formatInstant(at + BigInt(Math.round(ev.ttl * 1000)) * 1_000_000n);
  if (ev.sensitive) entry.sensitive = true;
  return entry;
}

/** The entry or the removal of that name. If another client left both, the later one. */
function stands(doc: Document, name: string): Entry | Removal | undefined {
  const entry = doc.entries.get(name);
  const removal = doc.removed.get(name);
  return entry && removal ? (compare(entry, removal) > 0 ? entry : removal) : (entry ?? removal);
}

function sameContent(standing: Entry | Removal, ev: Event): boolean {
  if (!("value" in standing)) return standing.expired === true; // what it held is gone
  const content = (e: Entry) =>
    canonical([e.value, e.kind ?? "", e.expires ? `${instant(e.expires)}` : "", e.sensitive ?? false, e.run ?? {}] as Json);
  return content(standing) === content(entryOf(ev, instant(standing.time!)));
}

function compare(a: Origin, b: Origin): number {
  const [x, y] = [instant(a.time!), instant(b.time!)];
  if (x !== y) return x < y ? -1 : 1;
  return bytes(a.source, b.source) || bytes(a.event, b.event);
}

function bytes(a = "", b = ""): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/** Turns entries past their expiry into removals: a late older event must not bring them back. */
function expire(doc: Document, now: bigint): void {
  for (const [name, e] of doc.entries) {
    if (e.expires === undefined || now < instant(e.expires)) continue;
    doc.entries.delete(name);
    const { event, source, time, seen } = e;
    doc.removed.set(name, { ...(event && { event }), ...(source && { source }), ...(time && { time }), expired: true, ...(seen && { seen }) });
  }
}

function checkMembers(doc: Document, name: string): void {
  const { key, member } = splitName(name);
  for (const other of doc.entries.keys()) {
    const o = splitName(other);
    if (o.key === key && (o.member === undefined) !== (member === undefined)) {
      throw new ConflictError(`${JSON.stringify(other)} stands there: a key has either members or one value, remove that first`);
    }
  }
}

/** Drops the removals that no event can meet any more, and the oldest of too many. */
function forget(doc: Document, now: bigint): void {
  const horizon = now - maxAge;
  for (const [name, r] of doc.removed) if (instant(r.time!) < horizon) doc.removed.delete(name);
  if (doc.superseded_before !== undefined && instant(doc.superseded_before) < horizon) delete doc.superseded_before;
  const oldest = [...doc.removed].sort(([, a], [, b]) => compare(a, b));
  for (const [name, r] of oldest.slice(0, Math.max(0, oldest.length - maxRemoved))) {
    if (doc.superseded_before === undefined || instant(r.time!) > instant(doc.superseded_before)) doc.superseded_before = r.time!;
    doc.removed.delete(name);
  }
}
