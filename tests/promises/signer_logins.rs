//! Log-ins of a browser with an external signer: a small issuer with TLS on this host gives codes,
//! and the controller exchanges them.

mod issuer;

use std::{
    collections::HashMap,
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
    time::SystemTime,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use issuer::{Issuer, Mode};

use crate::harness::{Answer, Caller, Program, command, fresh, trusting};

/// A controller that trusts the issuer, with a signer for it.
struct Setting {
    _directory: TempDir,
    issuer: Issuer,
    admin: Caller,
    anonymous: Caller,
    host: String,
    signer: String,
    _program: Program,
}

fn setting() -> Setting {
    let directory = TempDir::new().unwrap();
    let trusted = directory.path().join("trusted.pem");
    let issuer = Issuer::start(&trusted);
    let program = Program::of(
        command(directory.path())
            .env("SSL_CERT_FILE", &trusted)
            .spawn()
            .unwrap(),
    )
    .expect("it starts");
    let admin = program.admin();
    let identity = admin
        .post(
            "/identities",
            json!({ "name": fresh("ann"), "type": "Default", "isAdmin": true }),
        )
        .expect(201)
        .id();
    let exp = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() + 1000;
    *issuer.claims.lock().unwrap() =
        json!({ "iss": issuer.url, "aud": "overlay", "sub": identity, "exp": exp });
    let signer = add_signer(&admin, &issuer, &issuer.url, json!({}));
    let host = program.url.strip_prefix("https://").unwrap().to_owned();
    let anonymous = trusting(&program.url);
    Setting {
        _directory: directory,
        issuer,
        anonymous,
        admin,
        host,
        signer,
        _program: program,
    }
}

fn add_signer(admin: &Caller, issuer: &Issuer, name: &str, more: Json) -> String {
    let mut body = json!({
        "name": fresh("idp"), "issuer": name, "audience": "overlay", "enabled": true, "jwksEndpoint": format!("{}/keys", issuer.url),
        "externalAuthUrl": format!("{}/", issuer.url), "clientId": "a page", "scopes": ["email"],
    });
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    admin.post("/external-jwt-signers", body).expect(201).id()
}

impl Setting {
    fn begin(&self, signer: &str, host: &str) -> Answer {
        self.anonymous.post(
            "/overkeep/v1/authenticate/signer",
            json!({ "signer": signer, "host": host }),
        )
    }

    /// What the browser is sent to the issuer with, and its secret.
    fn begun(&self) -> (HashMap<String, String>, String) {
        let begun = self.begin(&self.signer, &self.host).expect(200);
        let address = begun.data()["address"].as_str().unwrap();
        let query = address
            .strip_prefix(&format!("{}/authorize?", self.issuer.url))
            .unwrap();
        (
            form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
            begun.data()["secret"].as_str().unwrap().to_owned(),
        )
    }

    fn finish(&self, state: &str, secret: &str, more: Json) -> Answer {
        let mut body = json!({ "code": "a code", "state": state, "secret": secret });
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.anonymous
            .post("/overkeep/v1/authenticate/signer-code", body)
    }
}

#[test]
fn code_logs_in_once() {
    let setting = setting();
    let (asked, secret) = setting.begun();
    let fixed = [
        ("tenant", "a"),
        ("response_type", "code"),
        ("client_id", "a page"),
        ("scope", "openid email"),
        ("code_challenge_method", "S256"),
    ];
    for (name, value) in fixed {
        assert_eq!(asked[name], value, "{name}");
    }
    assert_eq!(
        asked["redirect_uri"],
        format!("https://{}/page/signed-in", setting.host)
    );
    assert!(
        !asked.values().any(|value| *value == secret),
        "the secret of the browser is in an address"
    );
    let opened = setting
        .finish(
            &asked["state"],
            &secret,
            json!({ "issuer": setting.issuer.url }),
        )
        .expect(200);
    assert!(opened.data()["token"].is_string(), "{}", opened.text);
    let form = setting.issuer.form.lock().unwrap().clone();
    let verifier = digest(&SHA256, form["code_verifier"].as_bytes());
    assert_eq!(
        URL_SAFE_NO_PAD.encode(verifier.as_ref()),
        asked["code_challenge"]
    );
    let sent = ["grant_type", "code", "client_id", "redirect_uri"].map(|name| form[name].as_str());
    assert_eq!(
        sent,
        [
            "authorization_code",
            "a code",
            "a page",
            &asked["redirect_uri"]
        ]
    );
    setting
        .finish(&asked["state"], &secret, json!({}))
        .expect(401);
    let refused = setting
        .admin
        .list("/overkeep/v1/history", "action = \"refusal\"", "")
        .expect(200);
    assert!(refused.text.contains("ext-jwt"), "{}", refused.text);
}

#[test]
fn login_belongs_to_one_browser() {
    let setting = setting();
    let (first, first_secret) = setting.begun();
    let (second, second_secret) = setting.begun();
    assert!(
        first["state"] != second["state"]
            && first["code_challenge"] != second["code_challenge"]
            && first_secret != second_secret
    );
    setting
        .finish(&first["state"], &second_secret, json!({}))
        .expect(401);
    // The wrong attempt has spent it.
    setting
        .finish(&first["state"], &first_secret, json!({}))
        .expect(401);
    setting
        .finish("another state", &second_secret, json!({}))
        .expect(401);
    assert!(
        setting.issuer.form.lock().unwrap().is_empty(),
        "a code was sent to the issuer"
    );
    setting
        .finish(&second["state"], &second_secret, json!({}))
        .expect(200);
    let (third, secret) = setting.begun();
    setting
        .finish(
            &third["state"],
            &secret,
            json!({ "issuer": "https://elsewhere.test" }),
        )
        .expect(401);
}

#[test]
fn bad_issuer_answers_are_refused() {
    let setting = setting();
    for mode in [
        Mode::Error,
        Mode::NoToken,
        Mode::Huge,
        Mode::Redirect,
        Mode::NotJson,
        Mode::OtherIssuer,
    ] {
        *setting.issuer.mode.lock().unwrap() = mode;
        let (asked, secret) = setting.begun();
        setting
            .finish(&asked["state"], &secret, json!({}))
            .expect(401);
    }
    let host = setting.host.clone();
    for elsewhere in [
        "evil.example.org",
        "evil.example.org:443",
        &format!("{host}@evil.example.org"),
        &format!("{host}/x"),
        "",
    ] {
        assert_eq!(
            setting.begin(&setting.signer, elsewhere).status,
            400,
            "{elsewhere}"
        );
    }
    setting
        .begin("nothing", &host)
        .refused(400, "COULD_NOT_VALIDATE", "signer");
    let lacking = [
        json!({ "enabled": false }),
        json!({ "clientId": null }),
        json!({ "externalAuthUrl": null }),
    ];
    for more in lacking {
        let id = add_signer(
            &setting.admin,
            &setting.issuer,
            &fresh("https://idp.test"),
            more,
        );
        setting
            .begin(&id, &host)
            .refused(400, "COULD_NOT_VALIDATE", "signer");
    }
    let metadata = [
        json!({ "authorization_endpoint": "javascript:alert(1)" }),
        json!({ "authorization_endpoint": "http://192.0.2.1/authorize" }),
        json!({ "token_endpoint": "file:///etc/passwd" }),
        json!({ "token_endpoint": null }),
        json!({ "padding": "x".repeat(4 << 20) }),
    ];
    for more in metadata {
        *setting.issuer.metadata.lock().unwrap() = more;
        // A new signer: what is known of the others is kept for a while.
        let id = add_signer(
            &setting.admin,
            &setting.issuer,
            &fresh("https://idp.test"),
            json!({}),
        );
        setting
            .begin(&id, &host)
            .refused(400, "COULD_NOT_VALIDATE", "signer");
    }
}

#[test]
fn id_tokens_need_the_nonce() {
    let setting = setting();
    let path = format!("/external-jwt-signers/{}", setting.signer);
    *setting.issuer.mode.lock().unwrap() = Mode::Both;
    for target in ["ACCESS", "ID"] {
        setting
            .admin
            .patch(&path, json!({ "targetToken": target }))
            .expect(200);
        let (first, _) = setting.begun();
        let (asked, secret) = setting.begun();
        assert!(
            asked["nonce"].len() >= 43 && asked["nonce"] != first["nonce"],
            "{}",
            asked["nonce"]
        );
        for nonce in [json!(first["nonce"]), Json::Null, json!(7)] {
            let (asked, secret) = setting.begun();
            setting.issuer.claims.lock().unwrap()["nonce"] = nonce;
            setting
                .finish(&asked["state"], &secret, json!({}))
                .expect(401);
        }
        setting.issuer.claims.lock().unwrap()["nonce"] = json!(asked["nonce"]);
        setting
            .finish(&asked["state"], &secret, json!({}))
            .expect(200);
    }
    *setting.issuer.mode.lock().unwrap() = Mode::Token;
    let (asked, secret) = setting.begun();
    setting
        .finish(&asked["state"], &secret, json!({}))
        .expect(401);
}

#[test]
fn codes_stay_with_the_issuer() {
    let setting = setting();
    // Another program of this host, and what reaches it.
    let other = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = other.local_addr().unwrap().port();
    // An unspecified address leads here.
    let first = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = first.local_addr().unwrap().port();
    let reached = Arc::new(Mutex::new(0));
    for listener in [other, first] {
        let reached = reached.clone();
        thread::spawn(move || {
            listener
                .incoming()
                .for_each(|_| *reached.lock().unwrap() += 1)
        });
    }
    let endpoints = [
        format!("https://127.0.0.2:{port}/token"),
        format!("http://127.0.0.2:{port}/token"),
        format!("https://[::ffff:127.0.0.2]:{port}/token"),
        format!("https://[::ffff:7f00:2]:{port}/token"),
        format!("https://0x7f000002:{port}/token"),
        format!("https://2130706434:{port}/token"),
        format!("https://127.2:{port}/token"),
        format!("https://0.0.0.0:{open}/token"),
        format!("https://0:{open}/token"),
        format!("https://[::]:{open}/token"),
        format!("https://[::ffff:0.0.0.0]:{open}/token"),
        "https://169.254.169.254/token".to_owned(),
        "https://[fe80::1]/token".to_owned(),
    ];
    for endpoint in endpoints {
        *setting.issuer.metadata.lock().unwrap() = json!({ "token_endpoint": endpoint });
        // A new signer: what is known of the others is kept for a while.
        let id = add_signer(
            &setting.admin,
            &setting.issuer,
            &fresh("https://idp.test"),
            json!({}),
        );
        let begun = setting.begin(&id, &setting.host).expect(200);
        let address = begun.data()["address"].as_str().unwrap().to_owned();
        let asked: HashMap<String, String> =
            form_urlencoded::parse(address.split_once('?').unwrap().1.as_bytes())
                .into_owned()
                .collect();
        setting
            .finish(
                &asked["state"],
                begun.data()["secret"].as_str().unwrap(),
                json!({}),
            )
            .expect(401);
        assert_eq!(*reached.lock().unwrap(), 0, "{endpoint} was reached");
    }
    // The issuer itself is on this host, and gets its code.
    *setting.issuer.metadata.lock().unwrap() = json!({});
    let (asked, secret) = setting.begun();
    setting
        .finish(&asked["state"], &secret, json!({}))
        .expect(200);
}
