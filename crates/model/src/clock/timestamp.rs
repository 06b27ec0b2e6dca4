//! A moment (`Timestamp`): text, JSON, records on disk, arithmetic.
//!
//! Invariant: a `Timestamp` lies within the years 0000 to 9999, the range of RFC 3339. A value
//! outside is clamped to the nearest limit, so no date from a request, a certificate or the disk
//! makes arithmetic or printing fail.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A moment in UTC, to the millisecond.
///
/// Text (`Display`, `FromStr`, human-readable serde): RFC 3339 with exactly three digits of
/// fraction and `Z`, `2024-07-16T13:13:12.000Z`. Every offset and fraction is read; digits below a
/// millisecond are dropped. Binary serde (records on disk): the number of milliseconds since 1970
/// as an `i64`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The error for a text that is not a date and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 date and time with an offset, such as 2024-07-16T13:13:12.000Z")]
pub struct NotATime;

impl Timestamp {
    /// `0000-01-01T00:00:00.000Z`
    pub const MIN: Timestamp = Timestamp(-62_167_219_200_000);
    /// `9999-12-31T23:59:59.999Z`
    pub const MAX: Timestamp = Timestamp(253_402_300_799_999);
    /// `0001-01-01T00:00:00.000Z`: the value that OpenZiti clients expect for a time that was never
    /// set.
    pub const ZERO_TIME: Timestamp = Timestamp(-62_135_596_800_000);

    /// From milliseconds since 1970.
    pub const fn from_millis(millis: i64) -> Timestamp {
        // `clamp` and comparison of the newtype are not const.
        if millis < Self::MIN.0 {
            Self::MIN
        } else if millis > Self::MAX.0 {
            Self::MAX
        } else {
            Timestamp(millis)
        }
    }

    /// From seconds since 1970, the unit of JWT claims.
    pub const fn from_seconds(seconds: i64) -> Timestamp {
        Self::from_millis(seconds.saturating_mul(1000))
    }

    /// Milliseconds since 1970.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970, rounded down, as in JWT claims.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The moment `duration` later, at most `MAX`.
    pub fn plus(self, duration: Duration) -> Timestamp {
        Self::from_millis(self.0.saturating_add(whole_millis(duration)))
    }

    /// The moment `duration` earlier, at least `MIN`.
    pub fn minus(self, duration: Duration) -> Timestamp {
        Self::from_millis(self.0.saturating_sub(whole_millis(duration)))
    }

    /// The moment `minutes` later, or earlier if `minutes` is negative; clamped to `MIN` and `MAX`.
    pub const fn plus_minutes(self, minutes: i64) -> Timestamp {
        Self::from_millis(self.0.saturating_add(minutes.saturating_mul(60_000)))
    }

    /// Like `plus`, but `None` where the result would be after `MAX`.
    pub fn checked_plus(self, duration: Duration) -> Option<Timestamp> {
        let millis = self
            .0
            .checked_add(i64::try_from(duration.as_millis()).ok()?)?;
        (millis <= Self::MAX.0).then_some(Timestamp(millis))
    }

    /// The time from `earlier` to this moment; zero if `earlier` is not earlier.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).try_into().unwrap_or(0))
    }

    /// The distance between two moments, whichever is first. For waiting periods by the host's
    /// clock: after the clock was set back, a period must not last until the clock has caught up.
    pub fn apart(self, other: Timestamp) -> Duration {
        Duration::from_millis(self.0.abs_diff(other.0))
    }
}

/// A duration in milliseconds, at most `i64::MAX`, which exceeds every `Timestamp`.
fn whole_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// For certificates: their builders take the types of the `time` crate.
impl From<Timestamp> for OffsetDateTime {
    fn from(at: Timestamp) -> OffsetDateTime {
        // Every Timestamp is within the range of OffsetDateTime, so the fallback to the epoch is
        // never used.
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.0) * 1_000_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }
}

impl From<OffsetDateTime> for Timestamp {
    fn from(at: OffsetDateTime) -> Timestamp {
        // Not `to_offset(UTC)`: that panics for a date whose UTC form would leave the range.
        let millis = at.unix_timestamp_nanos().div_euclid(1_000_000);
        Self::from_millis(i64::try_from(millis).unwrap_or(if millis < 0 {
            i64::MIN
        } else {
            i64::MAX
        }))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(at: SystemTime) -> Timestamp {
        match at.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => Timestamp(0).plus(after),
            Err(before) => Timestamp(0).minus(before.duration()),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = OffsetDateTime::from(*self);
        let (year, month, day) = at.to_calendar_date();
        let (hour, minute, second, milli) = at.to_hms_milli();
        write!(
            out,
            "{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z",
            u8::from(month)
        )
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl FromStr for Timestamp {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Timestamp, NotATime> {
        // `OffsetDateTime::parse` accepts any character between date and time (RFC 3339 section
        // 5.6: `T`, in either case, or a space).
        let is_separated = matches!(text.as_bytes().get(10), Some(b'T' | b't' | b' '));
        let parsed = if is_separated {
            OffsetDateTime::parse(text, &Rfc3339).ok()
        } else {
            None
        };
        parsed.map(Timestamp::from).ok_or(NotATime)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            to.collect_str(self)
        } else {
            to.serialize_i64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        if from.is_human_readable() {
            from.deserialize_str(Rfc3339Text)
        } else {
            i64::deserialize(from).map(Timestamp::from_millis)
        }
    }
}

/// Parses the text form without copying it.
struct Rfc3339Text;

impl Visitor<'_> for Rfc3339Text {
    type Value = Timestamp;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an RFC 3339 date and time")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
        text.parse().map_err(E::custom)
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Timestamp")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn timestamps_are_written_in_utc() {
        for (read, written) in [
            ("2024-07-16T13:13:12Z", "2024-07-16T13:13:12.000Z"),
            ("2024-07-16T13:13:12.0009999Z", "2024-07-16T13:13:12.000Z"),
            ("2024-07-16T15:13:12.5+02:00", "2024-07-16T13:13:12.500Z"),
            (
                "2024-02-29T23:59:59.123456789-00:30",
                "2024-03-01T00:29:59.123Z",
            ),
            ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
            ("1969-12-31T23:59:59.9995Z", "1969-12-31T23:59:59.999Z"),
            ("2024-07-16t13:13:12z", "2024-07-16T13:13:12.000Z"),
            ("2024-07-16 13:13:12Z", "2024-07-16T13:13:12.000Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(at(read).to_string(), written);
            assert_eq!(at(written), at(read));
        }
        assert_eq!(Timestamp::ZERO_TIME.to_string(), "0001-01-01T00:00:00.000Z");
        assert_eq!(at("2024-07-16T13:13:12.345Z").millis(), 1_721_135_592_345);
    }

    #[test]
    fn invalid_timestamps_are_refused() {
        for text in [
            "",
            "2024-07-16",
            "2024-07-16T13:13:12",
            "2024-02-30T00:00:00Z",
            "2024-07-16T25:00:00Z",
            "tomorrow",
            "1721135592",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(NotATime), "{text}");
        }
        for separator in ["x", "_", "0", "-", "\t", "\n", "\0", "\u{a0}", "T ", ""] {
            let text = format!("2024-07-16{separator}13:13:12Z");
            assert_eq!(text.parse::<Timestamp>(), Err(NotATime), "{text:?}");
        }
    }

    #[test]
    fn timestamps_stay_in_writable_years() {
        assert_eq!(
            Timestamp::from_millis(i64::MIN).to_string(),
            "0000-01-01T00:00:00.000Z"
        );
        assert_eq!(
            Timestamp::from_millis(i64::MAX).to_string(),
            "9999-12-31T23:59:59.999Z"
        );
        assert_eq!(at("0000-01-01T00:00:00+23:59"), Timestamp::MIN);
        assert_eq!(at("9999-12-31T23:59:59.999-23:59"), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.plus(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.minus(Duration::MAX), Timestamp::MIN);
        assert_eq!(Timestamp::MIN.plus_minutes(i64::MIN), Timestamp::MIN);
        assert_eq!(Timestamp::MIN.plus_minutes(i64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from_seconds(i64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.checked_plus(Duration::from_millis(1)), None);
        assert_eq!(Timestamp::MIN.checked_plus(Duration::MAX), None);
    }

    proptest::proptest! {
        #[test]
        fn timestamps_round_trip(millis: i64, narrow in -70_000_000_000_000..260_000_000_000_000_i64) {
            for moment in [millis, narrow].map(Timestamp::from_millis) {
                proptest::prop_assert_eq!(moment.to_string().parse(), Ok(moment));
            }
        }

        #[test]
        fn no_text_and_no_step_panics(text: String, millis: i64, minutes: i64, seconds: u64) {
            let _ = text.parse::<Timestamp>();
            let moment = Timestamp::from_millis(millis);
            let step = Duration::from_secs(seconds);
            let _ = (moment.plus(step), moment.minus(step), moment.checked_plus(step), moment.plus_minutes(minutes));
        }
    }

    #[test]
    fn arithmetic_goes_both_ways() {
        let noon = at("2024-07-16T12:00:00Z");
        assert_eq!(
            noon.plus_minutes(-30).to_string(),
            "2024-07-16T11:30:00.000Z"
        );
        assert_eq!(
            noon.plus(Duration::from_millis(1500)).since(noon),
            Duration::from_millis(1500)
        );
        assert_eq!(noon.since(noon.plus_minutes(1)), Duration::ZERO);
        assert_eq!(
            noon.checked_plus(Duration::from_secs(60)),
            Some(noon.plus_minutes(1))
        );
        assert_eq!(Timestamp::from_millis(-1).seconds(), -1);
        assert_eq!(Timestamp::from(OffsetDateTime::from(noon)), noon);
    }

    #[test]
    fn json_carries_the_text() {
        let noon = at("2024-07-16T12:00:00Z");
        assert_eq!(
            serde_json::to_string(&noon).unwrap(),
            r#""2024-07-16T12:00:00.000Z""#
        );
        assert_eq!(
            serde_json::from_str::<Timestamp>(r#""2024-07-16T14:00:00+02:00""#).unwrap(),
            noon
        );
        assert!(serde_json::from_str::<Timestamp>("1721131200000").is_err());
    }

    #[test]
    fn records_carry_the_number() {
        let standard = bincode::config::standard();
        for moment in [
            Timestamp::MIN,
            Timestamp::ZERO_TIME,
            at("2024-07-16T12:00:00Z"),
            Timestamp::MAX,
        ] {
            let bytes = bincode::serde::encode_to_vec(moment, standard).unwrap();
            assert_eq!(
                bytes,
                bincode::serde::encode_to_vec(moment.millis(), standard).unwrap()
            );
            assert_eq!(
                bincode::serde::decode_from_slice::<Timestamp, _>(&bytes, standard).unwrap(),
                (moment, bytes.len())
            );
        }
    }

    #[test]
    fn the_schema_says_date_time() {
        let schema = schemars::schema_for!(Vec<Timestamp>);
        assert_eq!(
            schema.as_value().pointer("/items"),
            Some(&serde_json::json!({"type": "string", "format": "date-time"}))
        );
    }
}
