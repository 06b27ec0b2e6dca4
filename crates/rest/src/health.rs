//! The health checks for monitoring: `/health`, `/ready` and `/health-checks`. They need no
//! session.

use actix_web::HttpRequest;
use model::{clock::Clock, error::Result};
use serde_json::{Value as Json, json};
use store::Store;

use super::answer::Reply;

/// The first path segments of these answers.
pub(crate) const PATHS: [&str; 3] = ["health", "ready", "health-checks"];

/// The answer for a path; `None` if the path is not a health check.
pub(crate) fn answer(
    request: &HttpRequest,
    path: &str,
    store: &Store,
    clock: &Clock,
) -> Option<Result<Reply>> {
    match path {
        "/health" => Some(Reply::json(200, &json!({ "status": "alive" }))),
        "/ready" => Some(match reason(store) {
            None => Reply::json(200, &json!({ "status": "ready" })),
            Some(reason) => Reply::json(503, &json!({ "status": "not ready", "reason": reason })),
        }),
        "/health-checks" => Some(checks(request, store, clock)),
        _ => None,
    }
}

/// Why the controller is not ready, if it is not.
fn reason(store: &Store) -> Option<&'static str> {
    if !store.is_alive() {
        Some("the data file cannot be written")
    } else if !store.is_in_place() {
        Some("the data file is no longer at its path")
    } else {
        None
    }
}

/// The checks in the form of OpenZiti controllers; `?type=short` leaves out times. The status is
/// always 200, as with those controllers.
fn checks(request: &HttpRequest, store: &Store, clock: &Clock) -> Result<Reply> {
    let is_short = form_urlencoded::parse(request.query_string().as_bytes())
        .any(|(name, value)| name == "type" && value == "short");
    let checks = [
        (
            "store.write",
            store.is_alive(),
            "the data file cannot be written",
        ),
        (
            "store.file",
            store.is_in_place(),
            "the data file is no longer at its path",
        ),
    ];
    let shown = checks.map(|(id, is_healthy, reason)| {
        let mut check = json!({ "id": id, "healthy": is_healthy });
        if let Json::Object(members) = &mut check
            && !is_short
        {
            members.insert("lastCheckTime".into(), json!(clock.now()));
            members.insert("lastCheckDuration".into(), json!("0s"));
            if !is_healthy {
                members.insert("err".into(), json!(reason));
            }
        }
        check
    });
    let is_healthy = checks.iter().all(|(_, is_healthy, _)| *is_healthy);
    Reply::json(
        200,
        &json!({ "data": { "checks": shown, "healthy": is_healthy }, "meta": {} }),
    )
}
