// What the history says as it grows, for whoever on the page wants to know.

import { useEffect, useState } from './vendor/htm-preact.js';

const KEPT = 200;
const readers = new Set();
const rows = [];

/** A row of the history came. */
export function happened(row) {
  rows.unshift(row);
  rows.length = Math.min(rows.length, KEPT);
  for (const reader of readers) reader(row);
}

/** Rows since the page was opened, the newest first. */
export function useRows() {
  const [, setCount] = useState(0);
  useEffect(() => {
    const reader = () => setCount(count => count + 1);
    readers.add(reader);
    return () => readers.delete(reader);
  }, []);
  return rows;
}

/** Calls `reader` some time after rows came that `matters` says yes to. */
export function useNews(matters, reader, inputs = []) {
  useEffect(() => {
    let timer;
    const heard = row => {
      if (!matters(row)) return;
      clearTimeout(timer);
      timer = setTimeout(reader, 300);
    };
    readers.add(heard);
    return () => {
      clearTimeout(timer);
      readers.delete(heard);
    };
  }, inputs);
}

/** The path of a kind by its name in the history: `servicePolicy` is `service-policies`. */
export const pathOf = name => {
  const word = name.replace(/([a-z])([A-Z])/g, '$1-$2').toLowerCase();
  return /[^aeiou]y$/.test(word) ? word.replace(/y$/, 'ies') : `${word}s`;
};
