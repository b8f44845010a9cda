import { InvalidError } from "./errors.js";

const maxSegments = 16;
const maxKey = 200;
const maxEntryName = 512;

/**
 * The key under which a scope's document stands: "." and "/" change places, so
 * that a certname is one token of the subject, and ":" is written "=3A".
 */
export function scopeKey(scope: string): string {
  const fault = (message: string) => new InvalidError(`scope ${JSON.stringify(scope)} ${message}`);
  const segments = scope.split("/");
  if (segments.length > maxSegments) throw fault(`has more than ${maxSegments} segments`);
  for (const segment of segments) {
    if (segment === "." || segment === ".." || !/^[A-Za-z0-9._:-]+$/.test(segment)) {
      throw fault("must be segments of A-Z a-z 0-9 . _ : - parted by /, none of them . or ..");
    }
  }
  const key = scope.replace(/[./:]/g, (c) => ({ ".": "/", "/": ".", ":": "=3A" })[c]!);
  if (key.length > maxKey) throw fault(`has a key of more than ${maxKey} bytes`);
  return key;
}

/** Parts x[y] into the Hiera key x and its member y. */
export function splitName(name: string): { key: string; member?: string } {
  const open = name.indexOf("[");
  if (open <= 0 || !name.endsWith("]")) return { key: name };
  return { key: name.slice(0, open), member: name.slice(open + 1, -1) };
}

export function checkEntryName(name: string): void {
  const { key, member } = splitName(name);
  const fault =
    name === "" ? "is empty"
    : Buffer.byteLength(name) > maxEntryName ? `has more than ${maxEntryName} bytes`
    : /\p{Cc}/u.test(name) ? "holds a control character"
    : key === "<<" || member === "<<" ? 'is or holds "<<", which YAML would merge'
    : key === "bellpull::compiled" ? "is reserved"
    : member === "" ? "has an empty member between [ and ]"
    : undefined;
  if (fault) throw new InvalidError(`entry name ${JSON.stringify(name)} ${fault}`);
}
