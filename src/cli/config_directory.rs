//! The directory of this program among the user's configuration.

use std::{env, path::PathBuf};

/// `overkeep` in `XDG_CONFIG_HOME`, or in `.config` in the home directory. `None` if neither
/// variable is an absolute path.
pub(crate) fn config_directory() -> Option<PathBuf> {
    let set = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let base = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    base.map(|base| base.join("overkeep"))
}
