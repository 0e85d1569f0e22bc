//! The directives of TLS, and what connections are made with as they say.

use std::path::PathBuf;
use std::sync::Arc;

use martlet_base::number::parse_i64;
use martlet_tls::{ClientCertificates, ServerConfig, TlsOptions, TlsServerOptions, TlsSettings};

use super::value::{RANGE, text, yes_or_no};

/// The configuration of TLS.
#[derive(Clone, Debug, Default)]
pub struct TlsConfig {
    /// Where to listen; 0 for nowhere.
    pub port: u16,
    /// `tls-replication`: connections to instances and to other Sentinels use it.
    pub is_outgoing: bool,
    accepted: TlsServerOptions,
    client_certificate: Option<PathBuf>,
    client_key: Option<PathBuf>,
    client_key_password: Option<Vec<u8>>,
}

impl TlsConfig {
    /// Takes a directive of one value; false if it is not about TLS, or without meaning for a Sentinel.
    pub(super) fn directive(&mut self, name: &str, value: &[u8]) -> Result<bool, &'static str> {
        let accepted = &mut self.accepted;
        let word = || Some(text(value)).filter(|word| !word.is_empty());
        let path = || word().map(PathBuf::from);
        let password = || Some(value.to_vec()).filter(|password| !password.is_empty());
        match name {
            "tls-port" => self.port = parse_i64(value).and_then(|n| u16::try_from(n).ok()).ok_or(RANGE)?,
            "tls-replication" => self.is_outgoing = yes_or_no(value)?,
            "tls-cert-file" => accepted.certificate = path(),
            "tls-key-file" => accepted.key = path(),
            "tls-key-file-pass" => accepted.key_password = password(),
            "tls-ca-cert-file" => accepted.ca_file = path(),
            "tls-ca-cert-dir" => accepted.ca_directory = path(),
            "tls-client-cert-file" => self.client_certificate = path(),
            "tls-client-key-file" => self.client_key = path(),
            "tls-client-key-file-pass" => self.client_key_password = password(),
            "tls-auth-clients" => {
                accepted.client_certificates = match value.to_ascii_lowercase().as_slice() {
                    b"yes" => ClientCertificates::Required,
                    b"optional" => ClientCertificates::Optional,
                    b"no" => ClientCertificates::Ignored,
                    _ => return Err("argument(s) must be one of the following: no, yes, optional"),
                }
            }
            "tls-protocols" => accepted.protocols = word(),
            "tls-ciphers" => accepted.ciphers = word(),
            "tls-ciphersuites" => accepted.cipher_suites = word(),
            "tls-prefer-server-ciphers" => accepted.prefers_own_ciphers = yes_or_no(value)?,
            "tls-session-caching" => accepted.caches_sessions = yes_or_no(value)?,
            "tls-session-cache-size" => {
                let size = parse_i64(value).filter(|size| *size <= i64::from(i32::MAX));
                accepted.session_cache_size = size.and_then(|size| u32::try_from(size).ok()).ok_or(RANGE)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The configuration for clients and other Sentinels at `tls-port`; `None` without that port. Waits for
    /// the disk.
    ///
    /// # Errors
    /// The fault of the files or the rules.
    pub fn accept(&self) -> Result<Option<Arc<ServerConfig>>, String> {
        if self.port == 0 { Ok(None) } else { self.accepted.make().map(Some) }
    }

    /// The configuration for connections to instances and other Sentinels, if TLS is to be used. Waits for
    /// the disk.
    ///
    /// # Errors
    /// The fault of the files.
    pub fn connect(&self) -> Result<Option<TlsSettings>, String> {
        if !self.is_outgoing {
            return Ok(None);
        }
        let accepted = &self.accepted;
        if accepted.ca_file.is_none() && accepted.ca_directory.is_none() {
            return Err("Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, \
                        tls-replication or tls-auth-clients are enabled!"
                .into());
        }
        let has_own = self.client_certificate.is_some();
        let (certificate, key, key_password) = match has_own {
            true => (&self.client_certificate, &self.client_key, &self.client_key_password),
            false => (&accepted.certificate, &accepted.key, &accepted.key_password),
        };
        let options = TlsOptions {
            ca_file: accepted.ca_file.clone(),
            ca_directory: accepted.ca_directory.clone(),
            certificate: certificate.clone(),
            key: key.clone(),
            key_password: key_password.clone(),
            ciphers: accepted.ciphers.clone(),
            cipher_suites: accepted.cipher_suites.clone(),
            // As servers do among themselves: instances are known by addresses, which few certificates name.
            any_name: true,
            ..TlsOptions::default()
        };
        let made = TlsSettings::new(&options, "localhost");
        made.map(Some).map_err(|error| format!("Failed to configure TLS of outgoing connections: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(lines: &[(&str, &str)]) -> TlsConfig {
        let mut config = TlsConfig::default();
        for (name, value) in lines {
            assert_eq!(config.directive(name, value.as_bytes()), Ok(true), "{name}");
        }
        config
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(TlsConfig::default().accept().unwrap().is_none());
        assert!(TlsConfig::default().connect().unwrap().is_none());
        let port = ("tls-port", "26380");
        let certificate = ("tls-cert-file", "no-such-file");
        let key = ("tls-key-file", "no-such-key");
        let error = |lines: &[_]| configured(lines).accept().unwrap_err();
        assert_eq!(error(&[port]), "No tls-cert-file configured!");
        assert_eq!(error(&[port, certificate]), "No tls-key-file configured!");
        assert!(error(&[port, certificate, key]).starts_with("Either tls-ca-cert-file or tls-ca-cert-dir"));
        let lines = [port, certificate, key, ("tls-auth-clients", "no")];
        assert!(error(&lines).starts_with("Failed to load certificate: no-such-file: "));
        let outgoing = ("tls-replication", "yes");
        let error = |lines: &[_]| configured(lines).connect().unwrap_err();
        assert!(error(&[outgoing]).starts_with("Either tls-ca-cert-file or tls-ca-cert-dir"));
        let lines = [outgoing, ("tls-ca-cert-file", "no-such-ca")];
        assert!(error(&lines).contains("no-such-ca"));
    }

    #[test]
    fn values_are_those_of_redis() {
        let mut config = TlsConfig::default();
        for (name, bad) in [
            ("tls-port", "65536"),
            ("tls-port", "-1"),
            ("tls-replication", "1"),
            ("tls-auth-clients", "maybe"),
            ("tls-session-cache-size", "-1"),
        ] {
            assert!(config.directive(name, bad.as_bytes()).is_err(), "{name} {bad}");
        }
        assert_eq!(config.directive("tls-cluster", b"yes"), Ok(false));
    }
}
