//! The signatures of tokens, verified by `ring`, which the program has for TLS already.
//! `jsonwebtoken` reads tokens and checks claims, and leaves signatures to a provider like this.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::error::Unspecified;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

/// The algorithms of RSA keys.
pub(crate) const OF_RSA: [Algorithm; 6] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];
/// The algorithms of other keys: all that can be verified with a public key by `ring`.
const OF_CURVES: [Algorithm; 3] = [Algorithm::ES256, Algorithm::ES384, Algorithm::EdDSA];

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes `jsonwebtoken` use these signatures. Further calls change nothing.
pub(crate) fn install() {
    // Another part of the process was first: its choice is this one.
    let _ = PROVIDER.install_default();
}

/// The algorithms that a setting names.
pub(crate) fn algorithms(names: &[String]) -> Result<Vec<Algorithm>, String> {
    let known = || OF_RSA.into_iter().chain(OF_CURVES);
    let named = names.iter().map(|name| {
        let found = known().find(|one| format!("{one:?}") == *name);
        found.ok_or_else(|| {
            let all = known().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(", ");
            format!("identity.algorithms takes {all}, not {name:?}")
        })
    });
    named.collect()
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

/// Makes a verifier; a key of another kind than the algorithm's is refused.
fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    if !OF_RSA.contains(algorithm) && !OF_CURVES.contains(algorithm) {
        return Err(ErrorKind::UnsupportedAlgorithm.into());
    }
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(RingVerifier { algorithm: *algorithm, key: key.clone() }))
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                // Keys of fewer than 2048 bits are refused, too.
                let key = RsaPublicKeyComponents { n, e };
                rsa(self.algorithm).and_then(|rules| key.verify(rules, message, signature))
            }
            DecodingKeyKind::SecretOrDer(point) => {
                let key = |rules| UnparsedPublicKey::new(rules, point);
                curve(self.algorithm).and_then(|rules| key(rules).verify(message, signature))
            }
        };
        verified.map_err(|_| signature::Error::new())
    }
}

fn rsa(algorithm: Algorithm) -> Result<&'static RsaParameters, Unspecified> {
    match algorithm {
        Algorithm::RS256 => Ok(&RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Ok(&RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Ok(&RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Ok(&RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Ok(&RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Ok(&RSA_PSS_2048_8192_SHA512),
        _ => Err(Unspecified),
    }
}

fn curve(algorithm: Algorithm) -> Result<&'static dyn VerificationAlgorithm, Unspecified> {
    match algorithm {
        Algorithm::ES256 => Ok(&ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Ok(&ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Ok(&ED25519),
        _ => Err(Unspecified),
    }
}
