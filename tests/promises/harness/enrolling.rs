//! Keys and certificates of clients, and enrollment with a one-time token.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, SignatureAlgorithm,
};
use serde_json::json;
use time::OffsetDateTime;
use ureq::tls::PrivateKey;

use super::{caller::Caller, fresh, test_server::TestServer};

/// A private key.
pub struct Key(KeyPair);

impl Key {
    pub fn new() -> Self {
        Self::of(&PKCS_ECDSA_P256_SHA256)
    }

    pub fn of(algorithm: &'static SignatureAlgorithm) -> Self {
        Self(KeyPair::generate_for(algorithm).unwrap())
    }

    /// A certificate request, PEM.
    pub fn request(&self) -> String {
        CertificateParams::default()
            .serialize_request(&self.0)
            .unwrap()
            .pem()
            .unwrap()
    }

    /// A certificate request with a common name, PEM.
    pub fn request_as(&self, common_name: &str) -> String {
        named_params(common_name)
            .serialize_request(&self.0)
            .unwrap()
            .pem()
            .unwrap()
    }

    /// A certificate request with a common name and alternative names (addresses where they parse
    /// as such), PEM.
    pub fn request_with(&self, common_name: &str, names: &[&str]) -> String {
        let mut params =
            CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>())
                .unwrap();
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        params.serialize_request(&self.0).unwrap().pem().unwrap()
    }

    /// A self-signed certificate, PEM.
    pub fn self_signed(&self) -> String {
        CertificateParams::default()
            .self_signed(&self.0)
            .unwrap()
            .pem()
    }

    /// PKCS#8.
    pub fn der(&self) -> Vec<u8> {
        self.0.serialize_der()
    }

    pub fn private(&self) -> PrivateKey<'static> {
        PrivateKey::from_pem(self.0.serialize_pem().as_bytes()).unwrap()
    }
}

fn named_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A certificate authority that is not the controller's.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = named_params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Its certificate, PEM.
    pub fn pem(&self) -> String {
        self.0.as_ref().pem()
    }

    /// A certificate for a key, PEM.
    pub fn issue(&self, common_name: &str, key: &Key) -> String {
        named_params(common_name)
            .signed_by(&key.0, &self.0)
            .unwrap()
            .pem()
    }

    /// An intermediate authority with this key usage, signed by this one.
    pub fn intermediate(&self, name: &str, key_usages: Vec<KeyUsagePurpose>) -> Self {
        let mut params = named_params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = key_usages;
        Self(CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &self.0).unwrap())
    }

    /// A certificate that is not valid before a time, PEM.
    pub fn issue_from(&self, common_name: &str, key: &Key, not_before: OffsetDateTime) -> String {
        let mut params = named_params(common_name);
        params.not_before = not_before;
        params.signed_by(&key.0, &self.0).unwrap().pem()
    }

    /// A certificate that expired in 2020, PEM.
    pub fn issue_ended(&self, common_name: &str, key: &Key) -> String {
        let mut params = named_params(common_name);
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        params.signed_by(&key.0, &self.0).unwrap().pem()
    }
}

impl TestServer {
    /// Creates and verifies a CA that takes the common name as the external id. Returns its id.
    pub fn add_ca(&self, authority: &Authority) -> String {
        let body = json!({
            "name": fresh("authority"), "certPem": authority.pem(), "isAuthEnabled": true, "isAutoCaEnrollmentEnabled": true,
            "isOttCaEnrollmentEnabled": true, "identityRoles": [],
            "externalIdClaim": {
                "location": "COMMON_NAME", "matcher": "ALL", "matcherCriteria": "", "parser": "NONE", "parserCriteria": "", "index": 0
            }
        });
        let id = self.admin.post("/cas", body).expect(201).id();
        let stored = self.admin.get(&format!("/cas/{id}")).expect(200);
        let proof = authority.issue(
            stored.data()["verificationToken"].as_str().unwrap(),
            &Key::new(),
        );
        self.admin
            .ask("POST", &format!("/cas/{id}/verify"))
            .body("text/plain", proof)
            .send()
            .expect(200);
        id
    }

    /// The outstanding one-time token of an identity.
    pub fn token_of(&self, identity: &str) -> String {
        let stored = self
            .admin
            .get(&format!("/identities/{identity}"))
            .expect(200);
        stored.data()["enrollment"]["ott"]["token"]
            .as_str()
            .unwrap()
            .into()
    }

    /// Enrolls an edge router.
    pub fn enroll_router(&self, id: &str) {
        let stored = self.admin.get(&format!("/edge-routers/{id}")).expect(200);
        let (token, key) = (
            stored.data()["enrollmentToken"].as_str().unwrap(),
            Key::new(),
        );
        let requests = json!({ "certCsr": key.request_as(id), "serverCertCsr": key.request() });
        self.anonymous()
            .post(&format!("/enroll?method=erott&token={token}"), requests)
            .expect(200);
    }

    /// A new identity that has enrolled for a certificate: its id, and a caller with that
    /// certificate and without a session.
    pub fn enrolled(&self, what: &str) -> (String, Caller) {
        let id = self.identity(&fresh(what), json!({ "enrollment": { "ott": true } }));
        let key = Key::new();
        let path = format!("/enroll?method=ott&token={}", self.token_of(&id));
        let issued = self
            .anonymous()
            .ask("POST", &path)
            .body("application/pkcs10", key.request())
            .send()
            .expect(200);
        (
            id,
            self.with_certificate(issued.data()["cert"].as_str().unwrap(), &key),
        )
    }
}
