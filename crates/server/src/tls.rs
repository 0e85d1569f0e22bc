//! TLS as it is configured: certificates and rules, read as a whole or refused as a whole.
//!
//! A change of a parameter, or of a file, makes another set for the connections that come after it. One that
//! cannot be read leaves the server with the set that it has.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use martlet_base::sync::{Outside, lock};
use martlet_net::rustls::ServerConfig;
use martlet_tls::{ClientCertificates, PeerNames, TlsOptions, TlsServerOptions, TlsSession, TlsSettings};

use crate::config::{Config, TlsAuthClients};

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
    "tls-alt-cert-file",
    "tls-alt-key-file",
    "tls-alt-key-file-pass",
    "tls-expected-peer-name",
    "tls-groups",
    "tls-auth-clients",
    "tls-protocols",
    "tls-ciphers",
    "tls-ciphersuites",
    "tls-prefer-server-ciphers",
    "tls-session-caching",
    "tls-session-cache-size",
];

/// What TLS connections are made with; nothing while no port and no bus asks for it.
#[derive(Default)]
pub struct Tls {
    current: Mutex<Made>,
    /// When the files were last looked at, Unix milliseconds, and as of when they were.
    seen: Mutex<(i64, Vec<Option<SystemTime>>)>,
}

/// One whole set, read from files.
#[derive(Clone, Default)]
pub struct Made {
    port: Option<Arc<ServerConfig>>,
    bus: Option<Arc<BusTls>>,
    /// Those of the files before they were read.
    times: Vec<Option<SystemTime>>,
}

/// TLS configuration of the cluster bus and MIGRATE.
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
    /// The set that a configuration asks for.
    ///
    /// # Errors
    /// Its fault, for the log.
    pub fn of(outside: &Outside, config: &Config) -> Result<Made, String> {
        let times = modified(outside, config);
        let port = match config.tls_port {
            0 => None,
            _ => Some(make(outside, config, config.tls_auth_clients, PeerNames::default())?),
        };
        let bus = match config.tls_cluster {
            false => None,
            true => {
                let server = make(outside, config, TlsAuthClients::Yes, peer_names(config)?)?;
                let client = outgoing(outside, config, "localhost")
                    .map_err(|error| format!("Failed to configure TLS of the cluster bus: {error}"))?;
                Some(Arc::new(BusTls { server, client }))
            }
        };
        Ok(Made { port, bus, times })
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

    /// Applies a configuration.
    ///
    /// # Errors
    /// Its fault, for the log; nothing has changed then.
    pub fn configure(&self, outside: &Outside, config: &Config) -> Result<(), String> {
        self.take_up(Made::of(outside, config)?);
        Ok(())
    }

    /// Puts a set to use.
    pub fn take_up(&self, made: Made) {
        lock(&self.seen).1.clone_from(&made.times);
        *lock(&self.current) = made;
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

    /// Reads the files again if one has changed.
    pub fn follow_files(&self, outside: &Outside, config: &Config) {
        let before = lock(&self.current).clone();
        let modified = modified(outside, config);
        // Files that are broken now are not read again until they change.
        if std::mem::replace(&mut lock(&self.seen).1, modified.clone()) == modified {
            return;
        }
        match Made::of(outside, config) {
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

/// When each of the files was changed last.
fn modified(_: &Outside, config: &Config) -> Vec<Option<SystemTime>> {
    let paths = [
        &config.tls_cert_file,
        &config.tls_key_file,
        &config.tls_alt_cert_file,
        &config.tls_alt_key_file,
        &config.tls_client_cert_file,
        &config.tls_client_key_file,
        &config.tls_ca_cert_file,
        &config.tls_ca_cert_dir,
    ];
    let time = |path: &&PathBuf| fs::metadata(path).and_then(|data| data.modified()).ok();
    paths.iter().map(|path| path.as_ref().and_then(|path| time(&path))).collect()
}

/// `names` of which a client's certificate must have one.
fn make(
    _: &Outside,
    config: &Config,
    auth_clients: TlsAuthClients,
    names: PeerNames,
) -> Result<Arc<ServerConfig>, String> {
    let options = TlsServerOptions {
        certificate: config.tls_cert_file.clone(),
        key: config.tls_key_file.clone(),
        key_password: config.tls_key_file_pass.clone(),
        second: (
            config.tls_alt_cert_file.clone(),
            config.tls_alt_key_file.clone(),
            config.tls_alt_key_file_pass.clone(),
        ),
        client_names: names,
        groups: config.tls_groups.clone(),
        ca_file: config.tls_ca_cert_file.clone(),
        ca_directory: config.tls_ca_cert_dir.clone(),
        client_certificates: match auth_clients {
            TlsAuthClients::No => ClientCertificates::Ignored,
            TlsAuthClients::Optional => ClientCertificates::Optional,
            TlsAuthClients::Yes => ClientCertificates::Required,
        },
        protocols: config.tls_protocols.clone(),
        ciphers: config.tls_ciphers.clone(),
        cipher_suites: config.tls_ciphersuites.clone(),
        prefers_own_ciphers: config.tls_prefer_server_ciphers,
        caches_sessions: config.tls_session_caching,
        session_cache_size: config.tls_session_cache_size,
    };
    options.make()
}

/// Names of which other servers' certificates must have one.
fn peer_names(config: &Config) -> Result<PeerNames, String> {
    PeerNames::parse(config.tls_expected_peer_name.as_deref().unwrap_or_default())
        .map_err(|why| format!("Failed to configure tls-expected-peer-name: {why}"))
}

/// What the server's own connections to another server are made with, whatever host that names.
///
/// # Errors
/// What is wrong with the files.
pub fn outgoing(_: &Outside, config: &Config, host: &str) -> io::Result<TlsSettings> {
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
        names: peer_names(config).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?,
        groups: config.tls_groups.clone(),
        ..TlsOptions::default()
    };
    TlsSettings::new(&options, host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let mut config = Config { tls_port: 1, ..Config::default() };
        let (tls, outside) = (Tls::default(), Outside::of_background_thread());
        assert_eq!(tls.configure(&outside, &config), Err("No tls-cert-file configured!".into()));
        config.tls_cert_file = Some("no-such-file".into());
        assert_eq!(tls.configure(&outside, &config), Err("No tls-key-file configured!".into()));
        config.tls_key_file = Some("no-such-file".into());
        assert!(
            tls.configure(&outside, &config)
                .unwrap_err()
                .starts_with("Either tls-ca-cert-file or tls-ca-cert-dir")
        );
        config.tls_auth_clients = TlsAuthClients::No;
        assert!(
            tls.configure(&outside, &config)
                .unwrap_err()
                .starts_with("Failed to load certificate: no-such-file: ")
        );
        assert!(tls.current().is_none());
        config.tls_port = 0;
        assert_eq!(tls.configure(&outside, &config), Ok(()));
        // Nodes show each other certificates, whatever clients do.
        config.tls_cluster = true;
        assert!(
            tls.configure(&outside, &config)
                .unwrap_err()
                .starts_with("Either tls-ca-cert-file or tls-ca-cert-dir")
        );
        assert!(tls.bus().is_none());
    }
}
