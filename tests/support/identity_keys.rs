//! Keys of the tests' identity provider, and tokens that are signed with them.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, KeyInit, Mac};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING,
    ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384,
    RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use serde_json::{Value, json};
use sha2::Sha256;

/// A key pair that was made for these tests alone.
const RSA_PEM: &str = include_str!("rsa.pem");

/// A key of the provider, or of an attacker who wants to be the provider.
pub struct TestKey {
    id: String,
    pair: Pair,
}

enum Pair {
    Rsa(RsaKeyPair),
    Ec { fixed: Box<EcdsaKeyPair>, asn1: Box<EcdsaKeyPair>, curve: Curve },
    Ed(Ed25519KeyPair),
}

/// A curve of NIST: its name, the algorithm of its tokens, and the length of a coordinate in bytes.
#[derive(Clone, Copy)]
struct Curve {
    name: &'static str,
    algorithm: &'static str,
    bytes: usize,
}

const P256: Curve = Curve { name: "P-256", algorithm: "ES256", bytes: 32 };
const P384: Curve = Curve { name: "P-384", algorithm: "ES384", bytes: 48 };

impl TestKey {
    pub fn rsa(id: &str) -> Self {
        let base64: String = RSA_PEM.lines().filter(|line| !line.starts_with('-')).collect();
        let der = BASE64_STANDARD.decode(base64).expect("base64");
        let pair = Pair::Rsa(RsaKeyPair::from_pkcs8(&der).expect("a key"));
        Self { id: id.to_owned(), pair }
    }

    pub fn ec(id: &str) -> Self {
        let signing = [&ECDSA_P256_SHA256_FIXED_SIGNING, &ECDSA_P256_SHA256_ASN1_SIGNING];
        Self::on(P256, signing, id)
    }

    /// A key on the larger curve.
    pub fn ec384(id: &str) -> Self {
        let signing = [&ECDSA_P384_SHA384_FIXED_SIGNING, &ECDSA_P384_SHA384_ASN1_SIGNING];
        Self::on(P384, signing, id)
    }

    fn on(curve: Curve, signing: [&'static EcdsaSigningAlgorithm; 2], id: &str) -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(signing[0], &random).expect("a key");
        let [fixed, asn1] = signing.map(|signing| {
            let pair = EcdsaKeyPair::from_pkcs8(signing, document.as_ref(), &random);
            Box::new(pair.expect("a key"))
        });
        Self { id: id.to_owned(), pair: Pair::Ec { fixed, asn1, curve } }
    }

    pub fn ed(id: &str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        let pair = Pair::Ed(Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key"));
        Self { id: id.to_owned(), pair }
    }

    /// The algorithm of its honest tokens.
    pub fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::Ec { curve, .. } => curve.algorithm,
            Pair::Ed(_) => "EdDSA",
        }
    }

    /// The public key, as the provider publishes it.
    pub fn jwk(&self) -> Value {
        let mut jwk = match &self.pair {
            Pair::Rsa(pair) => {
                let PublicKeyComponents::<Vec<u8>> { n, e } = pair.public().into();
                json!({ "kty": "RSA", "n": BASE64.encode(n), "e": BASE64.encode(e) })
            }
            Pair::Ec { fixed, curve, .. } => {
                let (x, y) = fixed.public_key().as_ref()[1..].split_at(curve.bytes);
                json!({ "kty": "EC", "crv": curve.name, "x": BASE64.encode(x), "y": BASE64.encode(y) })
            }
            Pair::Ed(pair) => {
                let x = BASE64.encode(pair.public_key());
                json!({ "kty": "OKP", "crv": "Ed25519", "x": x })
            }
        };
        jwk["kid"] = json!(self.id);
        jwk["use"] = json!("sig");
        jwk["alg"] = json!(self.algorithm());
        jwk
    }

    /// The header of an honest token.
    pub fn header(&self) -> Value {
        json!({ "alg": self.algorithm(), "typ": "JWT", "kid": self.id })
    }

    /// An honest token.
    pub fn token(&self, claims: &Value) -> String {
        self.sign(&self.header().to_string(), &claims.to_string())
    }

    /// Signs any header and claims, as the algorithm of the header says if the key can.
    pub fn sign(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims));
        let named = serde_json::from_str::<Value>(header).unwrap_or_default()["alg"].to_string();
        let bytes = message.as_bytes();
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let encoding: &dyn RsaEncoding = match named.as_str() {
                    "\"RS384\"" => &RSA_PKCS1_SHA384,
                    "\"RS512\"" => &RSA_PKCS1_SHA512,
                    "\"PS256\"" => &RSA_PSS_SHA256,
                    "\"PS384\"" => &RSA_PSS_SHA384,
                    "\"PS512\"" => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(encoding, &random, bytes, &mut signature).expect("a signature");
                signature
            }
            Pair::Ec { fixed, .. } => {
                fixed.sign(&random, bytes).expect("a signature").as_ref().to_vec()
            }
            Pair::Ed(pair) => pair.sign(bytes).as_ref().to_vec(),
        };
        format!("{message}.{}", BASE64.encode(signature))
    }

    /// A token whose signature has the form of certificates, not of tokens.
    pub fn sign_asn1(&self, claims: &Value) -> String {
        let header = self.header().to_string();
        let message = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims.to_string()));
        let Pair::Ec { asn1, .. } = &self.pair else { panic!("not a curve") };
        let signature = asn1.sign(&SystemRandom::new(), message.as_bytes()).expect("a signature");
        format!("{message}.{}", BASE64.encode(signature))
    }

    /// The public key, as bytes that may be taken for a shared secret.
    pub fn public_bytes(&self) -> Vec<Vec<u8>> {
        let Pair::Rsa(pair) = &self.pair else { panic!("no RSA key") };
        let PublicKeyComponents::<Vec<u8>> { n, .. } = pair.public().into();
        let jwk = self.jwk();
        vec![
            n,
            pair.public().as_ref().to_vec(),
            jwk["n"].as_str().expect("text").as_bytes().to_vec(),
            jwk.to_string().into_bytes(),
            Vec::new(),
        ]
    }
}

/// A token that is signed with a shared secret.
pub fn sign_hmac(secret: &[u8], header: &Value, claims: &Value) -> String {
    let message = unsigned(header, claims);
    let mac = Hmac::<Sha256>::new_from_slice(secret).expect("any key");
    let signature = mac.chain_update(&message).finalize().into_bytes();
    format!("{message}.{}", BASE64.encode(signature))
}

/// Header and claims without a signature.
pub fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()))
}
