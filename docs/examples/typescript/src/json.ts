import { LosslessNumber, parse, stringify } from "lossless-json";
import { InvalidError } from "./errors.js";

/**
 * A JSON value. Numbers keep their digits: JSON.parse would make
 * 12345678901234567000 of 12345678901234567890, also in entries of others that
 * are only carried along.
 */
export type Json = null | boolean | string | LosslessNumber | Json[] | JsonObject;
export type JsonObject = { [name: string]: Json };

const maxDepth = 64;

/** Parses one JSON value. The error tells what is wrong with the text. */
export function parseJson(text: string): Json {
  let value: Json;
  try {
    value = parse(text) as Json;
  } catch (err) {
    // RangeError: the nesting is so deep that the parser's stack ends.
    throw new InvalidError(`no valid JSON: ${(err as Error).message}`);
  }
  checkJson(value, 0);
  return value;
}

/** Takes a JavaScript value for JSON. What JSON cannot say, such as NaN, is invalid. */
export function toJson(value: unknown): Json {
  const text = stringify(value, (_, v) => {
    if (typeof v === "number" && !Number.isFinite(v)) throw new InvalidError(`${v} is no JSON value`);
    return v;
  });
  if (text === undefined) throw new InvalidError("the value is missing");
  return parseJson(text);
}

export function isObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof LosslessNumber);
}

/** The same text for equal values, whatever the order of members. 1 and 1.0 are not equal. */
export function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (!isObject(value)) return stringify(value)!;
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, v]) => `${JSON.stringify(name)}:${canonical(v)}`).join()}}`;
}

function checkJson(value: Json, depth: number): void {
  if (typeof value === "string") checkText(value);
  if (typeof value !== "object" || value === null || value instanceof LosslessNumber) return;
  if (depth === maxDepth) throw new InvalidError(`nested deeper than ${maxDepth} levels`);
  for (const [name, v] of Object.entries(value)) {
    checkText(name);
    checkJson(v, depth + 1);
  }
}

function checkText(text: string): void {
  if (/\p{Surrogate}/u.test(text)) throw new InvalidError("a string holds half a surrogate pair");
}
