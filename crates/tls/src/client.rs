//! TLS without sockets: bytes in, bytes out, so that any multiplexer can carry it.

use crate::groups::choose_groups;
use crate::names::PeerNames;
use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where Debian, Red Hat and others keep the trusted roots.
const SYSTEM_ROOTS: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// TLS options of a command line.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Name to verify and to ask for, instead of the host.
    pub sni: Option<String>,
    /// A file of trusted roots.
    pub ca_file: Option<PathBuf>,
    /// A directory of trusted roots.
    pub ca_directory: Option<PathBuf>,
    /// Accept any certificate.
    pub insecure: bool,
    /// Accept a certificate that names another host, if a trusted root vouches for it: as servers do among
    /// themselves.
    pub any_name: bool,
    /// With `any_name`: names of which the certificate must have one.
    pub names: PeerNames,
    /// OpenSSL's names of groups, with colons between.
    pub groups: Option<String>,
    /// The client's certificate chain.
    pub certificate: Option<PathBuf>,
    /// The client's private key.
    pub key: Option<PathBuf>,
    /// The password that the key is encrypted with.
    pub key_password: Option<Vec<u8>>,
    /// OpenSSL names of TLS 1.2 cipher suites, with colons between.
    pub ciphers: Option<String>,
    /// Names of TLS 1.3 cipher suites, with colons between.
    pub cipher_suites: Option<String>,
}

/// Ready to open sessions.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// Adds the certificates of a file to the trusted ones.
pub fn read_roots(store: &mut RootCertStore, path: &Path) -> io::Result<()> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| invalid(format!("{}: {e}", path.display())))?;
    store.add_parsable_certificates(certificates);
    Ok(())
}

fn roots(options: &TlsOptions) -> io::Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    if let Some(file) = &options.ca_file {
        read_roots(&mut store, file)?;
    }
    if let Some(directory) = &options.ca_directory {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_file() {
                // Directories of roots hold other files too.
                let _ = read_roots(&mut store, &path);
            }
        }
    }
    if options.ca_file.is_none()
        && options.ca_directory.is_none()
        && let Some(path) = SYSTEM_ROOTS.iter().map(Path::new).find(|path| path.exists())
    {
        read_roots(&mut store, path)?;
    }
    Ok(store)
}

/// The first line of a key in PKCS #8's encrypted form (RFC 7468).
const ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
/// Header of a key that is encrypted in OpenSSL's older way (RFC 1421).
const TRADITIONAL: &str = "Proc-Type: 4,ENCRYPTED";

/// Reads a private key in PEM. `password` counts for a key that is encrypted.
///
/// # Errors
/// The fault of the file or the password.
pub fn read_key(path: &Path, password: Option<&[u8]>) -> Result<PrivateKeyDer<'static>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    if text.contains(TRADITIONAL) {
        return Err("it is encrypted in the traditional form; openssl pkcs8 -topk8 writes the other".into());
    }
    let Some(begin) = text.find(ENCRYPTED) else {
        return PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| error.to_string());
    };
    let password = password.ok_or("it is encrypted, and there is no password")?;
    let length = text[begin..].find("-----END").unwrap_or(0);
    let end = text[begin + length..].find('\n').map_or(text.len(), |line| begin + length + line);
    let (_, encrypted) = SecretDocument::from_pem(&text[begin..end]).map_err(|error| error.to_string())?;
    let key = EncryptedPrivateKeyInfoRef::try_from(encrypted.as_bytes())
        .and_then(|key| key.decrypt(password))
        .map_err(|error| error.to_string())?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}

/// Whether an OpenSSL or an RFC name means this suite.
pub fn suite_matches(suite: &rustls::SupportedCipherSuite, name: &str) -> bool {
    let flat = |text: &str| text.to_ascii_uppercase().replace(['-', '_'], "");
    let ours = flat(suite.suite().as_str().unwrap_or_default());
    let theirs = flat(name);
    ours == theirs
        || ours.strip_prefix("TLS13").is_some_and(|o| theirs.strip_prefix("TLS") == Some(o))
        || ours.strip_prefix("TLS").is_some_and(|o| {
            o.replace("WITHAES128GCM", "AES128GCM")
                .replace("WITHAES256GCM", "AES256GCM")
                .replace("WITHCHACHA20POLY1305SHA256", "CHACHA20POLY1305")
                == theirs
        })
}

fn provider(options: &TlsOptions) -> io::Result<rustls::crypto::CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    for (names, version) in [
        (&options.ciphers, rustls::ProtocolVersion::TLSv1_2),
        (&options.cipher_suites, rustls::ProtocolVersion::TLSv1_3),
    ] {
        let Some(names) = names else { continue };
        let wanted: Vec<&str> = names.split(':').collect();
        let known = |name: &&str| provider.cipher_suites.iter().any(|suite| suite_matches(suite, name));
        if !wanted.iter().any(known) {
            return Err(invalid(format!("no known cipher among '{names}'")));
        }
        provider.cipher_suites.retain(|suite| {
            suite.version().version != version || wanted.iter().any(|name| suite_matches(suite, name))
        });
    }
    provider.kx_groups = choose_groups(provider.kx_groups, options.groups.as_deref()).map_err(invalid)?;
    Ok(provider)
}

impl TlsSettings {
    /// Reads keys and certificates; `host` is verified unless the options name another.
    pub fn new(options: &TlsOptions, host: &str) -> io::Result<TlsSettings> {
        let provider = Arc::new(provider(options)?);
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| invalid(e.to_string()))?;
        let builder = if options.insecure {
            let verifier = Lenient { provider, chain: None, names: PeerNames::default() };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        } else if options.any_name {
            let roots = Arc::new(roots(options)?);
            let chain = WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
                .build()
                .map_err(|e| invalid(e.to_string()))?;
            let verifier = Lenient { provider, chain: Some(chain), names: options.names.clone() };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        } else {
            builder.with_root_certificates(roots(options)?)
        };
        let config = match (&options.certificate, &options.key) {
            (Some(certificate), Some(key)) => {
                let chain = CertificateDer::pem_file_iter(certificate)
                    .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                    .map_err(|e| invalid(format!("{}: {e}", certificate.display())))?;
                let key_der = read_key(key, options.key_password.as_deref())
                    .map_err(|e| invalid(format!("{}: {e}", key.display())))?;
                builder.with_client_auth_cert(chain, key_der).map_err(|e| invalid(e.to_string()))?
            }
            (None, None) => builder.with_no_client_auth(),
            _ => return Err(invalid("a client certificate needs both --cert and --key".into())),
        };
        let name = options.sni.as_deref().unwrap_or(host).to_string();
        let name = ServerName::try_from(name).map_err(|e| invalid(e.to_string()))?;
        Ok(TlsSettings { config: Arc::new(config), name })
    }

    /// The same for another host.
    pub fn for_host(&self, host: &str) -> io::Result<TlsSettings> {
        let name = ServerName::try_from(host.to_owned()).map_err(|e| invalid(e.to_string()))?;
        Ok(TlsSettings { config: self.config.clone(), name })
    }

    /// A session for a new connection.
    pub fn session(&self) -> io::Result<TlsSession> {
        ClientConnection::new(self.config.clone(), self.name.clone())
            .map(|session| TlsSession(session.into()))
            .map_err(|e| invalid(e.to_string()))
    }
}

/// One connection's TLS state.
pub struct TlsSession(Connection);

impl TlsSession {
    /// The session of an accepted connection.
    pub fn accept(config: Arc<ServerConfig>) -> io::Result<TlsSession> {
        ServerConnection::new(config)
            .map(|session| TlsSession(session.into()))
            .map_err(|e| invalid(e.to_string()))
    }

    /// Whether the handshake is still going on.
    pub fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Whether there are bytes for the peer.
    pub fn wants_write(&self) -> bool {
        self.0.wants_write()
    }

    /// Takes bytes from the peer; decrypted ones are appended to `plain`.
    pub fn receive(&mut self, mut data: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        while !data.is_empty() {
            self.0.read_tls(&mut data)?;
            let state =
                self.0.process_new_packets().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            if let Some(room) = plain.get_mut(start..).filter(|room| !room.is_empty()) {
                self.0.reader().read_exact(room)?;
            }
        }
        Ok(())
    }

    /// Encrypts `plain`; all bytes for the peer are appended to `out`.
    pub fn transmit(&mut self, mut plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let taken = self.0.writer().write(plain)?;
            plain = plain.get(taken..).unwrap_or_default();
            while self.0.wants_write() {
                self.0.write_tls(out)?;
            }
            if plain.is_empty() {
                return Ok(());
            }
        }
    }
}

/// Looks at less of a server's certificate than rustls does.
#[derive(Debug)]
struct Lenient {
    provider: Arc<rustls::crypto::CryptoProvider>,
    /// Says whether a trusted root vouches for it, whatever it names; without, any certificate will do.
    chain: Option<Arc<WebPkiServerVerifier>>,
    /// Of which it must have one.
    names: PeerNames,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: rustls::pki_types::UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
        let verified = self.chain.as_ref().map_or(Ok(ServerCertVerified::assertion()), |chain| {
            chain.verify_server_cert(certificate, intermediates, name, ocsp, now)
        });
        let verified = match verified {
            // The name is looked at once the chain is known to be good.
            Err(rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }?;
        self.names.check(certificate)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
