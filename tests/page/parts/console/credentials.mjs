// The requests of the forms of the console of OpenZiti that send the whole record: signers, authorities, checks.

import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { expect } from "../../browser.mjs";

/** A certificate authority, and the certificate with which it proves that it has the key. */
function authority(work) {
  const file = (name) => path.join(work, name);
  const openssl = (...options) => execFileSync("openssl", options, { stdio: "ignore" });
  const key = (name) => [
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
    "-keyout",
    file(name),
  ];
  openssl(
    "req",
    "-x509",
    ...key("ca.key"),
    "-subj",
    "/CN=console",
    "-days",
    "30",
    "-addext",
    "keyUsage=critical,keyCertSign",
    "-out",
    file("ca.pem"),
  );
  const prove = (name) => {
    openssl("req", ...key("proof.key"), "-subj", `/CN=${name}`, "-out", file("proof.csr"));
    openssl(
      "x509",
      "-req",
      "-in",
      file("proof.csr"),
      "-CA",
      file("ca.pem"),
      "-CAkey",
      file("ca.key"),
      "-CAcreateserial",
      "-days",
      "1",
      "-out",
      file("proof.pem"),
    );
    return fs.readFileSync(file("proof.pem"), "utf8");
  };
  return { certificate: fs.readFileSync(file("ca.pem"), "utf8"), prove };
}

/** The forms that send the whole record: all members of the model of a kind, blank ones too, and replace it. Returns the records, the first made first. */
export async function credentialForms(send, base) {
  const made = [];
  const save = async (kind, body, change, method = "PUT") => {
    const { id } = (await send("POST", `${base}/${kind}`, body)).data;
    made.push([kind, id]);
    const stored = (await send("GET", `${base}/${kind}/${id}/`)).data;
    await send(method, `${base}/${kind}/${id}`, { ...body, ...change, id });
    const now = (await send("GET", `${base}/${kind}/${id}/`)).data;
    for (const [member, value] of Object.entries(change))
      expect(
        JSON.stringify(now[member]) === JSON.stringify(value),
        `the console changes ${member} of ${kind} to ${JSON.stringify(now[member])}`,
      );
    return stored;
  };
  const work = fs.mkdtempSync(path.join(os.tmpdir(), "page-"));
  const { certificate, prove } = authority(work);
  const signer = {
    name: "console-signer",
    audience: "console",
    issuer: "https://issuer.internal",
    clientId: "",
    claimsProperty: "",
    enabled: true,
    useExternalId: false,
    externalAuthUrl: "",
    kid: "console",
    scopes: [],
    certPem: certificate,
    tags: {},
    targetToken: "ACCESS",
    enrollToCertEnabled: false,
    enrollToTokenEnabled: false,
    enrollAuthPolicyId: "",
    enrollNameClaimsSelector: "",
    enrollAttributeClaimsSelector: "",
  };
  const { id: signerId } = await save("external-jwt-signers", signer, {
    audience: "changed",
    enabled: false,
    scopes: ["openid"],
  });
  const primary = {
    cert: { allowed: true, allowExpiredCerts: false },
    extJwt: { allowed: true, allowedSigners: [signerId] },
    updb: {
      allowed: true,
      lockoutDurationMinutes: 0,
      maxAttempts: 5,
      minPasswordLength: 5,
      requireMixedCase: false,
      requireNumberChar: false,
      requireSpecialChar: false,
    },
  };
  const policy = {
    name: "console-auth-policy",
    id: "",
    primary,
    secondary: { requireTotp: false },
    tags: {},
  };
  await save("auth-policies", policy, { name: "changed-by-console" });
  const ca = {
    name: "console-ca",
    id: "",
    isAutoCaEnrollmentEnabled: true,
    isOttCaEnrollmentEnabled: true,
    identityRoles: ["console"],
    identityNameFormat: "",
    isAuthEnabled: true,
    certPem: certificate,
    tags: {},
    verificationToke: "",
  };
  const { id: caId, verificationToken } = await save("cas", ca, {
    isAutoCaEnrollmentEnabled: false,
    identityRoles: ["console", "more"],
  });
  await send("POST", `${base}/cas/${caId}/verify`, prove(verificationToken), 200, "text/plain");
  expect(
    (await send("GET", `${base}/cas/${caId}/`)).data.isVerified === true,
    "the console verifies an authority",
  );
  const check = {
    roleAttributes: [],
    domains: [],
    macAddresses: [],
    operatingSystems: [],
    process: { hashes: [], osType: "", path: "", signerFingerprint: "" },
    timeoutSeconds: 0,
    tags: {},
  };
  const demands = [
    ["OS", { operatingSystems: [{ type: "Windows", versions: [">=10.0.0"] }] }],
    ["DOMAIN", { domains: ["console.internal"] }],
    ["MAC", { macAddresses: ["0011223344ff"] }],
    ["MFA", { timeoutSeconds: -1, promptOnWake: false, promptOnUnlock: false }],
    [
      "PROCESS",
      { process: { hashes: [], osType: "Linux", path: "/usr/bin/agent", signerFingerprint: "" } },
    ],
    [
      "PROCESS_MULTI",
      {
        semantic: "AnyOf",
        processes: [
          { osType: "Linux", path: "/usr/bin/agent", hashes: [], signerFingerprints: [] },
        ],
      },
    ],
  ];
  for (const [typeId, demand] of demands)
    await save(
      "posture-checks",
      { ...check, name: `console-check-${typeId}`, typeId, ...demand },
      { roleAttributes: ["console"] },
      "PATCH",
    );
  fs.rmSync(work, { recursive: true });
  return made;
}
