//! The data file of a starting controller: opened, upgraded, followed, and filled if it is new.

use maintenance::offline;
use model::{clock::Clock, config::Config, metrics::StoreMetrics};
use policy::{
    authentication::Passwords,
    change::{self, Administrator, KINDS, NewFile, PasswordRules, SealedKeys, certificates},
};
use store::{OpenError, Reader, Store};
use uuid::Uuid;

use super::{
    client_addresses::Addresses,
    followers::Followers,
    running::{ADMINISTRATOR, NotStarted, Password},
    settings::options,
};
use crate::jobs::JobTrigger;

/// The open file, and what follows it.
pub(super) struct Data {
    pub store: Store,
    pub sealed_keys: SealedKeys,
    pub followers: Followers,
    pub passwords: Passwords,
    pub metrics: StoreMetrics,
    /// The administrator's password, if this start set one.
    pub first_password: Option<Password>,
}

impl Data {
    /// Opens the file of a configuration. All followers of the store are connected before anything
    /// is written.
    ///
    /// # Errors
    /// The file is damaged, in use, or of a later version, or it cannot be written.
    pub(super) fn open(
        config: &Config,
        clock: &Clock,
        addresses: &Addresses,
        trigger: &JobTrigger,
    ) -> Result<Self, NotStarted> {
        let passwords = Passwords::new(&config.passwords)?;
        let metrics = StoreMetrics::default();
        let opened =
            Store::open(&config.data, KINDS, options(config, clock, &metrics)).map_err(refused)?;
        let sealed_keys = sealed_keys(config, &opened)?;
        drop(maintenance::upgrade(&opened, &config.data)?);
        let followers = Followers::of(&opened, config, clock, addresses.router.as_ref(), trigger)?;
        let store = opened.start().map_err(refused)?;
        let first_password = fill(config, &store, &sealed_keys, &passwords, addresses)?;
        change::renew_config_types(&store)?;
        maintenance::record_release(&store)?;
        if addresses.router.is_some() {
            change::built_in_router::establish(&store)?;
        }
        Ok(Self {
            store,
            sealed_keys,
            followers,
            passwords,
            metrics,
            first_password,
        })
    }
}

/// Why a file cannot be opened, and what to do.
pub(super) fn refused(error: OpenError) -> NotStarted {
    NotStarted(match &error {
        OpenError::Damaged { path, .. } => format!("data: {error}; {}", offline::remedy(path)),
        _ => format!("data: {error}"),
    })
}

/// The storage of the controller's secrets in the file, existing or new.
pub(super) fn sealed_keys(config: &Config, store: &Reader) -> Result<SealedKeys, NotStarted> {
    let passphrase = config.passphrase().map_err(|e| NotStarted(e.to_string()))?;
    let sealed_keys = if store.is_new() {
        SealedKeys::new(passphrase.as_ref())
    } else {
        SealedKeys::open(store, passphrase.as_ref())
    };
    Ok(sealed_keys?)
}

/// Fills a new file. If the administrator's generated password was never shown, because an earlier
/// start ended too early, sets another one. Returns the password, if one was set.
fn fill(
    config: &Config,
    store: &Store,
    sealed_keys: &SealedKeys,
    passwords: &Passwords,
    addresses: &Addresses,
) -> Result<Option<Password>, NotStarted> {
    if !store.is_new() && !change::is_unseen(store, ADMINISTRATOR)? {
        return Ok(None);
    }
    let given = config
        .admin_password()
        .map_err(|e| NotStarted(e.to_string()))?;
    let shortest = usize::try_from(config.passwords.min_length).unwrap_or_default();
    if store.is_new()
        && given
            .as_ref()
            .is_some_and(|given| given.chars().count() < shortest)
    {
        return Err(NotStarted(format!(
            "admin-password-file: the password is shorter than passwords.min-length ({shortest})"
        )));
    }
    let (text, first) = match (given, &config.admin_password_file) {
        (Some(given), Some(file)) => (given, Password::Given(file.clone())),
        _ => {
            let made_up = Uuid::new_v4().simple().to_string();
            (made_up.clone().into(), Password::MadeUp(made_up))
        }
    };
    let (password, is_unseen) = (
        passwords.hash_now(&text)?,
        matches!(first, Password::MadeUp(_)),
    );
    let administrator = Administrator {
        username: ADMINISTRATOR.into(),
        password,
        is_unseen,
    };
    if store.is_new() {
        let hosts = certificates::hosts(addresses.clients.iter().chain(&addresses.router));
        let filling = NewFile {
            hosts,
            administrator: Some(administrator),
            router: addresses.router.is_some(),
            passwords: PasswordRules::of(&config.passwords),
        };
        change::first_start(store, sealed_keys, filling)?;
    } else {
        change::replace_unseen(store, administrator)?;
    }
    Ok(Some(first))
}
