// Passes new rows of the history to the parts of the page that subscribe to them.

import { useEffect, useState } from "./vendor/htm-preact.js";
import { onSession } from "./api.js";

const MAX_ROWS = 200;
// Milliseconds from a row to the call that it causes, and between two calls.
const [SOON, INTERVAL] = [300, 1000];
const REDRAW = 200; // milliseconds
const readers = new Set();
const rows = [];

// What one person saw is not shown to the next one.
onSession((session) => {
  if (!session) rows.length = 0;
});

/** Handles a new row of the history, or the event `gone`: rows in between were removed, and anything may have changed. */
export function onHistoryRow(row, event) {
  const isGone = event === "gone";
  if (isGone) rows.length = 0;
  else rows.unshift(row);
  rows.length = Math.min(rows.length, MAX_ROWS);
  for (const reader of readers) reader(isGone ? null : row);
}

/** The rows since the page was opened, newest first. However many there are, they are drawn a few times a second. */
export function useRows() {
  const [, setCount] = useState(0);
  useEffect(() => {
    let timer;
    const show = () => {
      timer = undefined;
      setCount((count) => count + 1);
    };
    const reader = () => {
      timer ??= setTimeout(show, REDRAW);
    };
    readers.add(reader);
    return () => {
      clearTimeout(timer);
      readers.delete(reader);
    };
  }, []);
  return rows;
}

/** Calls `reader` soon after a row for which `matters` returns true, and at most once in an interval, however many rows follow. */
export function useNews(matters, reader, inputs = []) {
  useEffect(() => {
    let timer;
    let earliest = 0;
    const run = () => {
      timer = undefined;
      earliest = performance.now() + INTERVAL;
      reader();
    };
    const onRow = (row) => {
      if (timer === undefined && (!row || matters(row)))
        timer = setTimeout(run, Math.max(SOON, earliest - performance.now()));
    };
    readers.add(onRow);
    return () => {
      clearTimeout(timer);
      readers.delete(onRow);
    };
  }, inputs);
}

/** The path of a kind by its name in the history: `servicePolicy` is `service-policies`. */
export const pathOf = (name) => {
  const word = name.replace(/([a-z])([A-Z])/g, "$1-$2").toLowerCase();
  return /[^aeiou]y$/.test(word) ? word.replace(/y$/, "ies") : `${word}s`;
};
