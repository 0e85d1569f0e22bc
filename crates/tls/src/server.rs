//! The side that accepts TLS connections: certificates and rules, made from Redis' parameters.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerSessionMemoryCache, WebPkiClientVerifier,
};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ProtocolVersion, RootCertStore, SupportedCipherSuite, SupportedProtocolVersion};

use crate::client::{read_key, read_roots, suite_matches};
use crate::groups::choose_groups;
use crate::names::{NamedClients, PeerNames};

/// Words of OpenSSL that stand for many ciphers, of which this server has only good ones.
const WHOLE_LISTS: [&str; 6] = ["DEFAULT", "ALL", "HIGH", "ECDHE", "AESGCM", "CHACHA20"];

/// Whether clients show certificates, as `tls-auth-clients` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// A client without a certificate that a trusted root vouches for is refused.
    #[default]
    Required,
    /// One that is shown must be a trusted one.
    Optional,
    /// None is asked for.
    Ignored,
}

/// The parameters of Redis for connections that are accepted.
#[derive(Clone, Debug)]
pub struct TlsServerOptions {
    /// `tls-cert-file`: the chain.
    pub certificate: Option<PathBuf>,
    /// `tls-key-file`.
    pub key: Option<PathBuf>,
    /// `tls-key-file-pass`: the password that the key is encrypted with.
    pub key_password: Option<Vec<u8>>,
    /// A second certificate with its key and that key's password, for clients that cannot use the first
    /// (`tls-alt-cert-file`, `tls-alt-key-file`, `tls-alt-key-file-pass`).
    pub second: (Option<PathBuf>, Option<PathBuf>, Option<Vec<u8>>),
    /// Names of which a client's certificate must have one: for connections of other servers.
    pub client_names: PeerNames,
    /// `tls-groups`: OpenSSL's names of groups, with colons between.
    pub groups: Option<String>,
    /// `tls-ca-cert-file`: trusted roots.
    pub ca_file: Option<PathBuf>,
    /// `tls-ca-cert-dir`: files of trusted roots.
    pub ca_directory: Option<PathBuf>,
    /// `tls-auth-clients`.
    pub client_certificates: ClientCertificates,
    /// `tls-protocols`: versions, with spaces between.
    pub protocols: Option<String>,
    /// `tls-ciphers`: OpenSSL's names of suites of TLS 1.2.
    pub ciphers: Option<String>,
    /// `tls-ciphersuites`: names of suites of TLS 1.3.
    pub cipher_suites: Option<String>,
    /// `tls-prefer-server-ciphers`.
    pub prefers_own_ciphers: bool,
    /// `tls-session-caching`.
    pub caches_sessions: bool,
    /// `tls-session-cache-size`, in sessions.
    pub session_cache_size: u32,
}

impl Default for TlsServerOptions {
    fn default() -> TlsServerOptions {
        TlsServerOptions {
            certificate: None,
            key: None,
            key_password: None,
            second: (None, None, None),
            client_names: PeerNames::default(),
            groups: None,
            ca_file: None,
            ca_directory: None,
            client_certificates: ClientCertificates::default(),
            protocols: None,
            ciphers: None,
            cipher_suites: None,
            prefers_own_ciphers: false,
            caches_sessions: true,
            session_cache_size: 20_480,
        }
    }
}

impl TlsServerOptions {
    /// The configuration for accepted connections: files and rules, read as a whole or refused as a whole.
    /// Waits for the disk.
    ///
    /// # Errors
    /// The fault of the files or rules.
    pub fn make(&self) -> Result<Arc<ServerConfig>, String> {
        let certificate = self.certificate.as_deref().ok_or("No tls-cert-file configured!")?;
        let key = self.key.as_deref().ok_or("No tls-key-file configured!")?;
        let asks = self.client_certificates != ClientCertificates::Ignored;
        if asks && self.ca_file.is_none() && self.ca_directory.is_none() {
            return Err("Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, \
                    tls-replication or tls-auth-clients are enabled!"
                .into());
        }
        let provider = Arc::new(provider(self)?);
        let keys = provider.clone();
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions(self.protocols.as_deref())?)
            .map_err(|error| format!("Failed to configure TLS: {error}"))?;
        let builder = if asks {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(self)?), provider);
            let verifier = match self.client_certificates {
                ClientCertificates::Optional => verifier.allow_unauthenticated(),
                _ => verifier,
            };
            let verifier = verifier
                .build()
                .map_err(|error| format!("Failed to configure CA certificate(s): {error}"))?;
            match self.client_names.is_empty() {
                true => builder.with_client_cert_verifier(verifier),
                false => {
                    let names = self.client_names.clone();
                    builder.with_client_cert_verifier(Arc::new(NamedClients { chain: verifier, names }))
                }
            }
        } else {
            builder.with_no_client_auth()
        };
        let identity = identity(certificate, (key, self.key_password.as_deref()), &keys)?;
        let second = match &self.second {
            (None, None, _) => None,
            (Some(certificate), Some(key), password) => {
                Some(self::identity(certificate, (key, password.as_deref()), &keys)?)
            }
            _ => return Err("tls-alt-cert-file and tls-alt-key-file belong together".into()),
        };
        let mut made = match second {
            None => builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity))),
            Some(second) => {
                builder.with_cert_resolver(Arc::new(TwoCertificates([identity.into(), second.into()])))
            }
        };
        made.ignore_client_order = self.prefers_own_ciphers;
        if self.caches_sessions {
            // As with OpenSSL, 0 is no limit; here it is a large one.
            let size = match self.session_cache_size {
                0 => 1 << 20,
                size => size as usize,
            };
            made.session_storage = ServerSessionMemoryCache::new(size);
        } else {
            made.session_storage = Arc::new(NoServerSessionStorage {});
            made.send_tls13_tickets = 0;
        }
        Ok(Arc::new(made))
    }
}

/// The first of two certificates whose key a client can verify.
#[derive(Debug)]
struct TwoCertificates([Arc<CertifiedKey>; 2]);

impl ResolvesServerCert for TwoCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let can_verify =
            |one: &&Arc<CertifiedKey>| one.key.choose_scheme(hello.signature_schemes()).is_some();
        self.0.iter().find(can_verify).or(self.0.first()).cloned()
    }
}

/// The server's certificate with its key, which must belong to it. Parts of its own certificate that rustls
/// does not read, such as X.509's version 1, are left to the clients to judge.
fn identity(
    certificate: &Path,
    (key, password): (&Path, Option<&[u8]>),
    provider: &CryptoProvider,
) -> Result<CertifiedKey, String> {
    let chain = read_chain(certificate)?;
    let failed = |why: String| format!("Failed to load private key: {}: {why}", key.display());
    let private = read_key(key, password).map_err(failed)?;
    let private =
        provider.key_provider.load_private_key(private).map_err(|error| failed(error.to_string()))?;
    let public = private.public_key().ok_or_else(|| failed("its public half is not known".into()))?;
    let is_of = |leaf: &CertificateDer<'_>| leaf.windows(public.len()).any(|part| part == &*public);
    if !chain.first().is_some_and(is_of) {
        return Err(failed("key values mismatch".into()));
    }
    Ok(CertifiedKey::new(chain, private))
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |why: String| format!("Failed to load certificate: {}: {why}", path.display());
    let chain = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(error.to_string()))?;
    if chain.is_empty() { Err(failed("there is none in it".into())) } else { Ok(chain) }
}

fn roots(options: &TlsServerOptions) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    let failed = |path: &Path, why: &dyn std::fmt::Display| {
        format!("Failed to configure CA certificate(s) file/directory: {}: {why}", path.display())
    };
    if let Some(file) = &options.ca_file {
        read_roots(&mut store, file).map_err(|error| failed(file, &error))?;
    }
    if let Some(directory) = &options.ca_directory {
        for entry in fs::read_dir(directory).map_err(|error| failed(directory, &error))?.flatten() {
            if entry.path().is_file() {
                // Directories of authorities hold other files, too.
                let _ = read_roots(&mut store, &entry.path());
            }
        }
    }
    Ok(store)
}

/// The versions that `tls-protocols` names; the old ones may be named, and are not spoken.
fn versions(names: Option<&str>) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let mut versions = Vec::new();
    let names = names.unwrap_or_default();
    for name in names.split_ascii_whitespace() {
        match name.to_ascii_lowercase().as_str() {
            "tlsv1" | "tlsv1.1" => {}
            "tlsv1.2" => versions.push(&TLS12),
            "tlsv1.3" => versions.push(&TLS13),
            _ => {
                return Err("Invalid tls-protocols specified. Use a combination of 'TLSv1', 'TLSv1.1', \
                            'TLSv1.2' and 'TLSv1.3'."
                    .into());
            }
        }
    }
    match (versions.is_empty(), names.trim().is_empty()) {
        (true, true) => Ok(vec![&TLS13, &TLS12]),
        (true, false) => {
            Err("Invalid tls-protocols specified. This server speaks TLSv1.2 and TLSv1.3.".into())
        }
        _ => Ok(versions),
    }
}

fn provider(options: &TlsServerOptions) -> Result<CryptoProvider, String> {
    let mut provider = ring::default_provider();
    for (names, version, what) in [
        (&options.ciphers, ProtocolVersion::TLSv1_2, "ciphers"),
        (&options.cipher_suites, ProtocolVersion::TLSv1_3, "ciphersuites"),
    ] {
        let Some(names) = names.as_deref().filter(|names| !names.is_empty()) else { continue };
        let (others, known): (Vec<_>, Vec<_>) =
            provider.cipher_suites.into_iter().partition(|suite| suite.version().version != version);
        let chosen = choose(&known, names);
        if chosen.is_empty() {
            return Err(format!("Failed to configure {what}: {names}"));
        }
        provider.cipher_suites = others.into_iter().chain(chosen).collect();
    }
    provider.kx_groups = choose_groups(provider.kx_groups, options.groups.as_deref())?;
    Ok(provider)
}

/// The suites that OpenSSL's list of names leaves, in its order.
fn choose(known: &[SupportedCipherSuite], names: &str) -> Vec<SupportedCipherSuite> {
    let mut chosen: Vec<SupportedCipherSuite> = Vec::new();
    for name in names.split([':', ',', ' ']) {
        if let Some(refused) = name.strip_prefix(['!', '-']) {
            chosen.retain(|suite| !suite_matches(suite, refused));
        } else {
            let is_list = WHOLE_LISTS.contains(&name);
            for suite in known.iter().filter(|suite| is_list || suite_matches(suite, name)) {
                if !chosen.contains(suite) {
                    chosen.push(*suite);
                }
            }
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_those_that_are_named() {
        let names = |names| versions(names).map(|v| v.iter().map(|v| v.version).collect::<Vec<_>>());
        let (old, new) = (ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3);
        assert_eq!(names(None), Ok(vec![new, old]));
        assert_eq!(names(Some("")), Ok(vec![new, old]));
        assert_eq!(names(Some("TLSv1.2")), Ok(vec![old]));
        assert_eq!(names(Some("tlsv1.1 TLSv1.3")), Ok(vec![new]));
        assert!(names(Some("TLSv1")).is_err() && names(Some("TLSv1.2 SSLv3")).is_err());
    }

    #[test]
    fn ciphers_are_named_as_openssl_names_them() {
        let known: Vec<_> = ring::default_provider().cipher_suites;
        let names = |names| choose(&known, names).iter().map(|s| s.suite()).collect::<Vec<_>>();
        assert_eq!(names("DEFAULT:!MEDIUM").len(), known.len());
        assert_eq!(names("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256").len(), 1);
        assert_eq!(names("TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256").len(), 2);
        assert_eq!(names("DEFAULT:!ECDHE-RSA-AES128-GCM-SHA256").len(), known.len() - 1);
        assert!(names("RC4-SHA").is_empty() && names("").is_empty());
    }
}
