//! A request to a controller, and its answer.

use serde_json::Value as Json;

use crate::cli::{failure::CommandError, run::one_line};

pub const JSON: &str = "application/json";
/// The path of the management interface.
pub const MANAGEMENT: &str = "/edge/management/v1";

/// A request to a controller.
#[derive(Debug, Clone, Default)]
pub struct ApiRequest {
    pub method: String,
    /// The full path, percent-encoded.
    pub path: String,
    pub query: Vec<(String, String)>,
    pub headers: Vec<(String, String)>,
    /// Media type and content.
    pub body: Option<(String, String)>,
}

/// A complete answer.
#[derive(Debug, Clone)]
pub struct ApiAnswer {
    pub status: u16,
    pub media: String,
    /// The entity tag, for `If-Match` of a later write.
    pub tag: Option<String>,
    /// The warnings in the headers, a line for each.
    pub warnings: Vec<String>,
    pub body: Vec<u8>,
}

impl ApiAnswer {
    pub fn json(&self) -> Option<Json> {
        self.media
            .starts_with(JSON)
            .then(|| serde_json::from_slice(&self.body).ok())
            .flatten()
    }

    /// The value of `data`, or the whole body if it has none.
    pub fn data(&self) -> Json {
        let mut whole = self.json().unwrap_or_default();
        whole.get_mut("data").map(Json::take).unwrap_or(whole)
    }

    /// The answer, or a failure if its status is not 2xx.
    pub fn good(self) -> Result<Self, CommandError> {
        if (200..300).contains(&self.status) {
            Ok(self)
        } else {
            Err(self.refusal())
        }
    }

    /// The error of a rejected request, with the member that it names.
    fn refusal(&self) -> CommandError {
        let json = self.json().unwrap_or_default();
        let text = |path: &str| {
            json.pointer(path)
                .and_then(Json::as_str)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let field = text("/error/cause/field");
        let reason = text("/error/cause/reason")
            .or_else(|| text("/error/cause/message"))
            .or_else(|| text("/error/causeMessage"));
        let message = text("/error/message")
            .unwrap_or_else(|| format!("the controller answered with status {}", self.status));
        let hint = (self.status == 401).then(|| "log in with overkeep login".to_owned());
        let parts = [Some(message), field, reason, hint];
        CommandError::of(one_line(
            &parts.into_iter().flatten().collect::<Vec<_>>().join(": "),
        ))
    }
}
