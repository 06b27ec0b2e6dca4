//! The keys and certificates of a running controller: its authorities, the leaf that listeners
//! serve, and the key of that leaf.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arc_swap::ArcSwap;
use rustls::pki_types::CertificateDer;

use super::{
    Adoption, AlternativeNames, Authority, Certificate, ExternalCertificate, KeyedCertificate,
    Material, Result, SessionSigner, bundle_pem, certificates_only_base64, chain_pem, jwt::Signer,
    tls::ServerLeaf,
};

/// The opened keys and certificates of a controller. They can be replaced at any time; a caller
/// that needs two parts that belong together must get them in one call.
pub struct Keystore {
    held: ArcSwap<Held>,
    leaf: Arc<ServerLeaf>,
    /// Locked while the keys are replaced.
    replacing: Mutex<()>,
}

struct Held {
    material: Material,
    authority: Arc<Authority>,
    server: KeyedCertificate,
    external: Option<ExternalCertificate>,
    signer: Arc<Signer>,
    session_signer: Arc<SessionSigner>,
}

impl Held {
    fn open(material: Material, external: Option<ExternalCertificate>) -> Result<Self> {
        let authority = Arc::new(Authority::open(&material)?);
        let server = KeyedCertificate::open(&material.server)?;
        let shown = material
            .shown
            .iter()
            .map(|pem| Certificate::only(pem))
            .collect::<Result<Vec<_>>>()?;
        let leaf = external.as_ref().map_or(&server, ExternalCertificate::leaf);
        let signer = Arc::new(Signer::new(leaf)?.also_known_by(leaf.certificate(), &shown)?);
        let session_signer = Arc::new(SessionSigner::of(server.key())?);
        Ok(Self {
            material,
            authority,
            server,
            external,
            signer,
            session_signer,
        })
    }

    /// The leaf that listeners serve, and the authorities from it to a root.
    fn shown(&self) -> (&KeyedCertificate, &[Certificate]) {
        self.external
            .as_ref()
            .map_or((&self.server, self.authority.cas()), |external| {
                (external.leaf(), external.above())
            })
    }
}

/// A replacement of the keys; no other replacement can start until this is adopted or dropped.
pub struct Next<'h> {
    held: Held,
    keystore: &'h Keystore,
    _alone: MutexGuard<'h, ()>,
}

impl Next<'_> {
    /// The material, which must be stored before it is used.
    pub fn material(&self) -> &Material {
        &self.held.material
    }

    /// Serves, signs and issues with the new keys from now on. Open connections keep the previous
    /// leaf.
    ///
    /// # Errors
    /// The new keys cannot be used; then nothing changes.
    pub fn adopt(self) -> Result<()> {
        self.keystore.show(self.held)
    }
}

/// The role of a certificate of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Root,
    Intermediate,
    /// A retired intermediate; what it signed is valid until it expires.
    OldIntermediate,
    /// The leaf that listeners serve, unless there is an external one.
    Server,
    /// An issuer of the external leaf.
    ExternalIssuer,
    /// The leaf that listeners serve, from another issuer.
    External,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Root => "root",
            Self::Intermediate => "intermediate",
            Self::OldIntermediate => "old intermediate",
            Self::Server => "server",
            Self::External => "external",
            Self::ExternalIssuer => "external issuer",
        })
    }
}

impl Keystore {
    /// Opens the stored material.
    ///
    /// # Errors
    /// A certificate cannot be read, or a key does not belong to it.
    pub fn open(material: Material) -> Result<Self> {
        let held = Held::open(material, None)?;
        let (leaf, above) = held.shown();
        let leaf = Arc::new(ServerLeaf::new(leaf, above)?);
        Ok(Self {
            held: ArcSwap::from_pointee(held),
            leaf,
            replacing: Mutex::default(),
        })
    }

    /// The renewal that is due (see [`Material::due`]), to be stored and then adopted.
    ///
    /// # Errors
    /// A certificate cannot be made.
    pub fn due(&self, hosts: &AlternativeNames, now: i64) -> Result<Option<Next<'_>>> {
        self.next(|held| held.material.due(hosts, now))
    }

    /// The record of the leaf that listeners serve, if it is not recorded yet (see
    /// [`Material::noting`]), to be stored and then adopted.
    ///
    /// # Errors
    /// The material cannot be opened again.
    pub fn noted(&self) -> Result<Option<Next<'_>>> {
        self.next(|held| Ok(held.material.noting(held.shown().0.certificate())))
    }

    /// A new key for the server, to be stored and then adopted.
    ///
    /// # Errors
    /// The key or its certificate cannot be made.
    pub fn with_server_key(&self, now: i64) -> Result<Next<'_>> {
        let alone = self.alone();
        let material = self.held.load().material.with_server_key(now)?;
        self.opened(material, alone)
    }

    /// The authority of another controller, to be stored and then adopted.
    ///
    /// # Errors
    /// It cannot issue the server's certificate.
    pub fn with_adopted(&self, adoption: &Adoption, now: i64) -> Result<Next<'_>> {
        let alone = self.alone();
        let material = self.held.load().material.with_adopted(adoption, now)?;
        self.opened(material, alone)
    }

    /// Whether the authority was adopted, so that the controller cannot renew it.
    pub fn is_adopted(&self) -> bool {
        self.held.load().material.is_adopted()
    }

    fn next(
        &self,
        make: impl FnOnce(&Held) -> Result<Option<Material>>,
    ) -> Result<Option<Next<'_>>> {
        let alone = self.alone();
        make(&self.held.load())?
            .map(|material| self.opened(material, alone))
            .transpose()
    }

    fn opened<'h>(&'h self, material: Material, alone: MutexGuard<'h, ()>) -> Result<Next<'h>> {
        let held = Held::open(material, self.held.load().external.clone())?;
        Ok(Next {
            held,
            keystore: self,
            _alone: alone,
        })
    }

    /// Locks out other replacements.
    fn alone(&self) -> MutexGuard<'_, ()> {
        self.replacing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves an external leaf and signs with its key from now on.
    ///
    /// # Errors
    /// It cannot be used; then nothing changes.
    pub fn replace_external(&self, external: ExternalCertificate) -> Result<()> {
        let _alone = self.alone();
        let material = self.held.load().material.clone();
        self.show(Held::open(material, Some(external))?)
    }

    fn show(&self, next: Held) -> Result<()> {
        let (leaf, above) = next.shown();
        self.leaf.replace(leaf, above)?;
        self.held.store(Arc::new(next));
        Ok(())
    }

    /// The authority that issues certificates.
    pub fn authority(&self) -> Arc<Authority> {
        self.held.load().authority.clone()
    }

    /// The signer with the key of the leaf that listeners serve; clients verify tokens with that
    /// leaf.
    pub fn signer(&self) -> Arc<Signer> {
        self.held.load().signer.clone()
    }

    /// The signer of the tokens of service sessions.
    pub fn session_signer(&self) -> Arc<SessionSigner> {
        self.held.load().session_signer.clone()
    }

    /// The leaf that listeners serve.
    pub fn leaf(&self) -> Arc<ServerLeaf> {
        self.leaf.clone()
    }

    /// The certificate of that leaf.
    pub fn leaf_certificate(&self) -> Certificate {
        self.held.load().shown().0.certificate().clone()
    }

    /// Whether listeners serve a certificate from another issuer.
    pub fn is_external(&self) -> bool {
        self.held.load().external.is_some()
    }

    /// Every certificate of the controller with its role, root first.
    pub fn certificates(&self) -> Vec<(Role, Certificate)> {
        let held = self.held.load();
        let role = |ca: &Certificate| match ca {
            ca if ca == held.authority.certificate() => Role::Intermediate,
            ca if ca.is_self_issued() => Role::Root,
            _ => Role::OldIntermediate,
        };
        let own = held
            .authority
            .cas()
            .iter()
            .map(|ca| (role(ca), ca))
            .chain([(Role::Server, held.server.certificate())]);
        let external = held.external.iter().flat_map(|external| {
            let above = external.above().iter().map(|ca| (Role::ExternalIssuer, ca));
            above.chain([(Role::External, external.leaf().certificate())])
        });
        let mut all: Vec<_> = own
            .chain(external)
            .map(|(role, certificate)| (role, certificate.clone()))
            .collect();
        all.sort_by_key(|(role, _)| *role);
        all
    }

    /// An issued certificate and the authorities between it and the root, as PEM.
    pub fn chain_pem(&self, leaf: &Certificate) -> String {
        chain_pem(leaf, self.authority().cas())
    }

    /// The authorities that clients should trust, as PEM: our own, and those of an external leaf.
    pub fn bundle_pem(&self, now: i64) -> String {
        bundle_pem(&self.trusted(now))
    }

    /// The same authorities as base64 of a PKCS#7 structure.
    pub fn bundle_pkcs7(&self, now: i64) -> String {
        certificates_only_base64(&self.trusted(now))
    }

    /// The same authorities, in DER.
    pub fn trusted_der(&self, now: i64) -> Vec<CertificateDer<'static>> {
        self.trusted(now)
            .iter()
            .map(|authority| authority.der().clone())
            .collect()
    }

    fn trusted(&self, now: i64) -> Vec<Certificate> {
        let held = self.held.load();
        let external = held
            .external
            .iter()
            .flat_map(ExternalCertificate::authorities);
        held.authority
            .trusted(now)
            .chain(external)
            .cloned()
            .collect()
    }
}
