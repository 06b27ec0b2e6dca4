//! The logins of `overkeep login`, each under the name of its context, kept in a file that only its
//! owner can read.
//!
//! Start with [`Contexts`]. Commands use the current one, unless `OVERKEEP_CONTEXT` names another.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use pki::text_of;
use serde::{Deserialize, Serialize};
use store::create_private;

use super::https;
use crate::cli::{config_directory::config_directory, failure::CommandError};

/// A login.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginContext {
    /// `https://host:port`
    pub url: String,
    pub user: String,
    /// The trusted certificate authorities, in PEM; no others are trusted.
    pub ca: String,
    /// The token of the API session, or an API token.
    pub token: String,
}

/// The stored logins.
#[derive(Default, Serialize, Deserialize)]
pub struct Contexts {
    /// The name of the context that commands use; blank if that context was deleted and no other
    /// was chosen since.
    pub current: String,
    pub contexts: BTreeMap<String, LoginContext>,
}

impl Contexts {
    /// The file of the logins: `overkeep/contexts.json` in `XDG_CONFIG_HOME`, or in `.config` in
    /// the home directory.
    ///
    /// # Errors
    /// Neither variable is set.
    pub fn path() -> Result<PathBuf, CommandError> {
        let directory = config_directory()
            .ok_or_else(|| CommandError::of("the directory of the logins is not known: set XDG_CONFIG_HOME or HOME to an absolute path"))?;
        Ok(directory.join("contexts.json"))
    }

    /// The stored logins; empty if there are none.
    ///
    /// # Errors
    /// The file cannot be read, or has another format.
    pub fn load() -> Result<Self, CommandError> {
        let Ok(path) = Self::path() else {
            return Ok(Self::default());
        };
        let refused = |error: String| {
            CommandError::of(format!(
                "{}: {error}; delete it and use overkeep login",
                path.display()
            ))
        };
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| refused(error.to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(refused(error.to_string())),
        }
    }

    /// The login with this name.
    ///
    /// # Errors
    /// There is none; the message names those that there are.
    pub fn named(&self, name: &str) -> Result<&LoginContext, CommandError> {
        self.contexts.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
            let known = if known.is_empty() {
                "there is no login: use overkeep login first".to_owned()
            } else {
                format!("there are {}", known.join(", "))
            };
            CommandError::of(format!("there is no context {name:?}; {known}"))
        })
    }

    /// Keeps a login, makes it the current one, and returns the path of the file.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn keep(name: &str, context: LoginContext) -> Result<PathBuf, CommandError> {
        let mut all = Self::load()?;
        all.contexts.insert(name.to_owned(), context);
        all.current = name.to_owned();
        all.save()
    }

    /// Deletes a login. If it was the current one, there is no current one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn delete(mut self, name: &str) -> Result<(), CommandError> {
        self.contexts.remove(name);
        if self.current == name {
            self.current.clear();
        }
        self.save().map(drop)
    }

    /// Writes the file under a temporary name and renames it: a file with the final name is always
    /// complete and private.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn save(&self) -> Result<PathBuf, CommandError> {
        let path = Self::path()?;
        let text = serde_json::to_string_pretty(self).map_err(CommandError::of)?;
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let written = || -> io::Result<()> {
            if let Some(directory) = path.parent() {
                fs::DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(directory)?;
            }
            let mut file = create_private(&new)?;
            writeln!(file, "{text}")?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        written().map_err(|error| {
            drop(fs::remove_file(&new));
            CommandError::of(format!("{}: {error}", path.display()))
        })?;
        Ok(path)
    }
}

impl LoginContext {
    /// The login that `OVERKEEP_CONTEXT` names, or else the current one; `None` if there is
    /// neither.
    ///
    /// # Errors
    /// The file cannot be read, or has no login with the name.
    fn in_file(wanted: Option<String>) -> Result<Option<Self>, CommandError> {
        let all = Contexts::load()?;
        match wanted {
            Some(name) => all.named(&name).map(|context| Some(context.clone())),
            None => Ok(all.contexts.get(&all.current).cloned()),
        }
    }

    /// The login to use. If `OVERKEEP_TOKEN` (an API token) is not set, it is the stored login. If
    /// it is set, the URL comes from `OVERKEEP_URL` and the authorities from the file
    /// `OVERKEEP_CA`, or from the stored login where a variable is not set; the authorities of a
    /// stored login are used only for its own URL. `None` if there is neither a token nor a stored
    /// login.
    ///
    /// # Errors
    /// A file cannot be read, `OVERKEEP_URL` is not an https URL, `OVERKEEP_URL` or `OVERKEEP_CA`
    /// is set without a token, or `OVERKEEP_TOKEN` is set and the URL or the authorities are given
    /// neither by a variable nor by a stored login.
    pub fn in_environment(
        environment: &[(OsString, OsString)],
    ) -> Result<Option<Self>, CommandError> {
        let set = |name: &str| {
            let found = environment
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value.to_string_lossy().into_owned());
            found.filter(|value| !value.trim().is_empty())
        };
        let stored = Self::in_file(set("OVERKEEP_CONTEXT"))?;
        let Some(token) = set("OVERKEEP_TOKEN") else {
            let unused = ["OVERKEEP_URL", "OVERKEEP_CA"]
                .into_iter()
                .find(|name| set(name).is_some());
            return match unused {
                Some(name) => Err(CommandError::Flag(format!(
                    "{name}: is used with OVERKEEP_TOKEN only; set the token too, or unset {name}"
                ))),
                None => Ok(stored),
            };
        };
        let missing = || {
            CommandError::of(
                "OVERKEEP_TOKEN: set OVERKEEP_URL and OVERKEEP_CA, the file of the authority, too, or use overkeep login",
            )
        };
        let read = |path: String| {
            text_of(Path::new(&path))
                .map_err(|error| CommandError::of(format!("OVERKEEP_CA: {path}: {error}")))
        };
        let refused = |url: &str| {
            CommandError::Flag(format!("OVERKEEP_URL: {url:?} is not https://host:port"))
        };
        let url = set("OVERKEEP_URL")
            .map(|url| https::tidy(&url).ok_or_else(|| refused(&url)))
            .transpose()?;
        let stored = stored.filter(|stored| url.as_ref().is_none_or(|url| *url == stored.url));
        let ca = set("OVERKEEP_CA").map(read).transpose()?;
        let url = url
            .or_else(|| stored.as_ref().map(|stored| stored.url.clone()))
            .ok_or_else(missing)?;
        let ca = ca
            .or_else(|| stored.map(|stored| stored.ca))
            .ok_or_else(missing)?;
        Ok(Some(Self {
            url,
            user: String::new(),
            ca,
            token: token.trim().to_owned(),
        }))
    }
}
