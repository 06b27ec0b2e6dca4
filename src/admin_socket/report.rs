//! The results of commands, in lines for people: snapshots, checks of the file and of the history,
//! enrollments whose tokens became unusable.

use std::path::Path;

use model::entity::Enrollment;
use policy::change::UnusableFiles;
use store::{Finding, Manifest, Reach, Report, Verified};

use super::command::Outcome;

/// The lines about a snapshot that was made.
pub(crate) fn copied(manifest: &Manifest, to: &Path) -> Vec<String> {
    let [what, hash] = describe(manifest);
    vec![format!("{} holds {what}", to.display()), hash]
}

/// The content of a snapshot, and on a line of its own its hash.
pub(crate) fn describe(manifest: &Manifest) -> [String; 2] {
    let records = manifest
        .records()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect::<Vec<_>>()
        .join(", ");
    let Manifest {
        format,
        release,
        made_at,
        hash,
        ..
    } = manifest;
    [
        format!("the state of {made_at}, format {format} of release {release}: {records}"),
        format!("sha256 of the content: {hash}"),
    ]
}

/// The lines about a verified history. Without a fault they include the last row, in the form in
/// which `history verify` accepts it later, and how far back it reaches.
pub(crate) fn verified_lines(
    Verified {
        rows,
        last,
        faults,
        changes,
        sessions,
    }: &Verified,
) -> Outcome {
    if !faults.is_empty() {
        return Outcome::Problems(faults.clone());
    }
    let found = format!("nothing is wrong with {rows} rows; the last is {last}");
    Outcome::Done(vec![
        found,
        reach_line("changes", changes),
        reach_line("log-ins, rejections and connections", sessions),
    ])
}

fn reach_line(
    what: &str,
    Reach {
        first,
        last,
        is_cut,
    }: &Reach,
) -> String {
    let dropped = if *is_cut {
        "older rows were dropped"
    } else {
        "nothing was dropped"
    };
    match first {
        Some((row, at)) => {
            format!("{what} reach back to row {row} of {at}; {dropped}; the last is {last}")
        }
        None => format!("{what}: no rows; {dropped}"),
    }
}

/// The lines about a checked or repaired file.
pub(crate) fn found(report: &Report) -> Outcome {
    let notes = report.notes.iter().map(|note| format!("note: {note}"));
    if report.findings.is_empty() {
        return Outcome::Done(
            std::iter::once("nothing is wrong".to_owned())
                .chain(notes)
                .collect(),
        );
    }
    let line_of = |finding: &Finding| {
        format!(
            "{}{}",
            if finding.fixed { "repaired: " } else { "" },
            finding.description
        )
    };
    let more = report.more.then(|| "and more".into());
    let lines = report
        .findings
        .iter()
        .map(line_of)
        .chain(more)
        .chain(notes)
        .collect();
    if report.findings.iter().all(|finding| finding.fixed) {
        Outcome::Done(lines)
    } else {
        Outcome::Problems(lines)
    }
}

/// The lines about outstanding enrollments whose tokens became unusable.
pub(super) fn unusable_lines(tokens: &[UnusableFiles]) -> Vec<String> {
    if tokens.is_empty() {
        return Vec::new();
    }
    let line = |UnusableFiles {
                    enrollment,
                    subject,
                    gone,
                }: &UnusableFiles| {
        let Enrollment {
            method, expires_at, ..
        } = &enrollment.spec;
        let why = match gone {
            Some(issuer) => format!("sends clients to {issuer}, which is not advertised"),
            None => "clients reject it, because it was signed with another key".into(),
        };
        format!(
            "  {}: {} for {subject}, until {expires_at}: {why}",
            enrollment.id,
            method.as_str()
        )
    };
    let hint = "the tokens of these enrollments are no longer usable; POST /edge/management/v1/enrollments/{id}/refresh issues a new \
        token, to be handed out instead:";
    std::iter::once(hint.to_owned())
        .chain(tokens.iter().map(line))
        .collect()
}
