// The steps of a web page with the library for browsers: password log-in, set-up of one-time codes, log-in with both, service list.
//
//   usage: node client.mjs LIBRARY https://HOST:PORT/edge/client/v1 SERVICE
//
// The name and the password are in OVERKEEP_USER and OVERKEEP_PASSWORD, LIBRARY is the file of the library, and node verifies
// the controller by NODE_EXTRA_CA_CERTS. Prints one JSON object a line: {"name": step, "failure": null or what was wrong}; it
// stops at the first step that fails. The caller limits its run time.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { pathToFileURL } from "node:url";

const [library, domain, service] = process.argv.slice(2);
const { ZitiBrowzerEdgeClient } = await import(pathToFileURL(library));
const auth = { username: process.env.OVERKEEP_USER, password: process.env.OVERKEEP_PASSWORD };
const api = new ZitiBrowzerEdgeClient({ domain, logger: { trace() {} } }); // it calls a logger even without one

// The library resolves with every answer; an error answer has an `error`.
function data(answer) {
  assert.ok(!answer.error, `refused: ${JSON.stringify(answer.error)}`);
  return answer.data;
}

function refused(answer, code) {
  assert.equal(answer.error?.code, code, `not refused so: ${JSON.stringify(answer)}`);
}

async function login() {
  api.setToken("", "zt-session", false);
  const session = data(await api.authenticate({ method: "password", auth }));
  api.setToken(session.token, "zt-session", false);
  return session;
}

// The one-time code (RFC 6238) of the time step this many half minutes from now.
function code(secret, steps) {
  const bits = [...secret]
    .map((letter) =>
      "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(letter).toString(2).padStart(5, "0"),
    )
    .join("");
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + steps));
  const sum = createHmac("sha1", key).update(counter).digest();
  const number = sum.readUInt32BE(sum.at(-1) & 0xf) & 0x7fffffff;
  return String(number % 1_000_000).padStart(6, "0");
}

let secret;
const steps = {
  async password() {
    refused(
      await api.authenticate({ method: "password", auth: { ...auth, password: "wrong-password" } }),
      "INVALID_AUTH",
    );
    const session = await login();
    assert.deepEqual(session.authQueries, []);
    assert.equal(data(await api.getCurrentIdentity()).id, session.identityId);
    assert.equal(data(await api.getCurrentAPISession()).token, session.token);
  },
  async services() {
    const seen = data(await api.listServices({ limit: 100, offset: 0 }));
    assert.deepEqual(
      seen.map(({ name, permissions }) => [name, ...permissions.sort()]),
      [[service, "Bind", "Dial"]],
    );
  },
  async "mfa enroll"() {
    refused(await api.detailMfa(), "NOT_FOUND");
    data(await api.enrollMfa());
    refused(await api.enrollMfa(), "MFA_EXISTS");
    const mfa = data(await api.detailMfa());
    assert.equal(mfa.isVerified, false);
    assert.equal(mfa.recoveryCodes.length, 20);
    secret = new URL(mfa.provisioningUrl).searchParams.get("secret");
  },
  async "mfa verify"() {
    refused(
      await api.verifyMfa({ mfaValidation: { code: code(secret, -100) } }),
      "MFA_INVALID_TOKEN",
    );
    data(await api.verifyMfa({ mfaValidation: { code: code(secret, -1) } }));
    assert.equal(data(await api.detailMfa()).isVerified, true);
  },
  async "mfa authenticate"() {
    const session = await login();
    assert.equal(session.authQueries[0]?.typeId, "MFA");
    refused(await api.listServices(), "UNAUTHORIZED");
    refused(
      await api.authenticateMfa({ mfaAuth: { code: code(secret, -100) } }),
      "MFA_INVALID_TOKEN",
    );
    data(await api.authenticateMfa({ mfaAuth: { code: code(secret, 0) } }));
    assert.equal(data(await api.listServices()).length, 1);
    assert.deepEqual(data(await api.getCurrentAPISession()).authQueries, []);
  },
  async "mfa remove"() {
    data(await api.deleteMfa({ mfaValidationCode: code(secret, 0) }));
    refused(await api.detailMfa(), "NOT_FOUND");
  },
  async logout() {
    data(await api.deleteCurrentApiSession());
    refused(await api.getCurrentAPISession(), "UNAUTHORIZED");
  },
};

for (const [name, step] of Object.entries(steps)) {
  try {
    await step();
  } catch (error) {
    console.log(
      JSON.stringify({
        name,
        failure: error.cause ? `${error.message}: ${error.cause}` : error.message,
      }),
    );
    break;
  }
  console.log(JSON.stringify({ name, failure: null }));
}
