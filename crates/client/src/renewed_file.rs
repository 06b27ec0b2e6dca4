//! The file of an identity whose certificate was renewed, until it takes the place of the former
//! one. A program that ends between the two finds both at its next start, and asks the controller
//! which one counts.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use crate::{IdentityFile, IdentityFileError, new_identity_file::sync_directory};

/// Where the renewed file of an identity is until it takes the place of the former one.
pub fn pending(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".renewed");
    path.with_file_name(name)
}

/// Puts the renewed file of an identity in the place of the former one.
///
/// # Errors
/// The directory cannot be written.
pub fn adopt(path: &Path) -> Result<(), IdentityFileError> {
    let adopted = fs::rename(pending(path), path).and_then(|()| sync_directory(path));
    adopted.map_err(|error| IdentityFileError::File {
        path: path.to_owned(),
        error,
    })
}

/// Writes the file, which the same people may read as `former`.
pub(crate) fn write(path: &Path, former: &Path, identity: &IdentityFile) -> io::Result<()> {
    let text = identity.text()?;
    let mode = fs::metadata(former)?.permissions().mode() & 0o777;
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    File::sync_all(&file)?;
    sync_directory(path)
}
