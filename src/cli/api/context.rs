//! The login of `overkeep login`, kept in a file that only its owner can read.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{cli::failure::Failure, pki::text_of, store::create_private};

/// A login.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    /// `https://host:port`
    pub url: String,
    pub user: String,
    /// The trusted certificate authorities, in PEM; no others are trusted.
    pub ca: String,
    /// The token of the API session, or an API token.
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

    /// The stored login; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or has another format.
    pub fn load() -> Result<Option<Self>, Failure> {
        let Ok(path) = Self::path() else { return Ok(None) };
        let refused = |error: String| Failure::of(format!("{}: {error}; overkeep login writes a new one", path.display()));
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| refused(error.to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(error.to_string())),
        }
    }

    /// The stored login with what the variables `OVERKEEP_URL`, `OVERKEEP_CA` (a file) and `OVERKEEP_TOKEN` (an API token) set; they are
    /// enough without a login. `None` if there is neither.
    ///
    /// # Errors
    /// A file cannot be read, or `OVERKEEP_TOKEN` is set without a login and another of the variables is missing.
    pub fn given(environment: &[(OsString, OsString)]) -> Result<Option<Self>, Failure> {
        let set = |name: &str| {
            let found = environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.to_string_lossy().into_owned());
            found.filter(|value| !value.trim().is_empty())
        };
        let (stored, Some(token)) = (Self::load()?, set("OVERKEEP_TOKEN")) else { return Self::load() };
        let missing =
            || Failure::of("OVERKEEP_TOKEN: set OVERKEEP_URL and OVERKEEP_CA, the file of the authority, too, or use overkeep login");
        let read = |path: String| text_of(Path::new(&path)).map_err(|error| Failure::of(format!("OVERKEEP_CA: {path}: {error}")));
        let url = set("OVERKEEP_URL").map(|url| url.trim_end_matches('/').to_owned());
        let stored = stored.filter(|stored| url.as_ref().is_none_or(|url| *url == stored.url));
        let ca = set("OVERKEEP_CA").map(read).transpose()?;
        let url = url.or_else(|| stored.as_ref().map(|stored| stored.url.clone())).ok_or_else(missing)?;
        if !url.starts_with("https://") {
            return Err(Failure::Flag(format!("OVERKEEP_URL: {url:?} is not https://host:port")));
        }
        let ca = ca.or_else(|| stored.map(|stored| stored.ca)).ok_or_else(missing)?;
        Ok(Some(Self { url, user: String::new(), ca, token: token.trim().to_owned() }))
    }

    /// Writes the login. The file is complete and private from the moment it has its name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self) -> Result<PathBuf, Failure> {
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
    pub fn delete() -> Result<(), Failure> {
        let path = Self::path()?;
        fs::remove_file(&path).map_err(|error| Failure::of(format!("{}: {error}", path.display())))
    }
}
