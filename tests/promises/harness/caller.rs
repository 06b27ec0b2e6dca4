//! Callers: a connection, an interface and perhaps a session.

use std::sync::Arc;

use serde_json::Value as Json;
use ureq::{Agent, http::Request};

use super::{answer::Answer, openapi_check, secrets};

/// Which interface a path belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    Management,
    Client,
    Overkeep,
    Fabric,
}

impl Base {
    pub const ALL: [Self; 4] = [Self::Management, Self::Client, Self::Overkeep, Self::Fabric];

    pub fn path(self) -> &'static str {
        match self {
            Self::Management => "/edge/management/v1",
            Self::Client => "/edge/client/v1",
            Self::Overkeep => "/overkeep/v1",
            Self::Fabric => "/fabric/v1",
        }
    }
}

/// A client with its connections and perhaps a session. Cheap to clone.
#[derive(Clone)]
pub struct Caller {
    pub agent: Agent,
    /// `https://host:port`
    pub url: Arc<str>,
    pub base: Base,
    pub token: Option<String>,
}

impl Caller {
    /// The same caller at another interface.
    pub fn at(&self, base: Base) -> Self {
        Self {
            base,
            ..self.clone()
        }
    }

    /// The same connections, with this token instead.
    pub fn with_token(&self, token: impl Into<String>) -> Self {
        Self {
            token: Some(token.into()),
            ..self.clone()
        }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path).send()
    }
    pub fn post(&self, path: &str, body: Json) -> Answer {
        self.ask("POST", path).json(&body).send()
    }
    pub fn put(&self, path: &str, body: Json) -> Answer {
        self.ask("PUT", path).json(&body).send()
    }
    pub fn patch(&self, path: &str, body: Json) -> Answer {
        self.ask("PATCH", path).json(&body).send()
    }
    pub fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path).send()
    }

    /// A list with a filter; `rest` is the remaining query, such as `&limit=1`.
    pub fn list(&self, path: &str, filter: &str, rest: &str) -> Answer {
        self.get(&format!("{path}?filter={}{rest}", encoded(filter)))
    }

    /// Logs in by password. Returns the caller with the session.
    #[track_caller]
    pub fn log_in(&self, username: &str, password: &str) -> Self {
        let answer = self
            .post(
                "/authenticate?method=password",
                serde_json::json!({ "username": username, "password": password }),
            )
            .expect(200);
        self.with_token(answer.data()["token"].as_str().unwrap())
    }

    /// Logs in by the certificate of the connection. Returns the caller with the session.
    #[track_caller]
    pub fn log_in_by_certificate(&self) -> Self {
        let answer = self
            .ask("POST", "/authenticate?method=cert")
            .send()
            .expect(200);
        self.with_token(answer.data()["token"].as_str().unwrap())
    }

    /// A request to be completed and sent. A path that begins with the base of an interface, or
    /// with `//`, is used unchanged.
    pub fn ask(&self, method: &str, path: &str) -> RequestBuilder<'_> {
        let path = match path.strip_prefix("//") {
            Some(whole) => format!("/{whole}"),
            None if path.starts_with("/edge/")
                || path.starts_with("/overkeep/")
                || path.starts_with("/fabric/") =>
            {
                path.to_owned()
            }
            None => format!("{}{path}", self.base.path()),
        };
        let headers = self
            .token
            .iter()
            .map(|token| ("zt-session".to_owned(), token.clone()))
            .collect();
        RequestBuilder {
            caller: self,
            method: method.into(),
            path,
            headers,
            body: Vec::new(),
        }
    }
}

/// A request that is being built.
pub struct RequestBuilder<'c> {
    caller: &'c Caller,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl RequestBuilder<'_> {
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn json(self, body: &Json) -> Self {
        self.body("application/json", body.to_string())
    }

    pub fn body(mut self, media: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.header("content-type", media)
    }

    /// A body without a content type.
    pub fn untyped(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends it. The answer has been checked by `openapi_check.rs` and `secrets.rs`.
    #[track_caller]
    pub fn send(self) -> Answer {
        let asked = format!("{} {}", self.method, self.path);
        let mut request = Request::builder()
            .method(self.method.as_str())
            .uri(format!("{}{}", self.caller.url, self.path));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let sent = if self.body.is_empty() {
            self.caller.agent.run(request.body(()).unwrap())
        } else {
            self.caller
                .agent
                .run(request.body(self.body.as_slice()).unwrap())
        };
        let mut response = sent.unwrap_or_else(|e| panic!("{asked}: {e}"));
        let is_endless = response
            .headers()
            .get("content-type")
            .is_some_and(|media| media == "text/event-stream");
        let body = if is_endless {
            Vec::new()
        } else {
            response
                .body_mut()
                .with_config()
                .limit(1 << 28)
                .read_to_vec()
                .unwrap_or_else(|e| panic!("{asked}: {e}"))
        };
        let answer = Answer::new(
            asked,
            response.status().as_u16(),
            response.headers().clone(),
            body,
        );
        openapi_check::check_answer(&self.method, &self.path, &answer);
        secrets::check_answer(&self.path, &self.headers, &self.body, &answer);
        answer
    }
}

/// Percent-encodes text for a query string.
pub fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}
