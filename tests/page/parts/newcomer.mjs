// What somebody meets in the first hour who knows another product: forms, words, what is not there yet.

import { SETTLED, check, everyPage, expect, open, signedIn, windowOf } from "../browser.mjs";
import { emptyController } from "../controller.mjs";

const INTERCEPT =
  '{"protocols": ["tcp"], "addresses": ["wiki.internal"], "portRanges": [{"low": 443, "high": 443}]}';

/** Fields that have nothing to choose from on a new network, by the kind of the form, and what they offer. */
const EMPTY = [
  ["services", "Configs", "Create config"],
  ["service-policies", "Service roles", "Create service"],
  ["service-policies", "Posture check roles", "Create posture check"],
  ["terminators", "Service", "Create service"],
  ["auth-policies", "Allowed signers", "Create external JWT signer"],
  ["enrollments", "Certificate authority", "Create certificate authority"],
];

/** Logs in the administrator of a new controller. */
async function logInAtNew(page, { url, password }) {
  await page.goto(`${url}/`);
  await page.locator("#username").fill("admin");
  await page.locator("#password").fill(password);
  await page.keyboard.press("Enter");
  await page.waitForFunction(SETTLED);
}

/** A field that has nothing to choose from offers to create it, without leaving the form. */
export async function nothingToChoose(browser) {
  const controller = await emptyController();
  const page = await windowOf(browser, 1280, "light", undefined, {}, [controller.url]);
  const field = (name) => page.getByRole("combobox", { name, exact: true });
  const unfold = () =>
    page.evaluate(() => {
      for (const fold of document.querySelectorAll("#content details.fold")) fold.open = true;
    });
  try {
    await logInAtNew(page, controller);
    for (const [kind, label, offer] of EMPTY) {
      await open(page, `#/${kind}/_new`);
      await unfold();
      await field(label).first().focus();
      await page.keyboard.press("ArrowDown");
      await page
        .getByRole("button", { name: offer, exact: true })
        .waitFor({ timeout: 5000 })
        .catch(() => expect(false, `${label} of ${kind} is empty and does not offer ${offer}`));
    }
    // From a service to its config and back.
    await open(page, "#/services/_new");
    await page.getByLabel("Name").fill("wiki");
    await field("Configs").fill("wiki-address");
    await page.getByText("No match.").waitFor();
    await page.getByRole("button", { name: "Create config" }).click();
    const dialog = page.getByRole("dialog", { name: "Create config" });
    expect(
      (await dialog.getByLabel("Name").inputValue()) === "wiki-address",
      "the text that matched nothing is the name of the new record",
    );
    await dialog.getByRole("combobox", { name: "Config type" }).fill("intercept");
    await page.getByRole("option", { name: "intercept.v1", exact: true }).click();
    await dialog.getByRole("button", { name: "Edit as JSON" }).click();
    await dialog.getByLabel("Data").fill(INTERCEPT);
    await check(page, "a record that is made for a form", true);
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByText("wiki-address", { exact: true }).waitFor();
    expect((await page.getByLabel("Name").inputValue()) === "wiki", "the form is as it was");
    // A dialog that is left does not take the form with it, and the form is still not left without a question.
    await field("Configs").fill("another");
    await page.getByRole("button", { name: "Create config" }).click();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.waitFor({ state: "detached" });
    const asked = new Promise((done) =>
      page.once("dialog", (question) => question.dismiss().then(() => done(true))),
    );
    await page.evaluate(() => {
      location.hash = "#/overview";
    });
    expect(
      await Promise.race([asked, page.waitForTimeout(2000)]),
      "a form with changes asks before it is left, after a dialog over it, too",
    );
    await field("Configs").fill("");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "wiki" }).waitFor();
    await page.locator(".members").getByRole("link", { name: "wiki-address" }).waitFor();
    // What the service lacks is offered, until it is there.
    for (const [lack, type] of [
      ["No policy lets anybody use it.", "Dial"],
      ["No policy lets anybody host it.", "Bind"],
    ]) {
      await page.getByText(lack).getByRole("link").click();
      await page.getByRole("heading", { level: 1, name: "Create service policy" }).waitFor();
      await page.getByLabel("Name").fill(`wiki ${type}`);
      expect(
        (await page.getByLabel("Type").inputValue()) === type,
        `the policy that is offered has the type ${type}`,
      );
      await field("Identity roles").fill("#all");
      await page.keyboard.press("Enter");
      await page.getByRole("button", { name: "Create", exact: true }).click();
      await page.getByRole("heading", { level: 1, name: `wiki ${type}` }).waitFor();
      await page.locator(".members").getByRole("link", { name: "wiki", exact: true }).click();
      await page.getByRole("heading", { level: 1, name: "wiki", exact: true }).waitFor();
      await page.getByText(lack).waitFor({ state: "detached" });
    }
  } finally {
    await page.context().close();
    await controller.stop();
  }
}

/** The labels of the fields of the form, whether each is required, and the controls without an example. Switches, times and choices have a value or show what there is. */
const FORM = () => {
  for (const fold of document.querySelectorAll("#content details")) fold.open = true;
  const form = document.querySelector("form.editor .fields");
  const own = [...form.querySelectorAll(":scope > .field, :scope > .fold > .field")];
  const order = own
    .filter((field) => !field.matches(".switch, fieldset"))
    .map((field) => [
      field.querySelector("label")?.textContent,
      Boolean(field.querySelector(":scope > label .required")),
    ]);
  const controls = [...form.querySelectorAll("input, textarea")].filter(
    (control) =>
      !["checkbox", "datetime-local"].includes(control.type) &&
      !control.disabled &&
      !control.closest(".box")?.querySelector(".chip"),
  );
  const first = [...form.querySelectorAll("input, select, textarea")].find(
    (control) => !control.disabled,
  );
  return {
    order,
    bare: controls
      .filter((control) => !control.placeholder.trim())
      .map((control) => control.getAttribute("aria-label") || control.id),
    isFirst: document.activeElement === first,
    now: document.activeElement.outerHTML.slice(0, 120),
  };
};

async function formsOf(page, pages) {
  for (const hash of pages) {
    await open(page, "#/history");
    await open(page, hash);
    await page.locator("form.editor .fields").first().waitFor();
    const isFocused = await page
      .waitForFunction(
        () =>
          document.activeElement.matches(
            "form.editor input, form.editor select, form.editor textarea",
          ),
        null,
        { timeout: 3000 },
      )
      .then(
        () => true,
        () => false,
      );
    const { order, bare, isFirst, now } = await page.evaluate(FORM);
    expect(isFocused && isFirst, `${hash}: the focus is not in the first field but on ${now}`);
    const late = order.findIndex(
      ([, required], index) => required && order.slice(0, index).some(([, earlier]) => !earlier),
    );
    expect(
      late < 0,
      `${hash}: the required field ${order[late]?.[0]} comes after one that is not: ${order.map(([label]) => label).join(", ")}`,
    );
    expect(!bare.length, `${hash}: no example in ${bare.join(", ")}`);
  }
}

/** In every form required members come first, every field has an example, and the first field has the focus. */
export async function formsForNewcomers(browser, ask, ids) {
  // What cannot be deleted, or has nothing to remove, says so in its preview.
  const page = await signedIn(
    browser,
    1280,
    "light",
    (answer) => [400, 404, 409].includes(answer.status()) && answer.url().endsWith("?preview=true"),
  );
  page.on("dialog", (question) => question.accept()); // what is filled in is left
  const pages = await everyPage(page, ask, ids);
  const forms = pages.filter((hash) => /\/(_new|edit)$/.test(hash));
  expect(forms.length > 15, `${forms.length} forms`);
  await formsOf(page, forms);
  // The data of configs, by their types, and the variants of a posture check.
  await formsOf(
    page,
    (await ask("GET", "/config-types?limit=100")).map(
      ({ id }) => `#/configs/_new?configTypeId=${encodeURIComponent(id)}`,
    ),
  );
  await open(page, "#/posture-checks/_new");
  for (const type of ["OS", "DOMAIN", "MAC", "PROCESS", "PROCESS_MULTI", "MFA"]) {
    await page.locator("#tag-").selectOption(type);
    for (const add of await page.getByRole("button", { name: "Add one" }).all()) await add.click();
    const { bare } = await page.evaluate(FORM);
    expect(!bare.length, `a posture check of type ${type}: no example in ${bare.join(", ")}`);
  }
  // The fields of a page that asks something, and of dialogs.
  for (const hash of pages.filter(
    (hash) => /^#\/[a-z-]+\/[^/_?]+$/.test(hash) && !hash.startsWith("#/access"),
  )) {
    await open(page, hash);
    for (const button of await page.locator(".heading .actions button").all()) {
      await button.click();
      await page.getByRole("dialog").waitFor();
      const bare = await page.evaluate(() =>
        [...document.querySelectorAll("dialog input, dialog textarea")]
          .filter(
            (control) =>
              !["checkbox", "datetime-local"].includes(control.type) && !control.placeholder.trim(),
          )
          .map((control) => control.id || control.outerHTML.slice(0, 80)),
      );
      expect(
        !bare.length,
        `${hash}, ${await page.getByRole("dialog").getByRole("heading").first().textContent()}: no example in ${bare.join(", ")}`,
      );
      await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
      await page.getByRole("dialog").waitFor({ state: "detached" });
    }
  }
  await open(page, "#/access/ask");
  await page
    .waitForFunction(() => document.activeElement.matches(".asks input"), null, { timeout: 3000 })
    .catch(() => expect(false, "the first field of a question has no focus"));
  await open(page, "#/start");
  await page
    .waitForFunction(() => document.activeElement.id === "client", null, { timeout: 3000 })
    .catch(() => expect(false, "the first field of the first steps has no focus"));
  await open(page, `#/identities/${ids.farah}`);
  await page.getByRole("button", { name: "Disable" }).click();
  await page
    .waitForFunction(() => document.activeElement.matches("dialog input"), null, { timeout: 3000 })
    .catch(() => expect(false, "the first field of a dialog has no focus"));
  await page.context().close();
}

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
