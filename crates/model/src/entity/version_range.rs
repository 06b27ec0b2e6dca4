//! Versions of operating systems, and the version ranges of posture checks.

use std::cmp::Ordering;

/// A version under semver 2.0.0: three numbers and an optional pre-release. Build metadata is
/// ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    numbers: [u64; 3],
    /// Separated by dots; empty for a release.
    pre: String,
}

impl Version {
    /// Parses three numbers with optional pre-release and build metadata; otherwise `None`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.split_once('+').map_or(text, |(version, _)| version);
        let (numbers, pre) = text
            .split_once('-')
            .map_or((text, None), |(numbers, pre)| (numbers, Some(pre)));
        let mut parts = numbers.split('.').map(number);
        let numbers = [parts.next()??, parts.next()??, parts.next()??];
        let named = pre.is_none_or(|pre| {
            pre.split('.').all(|part| {
                !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            })
        });
        (parts.next().is_none() && named).then(|| Self {
            numbers,
            pre: pre.unwrap_or_default().into(),
        })
    }

    const fn release(numbers: [u64; 3]) -> Self {
        Self {
            numbers,
            pre: String::new(),
        }
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let pre = match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            // Numbers compare by value and sort before names; of two that begin alike, the shorter
            // sorts first.
            (false, false) => ranks(&self.pre).cmp(ranks(&other.pre)),
        };
        self.numbers.cmp(&other.numbers).then(pre)
    }
}
impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn ranks(pre: &str) -> impl Iterator<Item = (bool, u64, &str)> {
    pre.split('.').map(|part| {
        part.parse()
            .map_or((true, 0, part), |value| (false, value, ""))
    })
}

fn number(text: &str) -> Option<u64> {
    let plain =
        text.bytes().all(|b| b.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

/// A range such as `>=10.0.0`, `1.2.3`, `1.x`, `>1.0.0 <2.0.0 || >=3.0.0`, `!1.2.3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRange(Vec<Vec<Interval>>);

/// Versions inside (or, with `outside`, not inside) `from` (included) to `below` (excluded; `None`
/// means no end).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Interval {
    from: Boundary,
    below: Option<Boundary>,
    outside: bool,
}

/// The position just before a version or just after it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Boundary {
    version: Version,
    behind: bool,
}

/// The most bounds that hold together of which it is found out whether they contradict each other.
const MAX_EXAMINED: usize = 100;

impl VersionRange {
    /// Parses a range; otherwise `None`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut plain = String::with_capacity(text.len());
        for c in text.chars() {
            // Spaces between a sign and its version are allowed: `>= 1.0.0`.
            if c != ' ' || !plain.ends_with(['>', '<', '=', '!']) {
                plain.push(c);
            }
        }
        let either: Option<Vec<Vec<Interval>>> = plain
            .split("||")
            .map(|all| all.split_whitespace().map(Interval::parse).collect())
            .collect();
        either
            .filter(|either| either.iter().all(|all| !all.is_empty()))
            .map(Self)
    }

    /// Whether the range contains no version. A range of very many bounds is not examined, because
    /// the time grows with their square.
    pub(crate) fn is_empty(&self) -> bool {
        if self.0.iter().any(|all| all.len() > MAX_EXAMINED) {
            return false;
        }
        self.0.iter().all(|all| {
            all.iter()
                .fold(vec![Span::ALL], |spans, bound| bound.within(&spans))
                .is_empty()
        })
    }

    /// Whether the range contains a version.
    pub fn contains(&self, version: &Version) -> bool {
        self.0
            .iter()
            .any(|all| all.iter().all(|bound| bound.holds(version)))
    }
}

/// Versions from a boundary to before another one; `None` means no end.
struct Span {
    from: Boundary,
    below: Option<Boundary>,
}

impl Span {
    /// Pre-releases of 0.0.0 are not included.
    const ALL: Self = Self {
        from: Boundary {
            version: Version::release([0; 3]),
            behind: false,
        },
        below: None,
    };

    /// The part of it between two boundaries; `None` if there is none.
    fn between(&self, from: &Boundary, below: Option<&Boundary>) -> Option<Self> {
        let from = from.max(&self.from).clone();
        let below = self.below.iter().chain(below).min().cloned();
        below
            .as_ref()
            .is_none_or(|below| from < *below)
            .then_some(Self { from, below })
    }
}

impl Interval {
    /// The parts of some spans that it contains.
    fn within(&self, spans: &[Span]) -> Vec<Span> {
        let below = self.below.as_ref();
        let parts = |span: &Span| {
            if self.outside {
                [
                    span.between(&Span::ALL.from, Some(&self.from)),
                    below.and_then(|below| span.between(below, None)),
                ]
            } else {
                [span.between(&self.from, below), None]
            }
        };
        spans.iter().flat_map(parts).flatten().collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.find(|c: char| c.is_ascii_digit() || c == 'x')?;
        let (sign, version) = text.split_at(digits);
        // The versions that the text itself stands for: one, or all of `1.x`.
        let (from, below) = match Version::parse(version) {
            Some(version) => (
                Boundary {
                    version: version.clone(),
                    behind: false,
                },
                Some(Boundary {
                    version,
                    behind: true,
                }),
            ),
            None => wild(version)?,
        };
        let start = Boundary {
            version: Version::release([0; 3]),
            behind: false,
        };
        // Pre-releases of 0.0.0 sort before everything and are not included.
        let bound = |from, below, outside| {
            Some(Self {
                from,
                below,
                outside,
            })
        };
        match (sign, below) {
            ("" | "=" | "==", below) => bound(from, below, false),
            ("!" | "!=", below) => bound(from, below, true),
            (">=", _) => bound(from, None, false),
            ("<", _) => bound(start, Some(from), false),
            (">", Some(below)) => bound(below, None, false),
            ("<=", below) => bound(start, below, false),
            _ => None,
        }
    }

    fn holds(&self, version: &Version) -> bool {
        let inside = self.from.is_before(version)
            && !self
                .below
                .as_ref()
                .is_some_and(|edge| edge.is_before(version));
        inside != self.outside
    }
}

impl Boundary {
    fn is_before(&self, version: &Version) -> bool {
        if self.behind {
            self.version < *version
        } else {
            self.version <= *version
        }
    }
}

/// The edges of `1.x`, `1.2.x` or `x`.
fn wild(text: &str) -> Option<(Boundary, Option<Boundary>)> {
    let at = |numbers| Boundary {
        version: Version::release(numbers),
        behind: false,
    };
    let parts: Vec<&str> = text.split('.').collect();
    match parts.as_slice() {
        ["x"] | ["x", "x"] | ["x", "x", "x"] => Some((at([0; 3]), None)),
        [major, "x"] | [major, "x", "x"] => {
            let major = number(major)?;
            Some((at([major, 0, 0]), Some(at([major.checked_add(1)?, 0, 0]))))
        }
        [major, minor, "x"] => {
            let (major, minor) = (number(major)?, number(minor)?);
            Some((
                at([major, minor, 0]),
                Some(at([major, minor.checked_add(1)?, 0])),
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(range: &str, version: &str) -> bool {
        VersionRange::parse(range)
            .unwrap()
            .contains(&Version::parse(version).unwrap())
    }

    #[test]
    fn versions_match_ranges() {
        for (range, within, without) in [
            (
                ">=10.0.0",
                &["10.0.0", "10.0.1-beta", "11.2.3"][..],
                &["9.9.9", "10.0.0-rc.1"][..],
            ),
            ("1.2.3", &["1.2.3", "1.2.3+build"], &["1.2.4", "1.2.3-a"]),
            ("1.x", &["1.0.0", "1.99.99"], &["0.9.9", "2.0.0"]),
            ("1.2.x", &["1.2.0", "1.2.7"], &["1.3.0"]),
            (">1.x", &["2.0.0"], &["1.9.9"]),
            ("<=1.2.x", &["1.2.9", "0.1.0"], &["1.3.0"]),
            (
                ">1.0.0 <2.0.0 || >= 3.0.0",
                &["1.0.1", "3.0.0"],
                &["1.0.0", "2.0.0"],
            ),
            ("!1.2.3", &["1.2.4"], &["1.2.3"]),
        ] {
            for version in within {
                assert!(fits(range, version), "{version} in {range}");
            }
            for version in without {
                assert!(!fits(range, version), "{version} not in {range}");
            }
        }
    }

    #[test]
    fn contradictory_ranges_are_empty() {
        for range in [
            "<0.0.0",
            ">=2.0.0 <1.0.0",
            ">=1.0.0 <1.0.0",
            ">1.0.0 <=1.0.0",
            "1.0.0 2.0.0",
            "1.x 2.x",
            "1.0.0 !1.0.0",
            "1.x !1.x",
            "!x",
            ">1.x <2.0.0",
            ">=1.0.0 <3.0.0 !1.x !2.x",
            "1.0.0 2.0.0 || <0.0.0",
        ] {
            assert!(VersionRange::parse(range).unwrap().is_empty(), "{range}");
        }
        let many = "2.0.0 ".to_owned() + &"<1.0.0 ".repeat(100);
        assert!(
            !VersionRange::parse(&many).unwrap().is_empty(),
            "more bounds than are examined"
        );
        for range in [
            "1.0.0",
            "x",
            ">=10.0.0",
            "!1.0.0",
            "1.x !1.0.0",
            ">=1.0.0 <=1.0.0",
            "<0.0.0 || 1.0.0",
            ">1.0.0 <1.0.1",
            "!1.x !2.x",
            "0.0.0",
        ] {
            assert!(!VersionRange::parse(range).unwrap().is_empty(), "{range}");
        }
    }

    #[test]
    fn invalid_versions_are_refused() {
        for text in [
            "", "newest", ">=", "1", "1.2", "10.0.1.5", "1.2.3 ||", "~1.2.3", "01.2.3", "1.2.3-",
            "é",
        ] {
            assert_eq!(VersionRange::parse(text), None, "{text}");
        }
        for text in ["10.0", "10.0.1.5", "", "x", "1.2.x"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }

    #[test]
    fn pre_releases_are_in_order() {
        let order = [
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
        ];
        assert!(order.is_sorted_by_key(|text| Version::parse(text).unwrap()));
    }
}
