//! Names of which a server's certificate must have one towards other servers (`tls-expected-peer-name`).
//!
//! An authority that also vouches for clients says nothing about who is a primary or a node: the names do.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// The names, with spaces between; empty: any name will do.
#[derive(Clone, Debug, Default)]
pub struct PeerNames(Vec<ServerName<'static>>);

impl PeerNames {
    /// The names of a parameter.
    ///
    /// # Errors
    /// One is neither a host's name nor an address.
    pub fn parse(text: &str) -> Result<PeerNames, String> {
        let name = |name: &str| {
            ServerName::try_from(name.to_owned()).map_err(|_| format!("{name} is no name of a host"))
        };
        text.split(' ').filter(|word| !word.is_empty()).map(name).collect::<Result<_, _>>().map(PeerNames)
    }

    /// Whether any name will do.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the certificate has one of the names among its alternative names.
    ///
    /// # Errors
    /// It has none of them, or cannot be read.
    pub fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        let parsed = ParsedCertificate::try_from(certificate)?;
        match self.0.iter().any(|name| verify_server_name(&parsed, name).is_ok()) {
            true => Ok(()),
            false => Err(Error::InvalidCertificate(CertificateError::NotValidForName)),
        }
    }
}

/// Accepts those of another verifier's clients that have one of the names.
#[derive(Debug)]
pub(crate) struct NamedClients {
    pub chain: Arc<dyn ClientCertVerifier>,
    pub names: PeerNames,
}

impl ClientCertVerifier for NamedClients {
    fn offer_client_auth(&self) -> bool {
        self.chain.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.chain.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.chain.verify_client_cert(certificate, intermediates, now)?;
        self.names.check(certificate)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}
