//! The controller's own certificates: they are renewed in time, stored and served; certificate
//! files of the operator are reloaded when they change; and the operator is warned of what only
//! they can do.

use std::sync::{Arc, Mutex, PoisonError};

use model::{
    clock::Timestamp,
    config::Address,
    entity::{Enrollment, Record},
    error::{Error, Result},
};
use pki::{self, Adoption, AlternativeNames, Files, Keystore, Material, Next, Role, jwt::Claimed};
use store::{Read, Store, Tx};
use zeroize::Zeroizing;

use super::{
    addresses,
    changes::issuer,
    sealed_keys::{SealedKeys, Secret},
};

/// Names of this host itself, always in the certificate.
const HERE: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
const DAY: i64 = 24 * 60 * 60;
/// The days before expiry from which the operator is warned: of the root, above which nothing can
/// be renewed, and of certificates from elsewhere.
const ROOT_NOTICE: i64 = 3 * 365;
const EXTERNAL_NOTICE: i64 = 30;

/// An outstanding enrollment whose token cannot be used.
pub struct UnusableFiles {
    pub enrollment: Record<Enrollment>,
    /// The name of the identity or router that it is for.
    pub subject: String,
    /// The address that it names, if that is no longer advertised; otherwise `None`, and it was
    /// signed with another key.
    pub gone: Option<String>,
}

/// Maintains the certificates of a controller.
pub struct Certificates {
    store: Store,
    sealed_keys: SealedKeys,
    keystore: Arc<Keystore>,
    /// The advertised addresses.
    advertised: Vec<Address>,
    /// The advertised address of the built-in router, if there is one.
    router: Option<Address>,
    files: Option<Mutex<Files>>,
    noticed: Mutex<Option<Timestamp>>,
}

impl Certificates {
    /// Opens the keys and certificates in a store, decrypted by `sealed_keys`, and the listener
    /// certificate from `files`, if given.
    ///
    /// # Errors
    /// Keys are missing or cannot be read, or the files have no usable certificate and key.
    pub fn open(
        store: &Store,
        sealed_keys: &SealedKeys,
        advertised: Vec<Address>,
        mut files: Option<Files>,
    ) -> Result<Self> {
        let material = store
            .read(|read| stored(read, sealed_keys))?
            .ok_or_else(|| Error::Storage("the file holds no keys".into()))?;
        let keystore = Keystore::open(material)
            .map_err(|e| Error::Storage(format!("keys and certificates: {e}")))?;
        let unusable = |reason: String| Error::invalid("tls.certificate", reason, "");
        if let Some(external) = files
            .as_mut()
            .map(Files::read_if_changed)
            .transpose()
            .map_err(|error| unusable(error.to_string()))?
            .flatten()
        {
            keystore
                .replace_external(external)
                .map_err(|e| unusable(e.to_string()))?;
        }
        let (keystore, files) = (Arc::new(keystore), files.map(Mutex::new));
        Ok(Self {
            store: store.clone(),
            sealed_keys: sealed_keys.clone(),
            keystore,
            advertised,
            router: None,
            files,
            noticed: Mutex::default(),
        })
    }

    /// Adds the host of this address to the listener's certificate.
    pub fn naming(self, router: Option<Address>) -> Self {
        Self { router, ..self }
    }

    /// The certificates in use.
    pub fn keystore(&self) -> &Arc<Keystore> {
        &self.keystore
    }

    /// Stores the advertised addresses for offline commands, which do not know the flags of the
    /// controller.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn note_advertised(&self, now: Timestamp) -> Result<()> {
        addresses::note(&self.store, &self.advertised, now)
    }

    /// Who enrolled under addresses that are not the first advertised one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn former_addresses(&self) -> Result<Vec<addresses::FormerAddress>> {
        addresses::former_addresses(&self.store, &self.advertised)
    }

    /// Reloads certificate files, renews what is due, and logs warnings for the operator at the
    /// first call and then once a day.
    ///
    /// # Errors
    /// Something cannot be issued, stored or read; the previous state stays.
    pub fn renew_due(&self, now: Timestamp) -> Result<()> {
        self.reload(now);
        let result = self.notice(now);
        self.renew(now)?;
        result
    }

    /// Renews what is due and what does not name all hosts. The leaves served before and after are
    /// recorded.
    ///
    /// # Errors
    /// A certificate cannot be issued or stored; the previous one stays.
    pub fn renew(&self, now: Timestamp) -> Result<()> {
        self.note()?;
        let before = self.keystore.authority();
        let Some(next) = self
            .keystore
            .due(
                &hosts(self.advertised.iter().chain(&self.router)),
                now.seconds(),
            )
            .map_err(broken)?
        else {
            return Ok(());
        };
        self.take(next)?;
        tracing::info!("renewed the server certificate");
        let signs = self.keystore.authority();
        if signs.certificate() != before.certificate() {
            tracing::info!(new = %signs.certificate().subject(), old = %before.certificate().subject(), "a new intermediate signs certificates");
        }
        self.note()
    }

    fn note(&self) -> Result<()> {
        self.keystore
            .noted()
            .map_err(broken)?
            .map_or(Ok(()), |next| self.take(next))
    }

    /// Replaces the key of the server. Returns the enrollments whose tokens become unusable.
    ///
    /// # Errors
    /// Listeners serve a certificate from files, or the key cannot be made or stored.
    pub fn renew_key(&self, now: Timestamp) -> Result<Vec<UnusableFiles>> {
        if self.keystore.is_external() {
            return Err(Error::NotUpdatable(
                "the listener uses the key of tls.key; replace the files of tls.certificate and tls.key instead".into(),
            ));
        }
        self.take(
            self.keystore
                .with_server_key(now.seconds())
                .map_err(broken)?,
        )?;
        tracing::warn!("the server key was replaced");
        self.unusable_files(now)
    }

    /// Issues with the authority of another controller from now on; what the previous authority
    /// issued stays valid.
    ///
    /// # Errors
    /// It cannot issue the server's certificate, or the file cannot be written.
    pub fn adopt(&self, adoption: &Adoption, now: Timestamp) -> Result<()> {
        self.take(
            self.keystore
                .with_adopted(adoption, now.seconds())
                .map_err(broken)?,
        )?;
        tracing::warn!(signing = %self.keystore.authority().certificate().subject(), "an authority was adopted");
        self.note()
    }

    /// The outstanding enrollments that clients cannot use: their tokens were signed with another
    /// key than that of the leaf that listeners serve now, or they name an address that is no
    /// longer advertised.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn unusable_files(&self, now: Timestamp) -> Result<Vec<UnusableFiles>> {
        // Waits for writes in progress, which may hold a token that was signed before.
        self.store.write_blocking(|_| Ok(()))?;
        let (signer, issuers) = (
            self.keystore.signer(),
            self.advertised.iter().map(issuer).collect::<Vec<_>>(),
        );
        let mut found = Vec::new();
        self.store.read(|tx| {
            tx.each_readable::<Enrollment>(|enrollment| {
                let token = Claimed::read(&enrollment.spec.jwt).ok();
                let is_ours = token
                    .as_ref()
                    .is_some_and(|token| signer.is_known_as(&token.key));
                let gone = token
                    .map(|token| token.issuer)
                    .filter(|issuer| !issuers.contains(issuer));
                let is_suspect = enrollment.spec.expires_at >= now && (gone.is_some() || !is_ours);
                if is_suspect {
                    let subject = enrollment.spec.subject_name(tx)?;
                    found.push(UnusableFiles {
                        enrollment,
                        subject,
                        gone,
                    });
                }
                Ok(())
            })
        })?;
        // The key may have had a key id that was not recorded.
        found.retain(|useless| {
            useless.gone.is_some() || !signer.has_signed(&useless.enrollment.spec.jwt)
        });
        Ok(found)
    }

    /// Warnings for the operator: certificates that end soon, and what clients will not accept.
    pub fn notices(&self, now: Timestamp) -> Vec<String> {
        let (mut notices, is_adopted) = (Vec::new(), self.keystore.is_adopted());
        for (role, certificate) in self.keystore.certificates() {
            let end = Timestamp::from_seconds(certificate.not_after());
            let ends_within = |days: i64| certificate.not_after() - now.seconds() < days * DAY;
            match role {
                Role::Intermediate if is_adopted && ends_within(ROOT_NOTICE) => notices.push(format!(
                    "the adopted certificate {} signs until {end}, and its root is not here: adopt its successor with overkeep pki adopt",
                    certificate.subject()
                )),
                Role::Root if ends_within(ROOT_NOTICE) => notices.push(format!(
                    "the root certificate expires {end}, and every certificate below it with it: plan a new controller at which everybody enrolls again"
                )),
                Role::External | Role::ExternalIssuer if ends_within(EXTERNAL_NOTICE) => notices
                    .push(format!("the {role} certificate {} expires {end}: replace the files of tls.certificate", certificate.subject())),
                _ => {}
            }
            let unnamed = self
                .advertised
                .iter()
                .map(Address::host)
                .filter(|host| role == Role::External && !certificate.is_for(host));
            notices.extend(unnamed.map(|host| {
                format!("the external certificate does not name {host}, which is advertised")
            }));
        }
        notices
    }

    /// Loads the certificate files if they changed and are usable.
    pub fn reload(&self, now: Timestamp) {
        let Some(files) = &self.files else { return };
        let changed = files
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .read_if_changed()
            .map_err(|error| error.to_string());
        let taken = changed.and_then(|found| {
            let Some(external) = found else {
                return Ok(None);
            };
            if external.leaf().certificate().not_after() < now.seconds() {
                return Err("it has expired".into());
            }
            self.keystore
                .replace_external(external)
                .map(Some)
                .map_err(|error| error.to_string())
        });
        match taken {
            Ok(None) => {}
            Ok(Some(())) => {
                tracing::info!("loaded the certificate of tls.certificate");
                *self.noticed.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
            Err(reason) => tracing::warn!(
                reason,
                "the certificate of tls.certificate cannot be used; the previous one stays"
            ),
        }
    }

    /// Logs the warnings at the first call and then once a day.
    fn notice(&self, now: Timestamp) -> Result<()> {
        let mut noticed = self.noticed.lock().unwrap_or_else(PoisonError::into_inner);
        if noticed.is_some_and(|at| (0..DAY).contains(&(now.seconds() - at.seconds()))) {
            return Ok(());
        }
        *noticed = Some(now);
        self.notices(now)
            .into_iter()
            .for_each(|notice| tracing::warn!("{notice}"));
        let useless = self.unusable_files(now)?.len();
        if useless > 0 {
            tracing::warn!(
                tokens = useless,
                "outstanding enrollment tokens cannot be used any more; overkeep pki status lists them"
            );
        }
        Ok(())
    }

    fn take(&self, next: Next<'_>) -> Result<()> {
        let (stored, sealed_keys) = (next.material().clone(), self.sealed_keys.clone());
        self.store
            .write_blocking(move |tx| keep(tx, &sealed_keys, &stored))?;
        next.adopt().map_err(broken)
    }
}

fn broken(error: pki::Error) -> Error {
    Error::Internal(format!("renewing certificates: {error}"))
}

/// All hosts that the server certificate must name: the advertised ones and this host itself.
pub fn hosts<'a>(advertised: impl IntoIterator<Item = &'a Address>) -> AlternativeNames {
    AlternativeNames::of_hosts(advertised.into_iter().map(Address::host).chain(HERE))
}

/// The stored keys and certificates, if there are any.
///
/// # Errors
/// [`Error::Damaged`] if they cannot be decrypted or decoded; the file cannot be read.
pub fn stored(read: &Read<'_>, sealed_keys: &SealedKeys) -> Result<Option<Material>> {
    let Some(text) = sealed_keys.find(read, Secret::MATERIAL)? else {
        return Ok(None);
    };
    // The cause is not included, because it may repeat secret content.
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|_| Secret::MATERIAL.damaged("they cannot be read"))
}

/// Stores keys and certificates.
pub(super) fn keep(tx: &Tx<'_>, sealed_keys: &SealedKeys, material: &Material) -> Result<()> {
    let text = Zeroizing::new(
        serde_json::to_vec(material).map_err(|e| Error::Internal(format!("storing keys: {e}")))?,
    );
    sealed_keys.save(tx, Secret::MATERIAL, &text)
}
