//! The glossary: descriptions and examples of members and parameters whose structs have none.
//!
//! Most names mean the same everywhere, so they are described here once. A doc comment on a member
//! takes precedence; it is required where a name means something else.

use serde_json::{Map, Value as Json};

/// A name, its description, and an example as JSON; either may be empty.
struct GlossaryEntry(&'static str, &'static str, &'static str);

/// Adds missing descriptions and examples to the members of a schema, at any depth.
pub(crate) fn explain(schema: &mut Json) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    for (name, member) in object
        .get_mut("properties")
        .and_then(Json::as_object_mut)
        .into_iter()
        .flatten()
    {
        if let Some(member) = member.as_object_mut() {
            add(name, member);
        }
        explain(member);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(keyword) {
            explain(inner);
        }
    }
    for keyword in ["oneOf", "anyOf"] {
        let forms = object.get_mut(keyword).and_then(Json::as_array_mut);
        for form in forms.into_iter().flatten() {
            explain(form);
        }
    }
}

/// Adds what is missing to the schema of one member, if its name is in the glossary.
pub(crate) fn add(name: &str, schema: &mut Map<String, Json>) {
    let Some(GlossaryEntry(_, meaning, example)) = GLOSSARY.iter().find(|word| word.0 == name)
    else {
        return;
    };
    if !meaning.is_empty() && !schema.contains_key("description") {
        schema.insert("description".into(), (*meaning).into());
    }
    let known = ["examples", "const", "enum", "$ref", "properties"]
        .into_iter()
        .any(|keyword| schema.contains_key(keyword));
    let example = serde_json::from_str(example)
        .ok()
        .filter(|example| !known && fits(example, schema));
    if let Some(example) = example {
        schema.insert("examples".into(), Json::Array(vec![example]));
    }
}

/// Whether a schema allows the JSON type of a value.
fn fits(value: &Json, schema: &Map<String, Json>) -> bool {
    let kind = match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    match schema.get("type") {
        Some(Json::Array(kinds)) => kinds.iter().any(|one| one == kind),
        Some(one) => one == kind,
        None => false,
    }
}

const ID: &str = r#""0351eqC7o453ghcp597P5O""#;
const AT: &str = r#""2026-11-21T22:29:56.844Z""#;
const PEM: &str = r#""-----BEGIN CERTIFICATE-----\nMIIB...\n-----END CERTIFICATE-----\n""#;
const CSR: &str =
    r#""-----BEGIN CERTIFICATE REQUEST-----\nMIIB...\n-----END CERTIFICATE REQUEST-----\n""#;
const SHA1: &str = r#""da39a3ee5e6b4b0d3255bfef95601890afd80709""#;
const SHA512: &str = concat!(
    r#""cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"#,
    r#"47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e""#
);

/// The words in alphabetical order.
const GLOSSARY: &[GlossaryEntry] = &[
    GlossaryEntry("actualValue", "What the endpoint reported.", ""),
    GlossaryEntry("address", "The address.", r#""tcp:localhost:5432""#),
    GlossaryEntry(
        "addresses",
        "The MAC addresses of the endpoint.",
        r#"["0242ac110002"]"#,
    ),
    GlossaryEntry("alg", "", r#""ES256""#),
    GlossaryEntry("algorithm", "", r#""ES256""#),
    GlossaryEntry(
        "allowed",
        "Whether this method may be used for a login.",
        "",
    ),
    GlossaryEntry("allowedSigners", "", "[]"),
    GlossaryEntry(
        "apiAddresses",
        "The addresses of its interfaces, by interface.",
        "",
    ),
    GlossaryEntry(
        "apiBaseUrls",
        "The URLs of the interface.",
        r#"["https://controller.example:1280/edge/client/v1"]"#,
    ),
    GlossaryEntry(
        "apiEnrollmentVersion",
        "The version of the enrollment interface.",
        r#""0.0.1""#,
    ),
    GlossaryEntry("apiSession", "The API session to which it belongs.", ""),
    GlossaryEntry(
        "apiSessionId",
        "The id of the API session to which it belongs.",
        r#""cmwqyb8sn0zeqak7n8qg4taik""#,
    ),
    GlossaryEntry("apiVersion", "The version of the interface.", r#""0.0.1""#),
    GlossaryEntry(
        "appData",
        "Data of its owner or application; the controller does not use it.",
        r#"{"owner":"it"}"#,
    ),
    GlossaryEntry("appId", "", r#""database-viewer""#),
    GlossaryEntry(
        "appVersion",
        "The version of the application.",
        r#""2.1.0""#,
    ),
    GlossaryEntry("arch", "The architecture of the machine.", r#""amd64""#),
    GlossaryEntry("asIdentity", "", r#""alice""#),
    GlossaryEntry(
        "audience",
        "The required `aud` of its tokens.",
        r#""overlay""#,
    ),
    GlossaryEntry(
        "authenticatorId",
        "The id of the authenticator that opened it.",
        ID,
    ),
    GlossaryEntry("authenticators", "The credentials, by method.", ""),
    GlossaryEntry(
        "authPolicy",
        "The auth policy, which decides how the identity may log in.",
        "",
    ),
    GlossaryEntry(
        "authPolicyId",
        "The id of the auth policy, which decides how the identity may log in.",
        r#""default""#,
    ),
    GlossaryEntry(
        "binaryHash",
        "SHA-512 of the file, in hexadecimal digits.",
        SHA512,
    ),
    GlossaryEntry(
        "binding",
        "How the router handles the address.",
        r#""transport""#,
    ),
    GlossaryEntry(
        "branch",
        "The branch from which the SDK was built.",
        r#""main""#,
    ),
    GlossaryEntry("build", "The build of the operating system.", r#""19045""#),
    GlossaryEntry(
        "buildDate",
        "The time of the build.",
        r#""2026-11-21T22:29:56Z""#,
    ),
    GlossaryEntry("cachedLastActivityAt", "", AT),
    GlossaryEntry("caId", "The id of the certificate authority.", ID),
    GlossaryEntry("capabilities", "", r#"["JWT_ENROLLMENT"]"#),
    GlossaryEntry("caPool", "", PEM),
    GlossaryEntry("cas", "", PEM),
    GlossaryEntry("cause", "The cause, with details.", ""),
    GlossaryEntry("cert", "A certificate.", PEM),
    GlossaryEntry("certCsr", "", CSR),
    GlossaryEntry("certificate", "The certificate, PEM.", PEM),
    GlossaryEntry("certPem", "The certificate, PEM.", PEM),
    GlossaryEntry("channels", "", "[]"),
    GlossaryEntry("checks", "The failing checks.", ""),
    GlossaryEntry(
        "claimsProperty",
        "The claim that names the identity.",
        r#""sub""#,
    ),
    GlossaryEntry("clientCert", "", PEM),
    GlossaryEntry("clientCertCsr", "", CSR),
    GlossaryEntry("clientCsr", "", CSR),
    GlossaryEntry("code", "The code for programs.", r#""123456""#),
    GlossaryEntry(
        "comment",
        "A description.",
        r#""the services of this configuration""#,
    ),
    GlossaryEntry(
        "commonName",
        "The common name of the certificate.",
        r#""identity provider""#,
    ),
    GlossaryEntry(
        "config",
        "The config.",
        r#"{"intercept.v1":{"protocols":["tcp"],"addresses":["database.internal"],"portRanges":[{"low":5432,"high":5432}]}}"#,
    ),
    GlossaryEntry(
        "configId",
        "The id of the config.",
        r#""0351eqC738E7K0kFCzt73W""#,
    ),
    GlossaryEntry("configs", "The ids of its configs.", "[]"),
    GlossaryEntry(
        "configType",
        "The config type, whose schema the data must satisfy.",
        "",
    ),
    GlossaryEntry(
        "configTypeId",
        "The id of the config type, whose schema the data must satisfy; set only at creation.",
        r#""NH5p4FpGR""#,
    ),
    GlossaryEntry(
        "configTypes",
        "The config types whose configs are shown to it, by id or name; `all` for every type.",
        r#"["all"]"#,
    ),
    GlossaryEntry("cost", "The cost that it adds to a path.", "0"),
    GlossaryEntry("createdAt", "The time of its creation.", AT),
    GlossaryEntry("criteria", "The values on which the verdict is based.", ""),
    GlossaryEntry("crv", "The curve of an elliptic-curve key.", r#""P-256""#),
    GlossaryEntry("csr", "", CSR),
    GlossaryEntry(
        "ctrlAddress",
        "The address to which routers connect.",
        r#""tls:controller.example:1280""#,
    ),
    GlossaryEntry(
        "currentPassword",
        "The current password.",
        r#""correct horse""#,
    ),
    GlossaryEntry("data", "The result.", ""),
    GlossaryEntry(
        "defaultHostingCost",
        "The cost of the terminators that it hosts, unless set for the service.",
        "0",
    ),
    GlossaryEntry(
        "defaultHostingPrecedence",
        "The precedence of the terminators that it hosts, unless set for the service.",
        "",
    ),
    GlossaryEntry(
        "description",
        "What is wrong.",
        r#""the index of services by name holds an entry of none""#,
    ),
    GlossaryEntry("disabled", "Whether it is disabled.", ""),
    GlossaryEntry(
        "disabledAt",
        "The time at which it was disabled; null if it is enabled.",
        AT,
    ),
    GlossaryEntry(
        "disabledUntil",
        "The time at which it is enabled automatically; null if an administrator must enable it.",
        r#""2026-11-21T22:59:56.844Z""#,
    ),
    GlossaryEntry(
        "domain",
        "The Windows domain of the machine.",
        r#""corp.example""#,
    ),
    GlossaryEntry(
        "domains",
        "Windows domains; the machine must belong to one of them.",
        r#"["corp.example"]"#,
    ),
    GlossaryEntry("duration", "", r#""1h30m""#),
    GlossaryEntry("durationMinutes", "", "30"),
    GlossaryEntry("dynamicCost", "", "0"),
    GlossaryEntry("e", "The exponent of an RSA key, base64url.", r#""AQAB""#),
    GlossaryEntry("edgeRouter", "The edge router.", ""),
    GlossaryEntry(
        "edgeRouterId",
        "The id of the edge router.",
        r#""VbeD77I1vLm9""#,
    ),
    GlossaryEntry(
        "edgeRouterRoles",
        "Which edge routers: `#attribute`, `@id`, or `#all` alone.",
        r##"["#public"]"##,
    ),
    GlossaryEntry(
        "edgeRouterRolesDisplay",
        "The same roles with names in place of ids.",
        "",
    ),
    GlossaryEntry("edgeRouters", "Edge routers.", ""),
    GlossaryEntry("enabled", "Whether it is enabled.", ""),
    GlossaryEntry(
        "encryptionRequired",
        "Whether both ends must encrypt their traffic end to end.",
        "true",
    ),
    GlossaryEntry(
        "endpointState",
        "When the endpoint last woke up and was unlocked.",
        "",
    ),
    GlossaryEntry(
        "endTime",
        "The time of its end; null while it runs.",
        r#""2026-11-21T22:30:01.000Z""#,
    ),
    GlossaryEntry(
        "enrollmentCreatedAt",
        "The creation time of the outstanding enrollment.",
        AT,
    ),
    GlossaryEntry(
        "enrollmentExpiresAt",
        "The expiry of the outstanding enrollment.",
        r#""2026-11-22T01:29:56.844Z""#,
    ),
    GlossaryEntry(
        "enrollmentJwt",
        "The outstanding enrollment as a signed token, for the router's host.",
        r#""eyJhbGciOiJFUzI1NiJ9.eyJlbSI6ImVyb3R0In0.c2lnbmF0dXJl""#,
    ),
    GlossaryEntry(
        "enrollmentToken",
        "The token of the outstanding enrollment.",
        r#""0f3bf4fb-4915-4eed-adb0-9341052c19c0""#,
    ),
    GlossaryEntry("entity", "", r#""services""#),
    GlossaryEntry(
        "envInfo",
        "The machine of its last login, as reported by the client.",
        "",
    ),
    GlossaryEntry("error", "The error.", ""),
    GlossaryEntry("expectedValue", "What the check requires.", ""),
    GlossaryEntry("expirationSeconds", "", "1800"),
    GlossaryEntry(
        "expiresAt",
        "The time at which it ends.",
        r#""2030-01-01T00:00:00.000Z""#,
    ),
    GlossaryEntry(
        "externalAuthUrl",
        "The address at which a person obtains a token.",
        r#""https://idp.example/login""#,
    ),
    GlossaryEntry(
        "externalId",
        "Its id at an external authority.",
        r#""alice@example.com""#,
    ),
    GlossaryEntry(
        "externalIdClaim",
        "The place of the identity's `externalId` in a certificate; null: certificates are matched by fingerprint.",
        "",
    ),
    GlossaryEntry("extJwt", "Tokens of external JWT signers.", ""),
    GlossaryEntry(
        "field",
        "The wrong member, parameter or header; dots separate nested members.",
        r#""name""#,
    ),
    GlossaryEntry("filter", "", r#""name contains \"data\" limit none""#),
    GlossaryEntry("filterableFields", "", r#"["id","name","tags"]"#),
    GlossaryEntry(
        "fingerprint",
        "SHA-1 of the certificate, in hexadecimal digits.",
        SHA1,
    ),
    GlossaryEntry("fixed", "Whether it is repaired.", ""),
    GlossaryEntry("format", "The characters of which the answer consists.", ""),
    GlossaryEntry("hasApiSession", "Whether it has an API session.", ""),
    GlossaryEntry(
        "hash",
        "SHA-512 of the file, in hexadecimal digits.",
        SHA512,
    ),
    GlossaryEntry("hashes", "", "[]"),
    GlossaryEntry("hostname", "The host name of the machine.", r#""laptop""#),
    GlossaryEntry("href", "A path below the base path.", r#""./services""#),
    GlossaryEntry("httpMethod", "The HTTP method for the answer.", r#""POST""#),
    GlossaryEntry("httpUrl", "", r#""./authenticate/mfa""#),
    GlossaryEntry("id", "The id.", ID),
    GlossaryEntry(
        "identity",
        "The identity to which it belongs.",
        r#""database-host""#,
    ),
    GlossaryEntry(
        "identityId",
        "The id of the identity to which it belongs.",
        r#""VbeD75dzZNfC""#,
    ),
    GlossaryEntry(
        "identityNameFormat",
        "The format of the names of identities that enroll automatically.",
        r#""[caName] - [commonName]""#,
    ),
    GlossaryEntry(
        "identityRoles",
        "Role attributes, or in a policy which identities: `#attribute`, `@id`, or `#all` alone.",
        r##"["#sales"]"##,
    ),
    GlossaryEntry(
        "identityRolesDisplay",
        "The same roles with names in place of ids.",
        "",
    ),
    GlossaryEntry("identityRouterCount", "", "1"),
    GlossaryEntry("identitySecret", "", r#""c2VjcmV0""#),
    GlossaryEntry(
        "If-Match",
        "The entity tag of the known version of the record; if the record has another one, the request is rejected with 412.",
        r#""\"19a9a1b2c3d-0f3bf4fb\"""#,
    ),
    GlossaryEntry("index", "", "0"),
    GlossaryEntry("inProgress", "Whether it is running.", ""),
    GlossaryEntry(
        "ipAddress",
        "The source address of its login.",
        r#""192.0.2.17""#,
    ),
    GlossaryEntry("isAdmin", "Whether it is an administrator.", ""),
    GlossaryEntry(
        "isAuthEnabled",
        "Whether its certificates may be used for a login.",
        "",
    ),
    GlossaryEntry(
        "isAutoCaEnrollmentEnabled",
        "Whether a client with one of its certificates can enroll without a token.",
        "",
    ),
    GlossaryEntry(
        "isBindAllowed",
        "Whether the identity may host the service.",
        "",
    ),
    GlossaryEntry(
        "isDialAllowed",
        "Whether the identity may connect to the service.",
        "",
    ),
    GlossaryEntry("isMfaComplete", "Whether a one-time code was given.", ""),
    GlossaryEntry("isMfaRequired", "Whether a one-time code is required.", ""),
    GlossaryEntry("isOnline", "Whether it is connected now.", ""),
    GlossaryEntry(
        "isOttCaEnrollmentEnabled",
        "Whether its certificates complete enrollments of the method `ottca`.",
        "",
    ),
    GlossaryEntry("isPassing", "Whether the last answer passes.", ""),
    GlossaryEntry("isRunning", "Whether it runs.", ""),
    GlossaryEntry(
        "issuer",
        "The `iss` of its tokens.",
        r#""https://idp.example""#,
    ),
    GlossaryEntry(
        "isTunnelerEnabled",
        "Whether it hosts and dials services itself.",
        "",
    ),
    GlossaryEntry(
        "isVerified",
        "Whether it is verified: a router by its enrollment, a certificate authority by its key, an authenticator app by a code.",
        "",
    ),
    GlossaryEntry(
        "jwksEndpoint",
        "The URL of its JWKS (key set).",
        r#""https://idp.example/keys""#,
    ),
    GlossaryEntry(
        "jwt",
        "The enrollment as a signed token, which a client needs to enroll.",
        r#""eyJhbGciOiJFUzI1NiJ9.eyJlbSI6Im90dCJ9.c2lnbmF0dXJl""#,
    ),
    GlossaryEntry("key_ops", "The uses of the key.", r#"["verify"]"#),
    GlossaryEntry("keyId", "", SHA1),
    GlossaryEntry("keys", "The keys.", ""),
    GlossaryEntry("kid", "The id of the key.", SHA1),
    GlossaryEntry("kty", "", r#""EC""#),
    GlossaryEntry("lastActivityAt", "", AT),
    GlossaryEntry(
        "lastChangeAt",
        "When the caller's services or rights last changed.",
        AT,
    ),
    GlossaryEntry("lastJoinedAt", "The time of its last start.", AT),
    GlossaryEntry("lastUpdatedAt", "The time of its last report.", AT),
    GlossaryEntry("limit", "", "10"),
    GlossaryEntry(
        "_links",
        "Related resources: a path below the base path, by relation.",
        r#"{"self":{"href":"./services/0351eqC7o453ghcp597P5O"}}"#,
    ),
    GlossaryEntry("lockoutDurationMinutes", "", "5"),
    GlossaryEntry("mac", "The MAC addresses of the endpoint.", ""),
    GlossaryEntry(
        "macAddresses",
        "MAC addresses in hexadecimal digits; separators are ignored.",
        r#"["02:42:ac:11:00:02"]"#,
    ),
    GlossaryEntry(
        "matcherCriteria",
        "The value that the matcher compares.",
        r#""""#,
    ),
    GlossaryEntry("maxAttempts", "", "5"),
    GlossaryEntry(
        "maxIdleTimeMillis",
        "A circuit without traffic for this many milliseconds is closed; 0: never.",
        "0",
    ),
    GlossaryEntry("maxLength", "The maximum length of the answer.", "6"),
    GlossaryEntry(
        "message",
        "The message for people.",
        r#""name: must not be empty""#,
    ),
    GlossaryEntry("meta", "Metadata of the answer.", ""),
    GlossaryEntry("method", "The method.", r#""GET""#),
    GlossaryEntry("mfa", "When a one-time code was last given.", ""),
    GlossaryEntry(
        "mfa-validation-code",
        "A one-time code, for requests without a body.",
        r#""123456""#,
    ),
    GlossaryEntry("minLength", "The minimum length of the answer.", "4"),
    GlossaryEntry("minPasswordLength", "", "8"),
    GlossaryEntry(
        "n",
        "The modulus of an RSA key, base64url.",
        r#""0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc""#,
    ),
    GlossaryEntry(
        "name",
        "The name, unique among records of its kind.",
        r#""database""#,
    ),
    GlossaryEntry("nonce", "", r#""5b3c0d19-a4e8-4b0f-8f2f-6f6ffb1f7ab0""#),
    GlossaryEntry("notAfter", "", r#""2027-11-21T22:29:56.000Z""#),
    GlossaryEntry("notBefore", "", r#""2026-11-21T22:29:56.000Z""#),
    GlossaryEntry(
        "noTraversal",
        "Whether paths may only begin or end there.",
        "",
    ),
    GlossaryEntry("offset", "", "0"),
    GlossaryEntry(
        "operatingSystems",
        "Operating systems; the machine must have one of them.",
        "",
    ),
    GlossaryEntry("os", "The operating system.", r#""linux""#),
    GlossaryEntry("osRelease", "Its release.", r#""6.1.0""#),
    GlossaryEntry("osType", "The family of operating systems.", ""),
    GlossaryEntry("osVersion", "Its version.", r#""12""#),
    GlossaryEntry(
        "ott",
        "By a one-time token, for a certificate of this controller.",
        "true",
    ),
    GlossaryEntry(
        "ottca",
        "By a one-time token and a certificate of a third-party certificate authority.",
        "",
    ),
    GlossaryEntry("pagination", "The part of the list in this answer.", ""),
    GlossaryEntry(
        "parserCriteria",
        "The separator of several values in one text.",
        r#""""#,
    ),
    GlossaryEntry("passedAt", "When a code was last given.", AT),
    GlossaryEntry("passedMfa", "Whether a code was given.", ""),
    GlossaryEntry("passedMfaAt", "When a code was last given.", AT),
    GlossaryEntry(
        "passedOnUnlock",
        "Whether it was given after the endpoint was last unlocked; null before any.",
        "",
    ),
    GlossaryEntry(
        "passedOnWake",
        "Whether it was given after the endpoint last woke up; null before any.",
        "",
    ),
    GlossaryEntry("password", "The password.", r#""correct horse""#),
    GlossaryEntry("path", "The path of the file.", r#""/usr/bin/agent""#),
    GlossaryEntry(
        "permissions",
        "The rights of the caller: `Dial`, `Bind`.",
        r#"["Dial"]"#,
    ),
    GlossaryEntry(
        "policyId",
        "The id of the policy.",
        r#""0351eqC8euAAg29aZ7k9rM""#,
    ),
    GlossaryEntry("policyName", "The name of the policy.", r#""databases""#),
    GlossaryEntry("policyType", "The right that the policy grants.", ""),
    GlossaryEntry(
        "postureCheckId",
        "The id of the posture check.",
        r#""0351eqC8euAAg29aZ7k9rM""#,
    ),
    GlossaryEntry(
        "postureCheckName",
        "The name of the posture check.",
        r#""office machines""#,
    ),
    GlossaryEntry(
        "postureCheckRoles",
        "Which posture checks must pass: `#attribute`, `@id`, or `#all` alone; if empty, none.",
        "[]",
    ),
    GlossaryEntry(
        "postureCheckRolesDisplay",
        "The same roles with names in place of ids.",
        "",
    ),
    GlossaryEntry("postureCheckType", "The type of the posture check.", ""),
    GlossaryEntry("postureQueries", "The posture checks that apply.", ""),
    GlossaryEntry(
        "precedence",
        "Compared before the cost: `required` hosts are preferred, `failed` hosts come last.",
        "",
    ),
    GlossaryEntry("primary", "The methods of the login itself.", ""),
    GlossaryEntry("process", "A process, by its path.", ""),
    GlossaryEntry("processes", "Processes, by their paths.", ""),
    GlossaryEntry("provider", "Who checks the answer.", ""),
    GlossaryEntry(
        "provisioningUrl",
        "",
        r#""otpauth://totp/overkeep:alice?secret=JBSWY3DPEHPK3PXP""#,
    ),
    GlossaryEntry("queryType", "The type of what is asked for.", ""),
    GlossaryEntry("reason", "The broken rule.", r#""must not be empty""#),
    GlossaryEntry(
        "recoveryCodes",
        "Codes that replace a code of the app, each valid once.",
        r#"["q3fh7k2m9x"]"#,
    ),
    GlossaryEntry(
        "requestId",
        "The id of the request in the log.",
        r#""9c99eb8abc-424""#,
    ),
    GlossaryEntry("requireExtJwtSigner", "", "null"),
    GlossaryEntry(
        "requireNumberChar",
        "Whether a password must contain a digit.",
        "",
    ),
    GlossaryEntry(
        "requireSpecialChar",
        "Whether a password must contain a character that is neither a letter nor a digit.",
        "",
    ),
    GlossaryEntry(
        "revision",
        "The source revision of the build.",
        r#""4ef921af122e""#,
    ),
    GlossaryEntry("role", "The entry of the policy.", r#""@VbeD75dzZNfC""#),
    GlossaryEntry(
        "roleAttributes",
        "Attributes by which policies select it.",
        r#"["databases"]"#,
    ),
    GlossaryEntry("roleFilter", "", r##"["#databases"]"##),
    GlossaryEntry("roleSemantic", "", r#""AllOf""#),
    GlossaryEntry("routePath", "", "[]"),
    GlossaryEntry(
        "router",
        "The router over which it is reached.",
        r#""VbeD77I1vLm9""#,
    ),
    GlossaryEntry(
        "routerId",
        "The id of the router over which it is reached.",
        r#""VbeD77I1vLm9""#,
    ),
    GlossaryEntry("rowsChecked", "", "120"),
    GlossaryEntry("rowsTotal", "", "120"),
    GlossaryEntry(
        "runtimeVersion",
        "The compiler version of the build.",
        r#""rustc 1.95""#,
    ),
    GlossaryEntry(
        "schema",
        "",
        r#"{"type":"object","properties":{"port":{"type":"integer"}}}"#,
    ),
    GlossaryEntry(
        "sdkInfo",
        "The SDK of its last login, as reported by the client.",
        "",
    ),
    GlossaryEntry("secondary", "Additional requirements of a login.", ""),
    GlossaryEntry(
        "semantic",
        "Whether a record needs all attributes (`AllOf`) or one of them (`AnyOf`); likewise for several processes.",
        "",
    ),
    GlossaryEntry("serverCert", "", PEM),
    GlossaryEntry("serverCertCsr", "", CSR),
    GlossaryEntry("serverCsr", "", CSR),
    GlossaryEntry("service", "The service.", ID),
    GlossaryEntry(
        "serviceHostingCosts",
        "The cost as a host of individual services, by service id.",
        "{}",
    ),
    GlossaryEntry(
        "serviceHostingPrecedences",
        "The precedence as a host of individual services, by service id.",
        "",
    ),
    GlossaryEntry("serviceId", "The id of the service.", ID),
    GlossaryEntry("serviceName", "The name of the service.", r#""database""#),
    GlossaryEntry("servicePolicies", "The policies that grant it.", ""),
    GlossaryEntry(
        "serviceRoles",
        "Which services: `#attribute`, `@id`, or `#all` alone.",
        r##"["#databases"]"##,
    ),
    GlossaryEntry(
        "serviceRolesDisplay",
        "The same roles with names in place of ids.",
        "",
    ),
    GlossaryEntry("serviceRouterCount", "", "1"),
    GlossaryEntry("signature", "", r#""c2lnbmF0dXJl""#),
    GlossaryEntry("signerFingerprint", "", SHA1),
    GlossaryEntry(
        "signerFingerprints",
        "SHA-1 of the certificates that the file is signed with, in hexadecimal digits.",
        r#"["da39a3ee5e6b4b0d3255bfef95601890afd80709"]"#,
    ),
    GlossaryEntry("sort", "", r#""name desc""#),
    GlossaryEntry(
        "startTime",
        "The time of its start; null if there was none yet.",
        r#""2026-11-21T22:29:56.000Z""#,
    ),
    GlossaryEntry(
        "subject",
        "The subject of the certificate.",
        r#""CN=alice""#,
    ),
    GlossaryEntry(
        "supportedProtocols",
        "",
        r#"{"tls":"tls://router.example:3022"}"#,
    ),
    GlossaryEntry("syncStatus", "", r#""SYNC_DONE""#),
    GlossaryEntry(
        "tags",
        "Labels for people and scripts: text, number, boolean or null under each key.",
        r#"{"team":"sales"}"#,
    ),
    GlossaryEntry(
        "terminatorStrategy",
        "How a terminator is selected.",
        r#""smartrouting""#,
    ),
    GlossaryEntry("timedOut", "Whether it is too old.", ""),
    GlossaryEntry("timeout", "", "-1"),
    GlossaryEntry("timeoutRemaining", "", "-1"),
    GlossaryEntry(
        "timeoutRemainingSeconds",
        "Seconds for which the code is still valid; -1: without limit.",
        "600",
    ),
    GlossaryEntry(
        "timeoutSeconds",
        "Seconds for which a code is valid; -1: without limit.",
        "3600",
    ),
    GlossaryEntry(
        "token",
        "A secret token: its holder can use it.",
        r#""0f3bf4fb-4915-4eed-adb0-9341052c19c0""#,
    ),
    GlossaryEntry("totalCount", "", "1"),
    GlossaryEntry("traceId", "The name of the trace.", r#""alice""#),
    GlossaryEntry("transitRouter", "The router.", ""),
    GlossaryEntry(
        "transitRouterId",
        "The id of the router.",
        r#""VbeD77I1vLm9""#,
    ),
    GlossaryEntry("type", "The type.", r#""Linux""#),
    GlossaryEntry("typeId", "The type.", r#""Default""#),
    GlossaryEntry("unlockedAt", "When the endpoint was last unlocked.", AT),
    GlossaryEntry("until", "", r#""2026-11-21T23:29:56.844Z""#),
    GlossaryEntry(
        "unverifiedCertPem",
        "The certificate that replaces the current one after its confirmation, PEM.",
        PEM,
    ),
    GlossaryEntry(
        "unverifiedFingerprint",
        "SHA-1 of the certificate that awaits confirmation, in hexadecimal digits.",
        SHA1,
    ),
    GlossaryEntry("updatedAt", "The time of its last change.", AT),
    GlossaryEntry("updb", "A user name and a password.", r#""alice""#),
    GlossaryEntry(
        "url",
        "The URL.",
        r#""https://controller.example:1280/edge/client/v1""#,
    ),
    GlossaryEntry("urls", "", r#"{"tls":"tls://router.example:3022"}"#),
    GlossaryEntry(
        "useExternalId",
        "Whether the claim holds the identity's `externalId` instead of its id.",
        "",
    ),
    GlossaryEntry("username", "The user name.", r#""alice""#),
    GlossaryEntry(
        "validFrom",
        "The start of the certificate's validity.",
        r#""2026-11-21T22:29:56.000Z""#,
    ),
    GlossaryEntry(
        "validTo",
        "The end of the certificate's validity.",
        r#""2026-11-22T10:29:56.000Z""#,
    ),
    GlossaryEntry("value", "The value that was sent.", r#""""#),
    GlossaryEntry(
        "verificationToken",
        "The required common name of the certificate that proves the authority's key.",
        r#""3f9d1c52-7a0e-4a6b-9a4b-0c5f6f3f2c11""#,
    ),
    GlossaryEntry("version", "The version.", r#""10.0.19041""#),
    GlossaryEntry(
        "versionInfo",
        "The version of the router's software, as reported by the router.",
        "",
    ),
    GlossaryEntry("versions", "", r#"[">=10.0.0"]"#),
    GlossaryEntry("when", "The time of the event.", AT),
    GlossaryEntry("wokenAt", "When the endpoint last woke up.", AT),
    GlossaryEntry(
        "x",
        "The first coordinate of an elliptic-curve key, base64url.",
        r#""f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU""#,
    ),
    GlossaryEntry("x5c", "", r#"["MIIB..."]"#),
    GlossaryEntry("x5t", "", r#""2jmj7l5rSw0yVb_vlWAYkK_YBwk""#),
    GlossaryEntry(
        "x5t#S256",
        "",
        r#""47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU""#,
    ),
    GlossaryEntry(
        "y",
        "The second coordinate of an elliptic-curve key, base64url.",
        r#""x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0""#,
    ),
];
