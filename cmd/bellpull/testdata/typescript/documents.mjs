// node documents.mjs DIR: what readDocument says of each file, "" for yes, as JSON.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { readDocument } from "./dist/document.js";

const said = {};
for (const name of readdirSync(process.argv[2]).filter((name) => name.startsWith("document-"))) {
  try {
    readDocument(readFileSync(join(process.argv[2], name)));
    said[name] = "";
  } catch (err) {
    said[name] = `${err.constructor.name}: ${err.message}`;
  }
}
console.log(JSON.stringify(said));
