// Times in the zone of the viewer with UTC on hover or after a tap, or in UTC if the viewer chose that.

import { useEffect, useState } from "./vendor/htm-preact.js";
import { html } from "./html.js";

const KEY = "overkeep-times";
const watchers = new Set();
let now = localStorage.getItem(KEY) === "utc" ? "utc" : "local";

/** The zones that a viewer can choose. */
export const ZONES = ["local", "utc"];

/** The chosen zone, and a function that chooses one. */
export function useZone() {
  const [zone, setZone] = useState(now);
  useEffect(() => {
    watchers.add(setZone);
    return () => watchers.delete(setZone);
  }, []);
  const choose = (value) => {
    now = value;
    localStorage.setItem(KEY, value);
    for (const watcher of watchers) watcher(value);
  };
  return [zone, choose];
}

const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const UNITS = [
  ["year", 31536000],
  ["month", 2592000],
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
];

function ago(date) {
  const seconds = (date - Date.now()) / 1000;
  const [unit, size] = UNITS.find(([, length]) => Math.abs(seconds) >= length) || ["second", 1];
  return relative.format(Math.round(seconds / size), unit);
}

const utc = (date) =>
  date
    .toISOString()
    .replace("T", " ")
    .replace(/(\.\d+)?Z$/, " UTC");

/** A time as text, in the zone that was chosen. */
export const timeText = (date, zone) => (zone === "utc" ? utc(date) : date.toLocaleString());

/** A time. Without `exact` the zone of the viewer shows how long ago it was. A click or a tap shows it in both zones, and once more as before. */
export function Time({ at, exact }) {
  const [zone] = useZone();
  const [isWhole, setWhole] = useState(false);
  const date = new Date(at);
  if (!at || Number.isNaN(date.getTime())) return html`<span class="faint">–</span>`;
  const both = [date.toLocaleString(), utc(date)];
  const text = isWhole
    ? both.join(" · ")
    : zone === "utc" || exact
      ? timeText(date, zone)
      : ago(date);
  return html`<time class=${isWhole ? "whole" : ""} dateTime=${date.toISOString()} title=${both.join(" · ")} onClick=${() => setWhole(!isWhole)}>${text}</time>`;
}

const TIMES = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/;

/** A text of the controller, whose times are shown as the viewer chose. */
export const Dated = ({ text }) =>
  String(text ?? "")
    .split(TIMES)
    .map((part, index) => (index % 2 ? html`<${Time} at=${part} exact />` : part));
