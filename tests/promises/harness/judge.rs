//! Holds every answer against what the interface's document says of its operation: status, media type and the body's schema.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
};

use jsonschema::Validator;
use overkeep::http::{Found, Interface, Interfaces};
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

/// Panics where an answer is not one that its operation describes.
#[track_caller]
pub fn judge(method: &str, path: &str, answer: &Answer) {
    let Answer { asked, status, text, .. } = answer;
    if method == "OPTIONS" {
        return;
    }
    assert!(*status < 500 || *status == 503, "{asked}: {status} {text}");
    assert!(!answer.header("ziti-instance-id").is_empty(), "{asked}: clients need ziti-instance-id on every answer");
    let Some((base, below)) = located(path) else { return };
    let media = answer.header("content-type").split(';').next().unwrap();
    match interface(base).find(method, &below) {
        Found::Row(row, _) => {
            let described = interface(base).document.pointer(&format!("/paths/{}/{}/responses", escaped(&row.path), method.to_lowercase()));
            let responses = described.unwrap_or_else(|| panic!("{asked} is not in the document"));
            let response = responses.get(status.to_string());
            let response = response.unwrap_or_else(|| panic!("{asked}: status {status} is not in the document: {text}"));
            let described = response.pointer(&format!("/content/{}", escaped(media)));
            let described = described.unwrap_or_else(|| panic!("{asked}: {status} as {media:?} is not in the document: {text}"));
            headers(base, response, answer);
            if media == "application/json" {
                // Of the two forms of an answer the one that was asked for.
                let preview = json!({ "$ref": "#/components/schemas/PreviewEnvelope" });
                let foreseen = *status == 200 && path.contains("preview=true") && described["schema"].get("anyOf").is_some();
                check(base, if foreseen { &preview } else { &described["schema"] }, answer);
            }
        }
        Found::OtherMethod | Found::Nothing => {
            assert!(*status == 404 || *status == 405, "{asked}: {status} {text}");
            check(base, &json!({ "$ref": "#/components/schemas/ErrorEnvelope" }), answer);
        }
    }
    if *status >= 400 {
        assert!(answer.json.pointer("/error/requestId").is_some_and(|id| id != ""), "{asked}: {text}");
    }
}

/// Of the connection, of the body's form, and of rights of pages from elsewhere: no part of the interface.
const OF_THE_CONNECTION: [&str; 7] =
    ["connection", "content-encoding", "content-length", "content-type", "date", "transfer-encoding", "vary"];
/// What every answer may say, refusals too.
const SAID_ALWAYS: [&str; 4] = ["server", "ziti-instance-id", "expiration-seconds", "expires-at"];

/// The headers are those that the response is described with: all that it has to have, in the form it says, and no others.
#[track_caller]
fn headers(base: Base, response: &Json, answer: &Answer) {
    let described = response["headers"].as_object().cloned().unwrap_or_default();
    for (name, reference) in &described {
        let target = reference["$ref"].as_str().and_then(|target| target.strip_prefix('#')).unwrap();
        let header = interface(base).document.pointer(target).unwrap_or_else(|| panic!("{target} is nowhere"));
        if answer.headers.contains_key(name) {
            let text = answer.header(name);
            let value = if header["schema"]["type"] == "integer" { json!(text.parse::<i64>().unwrap_or_default()) } else { json!(text) };
            let schema = jsonschema::options().should_validate_formats(true).build(&header["schema"]).unwrap();
            let fits = !text.is_empty() && schema.is_valid(&value);
            assert!(fits, "{}: the header {name} is {text:?}, and not as described", answer.asked);
        } else {
            assert!(header["required"] == false, "{}: no header {name}", answer.asked);
        }
    }
    for name in answer.headers.keys().map(|name| name.as_str()).filter(|name| !name.starts_with("access-control-")) {
        let known = OF_THE_CONNECTION.contains(&name) || SAID_ALWAYS.contains(&name) || described.contains_key(name);
        assert!(known, "{}: the header {name} is not in the document", answer.asked);
    }
}

/// The interface of a path and what is below its base. Doubled and trailing slashes do not count.
fn located(path: &str) -> Option<(Base, String)> {
    let path = path.split('?').next()?;
    let tidy = path.split('/').filter(|part| !part.is_empty()).fold(String::new(), |path, part| path + "/" + part);
    let below =
        |base: Base| tidy.strip_prefix(base.path()).map(|below| (base, if below.is_empty() { "/".into() } else { below.to_owned() }));
    Base::ALL.into_iter().find_map(below)
}

/// A text as part of a JSON pointer.
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
        let made = Arc::new(compiled(base, schema));
        COMPILED.lock().unwrap().insert(key, made.clone());
        made
    });
    let faults: Vec<String> = validator.iter_errors(&answer.json).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    assert!(faults.is_empty(), "{}: the answer breaks its schema: {faults:#?}\n{}", answer.asked, answer.text);
}

fn compiled(base: Base, schema: &Json) -> Validator {
    let mut whole = schema.clone();
    whole["components"] = interface(base).document["components"].clone();
    jsonschema::options().with_draft(jsonschema::Draft::Draft202012).should_validate_formats(true).build(&whole).unwrap()
}
