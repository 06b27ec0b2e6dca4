// What schemas say about values: words to choose from, variants, examples, and the first value.

import { INVALID, resolve, typeOf } from "./kinds.js";
import { texts } from "./texts.js";

const t = texts.form;
const DAY = 86400000;
const MAX_FOLLOWED = 6; // references within references
const MAX_NODES = 5000; // parts of a schema that refers to itself
const MAX_PRESELECTED_WORDS = 4; // with at most this many words, the first is preselected

/** The allowed values of a string, if the schema lists them. A right that nobody has is not offered. */
export const wordsOf = (schema) =>
  listed(schema)?.filter((word) => word !== null && !INVALID.test(word));
const listed = (schema) =>
  schema.enum ||
  (schema.oneOf?.every((option) => "const" in option || option.enum)
    ? schema.oneOf.flatMap((option) => option.enum || [option.const])
    : null);

/** The variants of an object that one member distinguishes: `[member, variants by its value]`. */
export function variantsOf(schema) {
  const options = schema.oneOf?.map(resolve);
  if (!options?.every((option) => option.properties)) return null;
  const tag = Object.keys(options[0].properties).find((member) =>
    options.every((option) => resolve(option.properties[member])?.const !== undefined),
  );
  return (
    tag && [tag, new Map(options.map((option) => [resolve(option.properties[tag]).const, option]))]
  );
}

const says = (example) =>
  example !== undefined &&
  example !== null &&
  example !== "" &&
  !(typeof example === "object" && !Object.keys(example).length);

/** What could stand in a field, as a text: the page's own example for the kind or the member, that of the schema, or any value of its type. */
export function exampleOf(kind, member, schema) {
  const own = [`${kind?.name}.${member}`, member].find((key) => Object.hasOwn(texts.examples, key)); // a name differs by kind
  const type = typeOf(schema);
  const found = own
    ? texts.examples[own]
    : ([...(schema.examples || []), schema.default].find(says) ??
      t.anything[type] ??
      t.anything.object);
  const one = Array.isArray(found) ? (found[0] ?? t.anything.string) : found;
  return typeof one === "object" ? JSON.stringify(one) : String(one);
}

/** The initial value of a member. */
export function initial(schema) {
  const shape = resolve(schema);
  if (shape.default !== undefined && shape.default !== null) return structuredClone(shape.default);
  if (shape.const !== undefined) return shape.const;
  const type = typeOf(shape);
  if (type === "object" && shape.properties)
    return Object.fromEntries(
      (shape.required || []).map((member) => [member, initial(shape.properties[member])]),
    );
  if (type === "object") return {};
  if (type === "array") return [];
  if (type === "boolean") return false;
  const words = wordsOf(shape);
  const usual = words?.find((word) => /^default$/i.test(word));
  if (usual || (words?.length && words.length <= MAX_PRESELECTED_WORDS)) return usual || words[0];
  if (type === "integer" || type === "number") return shape.examples?.[0] ?? 0;
  if (shape.format === "date-time") return new Date(Date.now() + DAY).toISOString();
  return undefined;
}

/** A draft without blank members. */
export function clean(draft, schema) {
  const required = new Set(schema?.required || []);
  return Object.fromEntries(
    Object.entries(draft).filter(
      ([member, value]) =>
        value !== undefined && value !== null && (value !== "" || required.has(member)),
    ),
  );
}

/** A schema with the references to its own definitions replaced by them, and with the parts of `allOf` as one. */
export function inlined(schema, definitions, followed = 0, budget = { nodes: MAX_NODES }) {
  if (!schema || typeof schema !== "object" || budget.nodes-- <= 0) return schema;
  if (Array.isArray(schema))
    return schema.map((item) => inlined(item, definitions, followed, budget));
  const { $ref: reference, allOf = [], definitions: _, ...own } = schema;
  const rest = Object.fromEntries(
    Object.entries(own).map(([key, value]) => [key, inlined(value, definitions, followed, budget)]),
  );
  const parts = allOf.map((part) => inlined(part, definitions, followed, budget));
  // A definition may contain itself.
  if (reference?.startsWith("#/definitions/") && followed < MAX_FOLLOWED)
    parts.unshift(
      inlined(definitions?.[reference.slice(14)] || {}, definitions, followed + 1, budget),
    );
  const all = [...parts, rest];
  const properties = Object.assign({}, ...all.map((part) => part.properties));
  const required = [...new Set(all.flatMap((part) => part.required || []))];
  return Object.assign(
    {},
    ...all,
    Object.keys(properties).length && { properties },
    required.length && { required },
  );
}
