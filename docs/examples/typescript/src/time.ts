import { InvalidError } from "./errors.js";

/**
 * An RFC 3339 time as nanoseconds since 1970. Events are ordered by it: a Date
 * would make two events of the same millisecond equal.
 */
export function instant(text: string): bigint {
  const parts = /^(\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d)(?:\.(\d+))?(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))$/.exec(text);
  const seconds = parts ? Date.parse(`${parts[1]}Z`) / 1000 : NaN;
  // Date takes February 30 for a day of March.
  if (!parts || Number.isNaN(seconds) || !new Date(seconds * 1000).toISOString().startsWith(parts[1]!)) {
    throw new InvalidError(`${JSON.stringify(text)} is no RFC 3339 time such as 2026-12-01T10:00:00Z`);
  }
  const offset = (Number(parts[5] ?? 0) * 3600 + Number(parts[6] ?? 0) * 60) * (parts[4] === "-" ? -1 : 1);
  return BigInt(seconds - offset) * second + BigInt((parts[3] ?? "").slice(0, 9).padEnd(9, "0"));
}

export const second = 1_000_000_000n;

/** The inverse of instant, in UTC. */
export function formatInstant(at: bigint): string {
  const rest = ((at % second) + second) % second;
  const fraction = rest.toString().padStart(9, "0").replace(/0+$/, "");
  const whole = new Date(Number((at - rest) / 1_000_000n)).toISOString().slice(0, "2026-12-01T10:00:00".length);
  return `${whole}${fraction && `.${fraction}`}Z`;
}

export function now(): bigint {
  return BigInt(Date.now()) * 1_000_000n;
}
