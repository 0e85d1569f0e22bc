//! TLS as it is configured: certificates and rules, read as a whole or refused as a whole.
//!
//! A change of a parameter, or of a file, makes another set for the connections that come after it. One that
//! cannot be read leaves the server with the set that it has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use martlet_client::tls::{TlsOptions, TlsSession, TlsSettings, read_key, read_roots, suite_matches};
use martlet_net::rustls::crypto::{CryptoProvider, ring};
use martlet_net::rustls::pki_types::CertificateDer;
use martlet_net::rustls::pki_types::pem::PemObject;
use martlet_net::rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier};
use martlet_net::rustls::sign::{CertifiedKey, SingleCertAndKey};
use martlet_net::rustls::version::{TLS12, TLS13};
use martlet_net::rustls::{
    ProtocolVersion, RootCertStore, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion,
};

use crate::config::{Config, TlsAuthClients};
use crate::shared::{Shared, lock};

/// The parameters whose change makes another set.
pub const PARAMETERS: &[&str] = &[
    "tls-port",
    "tls-cluster",
    "tls-client-cert-file",
    "tls-client-key-file",
    "tls-client-key-file-pass",
    "tls-cert-file",
    "tls-key-file",
    "tls-key-file-pass",
    "tls-ca-cert-file",
    "tls-ca-cert-dir",
    "tls-auth-clients",
    "tls-protocols",
    "tls-ciphers",
    "tls-ciphersuites",
    "tls-prefer-server-ciphers",
    "tls-session-caching",
    "tls-session-cache-size",
];

/// Words of OpenSSL that stand for many ciphers, of which this server has only good ones.
const WHOLE_LISTS: [&str; 6] = ["DEFAULT", "ALL", "HIGH", "ECDHE", "AESGCM", "CHACHA20"];

/// What TLS connections are made with; nothing while no port and no bus asks for it.
#[derive(Default)]
pub struct Tls {
    current: Mutex<Made>,
    /// When the files were last looked at, Unix milliseconds, and as of when they were.
    seen: Mutex<(i64, Vec<Option<SystemTime>>)>,
}

#[derive(Clone, Default)]
struct Made {
    port: Option<Arc<ServerConfig>>,
    bus: Option<Arc<BusTls>>,
}

/// What the cluster bus and MIGRATE make TLS connections with.
pub struct BusTls {
    server: Arc<ServerConfig>,
    client: TlsSettings,
}

impl BusTls {
    /// For a connection of another node, which must have a certificate whatever `tls-auth-clients` says.
    ///
    /// # Errors
    /// Rustls' own.
    pub fn accept(&self) -> io::Result<TlsSession> {
        TlsSession::accept(self.server.clone())
    }

    /// For a connection to another node.
    ///
    /// # Errors
    /// The host's name could be none.
    pub fn connect(&self, host: &str) -> io::Result<TlsSession> {
        self.client.for_host(host)?.session()
    }

    /// For clients of other nodes.
    pub fn client(&self) -> &TlsSettings {
        &self.client
    }
}

impl Made {
    fn of(config: &Config) -> Result<Made, String> {
        let port = match config.tls_port {
            0 => None,
            _ => Some(make(config, config.tls_auth_clients)?),
        };
        let bus = match config.tls_cluster {
            false => None,
            true => {
                let server = make(config, TlsAuthClients::Yes)?;
                let client = outgoing(config, "localhost")
                    .map_err(|error| format!("Failed to configure TLS of the cluster bus: {error}"))?;
                Some(Arc::new(BusTls { server, client }))
            }
        };
        Ok(Made { port, bus })
    }
}

impl Tls {
    /// For a client's connection that comes now.
    pub fn current(&self) -> Option<Arc<ServerConfig>> {
        lock(&self.current).port.clone()
    }

    /// For the bus, if it uses TLS.
    pub fn bus(&self) -> Option<Arc<BusTls>> {
        lock(&self.current).bus.clone()
    }

    /// Takes up a configuration.
    ///
    /// # Errors
    /// What is wrong with it, for the log; nothing has changed then.
    pub fn configure(&self, config: &Config) -> Result<(), String> {
        let made = Made::of(config)?;
        *lock(&self.current) = made;
        lock(&self.seen).1 = modified(config);
        Ok(())
    }

    /// Whether `tls-auto-reload-interval` has passed since the files were last looked at; if so, it begins
    /// again.
    pub fn is_look_due(&self, config: &Config, now_ms: i64) -> bool {
        let interval_ms = i64::from(config.tls_auto_reload_interval_s) * 1000;
        if interval_ms == 0 || config.tls_port == 0 && !config.tls_cluster {
            return false;
        }
        let mut seen = lock(&self.seen);
        let is_due = !(seen.0..seen.0 + interval_ms).contains(&now_ms);
        if is_due {
            seen.0 = now_ms;
        }
        is_due
    }

    /// Reads the files again if one has changed. It waits for the disk.
    pub fn follow_files(&self, config: &Config) {
        let before = lock(&self.current).clone();
        let mut seen = lock(&self.seen);
        let modified = modified(config);
        if modified == seen.1 {
            return;
        }
        // What is broken now is not read again until it changes.
        seen.1 = modified;
        match Made::of(config) {
            Ok(made) => {
                let mut current = lock(&self.current);
                // A CONFIG SET in between has the last word.
                let port = |made: &Made| made.port.as_ref().map(Arc::as_ptr);
                let bus = |made: &Made| made.bus.as_ref().map(Arc::as_ptr);
                if (port(&current), bus(&current)) == (port(&before), bus(&before)) {
                    *current = made;
                }
                tracing::info!("TLS materials have changed and were reloaded");
            }
            Err(why) => tracing::warn!("TLS materials have changed and cannot be used: {why}"),
        }
    }
}

/// Puts the hook in place that refuses what cannot be used.
pub fn install(shared: &'static Shared) {
    let configure = move |_: &Config, new: &Config| {
        shared.tls.configure(new).map_err(|why| {
            tracing::warn!("{why}");
            "Unable to update TLS configuration. Check server logs.".to_owned()
        })
    };
    shared.config.on_change(PARAMETERS, Box::new(configure));
}

/// When each of the files was changed last.
fn modified(config: &Config) -> Vec<Option<SystemTime>> {
    let paths = [
        &config.tls_cert_file,
        &config.tls_key_file,
        &config.tls_client_cert_file,
        &config.tls_client_key_file,
        &config.tls_ca_cert_file,
        &config.tls_ca_cert_dir,
    ];
    let time = |path: &&PathBuf| fs::metadata(path).and_then(|data| data.modified()).ok();
    paths.iter().map(|path| path.as_ref().and_then(|path| time(&path))).collect()
}

fn make(config: &Config, auth_clients: TlsAuthClients) -> Result<Arc<ServerConfig>, String> {
    let certificate = config.tls_cert_file.as_deref().ok_or("No tls-cert-file configured!")?;
    let key = config.tls_key_file.as_deref().ok_or("No tls-key-file configured!")?;
    let asks = auth_clients != TlsAuthClients::No;
    if asks && config.tls_ca_cert_file.is_none() && config.tls_ca_cert_dir.is_none() {
        return Err("Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, \
                    tls-replication or tls-auth-clients are enabled!"
            .into());
    }
    let provider = Arc::new(provider(config)?);
    let keys = provider.clone();
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions(config.tls_protocols.as_deref())?)
        .map_err(|error| format!("Failed to configure TLS: {error}"))?;
    let builder = if asks {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(config)?), provider);
        let verifier = match auth_clients {
            TlsAuthClients::Optional => verifier.allow_unauthenticated(),
            _ => verifier,
        };
        let verifier =
            verifier.build().map_err(|error| format!("Failed to configure CA certificate(s): {error}"))?;
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let identity = identity(certificate, (key, config.tls_key_file_pass.as_deref()), &keys)?;
    let mut made = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
    made.ignore_client_order = config.tls_prefer_server_ciphers;
    if config.tls_session_caching {
        // As with OpenSSL, 0 is no limit; here it is a large one.
        let size = match config.tls_session_cache_size {
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

/// What the server's own connections to another server are made with, whatever host that names. It waits for
/// the disk.
///
/// # Errors
/// What is wrong with the files.
pub fn outgoing(config: &Config, host: &str) -> io::Result<TlsSettings> {
    let options = TlsOptions {
        ca_file: config.tls_ca_cert_file.clone(),
        ca_directory: config.tls_ca_cert_dir.clone(),
        certificate: config.tls_client_cert_file.as_ref().or(config.tls_cert_file.as_ref()).cloned(),
        key: config.tls_client_key_file.as_ref().or(config.tls_key_file.as_ref()).cloned(),
        key_password: match config.tls_client_key_file {
            Some(_) => config.tls_client_key_file_pass.clone(),
            None => config.tls_key_file_pass.clone(),
        },
        ciphers: config.tls_ciphers.clone(),
        cipher_suites: config.tls_ciphersuites.clone(),
        any_name: true,
        ..TlsOptions::default()
    };
    TlsSettings::new(&options, host)
}

/// The server's certificate with its key, which must belong to it. What rustls does not read of its own
/// certificate, such as X.509's version 1, is left to the clients to judge.
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

fn roots(config: &Config) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    let failed = |path: &Path, why: &dyn std::fmt::Display| {
        format!("Failed to configure CA certificate(s) file/directory: {}: {why}", path.display())
    };
    if let Some(file) = &config.tls_ca_cert_file {
        read_roots(&mut store, file).map_err(|error| failed(file, &error))?;
    }
    if let Some(directory) = &config.tls_ca_cert_dir {
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

fn provider(config: &Config) -> Result<CryptoProvider, String> {
    let mut provider = ring::default_provider();
    for (names, version, what) in [
        (&config.tls_ciphers, ProtocolVersion::TLSv1_2, "ciphers"),
        (&config.tls_ciphersuites, ProtocolVersion::TLSv1_3, "ciphersuites"),
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

    #[test]
    fn what_is_missing_is_named() {
        let mut config = Config { tls_port: 1, ..Config::default() };
        let tls = Tls::default();
        assert_eq!(tls.configure(&config), Err("No tls-cert-file configured!".into()));
        config.tls_cert_file = Some("no-such-file".into());
        assert_eq!(tls.configure(&config), Err("No tls-key-file configured!".into()));
        config.tls_key_file = Some("no-such-file".into());
        assert!(
            tls.configure(&config).unwrap_err().starts_with("Either tls-ca-cert-file or tls-ca-cert-dir")
        );
        config.tls_auth_clients = TlsAuthClients::No;
        assert!(
            tls.configure(&config).unwrap_err().starts_with("Failed to load certificate: no-such-file: ")
        );
        assert!(tls.current().is_none());
        config.tls_port = 0;
        assert_eq!(tls.configure(&config), Ok(()));
        // Nodes show each other certificates, whatever clients do.
        config.tls_cluster = true;
        assert!(
            tls.configure(&config).unwrap_err().starts_with("Either tls-ca-cert-file or tls-ca-cert-dir")
        );
        assert!(tls.bus().is_none());
    }
}
