//! `overkeep run`: its flags, and how flags, variables and the configuration file become one
//! `Config`.
//!
//! Not here: the keys themselves (`config/`) and starting the controller (`controller/`). Start
//! with `Arguments`, then `Sources::config`. Commands that need the data file of a configured
//! controller use `Sources` too.
//!
//! Invariant: for every key, a flag takes precedence over a variable, a variable over the file, the
//! file over the default. Every error names the key and the source of its value. An unknown
//! variable with our prefix is not an error: container platforms set some by themselves. Only a
//! named file is read: a `controller.toml` in the working directory has no effect by itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use figment::error::{Actual, Kind};
use figment::providers::{Format, Serialized, Toml};
use figment::value::{Dict, Map, Num, Value};
use figment::{Figment, Metadata, Profile, Provider};
use model::config::{Config, ConfigError};
use pki::text_of;

const PREFIX: &str = "OVERKEEP_";
const CONFIG: &str = "OVERKEEP_CONFIG";

/// Variables with our prefix that are not keys: the name of the file, and variables of related
/// tools.
const NOT_KEYS: [&str; 8] = [
    CONFIG,
    "OVERKEEP_CONTEXT",
    "OVERKEEP_URL",
    "OVERKEEP_CA",
    "OVERKEEP_TOKEN",
    "OVERKEEP_USER",
    "OVERKEEP_PASSWORD",
    "OVERKEEP_PID",
];

/// Start the controller and serve until it is stopped.
#[derive(Args, Clone, Debug, Default)]
#[command(
    after_help = "Every key of controller.toml can also be set by a variable: OVERKEEP_ and the key in capitals, with _ for \
    each . and -, such as OVERKEEP_SESSIONS_TIMEOUT=1h. A flag takes precedence over a variable, a variable over the file. A variable that is not a key is \
    ignored, with a warning."
)]
pub struct Arguments {
    /// Read the configuration from this file [env: OVERKEEP_CONFIG; default: none is read]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Data file, which holds everything [env: OVERKEEP_DATA; default: overkeep.redb]
    #[arg(long, value_name = "FILE")]
    pub data: Option<String>,
    /// Listen on this address [env: OVERKEEP_LISTEN; default: 127.0.0.1:1280]
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// Address that clients connect to, or several separated by commas [env: OVERKEEP_ADVERTISE;
    /// default: the listen address]
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Option<String>,
    /// On the first start, read the administrator's password from this file [env:
    /// OVERKEEP_ADMIN_PASSWORD_FILE; default: generate one]
    #[arg(long, value_name = "FILE")]
    pub admin_password_file: Option<String>,
    /// File with the passphrase that seals the keys in the data file [env:
    /// OVERKEEP_PASSPHRASE_FILE; default: the keys are not sealed]
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<String>,
}

impl Arguments {
    /// The configuration from these flags in this environment.
    pub fn config(
        &self,
        environment: &[(OsString, OsString)],
    ) -> Result<ResolvedConfig, ConfigError> {
        let flags = [
            ("data", &self.data),
            ("listen", &self.listen),
            ("advertise", &self.advertise),
            ("admin-password-file", &self.admin_password_file),
            ("passphrase-file", &self.passphrase_file),
        ];
        let flags = flags
            .into_iter()
            .filter_map(|(key, value)| Some((key, value.clone()?)))
            .collect();
        Sources {
            file: self.config.clone(),
            environment,
            flags,
        }
        .config()
    }
}

/// A checked configuration and its warnings.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedConfig {
    pub config: Config,
    /// One line for each variable with our prefix that is not a key.
    pub warnings: Vec<String>,
}

/// All sources of the configuration.
pub struct Sources<'e> {
    /// The file named by `--config`.
    pub file: Option<PathBuf>,
    /// All variables of the process.
    pub environment: &'e [(OsString, OsString)],
    /// Key and value of each given flag; a flag has the name of its key.
    pub flags: Vec<(&'static str, String)>,
}

impl Sources<'_> {
    /// The merged sources, checked.
    pub fn config(self) -> Result<ResolvedConfig, ConfigError> {
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
            let place = sources
                .find_metadata(key)
                .map_or_else(|| "default".into(), |source| source.name.to_string());
            ConfigError {
                key: key.into(),
                place,
                reason,
            }
        };
        // A list in place of a section would be read as the values of its keys.
        let is_list = |section: &&str| matches!(sources.find_value(section), Ok(Value::Array(..)));
        if let Some(section) = known
            .keys()
            .filter_map(|key| Some(key.split_once('.')?.0))
            .find(is_list)
        {
            return Err(placed(
                section,
                format!("must be one section [{section}], not a list of sections"),
            ));
        }
        let config: Config = sources.extract().map_err(refused)?;
        config
            .check()
            .map_err(|broken| placed(broken.key, broken.reason))?;
        Ok(ResolvedConfig { config, warnings })
    }

    /// The configuration file, and the flag or variable that named it.
    fn file(&self) -> Option<(PathBuf, String)> {
        let flag = self.file.clone().map(|path| (path, "--config".into()));
        flag.or_else(|| {
            let (_, path) = self.environment.iter().find(|(name, _)| name == CONFIG)?;
            Some((path.into(), CONFIG.into()))
        })
    }
}

/// Every key, in the form `sessions.timeout`, with its default. A key without one has
/// `Value::Empty`.
pub fn keys() -> Result<BTreeMap<String, Value>, ConfigError> {
    let mut keys = BTreeMap::new();
    collect(
        "",
        Value::serialize(Config::default()).map_err(refused)?,
        &mut keys,
    );
    Ok(keys)
}

fn collect(path: &str, value: Value, keys: &mut BTreeMap<String, Value>) {
    match value {
        Value::Dict(_, members) => {
            for (name, value) in members {
                collect(
                    &if path.is_empty() {
                        name
                    } else {
                        format!("{path}.{name}")
                    },
                    value,
                    keys,
                );
            }
        }
        leaf => {
            keys.insert(path.into(), leaf);
        }
    }
}

/// The variable that sets a key: `OVERKEEP_SESSIONS_SWEEP_BATCH` for `sessions.sweep-batch`.
pub fn variable(key: &str) -> String {
    format!(
        "{PREFIX}{}",
        key.replace(['.', '-'], "_").to_ascii_uppercase()
    )
}

fn file_layer(path: &Path, place: &str) -> Result<Layer, ConfigError> {
    let name = path.display().to_string();
    let text = text_of(path).map_err(|error| ConfigError {
        key: place.into(),
        place: name.clone(),
        reason: format!("cannot be read: {error}"),
    })?;
    // Not `Toml::file_exact`: its errors span several lines.
    let values = Toml::from_str::<Dict>(&text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        ConfigError {
            key: format!("line {line}"),
            place: name.clone(),
            reason: one_line(&error.message().replace('\n', ", ")),
        }
    })?;
    Ok(Layer {
        place: name,
        values,
    })
}

/// One layer per variable, so that errors name it, and a warning for each unknown one.
fn variable_layers(
    environment: &[(OsString, OsString)],
    known: &BTreeMap<String, Value>,
) -> Result<(Vec<Layer>, Vec<String>), ConfigError> {
    let names: BTreeMap<String, (&str, &Value)> = known
        .iter()
        .map(|(key, default)| (variable(key), (key.as_str(), default)))
        .collect();
    let (mut layers, mut warnings) = (Vec::new(), Vec::new());
    for (name, text) in environment {
        // A name that is not UTF-8 is not a key, but may have our prefix.
        let name = name.to_string_lossy();
        if !name.starts_with(PREFIX) || NOT_KEYS.contains(&name.as_ref()) {
            continue;
        }
        let refusal = |key: &str, reason: String| ConfigError {
            key: key.into(),
            place: name.to_string(),
            reason,
        };
        let Some((key, default)) = names.get(name.as_ref()) else {
            warnings.push(one_line(&format!(
                "{name} (environment): {}",
                unknown_variable(&name, &names)
            )));
            continue;
        };
        let text = text
            .to_str()
            .ok_or_else(|| refusal(key, "the value is not UTF-8".into()))?;
        let value =
            typed(text, default).map_err(|is_no| refusal(key, format!("{text:?} {is_no}")))?;
        layers.push(Layer::of(name.to_string(), key, value));
    }
    Ok((layers, warnings))
}

/// Suggests a key that differs only in separators: other programs write `__` between section and
/// key.
fn unknown_variable(name: &str, names: &BTreeMap<String, (&str, &Value)>) -> String {
    let letters = |name: &str| name.replace('_', "");
    match names
        .keys()
        .find(|known| letters(known) == letters(&name.to_ascii_uppercase()))
    {
        Some(suggestion) => format!("unknown variable, ignored; did you mean {suggestion}?"),
        None => "unknown variable, ignored; controller.toml lists all keys".into(),
    }
}

/// Converts the text of a variable to the type of the key's default. Lists are separated by commas.
fn typed(text: &str, default: &Value) -> Result<Value, &'static str> {
    match default {
        Value::Num(..) => text
            .trim()
            .parse()
            .map(|number: i64| Num::I64(number).into())
            .map_err(|_| "is not a whole number"),
        Value::Bool(..) => text
            .trim()
            .parse()
            .map(|choice: bool| choice.into())
            .map_err(|_| "is neither true nor false"),
        Value::Array(..) => {
            let items = text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty());
            Ok(items.map(Value::from).collect::<Vec<_>>().into())
        }
        _ => Ok(text.into()),
    }
}

/// Converts an error of figment. It holds one error per failing source, and extraction stops at the
/// first.
fn refused(error: figment::Error) -> ConfigError {
    let place = error
        .metadata
        .map_or_else(|| "default".into(), |source| source.name.to_string());
    let mut path = error.path;
    if let Kind::UnknownField(name, _) = &error.kind
        && path.last() != Some(name)
    {
        path.push(name.clone());
    }
    let key = path.join(".");
    let reason = match &error.kind {
        Kind::UnknownField(_, known) => format!(
            "there is no such key; the keys here are {}",
            known.join(", ")
        ),
        Kind::UnknownVariant(found, known) => {
            format!("{found:?} is not one of {}", known.join(", "))
        }
        Kind::InvalidType(found, expected) | Kind::InvalidValue(found, expected) => {
            misplaced(&key, found, expected)
        }
        other => one_line(&other.to_string()),
    };
    ConfigError { key, place, reason }
}

/// Rewrites serde's errors: serde names Rust types, but the reader knows numbers, lists and
/// sections.
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
        // A whole number that does not fit its type is out of bounds as well.
        _ if number && found.parse::<i128>().is_ok() => {
            format!(
                "{found} is not within {}",
                Config::bounds(key).unwrap_or_default()
            )
        }
        _ if number => format!("{found} stands where a whole number belongs"),
        _ if expected.starts_with("struct ") => format!("{found} stands where a section belongs"),
        "a sequence" => format!("{found} stands where a list belongs"),
        "a string" | "path string" => format!("{found} stands where a text in quotes belongs"),
        other => format!("{found} stands where {other} belongs"),
    }
}

/// A text without line breaks.
pub(crate) fn one_line(text: &str) -> String {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// A named source of values; errors show the name.
struct Layer {
    place: String,
    values: Dict,
}

impl Layer {
    fn of(place: String, key: &str, value: Value) -> Layer {
        let values = figment::util::nest(key, value)
            .into_dict()
            .unwrap_or_default();
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
