// Windows that report every fault, and what all parts of the test do in them.

import axe from "axe-core";

export const {
  OVERKEEP_URL: origin,
  OVERKEEP_USER: user,
  OVERKEEP_PASSWORD: password,
} = process.env;
const PATIENCE = Number(process.env.PATIENCE || 60000);
const VIOLATION_RECORDER =
  "window.broken = []; document.addEventListener('securitypolicyviolation', event => broken.push(`${event.violatedDirective}: ${event.blockedURI}`));";
export const SETTLED = () =>
  document.querySelector("#content h1") && !document.querySelector(".loading");

/** The faults of all parts. */
export const faults = [];
let part = "";
let isProvoking = false;

/** Names the part of the test that later faults belong to. */
export function enter(name) {
  part = name;
}

export function expect(condition, what) {
  if (condition) return;
  faults.push(what);
  if (!isProvoking) console.log(`FAIL page: ${part}: ${what}`);
}

/** Does what must be reported as a fault. Returns the faults, which no longer count. */
export async function provoke(action) {
  const before = faults.length;
  isProvoking = true;
  await action();
  isProvoking = false;
  return faults.splice(before);
}

/** A window that reports every fault. `allowed` names the answers with an error status that are expected; the browser may also go to `issuers`. */
export async function windowOf(
  browser,
  width,
  theme,
  allowed = () => false,
  more = {},
  issuers = [],
) {
  const context = await browser.newContext({
    viewport: { width, height: width < 600 ? 780 : Math.round(width * 0.7) },
    colorScheme: theme,
    ignoreHTTPSErrors: true,
    locale: "en-GB",
    timezoneId: "Europe/Berlin",
    ...more,
  });
  await context.addInitScript(VIOLATION_RECORDER);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  countRequests(page);
  page.on("request", (asked) =>
    expect(
      /^(data|blob):/.test(asked.url()) ||
        [origin, ...issuers].some((known) => asked.url().startsWith(`${known}/`)),
      `asks for ${asked.url()}`,
    ),
  );
  page.on("response", (answer) =>
    expect(
      answer.status() < 400 || allowed(answer),
      `${answer.request().method()} ${answer.url()} answered ${answer.status()}`,
    ),
  );
  // A request without an answer. The page ends requests itself when it is left; a part may take the network away.
  page.on("requestfailed", (request) =>
    expect(
      /ERR_(ABORTED|INTERNET_DISCONNECTED|NETWORK_IO_SUSPENDED)/.test(request.failure()?.errorText),
      `${request.method()} ${request.url()} failed: ${request.failure()?.errorText}`,
    ),
  );
  page.on("websocket", (socket) => expect(false, `opens ${socket.url()}`));
  page.on("pageerror", (error) => expect(false, `a script failed: ${error.stack}`));
  page.on("console", (message) => {
    // A refused request is reported above; the browser repeats it here.
    const isRefusal = message.text().startsWith("Failed to load resource");
    expect(
      !["error", "warning"].includes(message.type()) || isRefusal,
      `console ${message.type()}: ${message.text()}`,
    );
  });
  return page;
}

export async function logIn(page, name = user, secret = password) {
  await page.goto(`${origin}/`);
  await page.locator("#username").waitFor();
  await page.keyboard.type(name);
  await page.keyboard.press("Tab");
  await page.keyboard.type(secret);
  await page.keyboard.press("Enter");
}

/** Fills the log-in page that is shown. */
export async function typeIn(page, name = user, secret = password) {
  await page.locator("#username").fill(name);
  await page.locator("#password").fill(secret);
  await page.keyboard.press("Enter");
}

/** Goes to a page and waits until it is loaded: it has handled its address, has no part that is loading, and its requests are answered. */
export async function open(page, hash) {
  await page.evaluate(
    (to) =>
      new Promise((done) => {
        if (location.hash === to) return done();
        addEventListener("hashchange", () => setTimeout(done), { once: true });
        location.hash = to;
        return undefined;
      }),
    hash,
  );
  await page.waitForFunction((to) => location.hash.startsWith(to.split("?")[0]), hash);
  await page.waitForFunction(SETTLED);
  await quiet(page);
}

const outstanding = new WeakMap(); // the requests of each window, but the stream of events
const QUIET = 2000; // milliseconds that are waited for an answer; a part may hold one back

/** Waits until no request is outstanding. */
async function quiet(page) {
  const end = performance.now() + QUIET;
  while (outstanding.get(page)?.size && performance.now() < end)
    await new Promise((done) => setTimeout(done, 5));
}

function countRequests(page) {
  const requests = new Set();
  outstanding.set(page, requests);
  page.on("request", (request) => request.url().endsWith("/events") || requests.add(request));
  for (const end of ["requestfinished", "requestfailed"])
    page.on(end, (request) => requests.delete(request));
}

/** Texts that begin or end beyond the edge of the window, outside of what can be scrolled. */
const CUT = () => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const holder = node.parentElement;
    if (
      !node.textContent.trim() ||
      !holder.checkVisibility({ visibilityProperty: true }) ||
      holder.closest(".hidden, .skip, .find, .pulse, thead")
    )
      continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const { left, right, width } = range.getBoundingClientRect();
    if (!width || (left >= 0 && right <= innerWidth + 1)) continue;
    let scrolled = holder;
    while (scrolled && getComputedStyle(scrolled).overflowX === "visible")
      scrolled = scrolled.parentElement;
    if (!scrolled || [document.documentElement, document.body].includes(scrolled))
      found.push(node.textContent.trim().slice(0, 80));
  }
  return found;
};

/** Checks what the window shows: its width, its texts, the policy, and with axe. */
export async function check(page, what, withAxe) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  expect(wide <= 0, `${what}: ${wide} px wider than its window`);
  const cut = await page.evaluate(CUT);
  expect(!cut.length, `${what}: beyond the edge of the window: ${cut.slice(0, 3).join(" | ")}`);
  const unfinished = await page.evaluate(
    () => /\bundefined\b|\[object |\bNaN\b/.exec(document.body.innerText)?.[0],
  );
  expect(!unfinished, `${what}: shows ${unfinished}`);
  expect(
    !(await page.locator(".problem").count()),
    `${what}: ${await page.locator(".problem").allTextContents()}`,
  );
  if (withAxe) {
    // Runs through the debugger, which the content security policy does not restrict. It stays in the window until that is loaded anew.
    if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe.source);
    const { violations } = await page.evaluate(() =>
      window.axe.run(document, { resultTypes: ["violations"] }),
    );
    for (const { id, help, nodes } of violations)
      expect(
        false,
        `${what}: ${id}: ${help}: ${nodes
          .slice(0, 3)
          .map((node) => node.html.slice(0, 200))
          .join(" | ")}`,
      );
  }
  const broken = await page.evaluate(() => window.broken.splice(0));
  expect(!broken.length, `${what}: against the policy: ${broken}`);
}

/** A window of an administrator. */
export async function signedIn(...window) {
  const page = await windowOf(...window);
  await logIn(page);
  await page.waitForFunction(SETTLED);
  return page;
}

/** Every page that the navigation leads to, and the form and the first record of each kind. */
export async function everyPage(page, ask, ids) {
  const links = await page
    .locator('#navigation a[href^="#/"]')
    .evaluateAll((all) => all.map((link) => link.getAttribute("href")));
  const pages = [
    ...links,
    `#/access/ask?identity=${ids.alice}&service=${ids.builds}`,
    `#/access/ask?identity=${ids.alice}`,
    `#/access/ask?service=${ids.database}`,
    "#/access/changes",
    "#/share",
    `#/share/${ids.wiki}`,
    "#/invite",
    `#/invite/${ids.alice}`,
    "#/history?kind=refusals",
    `#/identities/${ids.alice}/edit`,
    `#/services/${ids.database}/edit`,
    `#/posture-checks/${ids["office machines"]}/edit`,
    `#/configs/${ids["wiki-address"]}/edit`,
  ];
  for (const link of links) {
    const kind = link.slice(2);
    const rows = await ask("GET", `/${kind}?limit=1`)
      .catch(() => ask("GET", `/overkeep/v1/${kind}?limit=1`))
      .catch(() => null);
    if (!rows) continue;
    if (rows[0]) pages.push(`#/${kind}/${rows[0].id}`);
    await open(page, link);
    if (await page.locator("[data-create]").count()) pages.push(`#/${kind}/_new`);
  }
  return pages;
}
