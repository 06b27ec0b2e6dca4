//! Media types in the headers `accept` and `content-type` (RFC 9110 sections 12.5.1 and 8.3).

use std::cmp::Reverse;

use model::error::Error;

/// The media type of a `content-type` header, without parameters.
pub(crate) fn essence(sent: &str) -> String {
    sent.split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

/// The error for a missing or unsupported `content-type`.
pub(crate) fn not_taken(sent: &str, taken: &[&str]) -> Error {
    let reason = format!("send content-type: {}", taken.join(" or "));
    Error::invalid(
        "Content-Type",
        reason,
        if sent.is_empty() {
            "application/octet-stream"
        } else {
            sent
        },
    )
}

/// Whether a media range such as `text/*;q=0.5` covers a media type.
pub(crate) fn covers(range: &str, media: &str) -> bool {
    specificity(range, media).is_some()
}

/// The offered media type that fits an `accept` header best: by weight, then by specificity, then
/// by the order of the header, in which client libraries list their preferred types first, and last
/// by the order of `offered`.
pub(crate) fn best(accept: &str, offered: &[&'static str]) -> Option<&'static str> {
    let fits = |(at, range): (usize, &str), media: &str| {
        specificity(range, media).map(|exact| (weight(range), exact, Reverse(at)))
    };
    let rank = |media: &str| {
        accept
            .split(',')
            .enumerate()
            .filter_map(|range| fits(range, media))
            .max()
    };
    let ranked = offered
        .iter()
        .rev()
        .filter_map(|media| rank(media).map(|rank| (rank, *media)));
    ranked
        .filter(|((weight, ..), _)| *weight > 0)
        .max_by_key(|(rank, _)| *rank)
        .map(|(_, media)| media)
}

/// How specifically a range names a media type; `None` if it does not cover it.
fn specificity(range: &str, media: &str) -> Option<u8> {
    let range = range.split(';').next().unwrap_or_default().trim();
    let (kind, _) = media.split_once('/').unwrap_or((media, ""));
    if range.eq_ignore_ascii_case(media) {
        Some(2)
    } else if range
        .strip_suffix("/*")
        .is_some_and(|wanted| wanted.eq_ignore_ascii_case(kind))
    {
        Some(1)
    } else {
        (range == "*/*").then_some(0)
    }
}

/// The weight of a range in thousandths; 1000 by default.
fn weight(range: &str) -> u16 {
    let named = range
        .split(';')
        .skip(1)
        .find_map(|part| part.trim().strip_prefix("q="));
    let weight = named.map_or(1.0, |text| text.trim().parse::<f32>().unwrap_or(1.0));
    (weight.clamp(0.0, 1.0) * 1000.0) as u16
}
