import { LosslessNumber, stringify } from "lossless-json";
import { InvalidError } from "./errors.js";
import { type Json, type JsonObject, isObject, parseJson } from "./json.js";
import { checkEntryName, splitName } from "./names.js";
import { instant } from "./time.js";

/** A scope's document: its entries, and what it remembers of those removed. */
export interface Document {
  entries: Map<string, Entry>;
  removed: Map<string, Removal>;
  superseded_before?: string;
}

/** Where an entry or a removal comes from. */
export interface Origin {
  event?: string;
  source?: string;
  time?: string;
  seen?: { event: string; source?: string; time: string }[];
}

export interface Entry extends Origin {
  value: Json;
  kind?: string;
  expires?: string;
  sensitive?: boolean;
  owner?: string;
  run?: JsonObject;
}

export interface Removal extends Origin {
  expired?: boolean;
}

const maxDocument = 900 * 1024;

/** Reads a document strictly. The error names the place of the first fault as a JSON pointer. */
export function readDocument(body: Uint8Array): Document {
  checkSize(body);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    throw new InvalidError("no valid UTF-8");
  }
  const raw = parseJson(text);
  document(raw, "");
  const { entries, removed, superseded_before } = raw as JsonObject;
  const doc: Document = {
    entries: new Map(Object.entries(entries as JsonObject)) as unknown as Map<string, Entry>,
    removed: new Map(Object.entries((removed ?? {}) as JsonObject)) as unknown as Map<string, Removal>,
  };
  if (superseded_before !== undefined) doc.superseded_before = superseded_before as string;
  for (const name of doc.entries.keys()) {
    const { key, member } = splitName(name);
    if (member !== undefined && doc.entries.has(key)) {
      throw new InvalidError(`${JSON.stringify(name)} stands beside ${JSON.stringify(key)}; a key has members or one value`);
    }
  }
  return doc;
}

/** The inverse of readDocument. What readDocument would refuse is an error here too. */
export function writeDocument(doc: Document): Uint8Array {
  const body = new TextEncoder().encode(
    stringify({
      bellpull: 1,
      entries: Object.fromEntries(doc.entries),
      removed: doc.removed.size > 0 ? Object.fromEntries(doc.removed) : undefined,
      superseded_before: doc.superseded_before,
    }),
  );
  readDocument(body);
  return body;
}

function checkSize(body: Uint8Array): void {
  if (body.length > maxDocument) throw new InvalidError(`the document has ${body.length} bytes, at most ${maxDocument} are allowed`);
}

// The rest says what a document looks like: each check throws for a value that is
// not as it must be. at is the value's place.
type Check = (value: Json, at: string) => void;

function must(ok: boolean, at: string, rule: string): void {
  if (!ok) throw new InvalidError(`${at || "the document"} ${rule}`);
}

function object(members: Record<string, Check>, ...required: string[]): Check {
  return (value, at) => {
    must(isObject(value), at, "must be an object");
    for (const [name, v] of Object.entries(value as JsonObject)) {
      must(Object.hasOwn(members, name), `${at}/${name}`, "is not a known member here");
      members[name]!(v, `${at}/${name}`);
    }
    for (const name of required) must(Object.hasOwn(value as JsonObject, name), `${at}/${name}`, "is missing");
  };
}

function names(check: Check): Check {
  return (value, at) => {
    must(isObject(value), at, "must be an object");
    for (const [name, v] of Object.entries(value as JsonObject)) {
      checkEntryName(name);
      check(v, `${at}/${name}`);
    }
  };
}

function list(check: Check, most: number): Check {
  return (value, at) => {
    must(Array.isArray(value) && value.length <= most, at, `must be an array of at most ${most} items`);
    (value as Json[]).forEach((v, i) => check(v, `${at}/${i}`));
  };
}

const text = (pattern: RegExp, rule: string): Check => (value, at) =>
  must(typeof value === "string" && pattern.test(value), at, rule);

const anything: Check = () => {};
const flag: Check = (value, at) => must(typeof value === "boolean", at, "must be true or false");
const version: Check = (value, at) => must(value instanceof LosslessNumber && value.value === "1", at, "must be 1");
const id = text(/^\P{Cc}{0,256}$/u, "must be at most 256 characters, none of them a control character");
const word = text(/^[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$/, "must be 1 to 128 of A-Z a-z 0-9 . _ : - and begin with a letter, digit or _");
const duration = text(/^(?=.*[1-9])\+?((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+$/, "must be a duration above 0 such as 90s, 5m or 1h30m");
const time: Check = (value, at) => {
  must(typeof value === "string", at, "must be a time");
  instant(value as string);
};
const seen = list(object({ event: id, source: id, time }, "event", "time"), 16);
const run = object({ trigger: text(/^(now|next)$/, 'must be "now" or "next"'), splay: duration, tags: list(word, 32), noop: flag });
const entry = object(
  { value: anything, kind: word, event: id, source: id, time, expires: time, sensitive: flag, run, owner: id, seen },
  "value",
);
const removal = object({ event: id, source: id, time, expired: flag, seen });
const document = object(
  { bellpull: version, entries: names(entry), removed: names(removal), superseded_before: time },
  "bellpull",
  "entries",
);
