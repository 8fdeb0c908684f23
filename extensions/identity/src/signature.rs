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

/// The algorithms of RSA keys, as `ring` has them.
static OF_RSA: [(Algorithm, &RsaParameters); 6] = [
    (Algorithm::RS256, &RSA_PKCS1_2048_8192_SHA256),
    (Algorithm::RS384, &RSA_PKCS1_2048_8192_SHA384),
    (Algorithm::RS512, &RSA_PKCS1_2048_8192_SHA512),
    (Algorithm::PS256, &RSA_PSS_2048_8192_SHA256),
    (Algorithm::PS384, &RSA_PSS_2048_8192_SHA384),
    (Algorithm::PS512, &RSA_PSS_2048_8192_SHA512),
];
/// The algorithms of other keys: all that can be verified with a public key by `ring`.
static OF_CURVES: [(Algorithm, &dyn VerificationAlgorithm); 3] = [
    (Algorithm::ES256, &ECDSA_P256_SHA256_FIXED),
    (Algorithm::ES384, &ECDSA_P384_SHA384_FIXED),
    (Algorithm::EdDSA, &ED25519),
];

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

/// All algorithms that are verified.
fn known() -> impl Iterator<Item = Algorithm> {
    let of_rsa = OF_RSA.iter().map(|(algorithm, _)| *algorithm);
    of_rsa.chain(OF_CURVES.iter().map(|(algorithm, _)| *algorithm))
}

/// The algorithms that a setting names.
pub(crate) fn algorithms(names: &[String]) -> Result<Vec<Algorithm>, String> {
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
    if known().all(|one| one != *algorithm) {
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
                of(&OF_RSA, self.algorithm).and_then(|rules| key.verify(rules, message, signature))
            }
            DecodingKeyKind::SecretOrDer(point) => {
                let key = |rules| UnparsedPublicKey::new(rules, point);
                of(&OF_CURVES, self.algorithm)
                    .and_then(|rules| key(rules).verify(message, signature))
            }
        };
        verified.map_err(|_| signature::Error::new())
    }
}

/// The algorithm as `ring` has it.
fn of<T: Copy>(table: &[(Algorithm, T)], algorithm: Algorithm) -> Result<T, Unspecified> {
    let found = table.iter().find(|(one, _)| *one == algorithm);
    found.map(|(_, rules)| *rules).ok_or(Unspecified)
}
