//! `overkeep run`: its flags, and how flags, variables and the configuration file become one `Config`.
//!
//! Not here: the keys themselves (`config/`) and starting the controller (`controller/`).
//! Start with `Arguments`, then `Sources::config`. Commands that need the data file of a configured controller can fill
//! a `Sources` too.
//!
//! Invariant: flag before variable before file before default, for every key alike, and every refusal names the key and
//! the one place its value came from. A variable of ours that is no key stops nothing: container platforms set some by themselves. No file is read that nobody named: a `controller.toml` that happens to lie in the
//! working directory changes nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use figment::error::{Actual, Kind};
use figment::providers::{Format, Serialized, Toml};
use figment::value::{Dict, Map, Num, Value};
use figment::{Figment, Metadata, Profile, Provider};

use crate::{config::Config, pki::text_of};

const PREFIX: &str = "OVERKEEP_";
const CONFIG: &str = "OVERKEEP_CONFIG";

/// Variables with our prefix that are no keys: the file's name, and what the tools around a controller use.
const NOT_KEYS: [&str; 5] = [CONFIG, "OVERKEEP_URL", "OVERKEEP_USER", "OVERKEEP_PASSWORD", "OVERKEEP_PID"];

/// Start the controller and serve until it is told to stop.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "Every key of controller.toml can also be set by a variable: OVERKEEP_ and the key in capitals, with _ for \
    each . and -, such as OVERKEEP_SESSIONS_TIMEOUT=1h. A flag wins over a variable, a variable over the file. A variable that is no key is \
    ignored, with a warning.")]
pub struct Arguments {
    /// Read the configuration from this file [env: OVERKEEP_CONFIG; default: none is read]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Keep everything in this file [env: OVERKEEP_DATA; default: overkeep.redb]
    #[arg(long, value_name = "FILE")]
    pub data: Option<String>,
    /// Listen on this address [env: OVERKEEP_LISTEN; default: 127.0.0.1:1280]
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// Tell clients to connect to this place, or to these, with commas between them [env: OVERKEEP_ADVERTISE; default: the listen address]
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Option<String>,
    /// On the first start, read the administrator's password from this file [env: OVERKEEP_ADMIN_PASSWORD_FILE; default: generate one]
    #[arg(long, value_name = "FILE")]
    pub admin_password_file: Option<String>,
    /// The passphrase that seals the keys in the data file is in this file [env: OVERKEEP_PASSPHRASE_FILE; default: they are not sealed]
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<String>,
}

impl Arguments {
    /// The configuration these flags ask for, in this environment.
    pub fn config(&self, environment: &[(OsString, OsString)]) -> Result<Settled, Refused> {
        let flags = [
            ("data", &self.data),
            ("listen", &self.listen),
            ("advertise", &self.advertise),
            ("admin-password-file", &self.admin_password_file),
            ("passphrase-file", &self.passphrase_file),
        ];
        let flags = flags.into_iter().filter_map(|(key, value)| Some((key, value.clone()?))).collect();
        Sources { file: self.config.clone(), environment, flags }.config()
    }
}

/// A configuration that passed every check, and what is to be said of it even so.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    pub config: Config,
    /// One line for each variable that begins like ours and sets nothing.
    pub warnings: Vec<String>,
}

/// Why a configuration was refused, in one line: the key (or what else it is about), where that stands, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} ({place}): {reason}")]
pub struct Refused {
    pub key: String,
    pub place: String,
    pub reason: String,
}

impl Refused {
    /// Whether the value of a flag was refused, and not one of a variable or a file.
    pub fn is_of_a_flag(&self) -> bool {
        self.place.starts_with("--")
    }
}

/// Everything that can say something about the configuration.
pub struct Sources<'e> {
    /// The file named by `--config`.
    pub file: Option<PathBuf>,
    /// All variables of the process.
    pub environment: &'e [(OsString, OsString)],
    /// Key and value of each flag that was given; the flag is named like the key.
    pub flags: Vec<(&'static str, String)>,
}

impl Sources<'_> {
    /// The sources on top of one another, checked.
    pub fn config(self) -> Result<Settled, Refused> {
        let known = keys()?;
        let mut sources = Figment::from(Serialized::defaults(Config::default()));
        if let Some((path, place)) = self.file() {
            sources = sources.merge(file_layer(&path, &place)?);
        }
        let (layers, warnings) = variable_layers(self.environment, &known)?;
        for layer in layers {
            sources = sources.merge(layer);
        }
        for (key, value) in self.flags {
            sources = sources.merge(Layer::of(format!("--{key}"), key, value.into()));
        }
        let placed = |key: &str, reason: String| {
            let place = sources.find_metadata(key).map_or_else(|| "default".into(), |source| source.name.to_string());
            Refused { key: key.into(), place, reason }
        };
        // Taken for a section, a list would be read as the values of its keys.
        let is_list = |section: &&str| matches!(sources.find_value(section), Ok(Value::Array(..)));
        if let Some(section) = known.keys().filter_map(|key| Some(key.split_once('.')?.0)).find(is_list) {
            return Err(placed(section, format!("a list stands where a section belongs; its head is [{section}], and stands once")));
        }
        let config: Config = sources.extract().map_err(refused)?;
        config.check().map_err(|broken| placed(broken.key, broken.reason))?;
        Ok(Settled { config, warnings })
    }

    /// The configuration file, and which word named it.
    fn file(&self) -> Option<(PathBuf, String)> {
        let flag = self.file.clone().map(|path| (path, "--config".into()));
        flag.or_else(|| {
            let (_, path) = self.environment.iter().find(|(name, _)| name == CONFIG)?;
            Some((path.into(), CONFIG.into()))
        })
    }
}

/// Every key there is, in the form `sessions.timeout`, with its default. A key without one has `Value::Empty`.
pub fn keys() -> Result<BTreeMap<String, Value>, Refused> {
    let mut keys = BTreeMap::new();
    collect("", Value::serialize(Config::default()).map_err(refused)?, &mut keys);
    Ok(keys)
}

fn collect(path: &str, value: Value, keys: &mut BTreeMap<String, Value>) {
    match value {
        Value::Dict(_, members) => {
            for (name, value) in members {
                collect(&if path.is_empty() { name } else { format!("{path}.{name}") }, value, keys);
            }
        }
        leaf => {
            keys.insert(path.into(), leaf);
        }
    }
}

/// The variable that sets a key: `sessions.sweep-batch` is `OVERKEEP_SESSIONS_SWEEP_BATCH`.
pub fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace(['.', '-'], "_").to_ascii_uppercase())
}

fn file_layer(path: &Path, place: &str) -> Result<Layer, Refused> {
    let name = path.display().to_string();
    let text =
        text_of(path).map_err(|error| Refused { key: place.into(), place: name.clone(), reason: format!("cannot be read: {error}") })?;
    // Not `Toml::file_exact`: its errors are drawn over several lines.
    let values = Toml::from_str::<Dict>(&text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        Refused { key: format!("line {line}"), place: name.clone(), reason: one_line(&error.message().replace('\n', ", ")) }
    })?;
    Ok(Layer { place: name, values })
}

/// A layer for each of our variables, so that each is its own place, and a warning for each that is no key.
fn variable_layers(environment: &[(OsString, OsString)], known: &BTreeMap<String, Value>) -> Result<(Vec<Layer>, Vec<String>), Refused> {
    let names: BTreeMap<String, (&str, &Value)> = known.iter().map(|(key, default)| (variable(key), (key.as_str(), default))).collect();
    let (mut layers, mut warnings) = (Vec::new(), Vec::new());
    for (name, text) in environment {
        // A name that is not text is none of ours, but may begin like one.
        let name = name.to_string_lossy();
        if !name.starts_with(PREFIX) || NOT_KEYS.contains(&name.as_ref()) {
            continue;
        }
        let refusal = |key: &str, reason: String| Refused { key: key.into(), place: name.to_string(), reason };
        let Some((key, default)) = names.get(name.as_ref()) else {
            warnings.push(one_line(&format!("{name} (environment): {}", unknown_variable(&name, &names))));
            continue;
        };
        let text = text.to_str().ok_or_else(|| refusal(key, "the value is not UTF-8".into()))?;
        let value = typed(text, default).map_err(|is_no| refusal(key, format!("{text:?} {is_no}")))?;
        layers.push(Layer::of(name.to_string(), key, value));
    }
    Ok((layers, warnings))
}

/// Mistakes in the separator are the likely ones, since other programs write `__` between section and key.
fn unknown_variable(name: &str, names: &BTreeMap<String, (&str, &Value)>) -> String {
    let letters = |name: &str| name.replace('_', "");
    match names.keys().find(|known| letters(known) == letters(&name.to_ascii_uppercase())) {
        Some(meant) => format!("there is no such setting, and it is ignored; {meant} is one"),
        None => "there is no such setting, and it is ignored; controller.toml lists all keys".into(),
    }
}

/// A variable is only text; what it is to become shows from the key's default. Lists are separated by commas.
fn typed(text: &str, default: &Value) -> Result<Value, &'static str> {
    match default {
        Value::Num(..) => text.trim().parse().map(|number: i64| Num::I64(number).into()).map_err(|_| "is not a whole number"),
        Value::Bool(..) => text.trim().parse().map(|choice: bool| choice.into()).map_err(|_| "is neither true nor false"),
        Value::Array(..) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Ok(items.map(Value::from).collect::<Vec<_>>().into())
        }
        _ => Ok(text.into()),
    }
}

/// figment's refusal in our form. It holds one error per failing source, and extraction stops at the first.
fn refused(error: figment::Error) -> Refused {
    let place = error.metadata.map_or_else(|| "default".into(), |source| source.name.to_string());
    let mut path = error.path;
    if let Kind::UnknownField(name, _) = &error.kind
        && path.last() != Some(name)
    {
        path.push(name.clone());
    }
    let key = path.join(".");
    let reason = match &error.kind {
        Kind::UnknownField(_, known) => format!("there is no such key; here are {}", known.join(", ")),
        Kind::UnknownVariant(found, known) => format!("{found:?} is none of {}", known.join(", ")),
        Kind::InvalidType(found, expected) | Kind::InvalidValue(found, expected) => misplaced(&key, found, expected),
        other => one_line(&other.to_string()),
    };
    Refused { key, place, reason }
}

/// serde speaks of Rust's types; the reader of a configuration knows numbers, lists and sections.
fn misplaced(key: &str, found: &Actual, expected: &str) -> String {
    let number = ["u8", "usize"].contains(&expected);
    let found = match found {
        Actual::Signed(found) => found.to_string(),
        Actual::Unsigned(found) => found.to_string(),
        Actual::Str(text) => format!("{text:?}"),
        Actual::Bool(found) => found.to_string(),
        Actual::Seq => "a list".into(),
        Actual::Map => "a section".into(),
        other => other.to_string(),
    };
    match expected {
        // A whole number that its type cannot hold is out of bounds as well.
        _ if number && found.parse::<i128>().is_ok() => {
            format!("{found} is not within {}", Config::bounds(key).unwrap_or_default())
        }
        _ if number => format!("{found} stands where a whole number belongs"),
        _ if expected.starts_with("struct ") => format!("{found} stands where a section belongs"),
        "a sequence" => format!("{found} stands where a list belongs"),
        "a string" | "path string" => format!("{found} stands where a text in quotes belongs"),
        other => format!("{found} stands where {other} belongs"),
    }
}

/// A text without line breaks.
pub fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// One source of values under a name of its own, which a refusal shows.
struct Layer {
    place: String,
    values: Dict,
}

impl Layer {
    fn of(place: String, key: &str, value: Value) -> Layer {
        let values = figment::util::nest(key, value).into_dict().unwrap_or_default();
        Layer { place, values }
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.place.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.values.clone())]))
    }
}
