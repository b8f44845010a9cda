// node apply.mjs <CASES: applies each case's events to its document.
import { readFileSync } from "node:fs";
import { apply, date } from "./dist/apply.js";
import { readDocument, writeDocument } from "./dist/document.js";
import { parseJson } from "./dist/json.js";
import { instant } from "./dist/time.js";

const cases = JSON.parse(readFileSync(0, "utf8"));
console.log(
  JSON.stringify(
    cases.map(({ document, message, now, events }) => {
      let doc = date(readDocument(Buffer.from(document)), message);
      const outcomes = events.map(({ valueText, ...event }) => {
        const before = writeDocument(doc);
        try {
          return apply(doc, { ...event, value: parseJson(valueText) }, instant(now));
        } catch (err) {
          doc = readDocument(before);
          return err.constructor.name;
        }
      });
      return { document: Buffer.from(writeDocument(doc)).toString(), outcomes };
    }),
  ),
);
