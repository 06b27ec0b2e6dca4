// What somebody meets in the first hour who knows another product: forms, words, what is not there yet.

import { check, everyPage, expect, open, signedIn } from "../browser.mjs";

export * from "./newcomer_forms.mjs";

/** What a person reads: all texts but code that is to be copied, identifiers, and the help about filters. Values of choices count. */
const READ = () => {
  for (const fold of document.querySelectorAll("#content details:not(.help)")) fold.open = true;
  const walker = document.createTreeWalker(
    document.querySelector("#content"),
    NodeFilter.SHOW_TEXT,
    (node) =>
      node.parentElement.closest("pre, .help, .meta, datalist")
        ? NodeFilter.FILTER_REJECT
        : NodeFilter.FILTER_ACCEPT,
  );
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode.data);
  for (const labelled of document.querySelectorAll(
    "#content [aria-label], #content [placeholder], #content [title]",
  ))
    texts.push(
      ...["aria-label", "placeholder", "title"].map((name) => labelled.getAttribute(name) || ""),
    );
  return texts.filter((text) => text.trim());
};
const JARGON = /\b(ott|ottca|updb|erott|trott|is ott ca)\b|\binvalid\b|\bdummy\b/i;

/** Words that say nothing to anybody but programs are not shown: names of methods, rights that nobody has, types of identities that are all the same. */
export async function plainWords(browser, ask, ids) {
  const made = [];
  const make = async (kind, body) => {
    const { id } = await ask("POST", `/${kind}`, body);
    made.unshift(`/${kind}/${id}`);
    return id;
  };
  const person = await make("identities", {
    name: "a person",
    type: "User",
    isAdmin: false,
    enrollment: { updb: "a-person" },
  });
  const device = await make("identities", {
    name: "a device",
    type: "Device",
    isAdmin: false,
    enrollment: { ott: true },
  });
  await make("authenticators", {
    identityId: device,
    method: "updb",
    username: "a-device",
    password: "correct horse battery",
  });
  const policy = await make("auth-policies", {
    name: "a policy",
    primary: {
      cert: { allowed: true, allowExpiredCerts: false },
      extJwt: { allowed: false, allowedSigners: [] },
      updb: {
        allowed: true,
        minPasswordLength: 12,
        requireSpecialChar: false,
        requireNumberChar: false,
        requireMixedCase: false,
        maxAttempts: 5,
        lockoutDurationMinutes: 5,
      },
    },
    secondary: { requireTotp: false },
  });
  const [enrollment] = await ask(
    "GET",
    `/enrollments?${new URLSearchParams({ filter: `identity = "${person}"` })}`,
  );
  const [authenticator] = await ask(
    "GET",
    `/authenticators?${new URLSearchParams({ filter: `identity = "${device}"` })}`,
  );
  const page = await signedIn(browser, 1280, "light");
  const pages = [
    ...(await everyPage(page, ask, ids)),
    `#/services/${ids.wiki}`,
    `#/identities/${person}`,
    `#/identities/${device}`,
    `#/identities/${person}/edit`,
    `#/auth-policies/${policy}`,
    `#/auth-policies/${policy}/edit`,
    `#/enrollments/${enrollment.id}`,
    `#/authenticators/${authenticator.id}`,
    `#/access/ask?identity=${device}&service=${ids.wiki}`,
    "#/cas/_new",
    `#/service-policies/${ids["hosts serve"]}/edit`,
  ];
  const isCommand = (text) => /^\s*overkeep [a-z]/.test(text); // it is to be copied, and has the names of flags
  for (const hash of pages) {
    await open(page, hash);
    for (const text of await page.evaluate(READ))
      expect(
        isCommand(text) || !JARGON.test(text),
        `${hash} shows ${JSON.stringify(text.trim().slice(0, 120))}`,
      );
  }
  // One identity is like another: nobody has to choose among words that mean nothing.
  await open(page, "#/identities/_new");
  const choices = await page.locator("#content option").allTextContents();
  expect(
    !choices.some((choice) => /^(User|Device|Service|Router|Default)$/.test(choice)),
    `a new identity is asked for its type: ${choices}`,
  );
  await open(page, `#/identities/${device}`);
  const shown = await page.locator(".members dt").allTextContents();
  expect(!shown.includes("Type"), "an identity shows a type that says nothing");
  expect(
    !(await page.locator("#navigation").textContent()).includes("Identity types"),
    "types of identities are a kind of their own",
  );
  await page.context().close();
  for (const path of made) await ask("DELETE", path);
}

/** The column of the navigation reaches from the bar to the end of every page, and makes no page longer than the window. */
export async function sideBar(browser) {
  for (const [width, theme] of [
    [1280, "light"],
    [3840, "dark"],
  ]) {
    const page = await signedIn(browser, width, theme);
    for (const hash of ["#/cas", "#/history", "#/words", "#/identities/_new"]) {
      await open(page, hash);
      const [isLonger, gap, above] = await page.evaluate(() => {
        const [nav, bar] = ["#navigation", ".bar"].map((part) =>
          document.querySelector(part).getBoundingClientRect(),
        );
        const end = Math.max(document.documentElement.scrollHeight, innerHeight) - scrollY;
        return [
          document.documentElement.scrollHeight > innerHeight,
          end - nav.bottom,
          nav.top - bar.bottom,
        ];
      });
      expect(
        hash !== "#/cas" || !isLonger,
        `an empty list at ${width} px is longer than its window`,
      );
      expect(
        Math.abs(gap) <= 1 && Math.abs(above) <= 1,
        `${hash} at ${width} px: the navigation ends ${gap} px before the page and begins ${above} px below the bar`,
      );
      // What is in it stays in the window when the page is scrolled to its end.
      await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
      await page.waitForTimeout(50);
      const [top, bottom] = await page.evaluate(() => {
        const { top, bottom } = document.querySelector("#navigation > *").getBoundingClientRect();
        return [top, innerHeight - bottom];
      });
      expect(
        top > 0 && Math.abs(bottom) <= 1,
        `${hash} at ${width} px: the navigation leaves ${bottom} px below it when the page is scrolled`,
      );
    }
    await page.context().close();
  }
}

/** A row about access says who may, or may no longer, use what, without a click. */
export async function accessSays(browser, ask, ids) {
  const page = await signedIn(browser, 1280, "light");
  await open(page, "#/history?kind=access");
  const line = (text) =>
    page.locator(".rows > li.of-access > div > p").filter({ hasText: text }).first();
  const { id } = await ask("POST", "/service-policies", {
    name: "marco tries builds",
    type: "Dial",
    semantic: "AnyOf",
    identityRoles: [`@${ids.marco}`],
    serviceRoles: [`@${ids.builds}`],
  });
  await line(/access changed: marco may now dial builds/).waitFor();
  await ask("PATCH", `/service-policies/${id}`, { type: "Bind" });
  await line(/marco may no longer dial builds/).waitFor();
  await line(/marco may now host builds/).waitFor();
  await ask("DELETE", `/service-policies/${id}`);
  await line(/marco may no longer host builds/).waitFor();
  await check(page, "rows about access", true);
  await page.context().close();
}

const token = (claims) =>
  `e30.${Buffer.from(JSON.stringify({ em: "ott", jti: "00000000-0000-4000-8000-000000000000", ...claims })).toString("base64url")}.c2ln`;
const HERE = [
  "https://localhost:1280",
  "https://127.0.0.1:1280",
  "https://127.1:1280",
  "https://[::1]:1280",
  "https://0.0.0.0:1280",
  "https://[::ffff:127.0.0.1]:1280",
  "https://a.localhost:1280",
];
const ELSEWHERE = [
  "https://overlay.example.org:1280",
  "https://10.0.0.5:1280",
  "https://127.example.org:1280",
  "https://[2001:db8::1]:1280",
  "https://localhost.example.org:1280",
];

/** An enrollment token that leads every device to itself is shown with a warning. */
export async function loopbackTokens(browser, ask, ids) {
  const page = await signedIn(browser, 1280, "light");
  let jwt;
  await page.route(`**/edge/management/v1/identities/${ids.goran}`, async (route) => {
    const answer = await route.fetch();
    const json = await answer.json();
    json.data.enrollment.ott.jwt = jwt;
    await route.fulfill({ response: answer, json });
  });
  const warns = async (claims) => {
    jwt = token(claims);
    await open(page, "#/identities");
    await open(page, `#/identities/${ids.goran}`);
    await page.locator(".qr path").waitFor();
    return (await page.locator(".loopback").count()) > 0;
  };
  for (const iss of HERE) expect(await warns({ iss }), `a token for ${iss} has no warning`);
  for (const iss of ELSEWHERE) expect(!(await warns({ iss })), `a token for ${iss} has a warning`);
  expect(
    !(await warns({
      iss: HERE[0],
      ctrls: ["tls:overlay.example.org:1280", "overlay.example.org:1280"],
    })),
    "a token with another address has a warning",
  );
  expect(!(await warns({})), "a token without an address has a warning");
  await warns({ iss: HERE[1] });
  await check(page, "a token that leads to the device itself", true);
  await page.context().close();
}
