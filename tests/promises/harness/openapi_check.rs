//! Checks every answer against the interface's OpenAPI document: status, media type, headers and
//! the schema of the body.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
};

use jsonschema::Validator;
use rest::{Interface, Interfaces, RouteMatch, normal_path};
use serde_json::{Value as Json, json};

use super::{answer::Answer, caller::Base};

/// The route table of an interface.
pub fn interface(base: Base) -> &'static Interface {
    static ALL: LazyLock<Interfaces> = LazyLock::new(|| Interfaces::new().unwrap());
    match base {
        Base::Management => &ALL.management,
        Base::Client => &ALL.client,
        Base::Overkeep => &ALL.overkeep,
        Base::Fabric => &ALL.fabric,
    }
}

/// Panics if the document does not describe this answer for its operation.
#[track_caller]
pub fn check_answer(method: &str, path: &str, answer: &Answer) {
    let Answer {
        request,
        status,
        text,
        ..
    } = answer;
    if method == "OPTIONS" {
        return;
    }
    assert!(
        *status < 500 || *status == 503,
        "{request}: {status} {text}"
    );
    assert!(
        !answer.header("ziti-instance-id").is_empty(),
        "{request}: clients need ziti-instance-id on every answer"
    );
    assert_eq!(
        answer.header("x-content-type-options"),
        "nosniff",
        "{request}"
    );
    let is_asset = located(path).is_none() && *status < 400;
    assert!(
        is_asset || answer.header("cache-control") == "no-store",
        "{request}: {:?}",
        answer.header("cache-control")
    );
    let Some((base, below)) = located(path) else {
        return;
    };
    let media = answer.header("content-type").split(';').next().unwrap();
    match interface(base).find(method, &below) {
        RouteMatch::Row(row, _) => {
            let described = interface(base).document.pointer(&format!(
                "/paths/{}/{}/responses",
                escaped(&row.path),
                method.to_lowercase()
            ));
            let responses = described.unwrap_or_else(|| panic!("{request} is not in the document"));
            let response = responses.get(status.to_string());
            let response = response.unwrap_or_else(|| {
                panic!("{request}: status {status} is not in the document: {text}")
            });
            if *status == 304 {
                assert!(
                    text.is_empty() && media.is_empty(),
                    "{request}: {media} {text}"
                );
                return headers(base, response, answer);
            }
            let described = response.pointer(&format!("/content/{}", escaped(media)));
            let described = described.unwrap_or_else(|| {
                panic!("{request}: {status} as {media:?} is not in the document: {text}")
            });
            headers(base, response, answer);
            if media == "application/json" {
                // An answer with two forms: checks the form that was asked for.
                let preview = json!({ "$ref": "#/components/schemas/PreviewEnvelope" });
                let is_preview = *status == 200
                    && path.contains("preview=true")
                    && described["schema"].get("anyOf").is_some();
                check(
                    base,
                    if is_preview {
                        &preview
                    } else {
                        &described["schema"]
                    },
                    answer,
                );
            }
        }
        RouteMatch::OtherMethod | RouteMatch::Nothing => {
            assert!(
                *status == 404 || *status == 405,
                "{request}: {status} {text}"
            );
            check(
                base,
                &json!({ "$ref": "#/components/schemas/ErrorEnvelope" }),
                answer,
            );
        }
    }
    if *status >= 400 {
        assert!(
            answer
                .json
                .pointer("/error/requestId")
                .is_some_and(|id| id != ""),
            "{request}: {text}"
        );
    }
}

/// Headers of the connection, of the encoding of the body, and of CORS: not part of the interface.
const TRANSPORT_HEADERS: [&str; 7] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "transfer-encoding",
    "vary",
];
/// Headers that every answer may have, errors included.
const COMMON_HEADERS: [&str; 7] = [
    "server",
    "ziti-instance-id",
    "ziti-ctrl-address",
    "expiration-seconds",
    "expires-at",
    "cache-control",
    "x-content-type-options",
];

/// Checks the headers: each required one is there, each has the described form, and no others are
/// there.
#[track_caller]
fn headers(base: Base, response: &Json, answer: &Answer) {
    let described = response["headers"].as_object().cloned().unwrap_or_default();
    for (name, reference) in &described {
        let target = reference["$ref"]
            .as_str()
            .and_then(|target| target.strip_prefix('#'))
            .unwrap();
        let header = interface(base)
            .document
            .pointer(target)
            .unwrap_or_else(|| panic!("{target} is not in the document"));
        if answer.headers.contains_key(name) {
            let text = answer.header(name);
            let value = if header["schema"]["type"] == "integer" {
                json!(text.parse::<i64>().unwrap_or_default())
            } else {
                json!(text)
            };
            let schema = jsonschema::options()
                .should_validate_formats(true)
                .build(&header["schema"])
                .unwrap();
            let fits = !text.is_empty() && schema.is_valid(&value);
            assert!(
                fits,
                "{}: the header {name} is {text:?}, which its schema does not allow",
                answer.request
            );
        } else {
            assert!(
                header["required"] == false,
                "{}: no header {name}",
                answer.request
            );
        }
    }
    for name in answer
        .headers
        .keys()
        .map(|name| name.as_str())
        .filter(|name| !name.starts_with("access-control-"))
    {
        let known = TRANSPORT_HEADERS.contains(&name)
            || COMMON_HEADERS.contains(&name)
            || described.contains_key(name);
        assert!(
            known,
            "{}: the header {name} is not in the document",
            answer.request
        );
    }
}

/// The interface of a path and the rest of the path below its base. Doubled and trailing slashes
/// are ignored.
fn located(path: &str) -> Option<(Base, String)> {
    let path = normal_path(path.split('?').next()?);
    let normalized = path
        .split('/')
        .filter(|part| !part.is_empty())
        .fold(String::new(), |path, part| path + "/" + part);
    let below = |base: Base| {
        normalized.strip_prefix(base.path()).map(|below| {
            (
                base,
                if below.is_empty() {
                    "/".into()
                } else {
                    below.to_owned()
                },
            )
        })
    };
    Base::ALL.into_iter().find_map(below)
}

/// Text as part of a JSON pointer.
pub fn escaped(text: &str) -> String {
    text.replace('~', "~0").replace('/', "~1")
}

#[track_caller]
fn check(base: Base, schema: &Json, answer: &Answer) {
    type Compiled = Mutex<HashMap<String, Arc<Validator>>>;
    static COMPILED: LazyLock<Compiled> = LazyLock::new(Compiled::default);
    let key = format!("{base:?} {schema}");
    let known = COMPILED.lock().unwrap().get(&key).cloned();
    let validator = known.unwrap_or_else(|| {
        let built = Arc::new(compiled(base, schema));
        COMPILED.lock().unwrap().insert(key, built.clone());
        built
    });
    let faults: Vec<String> = validator
        .iter_errors(&answer.json)
        .map(|fault| format!("{}: {fault}", fault.instance_path()))
        .collect();
    assert!(
        faults.is_empty(),
        "{}: the answer does not match its schema: {faults:#?}\n{}",
        answer.request,
        answer.text
    );
}

fn compiled(base: Base, schema: &Json) -> Validator {
    let mut whole = schema.clone();
    whole["components"] = interface(base).document["components"].clone();
    jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .should_validate_formats(true)
        .build(&whole)
        .unwrap()
}
