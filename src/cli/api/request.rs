//! A request to a controller, and its answer.

use serde_json::Value as Json;

use crate::cli::{Failure, run::one_line};

pub const JSON: &str = "application/json";

/// A request to a controller.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub method: String,
    /// The whole path, percent-encoded.
    pub path: String,
    pub query: Vec<(String, String)>,
    pub headers: Vec<(String, String)>,
    /// Media type and text.
    pub body: Option<(String, String)>,
}

/// An answer that was read as a whole.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub media: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Option<Json> {
        self.media.starts_with(JSON).then(|| serde_json::from_slice(&self.body).ok()).flatten()
    }

    /// What is under `data`; the whole where nothing is.
    pub fn data(&self) -> Json {
        let mut whole = self.json().unwrap_or_default();
        whole.get_mut("data").map(Json::take).unwrap_or(whole)
    }

    /// The answer, unless it refuses.
    pub fn good(self) -> Result<Self, Failure> {
        if (200..300).contains(&self.status) { Ok(self) } else { Err(self.refusal()) }
    }

    /// What the controller says of a request that it refuses, with the member that it names.
    fn refusal(&self) -> Failure {
        let json = self.json().unwrap_or_default();
        let text = |path: &str| json.pointer(path).and_then(Json::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
        let field = text("/error/cause/field");
        let reason = text("/error/cause/reason").or_else(|| text("/error/cause/message")).or_else(|| text("/error/causeMessage"));
        let message = text("/error/message").unwrap_or_else(|| format!("the controller answers with status {}", self.status));
        let hint = (self.status == 401).then(|| "overkeep login opens a session".to_owned());
        let parts = [Some(message), field, reason, hint];
        Failure::of(one_line(&parts.into_iter().flatten().collect::<Vec<_>>().join(": ")))
    }
}
