//! Durations as configs write them: numbers with units, such as `1m30s` and `1.5s`.

use std::time::Duration;

/// The greatest duration that is taken as it is: a year.
const GREATEST: f64 = 365.0 * 86_400.0;

/// `None` for what is no duration, is negative, or is longer than a year.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut seconds = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at_checked(end)?;
        let end = after.find(|letter: char| letter.is_ascii_digit() || letter == '.');
        let (unit, after) = after.split_at_checked(end.unwrap_or(after.len()))?;
        let number: f64 = number.parse().ok()?;
        seconds += number
            * match unit {
                "h" => 3_600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" | "μs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = after;
    }
    (seconds <= GREATEST).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, milliseconds) in [
            ("5s", 5_000),
            ("1m30s", 90_000),
            ("1.5s", 1_500),
            ("300ms", 300),
            ("2h", 7_200_000),
            ("0", 0),
            ("1500us", 1),
        ] {
            assert_eq!(duration(text).unwrap().as_millis(), milliseconds, "{text}");
        }
        for text in ["", "5", "s", "-1s", "1x", "1..5s", ".s", "9999999h", "1s2"] {
            let is_none = duration(text).is_none();
            assert!(is_none || text == "{text}");
        }
    }
}
