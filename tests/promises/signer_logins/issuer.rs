//! A small issuer with TLS on this host.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value as Json, json};

use crate::{
    harness::{HttpsServer, answer_json},
    second_factors::{Signer, signer},
};

/// What the issuer answers at its token endpoint.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode {
    Token,
    /// An access token and an id token.
    Both,
    Error,
    NoToken,
    Huge,
    Redirect,
    NotJson,
    OtherIssuer,
}

/// An issuer with TLS on this host.
pub(super) struct Issuer {
    pub(super) url: String,
    pub(super) mode: Arc<Mutex<Mode>>,
    /// What is added to the metadata.
    pub(super) metadata: Arc<Mutex<Json>>,
    /// The last form that the token endpoint received.
    pub(super) form: Arc<Mutex<HashMap<String, String>>>,
    /// The claims of its tokens.
    pub(super) claims: Arc<Mutex<Json>>,
}

impl Issuer {
    /// Starts it. Writes the certificate that its clients trust to `trusted`.
    pub(super) fn start(trusted: &std::path::Path) -> Self {
        let server = HttpsServer::bind(trusted);
        let url = server.url.clone();
        let issuer = Self {
            url: url.clone(),
            mode: Arc::new(Mutex::new(Mode::Token)),
            metadata: Arc::new(Mutex::new(json!({}))),
            form: Arc::default(),
            claims: Arc::default(),
        };
        let (mode, metadata, form, claims) = (
            issuer.mode.clone(),
            issuer.metadata.clone(),
            issuer.form.clone(),
            issuer.claims.clone(),
        );
        let idp = signer();
        server.run(move |path, body| {
            let metadata = metadata.lock().unwrap().clone();
            match path {
                "/.well-known/openid-configuration" => good(&well_known(&url, &metadata)),
                "/keys" => good(&idp.keys().to_string()),
                _ => {
                    *form.lock().unwrap() = form_urlencoded::parse(body.as_bytes())
                        .into_owned()
                        .collect();
                    tokens(*mode.lock().unwrap(), &idp, &claims.lock().unwrap())
                }
            }
        });
        issuer
    }
}

fn well_known(url: &str, more: &Json) -> String {
    let mut known = json!({ "issuer": url, "authorization_endpoint": format!("{url}/authorize?tenant=a"), "token_endpoint": format!("{url}/token") });
    known
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    known.to_string()
}

fn good(body: &str) -> String {
    answer_json("200 OK", body)
}

fn tokens(mode: Mode, idp: &Signer, claims: &Json) -> String {
    let mut claims = claims.clone();
    match mode {
        Mode::Token => good(&json!({ "access_token": idp.token(&claims), "token_type": "Bearer" }).to_string()),
        Mode::Both => good(&json!({ "access_token": idp.token(&claims), "id_token": idp.token(&claims) }).to_string()),
        Mode::NoToken => good(&json!({ "id_token": idp.token(&claims) }).to_string()),
        Mode::Huge => good(&format!("{{\"access_token\":\"{}\"}}", "x".repeat(4 << 20))),
        Mode::NotJson => good("<html>"),
        Mode::Error => "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 25\r\n\r\n{\"error\":\"invalid_grant\"}".into(),
        Mode::Redirect => "HTTP/1.1 307 Temporary Redirect\r\nlocation: /token\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".into(),
        Mode::OtherIssuer => {
            claims["iss"] = "https://elsewhere.test".into();
            good(&json!({ "access_token": idp.token(&claims) }).to_string())
        }
    }
}
