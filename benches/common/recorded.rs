//! Recorded figures, and which of those measured now are worse. For benches and tests.

use std::collections::BTreeMap;

use figment::{
    Figment,
    providers::{Format, Toml},
};

/// A figure may be so many times the recorded one.
const MARGIN: f64 = 1.5;

/// The figures of a file by name.
///
/// # Errors
/// The text is not TOML, or a value is not a number above 0.
pub fn read(text: &str) -> Result<BTreeMap<String, f64>, String> {
    let recorded: BTreeMap<String, f64> = Figment::from(Toml::string(text))
        .extract()
        .map_err(|e| e.to_string())?;
    match recorded
        .iter()
        .find(|(_, value)| !(value.is_finite() && **value > 0.0))
    {
        Some((name, value)) => Err(format!("{name} is {value}")),
        None => Ok(recorded),
    }
}

/// What is wrong with measured figures: one exceeds its recorded value by more than half or is no
/// number, and the names differ.
pub fn faults(recorded: &BTreeMap<String, f64>, measured: &[(&str, f64)]) -> Vec<String> {
    let too_high = measured.iter().filter_map(|(name, value)| match recorded.get(*name) {
        None => Some(format!("{name} is measured and not recorded")),
        Some(known) if *value > 0.0 && *value <= known * MARGIN => None,
        Some(known) => Some(format!("{name} is {value:.2}, {:.2} times the recorded {known:.2}; {MARGIN} times is allowed", value / known)),
    });
    let unmeasured = recorded
        .keys()
        .filter(|name| measured.iter().all(|(other, _)| other != name));
    too_high
        .chain(unmeasured.map(|name| format!("{name} is recorded and not measured")))
        .collect()
}
