//! Certificates for a private server: its own root, one for the server, and one for clients.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

use crate::error::StartError;
use crate::home::Home;

/// Certificates in PEM, made for this machine alone.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The root that signed the others.
    pub root: String,
    /// The client's certificate.
    pub client: String,
    /// The key of the client's certificate.
    pub client_key: String,
    server: String,
    server_key: String,
    /// Whether the server admits clients with a certificate alone.
    clients_prove_themselves: bool,
}

impl Certificates {
    /// Makes a root and certificates for 127.0.0.1, localhost and a client. With
    /// `clients_prove_themselves` the server admits only clients that have one.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn make(clients_prove_themselves: bool) -> Result<Self, StartError> {
        Self::try_make(clients_prove_themselves)
            .map_err(|error| StartError::refused(super::SERVER, "make certificates", error))
    }

    fn try_make(clients_prove_themselves: bool) -> Result<Self, rcgen::Error> {
        let mut root = CertificateParams::new(Vec::new())?;
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        root.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        // A name of its own: a certificate with the name of its issuer looks self-signed.
        root.distinguished_name.push(DnType::CommonName, "private root");
        let root_key = KeyPair::generate()?;
        let root_certificate = root.self_signed(&root_key)?;
        let issuer = Issuer::new(root, root_key);
        let signed = |names: Vec<String>, usage| -> Result<(String, String), rcgen::Error> {
            let mut params = CertificateParams::new(names.clone())?;
            params.distinguished_name.push(DnType::CommonName, &*names[0]);
            params.extended_key_usages = vec![usage, ExtendedKeyUsagePurpose::ClientAuth];
            params.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
            let key = KeyPair::generate()?;
            Ok((params.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
        };
        let (server, server_key) =
            signed(vec!["localhost".to_owned()], ExtendedKeyUsagePurpose::ServerAuth)?;
        let (client, client_key) =
            signed(vec!["client".to_owned()], ExtendedKeyUsagePurpose::ClientAuth)?;
        let root = root_certificate.pem();
        Ok(Self { root, client, client_key, server, server_key, clients_prove_themselves })
    }

    /// Writes the server's files into its directory; returns the lines of its configuration.
    pub(super) fn configuration(&self, home: &Home, port: u16) -> Result<Vec<String>, StartError> {
        let Self { root, client, client_key, server, server_key, .. } = self;
        let texts = [root, server, server_key, client, client_key];
        let names = ["root.crt", "server.crt", "server.key", "client.crt", "client.key"];
        names.iter().zip(texts).try_for_each(|(name, text)| home.write(name, text))?;
        let file = |name: &str| super::quoted(&home.path(name));
        let clients = if self.clients_prove_themselves { "yes" } else { "no" };
        Ok(vec![
            "port 0".into(),
            format!("tls-port {port}"),
            format!("tls-cert-file {}", file("server.crt")),
            format!("tls-key-file {}", file("server.key")),
            format!("tls-ca-cert-file {}", file("root.crt")),
            format!("tls-auth-clients {clients}"),
        ])
    }
}
