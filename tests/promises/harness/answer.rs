//! The answer to a request.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value as Json;
use ureq::http::HeaderMap;

/// An answer, read completely and checked by `openapi_check.rs` and `secrets.rs`.
#[derive(Debug)]
pub struct Answer {
    /// Method and path, for messages.
    pub request: String,
    pub status: u16,
    pub headers: HeaderMap,
    /// Length of the body on the wire, in bytes.
    pub raw: usize,
    /// The body as text, decompressed; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// The body as JSON; null if it is not JSON.
    pub json: Json,
}

impl Answer {
    pub fn new(request: String, status: u16, headers: HeaderMap, body: Vec<u8>) -> Self {
        let raw = body.len();
        let packed = headers
            .get("content-encoding")
            .is_some_and(|coding| coding == "gzip");
        let mut text = String::new();
        if packed {
            GzDecoder::new(body.as_slice())
                .read_to_string(&mut text)
                .unwrap();
        } else {
            text = String::from_utf8_lossy(&body).into_owned();
        }
        let json = serde_json::from_str(&text).unwrap_or_default();
        Self {
            request,
            status,
            headers,
            raw,
            text,
            json,
        }
    }

    /// Asserts the status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}: {}", self.request, self.text);
        self
    }

    /// Asserts an error: its status, its code, and the field that it names unless `field` is blank.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str, field: &str) -> Self {
        let answer = self.expect(status);
        assert_eq!(answer.code(), code, "{}: {}", answer.request, answer.text);
        if !field.is_empty() {
            assert_eq!(
                answer.json.pointer("/error/cause/field"),
                Some(&field.into()),
                "{}: {}",
                answer.request,
                answer.text
            );
        }
        answer
    }

    /// The code of an error; blank in an answer that is not an error.
    pub fn code(&self) -> &str {
        self.json
            .pointer("/error/code")
            .and_then(Json::as_str)
            .unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    pub fn data(&self) -> &Json {
        &self.json["data"]
    }

    /// The id of the record that was created or shown.
    #[track_caller]
    pub fn id(&self) -> String {
        self.data()["id"]
            .as_str()
            .unwrap_or_else(|| panic!("{}: no id in {}", self.request, self.text))
            .into()
    }

    /// A text member of each entry of a list, in order.
    pub fn each(&self, member: &str) -> Vec<&str> {
        self.data()
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry[member].as_str().unwrap_or_default())
            .collect()
    }

    /// The number of entries on all pages of a list.
    #[track_caller]
    pub fn total(&self) -> u64 {
        self.json
            .pointer("/meta/pagination/totalCount")
            .and_then(Json::as_u64)
            .unwrap_or_else(|| panic!("{}: {}", self.request, self.text))
    }
}
