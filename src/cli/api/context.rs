//! The controller that commands go to after `overkeep login`: a file that only its owner can read.

use std::{
    env, fs,
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use crate::{cli::Failure, store::create_private};

/// A log-in.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    /// `https://host:port`
    pub url: String,
    pub user: String,
    /// The authorities that are trusted, in PEM; no others are.
    pub ca: String,
    /// The token of the API session.
    pub token: String,
}

impl Context {
    /// `overkeep/context.json` below `XDG_CONFIG_HOME`, or below `.config` in the home directory.
    ///
    /// # Errors
    /// Neither is known.
    pub fn path() -> Result<PathBuf, Failure> {
        let set = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
        let base = base.ok_or_else(|| Failure::of("neither XDG_CONFIG_HOME nor HOME says where the log-in is kept"))?;
        Ok(base.join("overkeep").join("context.json"))
    }

    /// The one that is kept, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or is none of this program's.
    pub fn kept() -> Result<Option<Self>, Failure> {
        let Ok(path) = Self::path() else { return Ok(None) };
        let refused = |error: String| Failure::of(format!("{}: {error}; overkeep login writes another", path.display()));
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| refused(error.to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(error.to_string())),
        }
    }

    /// Keeps it: the file is complete and its owner's alone from the moment it has its name.
    ///
    /// # Errors
    /// It cannot be written.
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

    /// Forgets it.
    ///
    /// # Errors
    /// The file cannot be deleted.
    pub fn forget() -> Result<(), Failure> {
        let path = Self::path()?;
        fs::remove_file(&path).map_err(|error| Failure::of(format!("{}: {error}", path.display())))
    }
}
