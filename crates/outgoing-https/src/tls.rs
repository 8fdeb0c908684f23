//! Encryption for the clients that speak HTTP: webhooks, the payment provider, the collector of traces.

use std::path::Path;

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Trusts the authorities of the system, and those in the PEM file `own`, unless its name is empty.
///
/// # Errors
/// A sentence when the file cannot be read.
pub(super) fn client(own: &Path) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if !own.as_os_str().is_empty() {
        let certificates = CertificateDer::pem_file_iter(own).map_err(|error| error.to_string())?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
    }
    let provider = tokio_rustls::rustls::crypto::ring::default_provider();
    let versions = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}
