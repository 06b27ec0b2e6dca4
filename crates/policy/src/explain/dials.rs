//! Dials that failed: what was observed, beside what policies and connections say.
//!
//! A host that hangs is connected and binds its service, so that only its dials show that it does
//! not answer.

use super::{
    case::{Case, MAX_LISTED},
    obstacle::{Obstacle, ObstacleKind},
    traffic::Host,
};

/// The failures of a host as a sentence.
pub(super) fn sentence(host: &Host) -> Option<String> {
    host.failures
        .as_ref()
        .map(|failures| format!("{}: {}", host.name(), failures.text()))
}

/// The obstacle if the last dial of each host failed.
pub(super) fn failing(case: &Case<'_>, hosts: &[Host]) -> Option<Obstacle> {
    if hosts.is_empty() || hosts.iter().any(|host| host.failures.is_none()) {
        return None;
    }
    let name = &case.service.spec.name;
    let sentences: Vec<String> = hosts.iter().take(MAX_LISTED).filter_map(sentence).collect();
    let text = format!(
        "no host of {name} was reached by its last dial: {}",
        sentences.join("; ")
    );
    let remedy = "look at the program of the host, and start it again if it hangs; the next dial that succeeds removes this".to_owned();
    Some(Obstacle::new(ObstacleKind::DialsFail, text, Vec::new()).with_remedy(remedy))
}
