//! The data file as its owner handles it: copied, checked and restored by the command line, with
//! the exit status that scripts rely on.

mod repair;
mod snapshots;

use std::{
    env, fs,
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
};

use maintenance::{offline::OfflineError, restore};
use model::{
    clock::{Clock, Timestamp},
    config::Config,
};
use overkeep::testing::controller::{self, Controller, NotStarted};
use policy::change::KINDS;
use store::Progress;

use redb::{Database, TableDefinition};

use tempfile::TempDir;

use crate::harness::stores;

/// A directory with the data file of a stopped controller.
pub struct DataFile {
    directory: TempDir,
}

/// The output of a command and its exit status.
#[derive(Debug)]
pub struct Said {
    pub status: i32,
    pub out: String,
    pub err: String,
}

/// The data file of a first start; creating its keys takes a while.
static FIRST: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let kept = DataFile::empty();
    kept.start().stop();
    kept.bytes("data")
});

impl DataFile {
    pub fn new() -> Self {
        let kept = Self::empty();
        fs::write(kept.path("data"), &*FIRST).unwrap();
        kept
    }

    /// A directory without a data file.
    pub fn empty() -> Self {
        Self {
            directory: TempDir::new().unwrap(),
        }
    }

    pub fn start(&self) -> Controller {
        self.start_with(None).unwrap()
    }

    /// Like `start`, with the passphrase in a file of this directory.
    pub fn start_with(&self, passphrase: Option<&str>) -> Result<Controller, NotStarted> {
        let passphrase_file = passphrase.map(|name| self.path(name));
        let mut config = Config {
            data: self.path("data"),
            passphrase_file,
            ..Config::default()
        };
        config.listen = "127.0.0.1:0".parse().unwrap();
        config.passwords.cost = 10;
        controller::start(&config, Clock::system())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Writes a secret to a private file.
    pub fn keep_secret(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// The program in this directory, with `data` as its data file.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_overkeep"));
        command
            .args(line.split(' '))
            .env_clear()
            .env("OVERKEEP_DATA", "data")
            .current_dir(self.directory.path());
        command
    }

    /// Runs the program.
    pub fn run(&self, line: &str) -> Said {
        said(self.command(line))
    }

    /// Runs a shell line in which `$0` is the program.
    fn shell(&self, line: &str) -> Said {
        let program = self.command("");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", line])
            .arg(program.get_program())
            .env_clear()
            .env("OVERKEEP_DATA", "data")
            .current_dir(self.directory.path());
        said(shell)
    }

    /// Runs a command that must end with this status and this output.
    pub fn ends(&self, line: &str, status: i32, says: &str) {
        let said = self.run(line);
        let text = if status == 1 { &said.err } else { &said.out };
        assert!(
            said.status == status && text.contains(says),
            "{line}: {said:?}"
        );
        assert!(
            !format!("{said:?}").contains("panicked") && (status == 1 || said.err.is_empty()),
            "{line}: {said:?}"
        );
    }

    /// Changes rows of the data file without the store.
    pub fn tamper(
        &self,
        file: &str,
        table: &str,
        act: impl FnOnce(&mut redb::Table<'_, &'static [u8], &'static [u8]>),
    ) {
        let database = Database::open(self.path(file)).unwrap();
        let transaction = database.begin_write().unwrap();
        act(&mut transaction.open_table(TableDefinition::new(table)).unwrap());
        transaction.commit().unwrap();
    }

    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn said(mut command: Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said {
        status: output.status.code().unwrap(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

fn lose_half_the_index(rows: &mut redb::Table<'_, &'static [u8], &'static [u8]>) {
    let mut odd = false;
    rows.retain(|_, _| {
        odd = !odd;
        odd
    })
    .unwrap();
}
