// Names of records by their ids.

import { get } from "./api.js";
import { kind, nameOf } from "./kinds.js";
import { may } from "./scope.js";

const FRESH = 30000; // milliseconds
const known = new Map();

/** The name of a record by its id, cached; the id itself where the session may not ask for it. */
export function nameById(kindName, id) {
  const key = `${kindName}/${id}`;
  const path = `${kind(kindName)?.path || `/${kindName}`}/${encodeURIComponent(id)}`;
  if (!may("GET", path)) return Promise.resolve(id);
  if (!known.has(key)) {
    known.set(
      key,
      get(path).then(
        ({ data }) => nameOf(data),
        () => id,
      ),
    );
    setTimeout(() => known.delete(key), FRESH);
  }
  return known.get(key);
}
