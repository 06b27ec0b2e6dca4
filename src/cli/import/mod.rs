//! `overkeep import`: reads the network of another controller with the OpenZiti interface, and
//! changes nothing there. The result is a network file for `overkeep plan` and `overkeep apply`, or
//! a new data file with ids and certificates.
//!
//! No code here knows the members of a kind: they come from the schema of network files.
//! `source.rs` reads the records, `network_file.rs` replaces ids by names, `import_records.rs`
//! writes the records to a new data file (`import_job.rs`), and `new_file.rs` gives the complete
//! file its name.
//! `dropped.rs` names the members that this controller does not know.

mod dropped;
mod import_job;
mod import_records;
pub(super) mod network_file;
mod new_file;
pub(super) mod source;

use std::path::PathBuf;

use clap::Args;
use rest::Interfaces;
use serde_json::Value as Json;

use super::{
    api::{grammar::Grammar, output, transport::Transport},
    failure::{CommandError, CommandResult},
    login,
    trust::Trust,
};
use crate::admin_socket::Outcome;
use new_file::{NewFile, NewFileFlags};

/// Print the network of another controller as a file for `overkeep plan` and `overkeep apply`, or
/// write it with its ids to a new data file. The other controller is not changed.
#[derive(Args, Clone, Debug)]
pub(crate) struct Import {
    /// Address of the other controller: https://host:port
    #[arg(long, value_name = "URL")]
    from: String,
    /// The user name of an administrator there
    #[arg(long, value_name = "NAME", default_value = "admin")]
    user: String,
    /// Read the password from this file [default: ask for it]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// A one-time code, if a second factor is required
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    new_file: NewFileFlags,
}

impl Import {
    /// Prints the file, with what it lacks in comments; or the report about a new data file.
    ///
    /// # Errors
    /// One line: the other controller does not answer or rejects the log-in, or the new data file
    /// cannot be written.
    pub(crate) fn act(
        self,
        environment: &[(std::ffi::OsString, std::ffi::OsString)],
    ) -> CommandResult {
        let (url, host) = login::address(&self.from, "--from")?;
        let new_file = NewFile::prepare(self.new_file, &host, environment)?;
        let (ca, _) = self.trust.authority(&url)?;
        let password = login::password(&self.user, self.password_file.as_deref())?;
        let context = login::with_password(url, &self.user, &password, ca, self.code.as_deref())?;
        let source = Transport::remote(context.clone())?;
        let interfaces = Interfaces::new().map_err(CommandError::of)?;
        let (kinds, missing) = source::records(&source, &interfaces.declared())?;
        let credentials = new_file
            .is_some()
            .then(|| source::credentials(&source, &kinds))
            .transpose()?;
        // An error is ignored: the records were read, and the session ends by itself.
        drop(login::end(&context));
        let dropped = dropped::lines(&Grammar::of(&interfaces), &kinds, credentials.as_ref());
        if let (Some(new_file), Some(credentials)) = (new_file, credentials) {
            return new_file.write(
                (self.user, &password),
                kinds,
                credentials,
                &missing,
                dropped,
            );
        }
        let mut lines = network_file::report(&kinds, &missing, &dropped);
        lines.push(output::text(
            &Json::Object(network_file::network(&kinds)?),
            "yaml",
            &[],
        )?);
        Ok(Outcome::Done(lines))
    }
}
