// Uses the page as an administrator does, against an empty controller that a script started and this script fills.
//
//     node walk.mjs [PART...]         all parts, or those named, with OVERKEEP_URL, OVERKEEP_USER, OVERKEEP_PASSWORD, CHROMIUM, PEER and ROUTER in the environment
//     node walk.mjs --pictures        writes the pictures of docs/page.md to PICTURES, with the program OPTIPNG
//
// A part is a function that a file in parts/ exports. In every window (browser.mjs) no request leaves the origin and the console has no
// errors or warnings; on every page that is checked the content security policy is not violated, nothing is wider than the window, and axe
// finds no violation. A fault is printed with the name of its part.

import { chromium } from "playwright-core";
import * as access from "./parts/access.mjs";
import * as account from "./parts/account.mjs";
import * as budgets from "./parts/budgets.mjs";
import * as enrollment from "./parts/enrollment.mjs";
import * as hostile from "./parts/hostile.mjs";
import * as keyboard from "./parts/keyboard.mjs";
import * as live from "./parts/live.mjs";
import * as logIn from "./parts/log_in.mjs";
import * as maintenance from "./parts/maintenance.mjs";
import * as newcomer from "./parts/newcomer.mjs";
import * as openZitiConsole from "./parts/console.mjs";
import * as pages from "./parts/pages.mjs";
import * as records from "./parts/records.mjs";
import * as sharing from "./parts/sharing.mjs";
import * as texts from "./parts/texts.mjs";
import * as times from "./parts/times.mjs";
import { enter, expect, faults, origin, password, user } from "./browser.mjs";
import { pictures } from "./pictures.mjs";
import { administrator, seed } from "./seed.mjs";

// In this order: the last parts fill the controller with more than a person reads.
const parts = Object.assign(
  {},
  ...[
    pages,
    keyboard,
    times,
    enrollment,
    records,
    maintenance,
    live,
    logIn,
    account,
    newcomer,
    sharing,
    hostile,
    openZitiConsole,
    texts,
    budgets,
    access,
  ],
);

async function run(browser, wanted) {
  const ask = await administrator(origin, user, password);
  const ids = await seed(ask);
  if (wanted.includes("--pictures")) return pictures(browser, ask, ids);
  const unknown = wanted.find((name) => !parts[name]);
  if (unknown)
    throw new Error(`there is no part ${unknown}; the parts are: ${Object.keys(parts).join(", ")}`);
  for (const name of Object.keys(parts).filter((name) => !wanted.length || wanted.includes(name))) {
    const [start, before] = [performance.now(), faults.length];
    enter(name);
    await parts[name](browser, ask, ids).catch((error) => expect(false, error.stack));
    if (faults.length === before)
      console.log(`ok page: ${name} (${Math.round((performance.now() - start) / 1000)} s)`);
  }
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: process.getuid() === 0 ? ["--no-sandbox"] : [],
});
try {
  await run(browser, process.argv.slice(2));
} catch (error) {
  expect(false, error.stack);
} finally {
  await browser.close();
}
process.exit(faults.length ? 1 : 0);
