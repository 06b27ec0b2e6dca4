// Names and data that somebody hostile has written, and addresses that somebody hostile has made.

import { check, expect, open, signedIn } from "../browser.mjs";

const MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>";
/** What is not seen or changes the direction of text, each beside what the page shows for it. */
const HIDDEN = [
  ["\u202egnp.exe", "\\u{202e}gnp.exe"],
  ["we\u200bb", "we\\u{200b}b"],
  ["we\u0007b\u009b", "we\\u{7}b\\u{9b}"],
  ["web\nadmin", "web\\nadmin"],
  ["\u{e0041}web\u2066", "\\u{e0041}web\\u{2066}"],
  ["we\u00adb\ufeff", "we\\u{ad}b\\u{feff}"],
];
const NAMES = [
  MARKUP,
  '"><svg onload=alert(3)>',
  "javascript:alert(4)",
  "${alert(5)}`{{6*7}}",
  `${"long".repeat(50)}`,
];

/** Names, roles, tags and data are shown as text, wherever they are shown. */
export async function markup(browser, ask) {
  const made = [];
  const make = async (kind, body) => {
    const { id } = await ask("POST", `/${kind}`, body);
    made.push([kind, id]);
    return id;
  };
  for (const name of NAMES) {
    const tags = { [MARKUP]: MARKUP };
    const identity = await make("identities", {
      name,
      type: "Default",
      isAdmin: false,
      roleAttributes: [MARKUP.replace(/[, ]/g, "-")],
      tags,
      enrollment: { ott: true },
    });
    const config = await make("configs", {
      name,
      configTypeId: "g7cIWbcGg",
      tags,
      data: {
        protocols: ["tcp"],
        addresses: ["x.internal"],
        portRanges: [{ low: 1, high: 1 }],
        dialOptions: { identity: MARKUP },
      },
    });
    const service = await make("services", {
      name,
      encryptionRequired: true,
      configs: [config],
      tags,
    });
    await make("service-policies", {
      name,
      type: "Dial",
      semantic: "AnyOf",
      identityRoles: [`@${identity}`],
      serviceRoles: [`@${service}`],
      tags,
    });
  }
  // The page asks for a record with the name that the config has where other configs name one.
  const page = await signedIn(
    browser,
    360,
    "light",
    (answer) => answer.status() === 404 && decodeURIComponent(answer.url()).endsWith(MARKUP),
  );
  page.on("dialog", (dialog) => {
    expect(false, `a script of a name ran: ${dialog.message()}`);
    dialog.dismiss();
  });
  const inert = async (what) => {
    const foreign = await page.evaluate(
      () =>
        document.querySelectorAll(
          'img:not([src="/page/icon.svg"]), script:not([src="/page/main.js"]), svg[onload], a[href^="javascript:"], [onerror]',
        ).length,
    );
    expect(!foreign, `${what}: ${foreign} elements come from a name`);
    await check(page, what, false);
  };
  const [identity, service] = ["identities", "services"].map(
    (kind) => made.find(([of]) => of === kind)[1],
  );
  const pages = made.flatMap(([kind, id]) => [`#/${kind}/${id}`, `#/${kind}/${id}/edit`]);
  for (const hash of [
    ...pages,
    "#/identities",
    "#/services",
    "#/configs",
    "#/service-policies",
    "#/access/map",
    `#/access/ask?identity=${identity}&service=${service}`,
    "#/history",
    "#/live",
    "#/overview",
  ]) {
    await open(page, hash);
    await inert(hash);
  }
  await page.keyboard.press("Control+k");
  await page.locator("dialog input:focus").waitFor();
  await page.keyboard.type("<img");
  await page.getByRole("option").filter({ hasText: MARKUP }).first().waitFor();
  await inert("the search for a page");
  await page.keyboard.press("Escape");
  await open(page, `#/identities/${identity}`);
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByText(`Delete ${MARKUP}?`).waitFor();
  await inert("the deletion of a record");
  await page.context().close();
  for (const [kind, id] of made.reverse()) await ask("DELETE", `/${kind}/${id}`);
}

/** The texts in the document, the labels of its elements and its title that hold a character of these kinds. */
const hiding = (page) =>
  page.evaluate(() => {
    const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]/u;
    const found = hidden.test(document.title) ? [document.title] : [];
    const walker = document.createTreeWalker(
      document.body,
      NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT,
    );
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const shown =
        node.nodeType === Node.TEXT_NODE
          ? [node.data.trim() && node.data]
          : [
              "title",
              "alt",
              "placeholder",
              "label",
              "download",
              "aria-label",
              "aria-description",
              "aria-valuetext",
            ].map((label) => node.getAttribute(label));
      found.push(...shown.filter((text) => text && hidden.test(text)));
    }
    return found.map((text) => JSON.stringify(text));
  });

/** Names with characters that are not seen or change the direction of text are shown with escapes, wherever they are shown. */
export async function hiddenCharacters(browser, ask) {
  const made = [];
  const make = async (kind, body) => {
    const { id } = await ask("POST", `/${kind}`, body);
    made.push([kind, id]);
    return id;
  };
  for (const [name] of HIDDEN) {
    const tags = { [`t${name}`]: name };
    const identity = await make("identities", {
      name,
      type: "Default",
      isAdmin: false,
      roleAttributes: [`r${name}`],
      tags,
      enrollment: { ott: true },
    });
    const config = await make("configs", {
      name,
      configTypeId: "g7cIWbcGg",
      tags,
      data: {
        protocols: ["tcp"],
        addresses: ["x.internal"],
        portRanges: [{ low: 1, high: 1 }],
        dialOptions: { identity: name },
      },
    });
    const service = await make("services", {
      name,
      encryptionRequired: true,
      roleAttributes: [`s${name}`],
      configs: [config],
      tags,
    });
    await make("service-policies", {
      name,
      type: "Dial",
      semantic: "AnyOf",
      identityRoles: [`@${identity}`, `#r${name}`],
      serviceRoles: [`@${service}`],
      tags,
    });
    await make("edge-routers", { name, tags });
  }
  const page = await signedIn(browser, 1280, "light", (answer) => answer.status() === 404);
  const seen = async (what) =>
    expect(!(await hiding(page)).length, `${what} shows ${await hiding(page)}`);
  const [identity, service] = ["identities", "services"].map(
    (kind) => made.find(([of]) => of === kind)[1],
  );
  for (const hash of [
    ...made.flatMap(([kind, id]) => [`#/${kind}/${id}`, `#/${kind}/${id}/edit`]),
    "#/identities",
    "#/services",
    "#/configs",
    "#/service-policies",
    "#/edge-routers",
    "#/enrollments",
    "#/access/map",
    `#/access/ask?identity=${identity}&service=${service}`,
    `#/access/ask?identity=${identity}`,
    "#/history",
    "#/live",
    "#/overview",
    "#/care",
  ]) {
    await open(page, hash);
    await seen(hash);
    expect(!(await page.locator(".problem").count()), `${hash} has a problem`);
  }
  // Other parts made more identities than a page of the list has.
  const ids = made.filter(([kind]) => kind === "identities").map(([, id]) => `"${id}"`);
  await open(page, `#/identities?filter=${encodeURIComponent(`id in [${ids.join(", ")}]`)}`);
  for (const [, shown] of HIDDEN)
    expect(
      (await page.locator("#content table").getByText(shown, { exact: true }).count()) > 0,
      `the list shows ${shown}`,
    );
  await open(page, `#/identities/${identity}`);
  expect((await page.title()).startsWith(HIDDEN[0][1]), `the title is ${await page.title()}`);
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByText(`Delete ${HIDDEN[0][1]}?`).waitFor();
  await seen("the deletion of a record");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+k");
  await page.locator("dialog input:focus").waitFor();
  await page.keyboard.type("gnp");
  await page.getByRole("option").filter({ hasText: HIDDEN[0][1] }).first().waitFor();
  await seen("the search for a page");
  await page.keyboard.press("Escape");
  await open(page, "#/service-policies/new");
  for (const field of await page.locator("input[role=combobox]").all()) {
    await field.fill("gnp");
    await page.waitForTimeout(500);
    await seen("a picker");
    await page.keyboard.press("Enter");
  }
  await seen("a form with picked names");
  await page.evaluate(() => {
    location.hash = "#/overview";
  });
  await page.context().close();
  for (const [kind, id] of made.reverse()) await ask("DELETE", `/${kind}/${id}`);
}

/** The page asks for sessions of others without their tokens. */
export async function tokensOfOthers(browser, ask) {
  const { id } = await ask("GET", "/current-api-session");
  const bodies = [];
  const page = await signedIn(browser, 1280, "light");
  page.on(
    "response",
    (answer) => /\/(api-)?sessions(\/|\?|$)/.test(answer.url()) && bodies.push(answer.text()),
  );
  for (const hash of ["#/api-sessions", `#/api-sessions/${id}`, "#/sessions", "#/care"])
    await open(page, hash);
  const texts = await Promise.all(bodies);
  expect(texts.length >= 4, `the page asked for sessions ${texts.length} times`);
  for (const text of texts)
    expect(!/"token":"[^"]/.test(text), `an answer holds a token: ${text.slice(0, 300)}`);
  await page.context().close();
}

/** Addresses that name nothing show a page that says so. */
export async function addresses(browser) {
  const page = await signedIn(browser, 1280, "light", (answer) => answer.status() === 404);
  for (const hash of [
    "#/%E0%A4%A",
    "#/constructor",
    "#/access/constructor",
    "#/history?kind=constructor",
    "#/identities/%3Cimg%20src%3Dx%3E",
    "#/__proto__/x/edit",
    "#//",
    "#/share/nothing",
    "#/invite/nothing",
  ]) {
    await page.evaluate((to) => {
      location.hash = to;
    }, hash);
    await page.waitForFunction(
      () =>
        !document.querySelector(".loading") &&
        document.querySelector("#content")?.textContent.trim(),
    );
    expect((await page.locator("#navigation a").count()) > 10, `${hash}: the page is still there`);
  }
  await page.context().close();
}
