//! The login of `overkeep login`, kept in a file that only its owner can read.

use std::{
    env, fs,
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use crate::{cli::failure::Failure, store::create_private};

/// A login.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    /// `https://host:port`
    pub url: String,
    pub user: String,
    /// The trusted certificate authorities, in PEM; no others are trusted.
    pub ca: String,
    /// The token of the API session.
    pub token: String,
}

impl Context {
    /// The file of the login: `overkeep/context.json` in `XDG_CONFIG_HOME`, or in `.config` in the home directory.
    ///
    /// # Errors
    /// Neither variable is set.
    pub fn path() -> Result<PathBuf, Failure> {
        let set = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
        let base =
            base.ok_or_else(|| Failure::of("the directory of the login is not known: set XDG_CONFIG_HOME or HOME to an absolute path"))?;
        Ok(base.join("overkeep").join("context.json"))
    }

    /// The kept login; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or has another format.
    pub fn kept() -> Result<Option<Self>, Failure> {
        let Ok(path) = Self::path() else { return Ok(None) };
        let refused = |error: String| Failure::of(format!("{}: {error}; overkeep login writes a new one", path.display()));
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| refused(error.to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(error.to_string())),
        }
    }

    /// Writes the login. The file is complete and private from the moment it has its name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self) -> Result<PathBuf, Failure> {
        let path = Self::path()?;
        let text = serde_json::to_string_pretty(self).map_err(Failure::of)?;
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let written = || -> io::Result<()> {
            if let Some(directory) = path.parent() {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            }
            let mut file = create_private(&new)?;
            writeln!(file, "{text}")?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        written().map_err(|error| {
            drop(fs::remove_file(&new));
            Failure::of(format!("{}: {error}", path.display()))
        })?;
        Ok(path)
    }

    /// Deletes the login.
    ///
    /// # Errors
    /// The file cannot be deleted.
    pub fn forget() -> Result<(), Failure> {
        let path = Self::path()?;
        fs::remove_file(&path).map_err(|error| Failure::of(format!("{}: {error}", path.display())))
    }
}
