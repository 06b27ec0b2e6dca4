//! `metrics_pb`: what a router measures, once a minute.

use super::{TextEntry, Time};

#[derive(Clone, PartialEq, prost::Message)]
pub struct Metrics {
    #[prost(string, tag = "1")]
    pub event_id: String,
    /// The id of the router.
    #[prost(string, tag = "2")]
    pub source_id: String,
    #[prost(message, optional, tag = "3")]
    pub timestamp: Option<Time>,
    #[prost(message, repeated, tag = "4")]
    pub tags: Vec<TextEntry>,
    #[prost(message, repeated, tag = "5")]
    pub int_values: Vec<IntEntry>,
    #[prost(message, repeated, tag = "6")]
    pub float_values: Vec<FloatEntry>,
    #[prost(message, repeated, tag = "7")]
    pub meters: Vec<MeterEntry>,
    #[prost(message, repeated, tag = "8")]
    pub histograms: Vec<HistogramEntry>,
    #[prost(message, repeated, tag = "9")]
    pub interval_counters: Vec<IntervalCounterEntry>,
    #[prost(message, repeated, tag = "10")]
    pub timers: Vec<TimerEntry>,
    #[prost(message, repeated, tag = "11")]
    pub usage_counters: Vec<UsageCounter>,
    #[prost(bool, tag = "12")]
    pub do_not_propagate: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct IntEntry {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(int64, optional, tag = "2")]
    pub value: Option<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct FloatEntry {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(double, optional, tag = "2")]
    pub value: Option<f64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct MeterEntry {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub value: Option<Meter>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Meter {
    #[prost(int64, tag = "1")]
    pub count: i64,
    #[prost(double, tag = "2")]
    pub m1_rate: f64,
    #[prost(double, tag = "3")]
    pub m5_rate: f64,
    #[prost(double, tag = "4")]
    pub m15_rate: f64,
    #[prost(double, tag = "5")]
    pub mean_rate: f64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct HistogramEntry {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub value: Option<Histogram>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Histogram {
    #[prost(int64, tag = "1")]
    pub count: i64,
    #[prost(int64, tag = "2")]
    pub max: i64,
    #[prost(double, tag = "3")]
    pub mean: f64,
    #[prost(int64, tag = "4")]
    pub min: i64,
    #[prost(double, tag = "5")]
    pub std_dev: f64,
    #[prost(double, tag = "6")]
    pub variance: f64,
    #[prost(double, tag = "7")]
    pub p50: f64,
    #[prost(double, tag = "8")]
    pub p75: f64,
    #[prost(double, tag = "9")]
    pub p95: f64,
    #[prost(double, tag = "10")]
    pub p99: f64,
    #[prost(double, tag = "11")]
    pub p999: f64,
    #[prost(double, tag = "12")]
    pub p9999: f64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct TimerEntry {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub value: Option<Timer>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Timer {
    #[prost(int64, tag = "1")]
    pub count: i64,
    #[prost(int64, tag = "2")]
    pub max: i64,
    #[prost(double, tag = "3")]
    pub mean: f64,
    #[prost(int64, tag = "4")]
    pub min: i64,
    #[prost(double, tag = "5")]
    pub std_dev: f64,
    #[prost(double, tag = "6")]
    pub variance: f64,
    #[prost(double, tag = "7")]
    pub p50: f64,
    #[prost(double, tag = "8")]
    pub p75: f64,
    #[prost(double, tag = "9")]
    pub p95: f64,
    #[prost(double, tag = "10")]
    pub p99: f64,
    #[prost(double, tag = "11")]
    pub p999: f64,
    #[prost(double, tag = "12")]
    pub p9999: f64,
    #[prost(double, tag = "13")]
    pub m1_rate: f64,
    #[prost(double, tag = "14")]
    pub m5_rate: f64,
    #[prost(double, tag = "15")]
    pub m15_rate: f64,
    #[prost(double, tag = "16")]
    pub mean_rate: f64,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct IntervalCounterEntry {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub value: Option<IntervalCounter>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct IntervalCounter {
    #[prost(uint64, tag = "1")]
    pub interval_length: u64,
    #[prost(message, repeated, tag = "2")]
    pub buckets: Vec<IntervalBucket>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct IntervalBucket {
    #[prost(int64, tag = "1")]
    pub interval_start_utc: i64,
    #[prost(message, repeated, tag = "2")]
    pub values: Vec<CountEntry>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CountEntry {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(uint64, optional, tag = "2")]
    pub value: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UsageCounter {
    #[prost(int64, tag = "1")]
    pub interval_start_utc: i64,
    #[prost(uint64, tag = "2")]
    pub interval_length: u64,
    #[prost(message, repeated, tag = "3")]
    pub buckets: Vec<UsageBucketEntry>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UsageBucketEntry {
    /// The id of a circuit.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub value: Option<UsageBucket>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UsageBucket {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<CountEntry>,
    #[prost(message, repeated, tag = "2")]
    pub tags: Vec<TextEntry>,
}
