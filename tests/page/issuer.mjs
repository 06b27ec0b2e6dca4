// A small OpenID Connect issuer on this host: it logs its one user in at once and sends the browser back with a code.

import { createHash, createSign, generateKeyPairSync, randomBytes } from "node:crypto";
import { createServer } from "node:http";

/** Starts it. `subject` is the `sub` of its tokens. Returns its address, and a function that stops it. */
export async function issuer(subject) {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const [codes, text] = [
    new Map(),
    (value) => Buffer.from(JSON.stringify(value)).toString("base64url"),
  ];
  let url;
  const token = () => {
    const body = `${text({ alg: "RS256", kid: "k", typ: "JWT" })}.${text({ iss: url, aud: "overlay", sub: subject, exp: Math.floor(Date.now() / 1000) + 600 })}`;
    return `${body}.${createSign("RSA-SHA256").update(body).sign(privateKey, "base64url")}`;
  };
  const exchanged = (form) => {
    const asked = codes.get(form.get("code"));
    codes.delete(form.get("code"));
    const proven =
      asked &&
      createHash("sha256")
        .update(form.get("code_verifier") || "")
        .digest("base64url") === asked.challenge;
    return proven && form.get("redirect_uri") === asked.redirect
      ? [200, { access_token: token(), token_type: "Bearer" }]
      : [400, { error: "invalid_grant" }];
  };
  const server = createServer(async (request, answer) => {
    const { pathname, searchParams } = new URL(request.url, url);
    if (pathname === "/authorize") {
      const code = randomBytes(16).toString("hex");
      codes.set(code, {
        challenge: searchParams.get("code_challenge"),
        redirect: searchParams.get("redirect_uri"),
      });
      const back = new URL(searchParams.get("redirect_uri"));
      for (const [name, value] of Object.entries({
        code,
        state: searchParams.get("state"),
        iss: url,
      }))
        back.searchParams.set(name, value);
      return answer.writeHead(302, { location: back.href }).end();
    }
    let body = "";
    for await (const part of request) body += part;
    const known = {
      "/.well-known/openid-configuration": [
        200,
        { issuer: url, authorization_endpoint: `${url}/authorize`, token_endpoint: `${url}/token` },
      ],
      "/keys": [
        200,
        { keys: [{ ...publicKey.export({ format: "jwk" }), kid: "k", use: "sig", alg: "RS256" }] },
      ],
    };
    const [status, shown] =
      pathname === "/token" ? exchanged(new URLSearchParams(body)) : known[pathname] || [404, {}];
    return answer
      .writeHead(status, { "content-type": "application/json" })
      .end(JSON.stringify(shown));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  url = `http://127.0.0.1:${server.address().port}`;
  return { url, stop: () => server.close() };
}
